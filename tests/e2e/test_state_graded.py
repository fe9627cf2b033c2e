"""State-graded benchmarks from the command line: fetched, run by the oracle and by nobody, graded, stored."""

import asyncio
import json
from pathlib import Path

import pytest

from cli_jobs import Job
from cli_world import CliWorld
from docker_image import IMAGE
from harbor_world import images, write_tasks
from proctor.core.causes import Cause, Status
from proctor.environments.docker_engine import LABEL, OWNER_LABEL, connect, disconnect
from proctor.gateway import load_recording
from proctor.results import usage_cost
from real_claude import claude_program
from setup_world import make_copy, need_machines


async def test_terminal_bench_goes_from_a_folder_to_stored_results(cli_world: CliWorld, tmp_path: Path) -> None:
    tasks = write_tasks(tmp_path / "tasks")
    got = await cli_world.run("bench", "fetch", "terminal_bench", "--split", "other", "--from", tasks)
    assert "7 tasks" in got.stdout, got
    image_map = tmp_path / "images.json"
    with images() as made:
        image_map.write_text(json.dumps(made))
        chosen = ("terminal_bench", "--split", "other", "--runner", "docker", "--image-map", image_map)
        listed = json.loads((await cli_world.run("bench", "list", *chosen[:3], "--json")).stdout)
        assert "proctor/repair" in [task["id"] for task in listed["tasks"]]
        runnable = json.loads((await cli_world.run("bench", "list", *chosen, "--runnable", "--json")).stdout)
        assert {task["runnable"] for task in runnable["tasks"]} == {True}, runnable
        for agent, status, cause in (
            ("oracle", Status.RESOLVED, Cause.SOLVED),
            ("nop", Status.UNRESOLVED, Cause.TESTS_FAILED),
        ):
            done = await cli_world.run(
                "bench", "run", *chosen, "--agent", agent, "--category", "category=text", "--controls", 0
            )
            assert done.code == 0, done
            store = cli_world.store(f"terminal_bench/run-00{1 if agent == 'oracle' else 2}")
            (result,) = store.results()
            assert (result.task_id, result.status, result.cause) == ("count-words", status, cause)
            assert result.verdict is not None
            assert result.verdict.score == (1.0 if agent == "oracle" else 0.0)
            assert result.grade_seconds >= result.verdict.seconds > 0
        evaluated = await cli_world.run(
            "bench", "eval", *chosen, "--oracle", "--task", "greet", "--controls", 0, "--json"
        )
        report = json.loads(evaluated.stdout)
        assert report["summary"]["resolved"] == 1, evaluated
        assert "1 passed" in (Path(report["tasks"][0]["artifacts"]) / "verifier.out").read_text()


async def test_setupbench_is_run_by_a_command_and_says_first_what_is_missing(
    cli_world: CliWorld, tmp_path: Path
) -> None:
    need_machines()
    await cli_world.run("bench", "fetch", "setupbench", "--from", make_copy(tmp_path / "copy"))
    local = await cli_world.run("bench", "run", "setupbench", "--agent", "nop", "--all")
    assert (local.code, "--runner docker" in local.stderr) == (12, True), local
    images = tmp_path / "images.yaml"
    images.write_text(f"ubuntu:22.04: {IMAGE}\n")
    docker = ("--runner", "docker", "--image-map", images, "--agent")
    missing = await cli_world.run("bench", "run", "setupbench", *docker, "nop", "--category", "tier=2", "--dry-run")
    assert missing.code == 0, missing
    assert "cannot be run here" in missing.stderr
    assert "3 tasks (dbsetup-mongodb-2, …): its files (fixtures/TASK)" in missing.stderr
    done = await cli_world.run(
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
    (result,) = cli_world.store("setupbench/run-001").results()
    # The image has no sqlite3, which the task's grader needs and its statement does not ask for.
    assert (result.status, result.cause) == (Status.UNRESOLVED, Cause.TESTS_FAILED)
    assert result.verdict is not None
    assert "sqlite3: not found" in result.verdict.reason
    assert result.categories["family"] == "database"


async def lose_the_environment_that_is_graded(job: Job) -> None:
    """Remove the container of this command as soon as the verifier is at work in it."""
    client = connect()
    try:
        while job.poll() is None:
            for environment in await client.containers.list(filters={"label": [f"{LABEL}.task=greet"]}):
                told = await environment.show()
                top = await client._query_json(f"containers/{environment.id}/top", params={"ps_args": "-eo pid,args"})
                if str(job.pid) in told["Config"]["Labels"][OWNER_LABEL].split() and "sleep 8" in str(top["Processes"]):
                    await environment.delete(force=True)
                    return
            await asyncio.sleep(0.1)
    finally:
        await disconnect(client)
    raise AssertionError(job.stderr.read_text())


@pytest.mark.slow
async def test_an_environment_that_is_lost_while_it_is_graded_is_made_again_and_the_model_is_not_asked_again(
    cli_world: CliWorld, tmp_path: Path
) -> None:
    need_machines()
    program = claude_program()
    tasks = write_tasks(tmp_path / "tasks")
    verifier = tasks / "greet/tests/test.sh"
    verifier.write_text(verifier.read_text().replace("python3", "sleep 8; python3", 1))
    await cli_world.run("bench", "fetch", "terminal_bench", "--split", "other", "--from", tasks)
    write = {"text": "I write it.", "tools": [{"Bash": {"command": "echo hello >/app/greeting.txt"}}]}
    (tmp_path / "script.json").write_text(json.dumps({"default": [write, {"text": "Done."}]}))
    environment = ("--runner", "docker", "--image-map", tmp_path / "images.json", "--task", "greet")
    model = ("--model", f"script:{tmp_path / 'script.json'}", "--claude-bin", program)
    with images() as made:
        (tmp_path / "images.json").write_text(json.dumps(made))
        # Without control checks: each run of this verifier takes long.
        options = (*environment, *model, "--controls", "0")
        job = cli_world.start("bench", "run", "terminal_bench", "--split", "other", *options)
        await lose_the_environment_that_is_graded(job)
        done = await job.wait()
    assert done.code == 0, done
    store = cli_world.store("terminal_bench/run-001")
    result = store.result("greet")
    assert (result.status, result.cause) == (Status.RESOLVED, Cause.SOLVED)
    assert [attempt.cause for attempt in result.attempts] == [Cause.ENGINE_GONE, Cause.ANSWERED]
    takes = [load_recording(store.logs("greet", 1, number) / "cassette.jsonl") for number in (1, 2)]
    assert [[recorded.exchange.paid for recorded in take.exchanges] for take in takes] == [[False] * 2, [True] * 2]
    assert usage_cost(result.usage) == usage_cost(result.attempts[0].usage)
