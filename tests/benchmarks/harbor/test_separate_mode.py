"""Shared tasks with a verifier in an environment of its own: which can be, and with which files."""

from pathlib import Path

import pytest

from harbor_world import TASKS, opened, write_task
from proctor.benchmarks.harbor.separate_mode import separately
from proctor.benchmarks.harbor.task_format import read_task
from proctor.core.machine import Machine

MACHINE = Machine(platform="linux-x86_64", python="3.11", cpus=8, memory_mb=64_000)


def test_the_working_directory_is_what_the_verifier_is_given(tmp_path: Path) -> None:
    task = separately(read_task(write_task(tmp_path / "greet", TASKS["greet"])))
    (step,) = task.steps
    assert step.verifier.environment == task.environment
    assert [artifact.source for artifact in task.artifacts_of(step)] == ["/app", "/logs/artifacts"]


def test_named_files_are_all_that_it_is_given(tmp_path: Path) -> None:
    files = TASKS["serve"] | {
        "task.toml": 'schema_version = "1.4"\nartifacts = ["a.txt", "/srv/b"]\n',
        "tests/test_outputs.py": "def test_it():\n    assert open('/app/a.txt').read()\n",
    }
    task = separately(read_task(write_task(tmp_path / "it", files)))
    (step,) = task.steps
    assert [artifact.source for artifact in task.artifacts_of(step)] == ["/logs/artifacts", "/app/a.txt", "/srv/b"]


@pytest.mark.parametrize(
    "change",
    [{}, {"tests/test_outputs.py": "def test(): pass\n", "environment/Dockerfile": "FROM x\nWORKDIR /\n"}],
)
def test_a_task_that_needs_more_than_files_is_named_as_not_runnable(change: dict[str, str], tmp_path: Path) -> None:
    write_task(tmp_path / "serve", TASKS["serve"] | change)
    bench = opened(tmp_path).with_verifier("separate")
    (task,) = bench.tasks()
    assert "--verifier separate" in str(bench.missing_requirement(task, MACHINE, "docker"))
    assert opened(tmp_path).missing_requirement(task, MACHINE, "docker") is None
