"""Whole runs of the real Codex in environments, against a scripted model."""

import json
from typing import Any

import pytest

from cli_world import CliWorld
from proctor.core.programs import find_codex
from proctor.core.result import Tokens
from proctor.environments import local_unavailable_reason

USAGE = {"input": 1000, "output": 50, "cache_read": 300, "reasoning": 20}
WORKS: dict[str, Any] = {"tools": [{"shell": {"command": "echo right > answer.txt"}}]}
GOOD: list[dict[str, Any]] = [WORKS, {"text": "Done."}]


def forever(**step: Any) -> list[dict[str, Any]]:
    return [{**step, "repeat": "forever"}]


# By name: the steps, and the status, the cause and the number of attempts that they lead to.
CASES: dict[str, tuple[list[dict[str, Any]], tuple[str, str, int]]] = {
    "good": (GOOD, ("resolved", "solved", 1)),
    "nothing done": ([{"text": "I see nothing."}], ("unresolved", "tests_failed", 1)),
    "429 for ever": (forever(error=429), ("error", "rate_limited", 2)),
    "500 for ever": (forever(error=500), ("error", "provider_error", 2)),
    "cut for ever": (forever(text="I was going to", cut=3), ("error", "provider_error", 2)),
    "work, then 500 for ever": ([WORKS, *forever(error=500)], ("error", "provider_error", 2)),
    "script ends": ([WORKS], ("error", "replay_diverged", 1)),
    "turns without end": (forever(**WORKS), ("resolved", "solved", 1)),
}


@pytest.mark.slow
@pytest.mark.timeout(400)
async def test_codex_works_in_environments_and_every_end_has_its_cause(cli_world: CliWorld) -> None:
    found = find_codex()
    if found is None:
        pytest.skip("Codex is not installed: npm install -g @openai/codex, or set CODEX_BIN")
    if (why := await local_unavailable_reason()) is not None:
        pytest.skip(why)
    tasks = {f"toy-{number:04}": name for number, name in enumerate(CASES, start=1)}
    script = cli_world.folder / "script.json"
    steps = {task: CASES[name][0] for task, name in tasks.items()}
    script.write_text(json.dumps({"tasks": steps, "usage": USAGE}))
    run = ("bench", "run", "toy", "--agent", "codex", "--agent-bin", found.path, "--model", f"script:{script}")
    more = ("--concurrency", 4, "--timeout", 120, "--retries", 1, "--max-turns", 5)
    done = await cli_world.start(*run, *more, TOY_TASKS=len(tasks)).wait(380)
    assert done.code == 12, done.stderr
    results = {tasks[result.task_id]: result for result in cli_world.store().results()}
    seen = {name: (str(one.status), str(one.cause), len(one.attempts)) for name, one in results.items()}
    assert seen == {name: expected for name, (_, expected) in CASES.items()}
    (used,) = results["good"].usage
    assert (used.model, used.requests, used.tokens) == ("gpt-5.5", 2, Tokens(**USAGE) + Tokens(**USAGE))
    assert results["turns without end"].metrics.turns == 5
    assert results["turns without end"].attempts[-1].cause == "turn_limit"
    again = await cli_world.run(*run[:-1], "replay:toy/run-001", "--task", tasks_named(tasks, "good"), TOY_TASKS=8)
    assert "1 of 1 graded trials resolved" in again.stdout, again.stderr
    assert cli_world.leftovers() == []


def tasks_named(tasks: dict[str, str], name: str) -> str:
    return next(task for task, given in tasks.items() if given == name)
