"""The real Claude Code under a scripted model with every kind of provider error: each is one task of the same run."""

import json
from typing import Any

import pytest

from cli_world import CliWorld
from proctor.core.programs import find_claude
from proctor.environments import local_unavailable_reason
from slow_tests import scaled

Steps = list[dict[str, Any]]
GOOD: Steps = [{"tools": [{"Bash": {"command": "echo right >answer.txt"}}]}, {"text": "Done."}]
BAD: Steps = [{"text": "I give up."}]


def once(**fault: Any) -> Steps:
    return [fault, *GOOD]


def forever(**fault: Any) -> Steps:
    return [{**fault, "repeat": "forever"}]


REFUSAL = forever(text="No.", stop_reason="refusal")
# What the model does, and what comes of it: status, cause, attempts.
FAULTS: dict[str, tuple[Steps, tuple[str, str, int]]] = {
    "fair": (GOOD, ("resolved", "solved", 1)),
    "429 once": (once(error=429), ("resolved", "solved", 1)),
    "529 once": (once(error=529), ("resolved", "solved", 1)),
    "500 once": (once(error=500), ("resolved", "solved", 1)),
    "cut stream once": (once(text="I was going to", cut=3), ("resolved", "solved", 1)),
    "malformed once": (once(text="garbled", malformed=2), ("resolved", "solved", 1)),
    "HTML once": (once(raw={"body": "<html>busy</html>"}), ("resolved", "solved", 1)),
    "drop once": (once(drop=True), ("resolved", "solved", 1)),
    "429 for ever": (forever(error=429), ("error", "rate_limited", 2)),
    "529 for ever": (forever(error=529), ("error", "provider_error", 2)),
    "500 for ever": (forever(error=500), ("error", "provider_error", 2)),
    "drop for ever": (forever(drop=True), ("error", "provider_error", 2)),
    "HTML for ever": (forever(raw={"body": "<html>busy</html>"}), ("error", "provider_error", 2)),
    "refusal": (REFUSAL, ("unresolved", "refused", 1)),
    "max_tokens": (forever(text="and so on", stop_reason="max_tokens"), ("unresolved", "agent_crashed", 1)),
    "too long": (forever(too_long={}), ("unresolved", "agent_crashed", 1)),
    "work, then 500 for ever": ([GOOD[0], *forever(error=500)], ("error", "provider_error", 2)),
    "work, then refusal": ([GOOD[0], *REFUSAL], ("resolved", "solved", 1)),
    "script ends": (GOOD[:1], ("error", "replay_diverged", 1)),
    "nothing done": (BAD, ("unresolved", "tests_failed", 1)),
}
# One of each kind: an answer of either sort that fails once, a status that lasts, and every end but the plain one.
SOME = (
    *("429 once", "cut stream once", "429 for ever", "refusal", "max_tokens"),
    *("work, then 500 for ever", "script ends", "nothing done"),
)


async def need_claude() -> None:
    if find_claude() is None:
        pytest.skip("Claude Code is not installed")
    if (why := await local_unavailable_reason()) is not None:
        pytest.skip(why)


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("names", scaled(SOME, tuple(FAULTS)), ids=len)
async def test_every_error_has_its_cause_and_the_right_number_of_attempts(
    cli_world: CliWorld, names: tuple[str, ...]
) -> None:
    await need_claude()
    tasks = {f"toy-{number:04}": name for number, name in enumerate(names, start=1)}
    script = cli_world.folder / "script.json"
    script.write_text(json.dumps({"tasks": {task: FAULTS[name][0] for task, name in tasks.items()}}))
    done = await cli_world.start(
        *("bench", "run", "toy", "--model", f"script:{script}", "--concurrency", 8, "--timeout", 60, "--retries", 1),
        TOY_TASKS=len(tasks),
    ).wait(380)
    assert done.code == 12, done.stderr
    results = {tasks[result.task_id]: result for result in cli_world.store().results()}
    seen = {name: (str(one.status), str(one.cause), len(one.attempts)) for name, one in results.items()}
    expected = {name: FAULTS[name][1] for name in names}
    assert seen == expected
    errors = sum(status == "error" for status, _, _ in expected.values())
    assert f", {errors} errors," in done.stdout
    assert cli_world.leftovers() == []


async def test_a_model_that_falls_silent_is_waited_for_until_the_time_is_up(cli_world: CliWorld) -> None:
    await need_claude()
    script = cli_world.folder / "script.json"
    script.write_text(json.dumps({"default": forever(text="...", silence={"after": 1})}))
    done = await cli_world.run("bench", "run", "toy", "--model", f"script:{script}", "--timeout", 6, TOY_TASKS=1)
    assert done.code == 0, done.stderr
    (result,) = cli_world.store().results()
    assert (str(result.status), str(result.cause), len(result.attempts)) == ("unresolved", "agent_timeout", 1)


@pytest.mark.parametrize("status", scaled(401, 403))
async def test_a_refused_login_stops_the_run_at_once_with_exit_12_and_it_can_be_resumed(
    cli_world: CliWorld, status: int
) -> None:
    await need_claude()
    script = cli_world.folder / "script.json"
    script.write_text(json.dumps({"default": forever(error=status)}))
    run = ("bench", "run", "toy", "--model", f"script:{script}")
    done = await cli_world.run(*run, TOY_TASKS=3)
    assert done.code == 12
    assert "stopped (bad_login)" in done.stderr
    assert "3 trials are left; resume with `proctor bench resume toy/run-001`" in done.stderr
    begun = [path.name for path in (cli_world.store().folder / "logs").iterdir()]
    assert begun == ["toy-0001"]
    script.write_text(json.dumps({"default": GOOD}))
    done = await cli_world.run("bench", "resume", "run-001", TOY_TASKS=3)
    assert (done.code, done.stdout.split(":")[1][:26]) == (0, " 3 of 3 graded trials reso"), done
