"""The suites that ship with Proctor, proved and graded for real, in both kinds of environments."""

import json
from pathlib import Path

import pytest

from docker_image import IMAGE, need_docker
from suite_world import proctor


def environments(runner: str) -> list[str]:
    if runner == "docker":
        need_docker()
        return ["--runner", "docker", "--docker-image", IMAGE, "--jobs", "2", "--quiet", "--json"]
    return ["--jobs", "2", "--quiet", "--json"]


def only(tasks: list[str]) -> list[str]:
    return [word for task in tasks for word in ("--task", task)]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("runner", "every"),
    [
        ("local", 9),
        ("docker", 14),
        *(pytest.param(runner, 3, marks=pytest.mark.long) for runner in ("local", "docker")),
    ],
)
def test_instances_of_core_are_healthy_solved_by_their_oracle_and_not_by_nothing(
    tmp_path: Path, runner: str, every: int
) -> None:
    options = environments(runner)
    if runner == "docker":
        options += ("--controls", "0")
    tasks = [task["id"] for task in json.loads(proctor(tmp_path, "bench", "list", "core", "--json").stdout)["tasks"]]
    # That every instance is sound, tests/suites shows, without anything of ours.
    tasks = tasks[::every]
    done = proctor(tmp_path, "bench", "validate", "core", *options, *only(tasks))
    assert done.code == 0, done.stdout
    healths = json.loads(done.stdout)["tasks"]
    assert [health["task_id"] for health in healths] == tasks
    runnable = {health["task_id"] for health in healths if not health["skipped"]}
    assert all(health["healthy"] for health in healths if health["task_id"] in runnable)
    # The image has no node; a machine without it skips the same four, and says why.
    assert {health["task_id"] for health in healths} - runnable <= {
        health["task_id"] for health in healths if health["task_id"].startswith("js_") and "node" in health["skipped"]
    }

    # To be healthy is to be solved by the oracle and not by nothing; that grading says the same, a few show.
    graded = sorted(runnable)[::2]
    options += only(graded)
    oracle = proctor(tmp_path, "bench", "eval", "core", "--oracle", *options)
    assert oracle.code == 0, oracle.stdout
    summary = json.loads(oracle.stdout)["summary"]
    assert (summary["resolved"], summary["healthy_resolved"]) == (len(graded), len(graded))

    lines = [{"instance_id": task, "patch_kind": "unified-diff", "patch_inline": ""} for task in graded]
    nothing = tmp_path / "nothing.jsonl"
    nothing.write_text("\n".join(map(json.dumps, lines)))
    empty = proctor(tmp_path, "bench", "eval", "core", "--predictions", nothing, *options)
    assert empty.code == 0
    summary = json.loads(empty.stdout)["summary"]
    assert (summary["resolved"], summary["unresolved"]) == (0, len(graded))
