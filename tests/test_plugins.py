"""The plugins on the page about plugins: as short as it says, installed as any package is, and run for real."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import proctor
from paths import REPOSITORY
from proctor.environments import local_unavailable_reason

PAGE = (REPOSITORY / "docs/plugins.md").read_text(encoding="utf-8")
CODE = dict(re.findall(r"```python (\w+\.py)\n(.*?)```", PAGE, re.DOTALL))
UNLUCKY = '''
import proctor


class Unlucky(proctor.PatchBenchmark):
    """It has no luck."""

    name = "unlucky"

    def tasks(self):
        return {}["oops"]

    def test_plan(self, task):
        return None
'''
(POINTS,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def installed(tmp_path: Path) -> dict[str, str]:
    """The variables of a process in which a package with the page's plugins is installed."""
    metadata = tmp_path / "site/examples-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: examples\nVersion: 1.0\n")
    points = re.sub(r'\[project\.entry-points\."(.*)"\]', r"[\1]", POINTS).replace('"', "")
    (metadata / "entry_points.txt").write_text(points)
    for name, code in CODE.items():
        (metadata.parent / name).write_text(code)
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "PROCTOR_RESULTS": str(tmp_path / "results"),
        "PYTHONPATH": str(metadata.parent),
    }


@pytest.fixture
def plugins(installed: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """The page's modules, imported here."""
    monkeypatch.syspath_prepend(installed["PYTHONPATH"])
    monkeypatch.setenv("XDG_CACHE_HOME", installed["XDG_CACHE_HOME"])
    monkeypatch.chdir(tmp_path)
    import appender  # type: ignore[import-not-found]
    import kata  # type: ignore[import-not-found]
    import small  # type: ignore[import-not-found]

    yield kata.Kata(), appender.Appender, small.Small()
    for name in ("appender", "kata", "small"):
        del sys.modules[name]


async def needs_bubblewrap() -> None:
    if (reason := await local_unavailable_reason()) is not None:
        pytest.skip(reason)


@pytest.mark.parametrize(("file", "limit"), [("kata.py", 40), ("appender.py", 15), ("small.py", 30)])
def test_each_plugin_is_short_and_uses_what_proctor_exports(file: str, limit: int) -> None:
    lines = [line for line in CODE[file].splitlines() if line.strip()]
    assert len(lines) <= limit
    assert max(map(len, lines)) <= 120
    assert "from proctor." not in CODE[file]
    assert "import proctor." not in CODE[file]


async def test_the_page_s_plugins_run_together_from_the_command_line(installed: dict[str, str], tmp_path: Path) -> None:
    await needs_bubblewrap()
    (row,) = [row for row in json.loads(bench(installed, "list", "--json")) if row["name"] == "kata"]
    assert (row["about"], row["tasks"]) == ("Three functions to write", 3)
    for _ in range(2):
        health = json.loads(bench(installed, "validate", "kata", "--controls", "0", "--json"))
        assert [task["healthy"] for task in health["tasks"]] == [True, True, True], health
    bench(installed, "run", "kata", "--agent", "appender", "--runner", "small", "--controls", "0")
    (folder,) = (tmp_path / "results/kata").iterdir()
    assert json.loads((folder / "config.json").read_text())["runner"] == "small"
    statuses = {one["task_id"]: one["status"] for one in map(json.loads, _results(folder))}
    assert statuses == {"cube": "unresolved", "double": "unresolved", "square": "resolved"}


async def test_the_agent_of_the_page_on_agents_runs_as_it_is_printed(installed: dict[str, str], tmp_path: Path) -> None:
    await needs_bubblewrap()
    page = (REPOSITORY / "docs/agents.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (tmp_path / "fixer.py").write_text(code)
    ran = subprocess.run(
        [sys.executable, "fixer.py"], cwd=tmp_path, env=installed, capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stdout) == (0, "core-mini/run-001: 0 of 1 resolved\n"), ran
    (result,) = map(json.loads, _results(tmp_path / "results/core-mini/run-001"))
    assert (result["cause"], result["attempts"][0]["detail"], result["metrics"]["steps"]) == ("empty", "it finished", 1)


def test_the_page_on_agents_explains_every_attribute_that_says_what_an_agent_needs() -> None:
    page = (REPOSITORY / "docs/agents.md").read_text(encoding="utf-8")
    told = dict(re.findall(r"^\| `(needs_\w+)` \| `(\w+)` \|", page, re.MULTILINE))
    known = {name: str(value) for name, value in vars(proctor.Agent).items() if name.startswith("needs_")}
    assert told == known
    pages = "\n".join(file.read_text(encoding="utf-8") for file in REPOSITORY.glob("docs/**/*.md"))
    assert set(re.findall(r"\bneeds_\w+", pages)) == set(known)


def test_a_broken_plugin_is_one_sentence_and_costs_nothing_but_itself(installed: dict[str, str]) -> None:
    site = Path(installed["PYTHONPATH"])
    (site / "broken.py").write_text("def broken(:\n")
    (site / "unlucky.py").write_text(UNLUCKY)
    (site / "examples-1.0.dist-info/entry_points.txt").write_text(
        "[proctor.benchmarks]\nbroken = broken:Broken\nunlucky = unlucky:Unlucky\n"
        "[proctor.agents]\nbroken = broken:Broken\n[proctor.environments]\nbroken = broken:Broken\n"
    )
    rows = {row["name"]: row for row in json.loads(bench(installed, "list", "--json"))}
    assert rows["core-mini"]["tasks"] > 1
    assert rows["broken"]["about"].startswith("broken:Broken: the benchmark 'broken' cannot be loaded: SyntaxError: ")
    assert rows["unlucky"]["about"] == "It has no luck"
    for kind, arguments in {
        "benchmark": ("list", "broken"),
        "agent": ("run", "core-mini", "--agent", "broken"),
        "provider": ("run", "core-mini", "--agent", "nop", "--runner", "broken"),
    }.items():
        failed = run_bench(installed, *arguments)
        sentence = f"proctor: broken:Broken: the {kind} 'broken' cannot be loaded: SyntaxError: "
        assert (failed.returncode, failed.stderr.count("\n")) == (2, 1), failed.stderr
        assert failed.stderr.startswith(sentence)
    failed = run_bench(installed, "list", "unlucky")
    sentence = "proctor: internal error (KeyError: 'oops'); this is a bug in the plugin unlucky: "
    assert (failed.returncode, failed.stderr) == (1, f"{sentence}PROCTOR_TRACEBACK=1 shows where\n")


async def test_objects_need_no_entry_point(plugins: Any) -> None:
    await needs_bubblewrap()
    benchmark, agent, provider = plugins
    report = await proctor.evaluate_async(benchmark, "oracle", controls=0)
    assert [task.verdict.status for task in report.tasks] == [proctor.Status.RESOLVED] * 3
    run = await proctor.run_async(benchmark, agent=agent, runner=provider, tasks=["square"], controls=0)
    assert (run.summary.resolved, run.config.agent, run.config.runner) == (1, "appender", "small")


async def test_the_provider_s_environments_are_small(plugins: Any) -> None:
    await needs_bubblewrap()
    *_, provider = plugins
    spec = proctor.EnvironmentSpec()
    async with await provider.start(spec) as environment:
        assert (await environment.exec(["true"])).exit_code == 0
    assert provider._small(spec).limits == proctor.Limits(cpus=1.0, memory_mb=512)
    assert await provider.unavailable_reason() is None
    assert await provider.is_available(spec)
    await provider.close()


def run_bench(env: dict[str, str], *arguments: str) -> "subprocess.CompletedProcess[str]":
    program = shutil.which("proctor", path=str(Path(sys.executable).parent)) or "proctor"
    return subprocess.run(
        [program, "bench", *arguments], cwd=env["HOME"], env=env, capture_output=True, text=True, check=False
    )


def bench(env: dict[str, str], *arguments: str) -> str:
    done = run_bench(env, *arguments)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def _results(folder: Path) -> list[str]:
    return [file.read_text() for file in sorted(folder.glob("*/*.json")) if '"task_id"' in file.read_text()]
