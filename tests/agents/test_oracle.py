import json
from pathlib import Path

import pytest

from plain_environment import PlainEnvironment
from proctor.agents.nop import Nop
from proctor.agents.oracle import OracleAgent
from proctor.core.agent import AgentOutcome, AgentRequest, AgentSetup
from proctor.core.causes import Cause
from proctor.core.environment import EnvironmentSpec
from proctor.core.errors import InvalidData
from proctor.core.submission import PatchKind
from proctor.core.task import Oracle

DIFF = """\
diff --git a/greeting.txt b/greeting.txt
--- a/greeting.txt
+++ b/greeting.txt
@@ -1 +1 @@
-hello
+good day
diff --git a/made.txt b/made.txt
new file mode 100644
--- /dev/null
+++ b/made.txt
@@ -0,0 +1 @@
+new
"""


@pytest.fixture
def environment(tmp_path: Path) -> PlainEnvironment:
    environment = PlainEnvironment(tmp_path)
    (tmp_path / "workspace/greeting.txt").write_text("hello\n")
    return environment


async def solve(environment: PlainEnvironment, setup: AgentSetup, **more: float) -> AgentOutcome:
    request = AgentRequest(task_id="t", instruction="x", logs=str(environment.folder / "logs"), **more)  # type: ignore[arg-type]
    return await OracleAgent(setup).solve(request, environment, lambda _: None)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("missing", ["", "git"])
async def test_a_diff_is_applied_and_leaves_no_copy(
    environment: PlainEnvironment, tmp_path: Path, missing: str
) -> None:
    if missing:
        programs = tmp_path / "programs"
        programs.mkdir()
        for name in ("sh", "cat", "mktemp", "rm", "patch"):
            if not Path("/usr/bin", name).exists():
                pytest.skip(f"no {name} here")
            (programs / name).symlink_to(f"/usr/bin/{name}")
        environment.variables["PATH"] = str(programs)
    outcome = await solve(environment, AgentSetup(oracle=Oracle(text=DIFF, patch_kind=PatchKind.UNIFIED_DIFF)))
    assert outcome.cause is None, outcome.detail
    assert (tmp_path / "workspace/greeting.txt").read_text() == "good day\n"
    assert names(tmp_path / "workspace") == ["greeting.txt", "made.txt"]
    assert names(tmp_path / "tmp") == []


async def test_a_repository_around_the_workspace_does_not_swallow_the_diff(
    environment: PlainEnvironment, tmp_path: Path
) -> None:
    await environment.exec(["git", "init", "-q", str(tmp_path)])
    outcome = await solve(environment, AgentSetup(oracle=Oracle(text=DIFF, patch_kind=PatchKind.UNIFIED_DIFF)))
    assert outcome.cause is None
    assert (tmp_path / "workspace/made.txt").exists()


async def test_a_diff_that_does_not_apply_is_said(environment: PlainEnvironment, tmp_path: Path) -> None:
    (tmp_path / "workspace/greeting.txt").write_text("something else\n")
    outcome = await solve(environment, AgentSetup(oracle=Oracle(text=DIFF, patch_kind=PatchKind.UNIFIED_DIFF)))
    assert outcome.cause is Cause.AGENT_CRASHED
    assert "greeting.txt" in outcome.detail


async def test_a_script_is_run_and_leaves_no_copy(environment: PlainEnvironment, tmp_path: Path) -> None:
    script = "read -r nothing; [[ x == x ]] && echo solved > solution.txt"
    outcome = await solve(environment, AgentSetup(oracle=Oracle(text=script)))
    assert outcome.cause is None, outcome.detail
    assert (tmp_path / "workspace/solution.txt").read_text() == "solved\n"
    assert names(tmp_path / "tmp") == []


async def test_a_script_that_fails_or_hangs_is_reported(environment: PlainEnvironment) -> None:
    outcome = await solve(environment, AgentSetup(oracle=Oracle(text="echo no way >&2; exit 9")))
    assert (outcome.cause, outcome.detail) == (
        Cause.AGENT_CRASHED,
        "the oracle's script failed with exit code 9: no way",
    )
    outcome = await solve(environment, AgentSetup(oracle=Oracle(text="sleep 60")), wall_seconds=0.3)
    assert outcome.cause is Cause.AGENT_TIMEOUT


async def test_a_patch_set_is_applied_to_the_files_that_it_names(environment: PlainEnvironment, tmp_path: Path) -> None:
    (tmp_path / "workspace/there.json").write_text("{}")
    seen: list[dict[str, str]] = []

    def apply(tree: Path, data: bytes, kind: PatchKind) -> None:
        seen.append({str(path.relative_to(tree)): path.read_text() for path in tree.rglob("*") if path.is_file()})
        (tree / "there.json").write_text('{"a":1}')
        (tree / "deep/new.json").write_text("[]")

    patches = {"patches": [{"path": "there.json", "patch": []}, {"path": "deep/new.json", "patch": []}]}
    oracle = Oracle(text=json.dumps(patches), patch_kind=PatchKind.PATCH_SET)
    outcome = await solve(environment, AgentSetup(oracle=oracle, apply_patch=apply))
    assert outcome.cause is None
    assert seen == [{"there.json": "{}"}]
    assert (tmp_path / "workspace/there.json").read_text() == '{"a":1}'
    assert (tmp_path / "workspace/deep/new.json").read_text() == "[]"


@pytest.mark.parametrize("text", ["not json", "[]", '{"patches":[{}]}', '{"patches":[{"path":"../x"}]}'])
async def test_a_patch_set_that_is_none_is_refused(environment: PlainEnvironment, text: str) -> None:
    oracle = Oracle(text=text, patch_kind=PatchKind.PATCH_SET)
    with pytest.raises(InvalidData):
        await solve(environment, AgentSetup(oracle=oracle, apply_patch=lambda *_: None))


async def test_a_task_without_an_oracle_has_no_submission(environment: PlainEnvironment) -> None:
    assert (await solve(environment, AgentSetup())).cause is Cause.NO_SUBMISSION


async def test_the_nop_agent_changes_nothing(environment: PlainEnvironment, tmp_path: Path) -> None:
    agent, spec = Nop(), EnvironmentSpec()
    request = AgentRequest(task_id="t", instruction="x", logs=str(tmp_path / "logs"))
    assert agent.prepare_spec(spec, request) is spec
    outcome = await agent.solve(request, environment, lambda _: None)
    assert (outcome.cause, outcome.metrics.steps, outcome.metrics.agents) == (None, 0, 0)
    assert names(tmp_path / "workspace") == ["greeting.txt"]
