"""What an agent is shown of a row, what it never sees, and what of its submission is restored."""

import asyncio
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from paths import SAMPLES, sample_data, shared_data
from proctor.benchmarks.swe.evo_grader import SweEvoGrader, eval_script
from proctor.benchmarks.swe.feature_grader import FeatureBenchGrader
from proctor.benchmarks.swe.patches import files_to_test, patch_size_categories, protected_patterns, touched_paths
from proctor.benchmarks.swe.pro_grader import SweBenchProGrader, entry_script, env_lines, without_binaries
from proctor.benchmarks.swe.reverse_diff import reversed_diff
from proctor.benchmarks.swe.row_loading import evo_rows, pro_rows_from_copy, rows_from_copy
from proctor.benchmarks.swe.rows import evo_row, feature_row, pro_row, read_swe_rows, swe_bench_row
from proctor.benchmarks.swe.shared_exclusive_lock import SharedExclusiveLock
from proctor.benchmarks.swe.swe_bench_grader import SweBenchGrader
from proctor.benchmarks.swe.tasks import task_of
from proctor.core.record import to_json
from proctor.grading import is_protected

PATCH = "diff --git a/src/a.py b/src/a.py\n--- a/src/a.py\n+++ b/src/a.py\n@@ -1 +1 @@\n-old\n+the answer\n"
TESTS = "diff --git a/tests/t.py b/tests/t.py\n--- a/tests/t.py\n+++ b/tests/t.py\n@@ -1 +1 @@\n-a\n+hidden test\n"
ROW: dict[str, Any] = {
    "instance_id": "org__repo-1",
    "repo": "org/repo",
    "base_commit": "0" * 40,
    "patch": PATCH,
    "test_patch": TESTS,
    "problem_statement": "It is broken.\r\nFix it.",
    "hints_text": "a revealing hint",
    "FAIL_TO_PASS": ["tests/t.py::secret_label"],
    "PASS_TO_PASS": ["tests/t.py::other_label"],
    "difficulty": "<15 min fix",
    "eval_script": "secret script",
    "log_parser": "parse_log_pytest",
}
SECRETS = ("the answer", "hidden test", "revealing hint", "secret_label", "other_label", "secret script")


def test_an_agent_is_shown_the_statement_and_nothing_that_is_hidden() -> None:
    task = task_of("swe_bench_verified", swe_bench_row(ROW), SweBenchGrader())
    shown = to_json(task.public).decode()
    assert "It is broken.\\nFix it." in shown
    assert not [secret for secret in SECRETS if secret in shown]
    assert task.categories == {
        "repository": "org/repo",
        "language": "python",
        "difficulty": "<15 min fix",
        "oracle_files": "1",
        "oracle_lines": "1-10",
    }


def test_pro_shows_requirements_and_interface_and_neither_its_id_nor_the_oracles_commit() -> None:
    sha = "b" * 40
    row = ROW | {
        "instance_id": f"instance_org__repo-{sha}-vnan",
        "requirements": '"- one\\n- two"',
        "interface": "f(x)",
        "repo_language": "ts",
        "before_repo_set_cmd": f"a\nb\nc\ngit checkout {sha} -- tests/t.py",
        "selected_test_files_to_run": '["tests/t.py"]',
    }
    task = task_of("swe_bench_pro", pro_row(row), SweBenchProGrader())
    for part in ("Requirements:\n- one\n- two", "New interfaces introduced:\nf(x)"):
        assert part in task.public.instruction
    assert not [secret for secret in (*SECRETS, sha) if secret in task.public.instruction]
    assert task.public.alias is not None
    assert sha not in task.public.alias
    assert task.categories["language"] == "typescript"


def test_evo_shows_the_release_notes_alone() -> None:
    row = ROW | {
        "image": "x",
        "start_version": "1.0",
        "end_version": "2.0",
        "end_version_commit": "c" * 40,
        "test_cmds": "pytest -rA",
        "PRs": [{"patch_without_test": "the answer"}],
        "all_patch": "the answer",
    }
    shown = task_of("swe_evo", evo_row(row), SweEvoGrader()).public.instruction
    assert "version 1.0" in shown
    assert not [secret for secret in (*SECRETS, "c" * 40) if secret in shown]


@pytest.mark.parametrize(
    ("data", "verified_rows"),
    [
        pytest.param(sample_data, "rows.jsonl", id="our-sample"),
        pytest.param(shared_data, "test.parquet", id="real-sample"),
    ],
)
def test_no_real_instruction_holds_a_line_of_its_oracle_or_its_commit(
    data: Callable[..., Path], verified_rows: str
) -> None:
    pro, _ = read_swe_rows(pro_rows_from_copy(data("swe_bench_pro", "sample.jsonl")), pro_row)
    assert pro
    for row in pro:
        shown = SweBenchProGrader().instruction(row)
        gold = row.before_repo_set_cmd.split()[-3] if "--" in row.before_repo_set_cmd else ""
        assert row.instance_id not in shown
        assert len(gold) != 40 or gold not in shown
    verified, _ = read_swe_rows(rows_from_copy(data("swe_bench_verified", verified_rows)), swe_bench_row)
    assert any("\r" in row.problem_statement for row in verified)
    assert all("\r" not in SweBenchGrader().instruction(row) for row in verified)


def test_test_configuration_is_protected_unless_the_oracle_changes_it() -> None:
    row = swe_bench_row(ROW)
    patterns = protected_patterns(row, PATCH.encode())
    protected = ["conftest.py", "a/conftest.py", "tox.ini", "setup.cfg", "pyproject.toml", "tests/t.py", "x.pth"]
    assert [path for path in protected if not is_protected(path, patterns)] == []
    assert [path for path in ("src/a.py", "tests/new.py", "README.md") if is_protected(path, patterns)] == []
    config = PATCH.replace("src/a.py", "setup.cfg")
    assert not is_protected("setup.cfg", protected_patterns(row, config.encode()))
    pytest_itself = swe_bench_row(ROW | {"repo": "pytest-dev/pytest"})
    assert not is_protected("_pytest/python.py", protected_patterns(pytest_itself, PATCH.encode()))


def test_the_files_of_a_test_patch_are_picked_as_the_harness_does() -> None:
    parts = ["tests/a.py", "tests/data.json", "tests/b.txt", "tests/c.csv", "tests/d.yml", "tests/e.cfg"]
    patch = "".join(f"diff --git a/{path} b/{path}\n--- a/{path}\n" for path in parts)
    patch += "diff --git a/tests/gone.py b/tests/gone.py\ndeleted file mode 100644\n"
    assert files_to_test(patch) == ("tests/a.py", "tests/e.cfg", "tests/gone.py")
    assert files_to_test(patch, deleted=False) == ("tests/a.py", "tests/e.cfg")
    assert patch_size_categories(PATCH) == {"oracle_files": "1", "oracle_lines": "1-10"}
    assert touched_paths((PATCH + TESTS).encode()) == ("src/a.py", "tests/t.py")


@pytest.mark.parametrize("data", SAMPLES)
def test_eval_scripts_of_evo_are_those_of_the_official_logs(data: Callable[..., Path]) -> None:
    """Commands that shell tracing shows: what is installed, and what is tested."""
    logs = data("swe_evo", "official_logs")
    rows = {row["instance_id"]: evo_row(row) for row in evo_rows(data("swe_evo", "tasks"))}
    for folder in sorted(logs.iterdir()):
        printed = (folder / "test_output.txt").read_text(errors="replace").splitlines()
        traced = [line[2:] for line in printed if line.startswith(("+ pytest", "+ python -m pip", "+ pip install"))]
        script = eval_script(rows[folder.name])
        tests = next(line for line in script.splitlines() if line.startswith("pytest"))
        assert " ".join(tests.split()) == next(line for line in traced if line.startswith("pytest"))
        for line in traced:
            if "pip install" in line:
                assert line.replace("'", "").replace('"', "") in script.replace("'", "").replace('"', "")


def test_environment_lines_of_dockerfiles_hold_for_pros_tests() -> None:
    files = (
        'FROM x\nENV PYTEST_ADDOPTS="--tb=short -v --reruns=3"\nENV A=1 \\\n    B=2\n',
        "from y\nenv OLD_FORM some value\nRUN echo ENV X=1\nENV\n",
    )
    assert list(env_lines(files)) == [
        'PYTEST_ADDOPTS="--tb=short -v --reruns=3"',
        "A=1      B=2",
        "OLD_FORM='some value'",
    ]
    exported = "\n".join(f"export {line}" for line in env_lines(files)) + '\necho "$PYTEST_ADDOPTS|$A|$B|$OLD_FORM"'
    said = subprocess.run(["bash", "-c", exported], capture_output=True, text=True, check=True).stdout
    assert said == "--tb=short -v --reruns=3|1|2|some value\n"


@pytest.mark.parametrize("data", SAMPLES)
def test_pro_runs_the_last_line_and_its_own_scripts(data: Callable[..., Path]) -> None:
    sample, _ = read_swe_rows(pro_rows_from_copy(data("swe_bench_pro", "sample.jsonl")), pro_row)
    assert sample
    for row in sample:
        script = entry_script(row, "/app")
        assert row.before_repo_set_cmd.strip().splitlines()[-1].strip() in script
        assert ",".join(row.selected_test_files_to_run)[:40].partition("'")[0] in script
        subprocess.run(["bash", "-n", "-c", script], check=True)


def test_binary_files_are_left_out_of_a_patch_for_pro() -> None:
    binary = "diff --git a/x.png b/x.png\nindex 1..2 100644\nGIT binary patch\nliteral 1\nIcmZ\n\n"
    assert without_binaries((PATCH + binary + TESTS).encode()) == (PATCH + TESTS).encode()


@pytest.mark.parametrize("seed", range(8))
def test_a_reversed_diff_takes_back_what_the_diff_does(seed: int, tmp_path: Path) -> None:
    import random

    chance = random.Random(seed)

    def git(*words: str, given: str | None = None) -> str:
        done = subprocess.run(
            ["git", "-C", tmp_path, "-c", "user.name=a", "-c", "user.email=a@b", *words],
            input=given, capture_output=True, text=True, check=True,
        )  # fmt: skip
        return done.stdout

    git("init", "--quiet")
    for name in "abcd":
        end = chance.choice(["", "\n"])
        (tmp_path / name).write_text("\n".join(str(chance.randint(0, 3)) for _ in range(30)) + end)
    git("add", "-A")
    git("commit", "-qm", "before")
    (tmp_path / "a").unlink()
    (tmp_path / "new").write_text("something\nnew")
    for name in "bcd":
        lines = (tmp_path / name).read_text().split("\n")
        for _ in range(6):
            lines[chance.randrange(len(lines))] = chance.choice(["x", "y\nz", "0"])
        (tmp_path / name).write_text("\n".join(lines) + chance.choice(["", "\n"]))
    (tmp_path / "d").chmod(0o755)
    git("add", "-A")
    patch = git("diff", "--cached", chance.choice(["--unified=3", "--unified=0"]))
    git("commit", "-qm", "after")
    git("apply", "--unidiff-zero", "--index", "-", given=reversed_diff(patch))
    assert git("diff", "--cached", "HEAD~1") == ""
    left = reversed_diff(patch, excluding=frozenset({"b", "a"}))
    assert "b/b" not in left
    assert "a/a" not in left


def test_the_answer_to_a_feature_is_the_reverse_of_its_mask_without_the_tests() -> None:
    mask = PATCH.replace("-old\n+the answer", "-the answer\n+pass")
    row = ROW | {"image_name": "x", "patch": mask + TESTS, "FAIL_TO_PASS": ["tests/t.py"], "PASS_TO_PASS": []}
    gold = FeatureBenchGrader().oracle_patch(feature_row(row | {"instance_id": "a.b.lv1"}))
    assert gold is not None
    assert gold.decode() == PATCH.replace("-old", "-pass")
    assert FeatureBenchGrader().oracle_patch(feature_row(row | {"instance_id": "a.b.lv2"})) is None


async def test_an_exclusive_holder_is_alone_and_is_not_starved() -> None:
    lock, holders, most = SharedExclusiveLock(), 0, 0
    seen: list[int] = []

    async def shared() -> None:
        nonlocal holders, most
        async with lock.shared():
            holders += 1
            most = max(most, holders)
            await asyncio.sleep(0.001)
            holders -= 1

    async def exclusive() -> None:
        async with lock.exclusive():
            seen.append(holders)
            await asyncio.sleep(0.001)
            seen.append(holders)

    await asyncio.gather(*(exclusive() if number % 5 == 4 else shared() for number in range(50)))
    assert seen == [0] * 20
    assert most > 1
