"""Every shipped instance is proved here with git and the programs it needs, and nothing else of ours."""

import functools
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import proctor
from slow_tests import sampled

CORE = Path(proctor.__file__).parent / "suites" / "core"
WRONG = Path(__file__).parent / "wrong"
ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
TAG = re.compile(r"[a-z][a-z0-9._-]{0,63}")

# Prints {test id: status}. What a test prints itself goes nowhere.
UNITTEST = """
import contextlib, io, json, sys, unittest

sys.path.insert(0, ".")

class Result(unittest.TestResult):
    def __init__(self):
        super().__init__()
        self.statuses = {}

    def addSuccess(self, test):
        self.statuses.setdefault(test.id(), "passed")

    def addFailure(self, test, error):
        self.statuses[test.id()] = "failed"

    def addError(self, test, error):
        self.statuses[test.id()] = "error"

    def addSkip(self, test, reason):
        self.statuses[test.id()] = "skipped"

with contextlib.redirect_stdout(io.StringIO()):
    result = Result()
    unittest.defaultTestLoader.discover("tests", top_level_dir=".").run(result)
print(json.dumps(result.statuses))
"""


def read_suite(name: str) -> dict[str, Any]:
    suite: dict[str, Any] = json.loads((CORE / name).read_text())
    return suite


@functools.cache
def read_instance(instance_id: str) -> dict[str, Any]:
    instance: dict[str, Any] = json.loads((CORE / "instances" / instance_id / "instance.json").read_text())
    return instance


IDS: list[str] = [entry["id"] for entry in read_suite("suite.json")["instances"]]
WRONG_PATCHES = sorted(path.name for path in WRONG.glob("*.diff"))


def instance_of(patch: str) -> str:
    return patch.partition(".")[0]


def environment(seed: str) -> dict[str, str]:
    """From nothing, and a little odd: no test may care."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": "/nonexistent",
        "LC_ALL": "C",
        "TZ": "Asia/Kathmandu",
        "PYTHONHASHSEED": seed,
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def apply_patch(workspace: Path, patch: Path) -> None:
    git = subprocess.run(
        ["git", "apply", "--whitespace=nowarn", str(patch)],
        cwd=workspace,
        env={**environment("0"), "GIT_CEILING_DIRECTORIES": str(workspace.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert git.returncode == 0, git.stderr


def parse_tap(output: str) -> dict[str, str]:
    statuses: dict[str, str] = {}
    plan = None
    for line in output.splitlines():
        if match := re.fullmatch(r"1\.\.(\d+)", line):
            plan = int(match[1])
        elif match := re.fullmatch(r"(not )?ok (\d+) - (.+)", line):
            assert int(match[2]) == len(statuses) + 1, line
            assert match[3] not in statuses, line
            statuses[match[3]] = "failed" if match[1] else "passed"
    assert plan == len(statuses), "the plan is missing or wrong"
    return statuses


def outcomes(
    instance_id: str, tmp_path: Path, *patches: Path, hidden: bool = True, seed: str = "0"
) -> Mapping[str, str]:
    """The status of each test after these patches, by default with the hidden files laid over the workspace."""
    instance = read_instance(instance_id)
    for program in instance["requires"]:
        if shutil.which(program) is None:
            pytest.skip(f"{instance_id} needs {program}, which is not on PATH")
    folder = CORE / "instances" / instance_id
    workspace = tmp_path / "workspace"
    shutil.copytree(folder / instance["repo_path"], workspace)
    for patch in patches:
        apply_patch(workspace, patch)
    if hidden:
        shutil.copytree(folder / instance["eval"]["hidden_path"], workspace, dirs_exist_ok=True)
    unittest = instance["eval"]["format"] == "unittest"
    run = subprocess.run(
        [sys.executable, "-c", UNITTEST] if unittest else instance["eval"]["command"],
        cwd=workspace,
        env=environment(seed),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=instance["eval"]["timeout_seconds"],
        check=False,
    )
    assert run.returncode == 0, run.stderr
    if not unittest:
        return parse_tap(run.stdout)
    statuses: dict[str, str] = json.loads(run.stdout)
    return statuses


def oracle(instance_id: str) -> Path:
    return CORE / "instances" / instance_id / str(read_instance(instance_id)["oracle"]["patch_path"])


def labels(instance_id: str) -> tuple[list[str], list[str]]:
    judged = read_instance(instance_id)["eval"]
    return judged["fail_to_pass"], judged["pass_to_pass"]


def labelled(instance_id: str) -> list[str]:
    fail_to_pass, pass_to_pass = labels(instance_id)
    return sorted(fail_to_pass + pass_to_pass)


@pytest.mark.parametrize("instance_id", sampled(IDS, every=3))
def test_the_pre_patch_run_fails_for_the_labelled_reason(instance_id: str, tmp_path: Path) -> None:
    fail_to_pass, pass_to_pass = labels(instance_id)
    statuses = outcomes(instance_id, tmp_path)
    assert sorted(statuses) == labelled(instance_id)
    assert [test for test in fail_to_pass if statuses[test] not in ("failed", "error")] == []
    assert [test for test in pass_to_pass if statuses[test] != "passed"] == []


@pytest.mark.parametrize("instance_id", IDS)
def test_the_oracle_passes_every_test(instance_id: str, tmp_path: Path) -> None:
    statuses = outcomes(instance_id, tmp_path, oracle(instance_id), seed="42")
    assert sorted(statuses) == labelled(instance_id)
    assert set(statuses.values()) == {"passed"}


@pytest.mark.parametrize("instance_id", sampled(IDS, every=3))
def test_the_tests_that_an_agent_can_see_pass_from_the_start(instance_id: str, tmp_path: Path) -> None:
    statuses = outcomes(instance_id, tmp_path, hidden=False)
    assert set(statuses.values()) == {"passed"}


@pytest.mark.parametrize("patch", sampled(WRONG_PATCHES, every=4))
def test_a_plausible_wrong_patch_does_not_pass(patch: str, tmp_path: Path) -> None:
    statuses = outcomes(instance_of(patch), tmp_path, WRONG / patch)
    assert [test for test in labelled(instance_of(patch)) if statuses.get(test) != "passed"] != []


def test_every_wrong_patch_is_about_an_instance_and_every_hard_instance_has_one() -> None:
    attacked = {instance_of(patch) for patch in WRONG_PATCHES}
    assert attacked <= set(IDS)
    assert {each for each in IDS if read_instance(each)["difficulty"] == "hard"} <= attacked


def added_lines(patch: str) -> Iterator[str]:
    """What a patch adds, but for what it only moves."""
    removed = {line[1:].strip() for line in patch.splitlines() if line.startswith("-")}
    for line in patch.splitlines():
        if line.startswith("+") and not line.startswith("+++") and line[1:].strip() not in removed:
            yield line[1:].strip()


@pytest.mark.parametrize("instance_id", IDS)
def test_the_oracle_is_not_in_the_repository_or_the_issue(instance_id: str) -> None:
    folder = CORE / "instances" / instance_id
    public = [path for path in sorted((folder / "repo").rglob("*")) if path.is_file()] + [folder / "issue.md"]
    text = "\n".join(path.read_text() for path in public)
    # Short lines ("return result") are everywhere, and a line or two may well look like one of the program's own.
    long_lines = [line for line in added_lines(oracle(instance_id).read_text()) if len(line) > 30]
    known = [line for line in long_lines if line in text]
    assert len(known) < len(long_lines) / 2, known
    public_contents = {path.read_text() for path in public}
    for path in (folder / "hidden").rglob("*"):
        if path.is_file() and path.stat().st_size:
            assert path.read_text() not in public_contents


@pytest.mark.parametrize("instance_id", IDS)
def test_the_oracle_leaves_tests_alone(instance_id: str) -> None:
    touched = re.findall(r"^(?:---|\+\+\+) (?:a|b)/(\S+)", oracle(instance_id).read_text(), flags=re.MULTILINE)
    assert touched
    assert [path for path in touched if path.startswith("tests/")] == []


@pytest.mark.parametrize("instance_id", IDS)
def test_an_instance_file_says_all_there_is_to_say(instance_id: str) -> None:
    instance = read_instance(instance_id)
    folder = CORE / "instances" / instance_id
    assert instance["schema_version"] == "proctor.instance@1"
    assert instance["instance_id"] == instance_id
    assert instance["difficulty"] in ("easy", "medium", "hard")
    assert instance["language"] in ("python", "shell", "javascript")
    assert instance["requires"]
    assert instance["tags"]
    assert all(TAG.fullmatch(tag) for tag in instance["tags"])
    assert len((folder / instance["problem_statement_path"]).read_text().split()) > 50
    fail_to_pass, pass_to_pass = labels(instance_id)
    assert fail_to_pass
    assert pass_to_pass
    assert len({*fail_to_pass, *pass_to_pass}) == len(fail_to_pass) + len(pass_to_pass)
    assert sorted(path.name for path in folder.iterdir()) == [
        "hidden",
        "instance.json",
        "issue.md",
        "oracle.diff",
        "repo",
    ]
    hidden = [path.relative_to(folder / "hidden") for path in (folder / "hidden").rglob("*") if path.is_file()]
    assert hidden
    assert {path.parts[0] for path in hidden} == {"tests"}
    assert instance["eval"]["protected"] == ["tests/**"]


def test_core_has_all_kinds_of_instances() -> None:
    suite = read_suite("suite.json")
    assert (suite["schema_version"], suite["suite_id"]) == ("proctor.suite@1", "core")
    assert all(ID.fullmatch(instance_id) for instance_id in IDS)
    assert len(set(IDS)) == len(IDS) >= 24
    assert sorted(IDS) == sorted(path.name for path in (CORE / "instances").iterdir())
    assert all(entry["path"] == f"instances/{entry['id']}" for entry in suite["instances"])
    for field, least in (("difficulty", 8), ("language", 3)):
        values = [read_instance(instance_id)[field] for instance_id in IDS]
        assert min(values.count(value) for value in set(values)) >= least
        assert len(set(values)) == 3
    tags = {tag for instance_id in IDS for tag in read_instance(instance_id)["tags"]}
    assert {"bugfix", "feature", "refactoring", "performance", "multi-file"} <= tags


def test_core_mini_is_four_of_them_that_run_anywhere() -> None:
    mini = read_suite("mini.json")
    assert mini["suite_id"] == "core-mini"
    chosen = [entry["id"] for entry in mini["instances"]]
    assert len(chosen) == 4
    assert set(chosen) <= set(IDS)
    assert sorted(read_instance(each)["language"] for each in chosen) == ["python", "python", "python", "shell"]
    assert "hard" not in [read_instance(each)["difficulty"] for each in chosen]


def test_the_page_on_suites_lists_every_instance_with_its_difficulty() -> None:
    page = (Path(__file__).parents[2] / "docs" / "suites.md").read_text()
    rows = re.findall(r"^\| `(\w+_\d{4})` \| [a-z]+ \| (\w+) \|", page, flags=re.MULTILINE)
    assert rows == [(instance_id, read_instance(instance_id)["difficulty"]) for instance_id in IDS]


def test_only_plain_text_files_are_shipped() -> None:
    for path in CORE.rglob("*"):
        assert path.name != "__pycache__"
        if path.is_file():
            assert path.suffix != ".pyc"
            assert not path.is_symlink()
            assert "\r" not in path.read_text(), path
