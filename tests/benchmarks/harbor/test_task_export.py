"""Suites as tasks of Harbor's format."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

from proctor.benchmarks.harbor import read_task
from proctor.benchmarks.harbor.task_export import HarborTasksFormat
from proctor.results.formats import ExportOptions, export_suite


def export(target: Path) -> Path:
    exported = export_suite("core-mini", HarborTasksFormat(), target, ExportOptions(image="an-image"))
    assert exported.left_out == ()
    return target


def test_a_shipped_suite_becomes_tasks_that_can_be_read(tmp_path: Path) -> None:
    folder = export(tmp_path / "out")
    tasks = [read_task(place) for place in sorted(folder.iterdir())]
    assert len(tasks) == 4
    for task in tasks:
        (step,) = task.steps
        assert task.has_solution
        assert task.unsupported == ()
        assert step.verifier.environment is not None
        assert [one.source for one in task.artifacts_of(step)] == ["/logs/artifacts", "/workspace"]
        assert "FROM an-image" in (task.path / "environment" / "Dockerfile").read_text()
        assert step.instruction.strip()


def test_its_check_gives_one_with_the_oracle_and_nothing_without(tmp_path: Path) -> None:
    folder = next(place for place in sorted(export(tmp_path / "out").iterdir()) if place.name.startswith("py_"))
    check = (folder / "tests" / "check.py").read_text()
    logs = tmp_path / "logs"
    logs.mkdir()
    (folder / "tests" / "check.py").write_text(check.replace('"/logs/verifier"', repr(str(logs))))
    for solved, reward in ((False, "0\n"), (True, "1\n")):
        tree = tmp_path / f"tree-{solved}"
        shutil.copytree(folder / "environment" / "repo", tree)
        if solved:
            subprocess.run(["git", "apply", folder / "solution" / "oracle.diff"], cwd=tree, check=True)
        subprocess.run([sys.executable, folder / "tests" / "check.py"], cwd=tree, check=True, capture_output=True)
        assert (logs / "reward.txt").read_text() == reward
    summary = json.loads((logs / "ctrf.json").read_text())["results"]["summary"]
    assert summary["failed"] == 0
    assert summary["passed"] == summary["tests"] > 0
