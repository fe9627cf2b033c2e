"""Whole runs of real agents in environments, against a scripted model: cells of the matrix of `make agents`."""

import json
from pathlib import Path
from typing import Any

import pytest

from agent_matrix import COLUMNS, OK, MatrixRow, Row, table
from cli_world import CliWorld
from lab_agents import LAB_AGENTS
from proctor.environments import local_unavailable_reason
from program_lab import IN_CI, need_agent

WORKS: dict[str, Any] = {"tools": [{"shell": {"command": "echo right > answer.txt"}}]}
# All columns for the one whose program starts soonest; for the others, those that depend on the program most.
CELLS = {
    "codex": [name for name in COLUMNS if name != "timeout"],
    "gemini": ["500", "hostile"],
    "pi": ["cut", "hostile"],
}


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", IN_CI)
async def test_cells_of_the_matrix(name: str, tmp_path: Path) -> None:
    need_agent(LAB_AGENTS[name])
    if (why := await local_unavailable_reason()) is not None:
        pytest.skip(why)
    row = MatrixRow(LAB_AGENTS[name], tmp_path, columns=CELLS[name])
    try:
        assert await row.cells() == dict.fromkeys(CELLS[name], OK)
    finally:
        row.close()


@pytest.mark.slow
@pytest.mark.timeout(400)
async def test_turns_end_at_their_limit_and_a_script_that_ends_is_told_from_failures(cli_world: CliWorld) -> None:
    need_agent(LAB_AGENTS["codex"])
    if (why := await local_unavailable_reason()) is not None:
        pytest.skip(why)
    steps = {
        "toy-0001": [{**WORKS, "repeat": "forever"}],
        "toy-0002": [WORKS],
        "toy-0003": [{"text": "I see nothing."}],
    }
    script = cli_world.folder / "script.json"
    script.write_text(json.dumps({"tasks": steps, "usage": {"input": 1000, "output": 50}}))
    run = ("bench", "run", "toy", "--agent", "codex", "--model", f"script:{script}", "--concurrency", 3)
    program: dict[str, Any] = {"CODEX_BIN": LAB_AGENTS["codex"].kind().find_program().path}
    done = await cli_world.start(*run, "--retries", 0, "--max-turns", 5, TOY_TASKS=3, **program).wait(380)
    assert done.code == 12, done.stderr
    results = {result.task_id: result for result in cli_world.store().results()}
    assert {name: (str(one.status), str(one.cause)) for name, one in results.items()} == {
        "toy-0001": ("resolved", "solved"),
        "toy-0002": ("error", "replay_diverged"),
        "toy-0003": ("unresolved", "tests_failed"),
    }
    limited = results["toy-0001"]
    assert (limited.metrics.turns, str(limited.attempts[-1].cause)) == (5, "turn_limit")
    assert cli_world.leftovers() == []


def test_an_agent_that_could_not_be_installed_is_in_the_table_and_is_no_failure() -> None:
    rows = [Row("codex", "1", "responses", {"500": OK}), Row("droid", skipped="npm has no droid")]
    lines = table(rows, ["500"]).splitlines()
    assert lines[2:] == ["| codex | 1 | responses | ok |", "| droid |  |  | skipped: npm has no droid |"]
    assert [row.failed for row in rows] == [False, False]
    assert Row("pi", "1", "chat", {"500": "hung"}).failed
