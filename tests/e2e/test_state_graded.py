"""State-graded benchmarks from the command line: fetched, run by the oracle and by nobody, graded, stored."""

import json
from pathlib import Path

from docker_image import IMAGE
from hall import Hall
from proctor.core.causes import Cause, Status
from setup_world import make_copy, need_machines
from terminal_world import images, write_tasks


async def test_terminal_bench_goes_from_a_folder_to_stored_results(hall: Hall, tmp_path: Path) -> None:
    tasks = write_tasks(tmp_path / "tasks")
    got = await hall.run("bench", "fetch", "terminal_bench", "--split", "other", "--from", tasks)
    assert "7 tasks" in got.stdout, got
    image_map = tmp_path / "images.json"
    with images() as made:
        image_map.write_text(json.dumps(made))
        chosen = ("terminal_bench", "--split", "other", "--runner", "docker", "--image-map", image_map)
        listed = json.loads((await hall.run("bench", "list", *chosen[:3], "--json")).stdout)
        assert "proctor/repair" in [task["id"] for task in listed["tasks"]]
        for agent, status, cause in (
            ("oracle", Status.RESOLVED, Cause.SOLVED),
            ("nop", Status.UNRESOLVED, Cause.TESTS_FAILED),
        ):
            done = await hall.run(
                "bench", "run", *chosen, "--agent", agent, "--category", "category=text", "--parallel", 2
            )
            assert done.code == 0, done
            store = hall.store(f"terminal_bench/run-00{1 if agent == 'oracle' else 2}")
            (result,) = store.results()
            assert (result.task_id, result.status, result.cause) == ("count-words", status, cause)
            assert result.verdict is not None
            assert result.verdict.score == (1.0 if agent == "oracle" else 0.0)
        evaluated = await hall.run("bench", "eval", *chosen, "--oracle", "--task", "greet", "--json")
        assert json.loads(evaluated.stdout)["summary"]["resolved"] == 1, evaluated


async def test_setupbench_is_run_by_a_command_and_says_first_what_is_missing(hall: Hall, tmp_path: Path) -> None:
    need_machines()
    await hall.run("bench", "fetch", "setupbench", "--from", make_copy(tmp_path / "copy"))
    local = await hall.run("bench", "run", "setupbench", "--agent", "nop", "--all")
    assert (local.code, "--runner docker" in local.stderr) == (12, True), local
    images = tmp_path / "images.yaml"
    images.write_text(f"ubuntu:22.04: {IMAGE}\n")
    docker = ("--runner", "docker", "--image-map", images, "--agent")
    missing = await hall.run("bench", "run", "setupbench", *docker, "nop", "--category", "tier=2", "--dry-run")
    assert missing.code == 0, missing
    assert "cannot be run here" in missing.stderr
    assert "fixtures/dbsetup-mongodb-2" in missing.stderr
    done = await hall.run(
        "bench",
        "run",
        "setupbench",
        *docker,
        "command",
        "--agent-command",
        "mkdir -p /data",
        "--task",
        "dbsetup-sqlite-1",
    )
    assert done.code == 0, done
    (result,) = hall.store("setupbench/run-001").results()
    # The image has no sqlite3, which the task's grader needs and its statement does not ask for.
    assert (result.status, result.cause) == (Status.UNRESOLVED, Cause.TESTS_FAILED)
    assert result.verdict is not None
    assert "sqlite3: not found" in result.verdict.reason
    assert result.categories["family"] == "database"
