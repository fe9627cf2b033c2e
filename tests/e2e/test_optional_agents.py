"""Whole runs of agents in environments, against a scripted model, where their programs are installed."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from cli_world import CliWorld
from optional_agents import need_program
from paths import OPTIONAL_AGENT
from proctor.agents.kimi import Kimi
from proctor.core.errors import InfrastructureError
from proctor.core.programs import (
    ProgramLocation,
    find_aider,
    find_copilot,
    find_gemini,
    find_kimi,
    find_mini_swe_agent,
    find_node,
    find_opencode,
    find_pi,
    find_qwen,
)
from proctor.core.result import Tokens
from proctor.environments import local_unavailable_reason

USAGE = {"input": 1000, "output": 50, "cache_read": 300}
WORKS: dict[str, Any] = {"tools": [{"shell": {"command": "echo right > answer.txt"}}]}
SUBMITS: dict[str, Any] = {"tools": [{"shell": {"command": "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"}}]}
SAYS: dict[str, Any] = {"text": "Done."}
EDITS: dict[str, Any] = {"text": "answer.txt\n```\nright\n```"}
# By agent: how it is found, and the script of a whole run.
AGENTS: dict[str, tuple[Callable[[], ProgramLocation | None], list[dict[str, Any]]]] = {
    "gemini": (find_gemini, [WORKS, SAYS]),
    "pi": (find_pi, [WORKS, SAYS]),
    "opencode": (find_opencode, [WORKS, SAYS]),
    "copilot": (find_copilot, [WORKS, SAYS]),
    "mini_swe_agent": (find_mini_swe_agent, [WORKS, SUBMITS]),
    "qwen": (find_qwen, [WORKS, SAYS]),
    "kimi": (find_kimi, [WORKS, SAYS]),
    "aider": (find_aider, [EDITS]),
}


def forever(**step: Any) -> list[dict[str, Any]]:
    return [{**step, "repeat": "forever"}]


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("agent", AGENTS)
async def test_it_works_in_environments_and_every_end_has_its_cause(agent: str, cli_world: CliWorld) -> None:
    find, good = AGENTS[agent]
    need_program(find, f"{agent} is not installed")
    if agent == "kimi":
        try:
            Kimi().versions()
        except InfrastructureError as error:
            pytest.skip(f"{OPTIONAL_AGENT}: {error}")
    if (why := await local_unavailable_reason()) is not None:
        pytest.skip(why)
    cases: dict[str, tuple[list[dict[str, Any]], tuple[str, str]]] = {
        "good": (good, ("resolved", "solved")),
        "500 for ever": (forever(error=500), ("error", "provider_error")),
    }
    if agent != "aider":  # which asks once
        cases["turns without end"] = (forever(**WORKS), ("resolved", "solved"))
    tasks = {f"toy-{number:04}": name for number, name in enumerate(cases, start=1)}
    script = cli_world.folder / "script.json"
    script.write_text(json.dumps({"tasks": {task: cases[name][0] for task, name in tasks.items()}, "usage": USAGE}))
    found = find()
    assert found is not None
    run = ("bench", "run", "toy", "--agent", agent, "--agent-bin", found.path, "--model", f"script:{script}")
    more = ("--concurrency", 3, "--timeout", 200, "--retries", 0, "--max-turns", 4)
    node = find_node()
    variables = {"NODE_BIN": str(node.path)} if node is not None else {}
    done = await cli_world.start(*run, *more, TOY_TASKS=len(tasks), **variables).wait(380)
    results = {tasks[result.task_id]: result for result in cli_world.store().results()}
    seen = {name: (str(one.status), str(one.cause)) for name, one in results.items()}
    assert seen == {name: expected for name, (_, expected) in cases.items()}, done.stderr
    (used,) = results["good"].usage
    assert (used.requests, used.tokens) == (len(good), sum((Tokens(**USAGE) for _ in good), Tokens()))
    if "turns without end" in results:
        assert results["turns without end"].metrics.turns == 4
        assert results["turns without end"].attempts[-1].cause == "turn_limit"
    assert cli_world.leftovers() == []
