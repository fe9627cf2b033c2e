"""Where tasks are taken from: folders, data sets' files, repositories; and what they are called."""

import json
import subprocess
from pathlib import Path

import pytest

from harbor_world import TASKS, write_task
from paths import sample_data
from proctor.benchmarks import benchmark, fetch_dataset, suite_benchmark
from proctor.benchmarks.harbor import package_digest
from proctor.core.errors import InfrastructureError, InvalidData, UsageError

COMMIT = ("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q")


@pytest.fixture
def tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PROCTOR_CACHE", str(tmp_path / "cache"))
    for name in ("greet", "repair"):
        write_task(tmp_path / "my tasks" / name, TASKS[name])
    return tmp_path / "my tasks"


def test_a_folder_of_tasks_is_a_suite(tasks: Path) -> None:
    suite = suite_benchmark(str(tasks))
    assert suite.name == "my-tasks"
    assert [task.id for task in suite.tasks()] == ["greet", "proctor/repair"]
    assert suite.source == str(tasks)
    before = suite.digest()
    assert suite_benchmark(str(tasks)).digest() == before
    (tasks / "greet" / "tests" / "more.txt").write_text("x")
    assert suite_benchmark(str(tasks)).digest() != before
    assert [task.id for task in suite_benchmark(str(tasks / "greet")).tasks()] == ["greet"]


def test_every_sample_can_be_run() -> None:
    suite = suite_benchmark(str(sample_data("harbor_tasks")))
    assert suite.invalid_tasks() == ()
    assert len(suite.tasks()) == 14


def test_a_data_set_s_file_names_tasks_beside_it(tasks: Path) -> None:
    digest = package_digest(tasks / "repair")
    file = tasks / "dataset.toml"
    file.write_text(f'[dataset]\nname = "us/ours"\n[[tasks]]\nname = "proctor/repair"\ndigest = "sha256:{digest}"\n')
    for where in (tasks, file):
        suite = suite_benchmark(str(where))
        assert (suite.name, [task.id for task in suite.tasks()]) == ("us-ours", ["proctor/repair"])
    (tasks / "repair" / "instruction.md").write_text("Something else.\n")
    with pytest.raises(InvalidData, match="not those of its digest"):
        suite_benchmark(str(tasks))
    file.write_text('[dataset]\nname = "us/ours"\n[[tasks]]\nname = "us/none"\n')
    with pytest.raises(InvalidData, match="us/none is not beside it"):
        suite_benchmark(str(tasks))


async def test_tasks_of_a_repository_are_fetched(tasks: Path) -> None:
    for words in (["init", "-q"], ["add", "-A"], [*COMMIT, "-m", "x"]):
        subprocess.run(["git", "-C", str(tasks), *words], check=True)
    got = await fetch_dataset("harbor", "mine", f"file://{tasks}", lambda _: None)
    assert (got.tasks, got.split, len(got.revision)) == (2, "mine", 40)
    assert [task.id for task in benchmark("harbor", "mine").tasks()] == ["greet", "proctor/repair"]
    registry = tasks.parent / "registry.json"
    listed = {"name": "greet", "git_url": f"file://{tasks}", "git_commit_id": got.revision, "path": "greet"}
    registry.write_text(json.dumps([{"name": "one", "version": "1.0", "tasks": [listed]}]))
    got = await fetch_dataset("harbor", "listed", registry, lambda _: None)
    assert [task.id for task in benchmark("harbor", "listed").tasks()] == ["greet"]
    with pytest.raises(InvalidData, match="is in a repository"):
        suite_benchmark(str(registry))


async def test_what_cannot_be_fetched_says_why(tasks: Path) -> None:
    with pytest.raises(UsageError, match="--from PATH"):
        await fetch_dataset("harbor", None, None, lambda _: None)
    with pytest.raises(UsageError, match="official place"):
        await fetch_dataset("setupbench", None, "https://example.com/x", lambda _: None)
    with pytest.raises(UsageError, match="has no split"):
        benchmark("harbor", "never-fetched")
    (tasks / "empty").mkdir()
    with pytest.raises(InvalidData, match="no task is here"):
        await fetch_dataset("harbor", None, tasks / "empty", lambda _: None)


async def test_a_repository_without_tasks_is_named_by_its_address(tmp_path: Path) -> None:
    for words in (["init", "-q"], [*COMMIT, "--allow-empty", "-m", "x"]):
        subprocess.run(["git", "-C", str(tmp_path), *words], check=True)
    address = f"file://{tmp_path}"
    with pytest.raises(InvalidData, match=f"^{address}: no task is here"):
        await fetch_dataset("harbor", None, address, lambda _: None)


async def test_what_git_says_first_of_a_repository_that_is_none_is_the_reason(tmp_path: Path) -> None:
    with pytest.raises(InfrastructureError, match="does not appear to be a git repository"):
        await fetch_dataset("harbor", None, f"file://{tmp_path}/none.git", lambda _: None)
