"""`bench sweep`: many configurations on the same tasks, through the command line."""

import asyncio
import os
import pty
import random
import shlex
import signal
import sys
from collections import Counter
from pathlib import Path

import pytest

from cli_world import STANDINS, CliWorld, access, asked_for_more
from paths import PYTHON
from proctor.core.causes import Cause, Status
from proctor.core.result import estimated_cost
from proctor.gateway import load_recording
from proctor.results import SweepStore, find_sweep
from terminal import on_terminal
from toy_provider import ANSWER_USD, MODEL, ToyProvider, toy_provider

AGENT = shlex.join([str(PYTHON), "-I", "-S", str(STANDINS / "toy_agent.py")])


def write(cli_world: CliWorld, provider: ToyProvider, *lines: str, name: str = "pods.toml") -> Path:
    """A sweep of two: one agent has a turn too few to come to the right answer, one has enough."""
    text = "\n".join(
        [
            'benchmark = "toy"',
            'agent = "command"',
            f"command = '''{AGENT}'''",
            f'model = "{MODEL}"',
            "isolation = false",
            *lines,
            "[grid]",
            f"max_turns = [{provider.turns - 1}, {provider.turns}]",
        ]
    )
    (cli_world.folder / name).write_text(text)
    return cli_world.folder / name


async def test_runs_take_turns_and_the_rule_is_applied(cli_world: CliWorld) -> None:
    async with toy_provider() as provider:
        file = write(cli_world, provider, "max_cost = 1", 'rule = "better"')
        done = await cli_world.run("bench", "sweep", file, **access(provider), TOY_TASKS=6)
        assert done.code == 0, done.stderr
        poor, able = "max_turns=2", "max_turns=3"
        ended = [
            line.rpartition(": [")[0] + " " + line.split()[2] for line in done.stderr.splitlines() if "] toy" in line
        ]
        assert ended[:4] == [f"{poor} toy-0001", f"{able} toy-0001", f"{able} toy-0002", f"{poor} toy-0002"]
        rows = {line.split()[0]: line for line in done.stdout.splitlines() if " run-0" in line}
        assert rows[poor].split()[1:5] == ["command", "claude-sonnet-4-5", "run-001", "0/6"]
        assert rows[able].split()[1:5] == ["command", "claude-sonnet-4-5", "run-002", "6/6"]
        assert rows[able].endswith(" met")
        assert done.stdout.endswith("max_turns=3 meets the rule (better) against max_turns=2.\n")
        assert provider.served.total() == 6 * (2 + 3)

        # A sweep that is done with says what it has shown, again and for nothing.
        again = await cli_world.run("bench", "resume", "toy/sweep-001", "--json", **access(provider), TOY_TASKS=6)
        assert (again.code, provider.served.total()) == (0, 30)
        assert (again.json["chosen"], again.json["missing"]) == ([able], 0)
        alone = await cli_world.run("bench", "resume", "toy/run-002", **access(provider), TOY_TASKS=6)
        assert alone.code == 2
        assert "run run-002 is part of a sweep, and shares its budget" in alone.stderr
        assert "resume with `proctor bench resume toy/sweep-001`" in alone.stderr
    assert cli_world.leftovers() == []


async def test_the_plan_and_its_cost_are_shown_and_nothing_is_written(cli_world: CliWorld) -> None:
    async with toy_provider() as provider:
        file = write(cli_world, provider, "max_cost_per_task = 0.5", "attempts = 2", "concurrency = 3")
        done = await cli_world.run("bench", "sweep", file, "--dry-run", **access(provider))
        assert done.code == 0, done.stderr
        assert done.stdout.splitlines()[1].split() == [
            *("max_turns=2", "(reference)", "baseline", "command", MODEL, "3", "x", "2", "$3.00")
        ]
        assert "toy: 12 trials, in turns over 3 tasks, 3 agents at once" in done.stdout
        assert "cost at most: $6.00" in done.stdout
        tighter = await cli_world.run(
            "bench", "sweep", file, "--dry-run", "--max-cost", 2, "--json", **access(provider)
        )
        assert (tighter.json["trials"], tighter.json["max_cost_usd"]) == (12, 2)
    assert list(cli_world.results.iterdir()) == []
    assert provider.asked.total() == 0


async def test_nobody_spends_without_a_bound_by_mistake(cli_world: CliWorld) -> None:
    async with toy_provider() as provider:
        file = write(cli_world, provider)
        done = await cli_world.run("bench", "sweep", file, **access(provider))
        assert (done.code, done.stderr) == (
            2,
            "proctor: nothing bounds what this sweep can cost; give max_cost in its file, --max-cost, or --yes\n",
        )
        assert list(cli_world.results.iterdir()) == []
        done = await cli_world.run("bench", "sweep", file, "--yes", "--quiet", **access(provider))
        assert done.code == 0, done.stderr


@pytest.mark.parametrize(("answer", "code", "words"), [("n", 130, "the sweep is not started"), ("y", 0, "Start?")])
async def test_on_a_terminal_one_is_asked(cli_world: CliWorld, answer: str, code: int, words: str) -> None:
    (cli_world.folder / "two.toml").write_text(
        'benchmark = "toy"\nisolation = false\n[grid]\nagent = ["nop", "oracle"]\n'
    )
    ours, theirs = pty.openpty()
    try:
        command = [sys.executable, "-m", "proctor", "bench", "sweep", "two.toml"]
        job = await asyncio.create_subprocess_exec(
            *command, cwd=cli_world.folder, env=cli_world.env, stdin=theirs, stdout=-1, stderr=-1
        )
        os.write(ours, f"{answer}\n".encode())
        _, errors = await asyncio.wait_for(job.communicate(), 60)
    finally:
        os.close(ours)
        os.close(theirs)
    assert job.returncode == code, errors
    assert words in errors.decode()
    assert "cost at most: nothing: no model is used" in errors.decode()
    assert (find_sweep("toy/sweep-001", root=cli_world.results) is not None) == (answer == "y")


async def test_the_comparison_fits_the_terminal(cli_world: CliWorld) -> None:
    (cli_world.folder / "two.toml").write_text(
        'benchmark = "toy"\nisolation = false\n[grid]\nagent = ["nop", "oracle"]\n'
    )
    command = [sys.executable, "-m", "proctor", "bench", "sweep", "two.toml", "--yes", "--quiet"]
    code, lines = await asyncio.to_thread(on_terminal, command, width=60, env=cli_world.env, cwd=cli_world.folder)
    assert (code, lines[0]) == (0, "two: toy, 2 configurations")
    assert max(map(len, lines)) <= 60
    headings = " ".join(line for line in lines if line.startswith("Configuration"))
    assert all(heading in headings for heading in ("Run ID", "Resolved", "Avg Cost", "Difference", "Rule"))


async def test_one_budget_holds_for_all_runs_and_can_be_raised(cli_world: CliWorld) -> None:
    async with toy_provider(delay=0.02) as provider:
        file = write(cli_world, provider, f"max_cost = {7 * ANSWER_USD}", "concurrency = 2", 'rule = "better"')
        env = {**access(provider), "TOY_TASKS": 4}
        done = await cli_world.run("bench", "sweep", file, "--quiet", **env)
        assert done.code == 12
        assert "stopped (run_budget)" in done.stderr
        assert "resume with `proctor bench resume toy/sweep-001 --max-cost USD`" in done.stderr
        assert "Nothing is decided:" in done.stdout
        assert 7 <= provider.served.total() <= 7 + 2
        done = await cli_world.run("bench", "resume", "sweep-001", "--max-cost", 1, "--quiet", **env)
    assert done.code == 0, done.stderr
    assert set(provider.served.values()) == {1, 2}
    assert provider.served.total() == 4 * (2 + 3)
    assert {cli_world.store(f"toy/run-00{number}").config().max_cost for number in (1, 2)} == {1.0}


@pytest.mark.slow
async def test_a_sweep_killed_at_random_moments_loses_nothing_and_pays_once(cli_world: CliWorld) -> None:
    chance = random.Random(20260301)
    tasks, kills = 6, 10
    async with toy_provider(turns=4, delay=0.15) as provider:
        env = {**access(provider), "TOY_TASKS": tasks}
        command: tuple[object, ...] = (
            *("bench", "sweep", write(cli_world, provider, "concurrency = 4", 'rule = "better"'), "--yes", "--quiet"),
        )
        at_work = 0
        for kill in range(kills):
            job = cli_world.start(*command, **env)
            await asked_for_more(provider, kill % 2, job)  # every other one is at work, however slow this machine is
            await asyncio.sleep(chance.uniform(0.0, 0.3 if kill % 2 else 0.9))
            at_work += job.poll() is None
            job.signal(signal.SIGKILL)
            await job.wait()
            if (name := cli_world.begun("sweep")) is not None:
                command = ("bench", "resume", name, "--quiet")
        done = await cli_world.run(*command, **env)
    assert done.code == 0, done.stderr
    assert at_work >= kills // 2
    name = cli_world.begun("sweep")
    assert name is not None
    store = SweepStore(cli_world.results / name)
    wanted = [f"toy-{number:04}" for number in range(1, tasks + 1)]
    for (_, run), status, turns in zip(store.runs(), (Status.UNRESOLVED, Status.RESOLVED), (3, 4), strict=True):
        results = list(run.results())
        assert [result.task_id for result in results] == wanted
        assert {result.status for result in results} == {status}
        assert {result.attempts[-1].cause for result in results} == {Cause.ANSWERED}
        paid = Counter(
            (recording.parent.parent.name, sum(message["role"] == "assistant" for message in recorded.messages))
            for recording in run.folder.glob("logs/*/attempt-*/cassette.jsonl")
            for recorded in (load_recording(recording).exchanges if recording.stat().st_size else ())
            if not recorded.exchange.paid and recorded.exchange.response.cut is None
        )
        assert paid == dict.fromkeys(((task, turn) for task in wanted for turn in range(turns)), 1)
        usages = [usage for result in results for usage in result.usage]
        # What was under way at a kill is in the cost as an estimate.
        known = sum(usage.cost_usd or 0 for usage in usages) - estimated_cost(usages)
        assert known == pytest.approx(len(paid) * ANSWER_USD)
    # What was under way at a kill may have been asked for again; nothing else.
    assert provider.asked.total() - tasks * (3 + 4) <= kills * 4
    assert "max_turns=4 meets the rule (better) against max_turns=3." in done.stdout
    assert cli_world.leftovers() == []


async def test_a_bad_file_is_told_all_that_is_wrong_with_it(cli_world: CliWorld) -> None:
    (cli_world.folder / "bad.toml").write_text('benchmark = "toy"\nlimit = -1\n[grid]\nmode = ["h3"]\n')
    done = await cli_world.run("bench", "sweep", "bad.toml")
    assert (done.code, done.stderr.splitlines()) == (
        2,
        [
            "  limit: must be a whole number from 0 to 1,000,000, not -1",
            "  grid.mode[0]: must be one of baseline, h2, not 'h3'",
            "proctor: bad.toml: the sweep has 2 problems",
        ],
    )
    (cli_world.folder / "bad.toml").write_text(
        'benchmark = "toy"\n[[run]]\nname = "a"\n[[run]]\nname = "b"\nagent = "clod"\n'
    )
    done = await cli_world.run("bench", "sweep", "bad.toml")
    assert done.code == 2
    assert done.stderr.splitlines()[0].startswith("  a: the agent claude_code needs a model;")
    assert done.stderr.splitlines()[1].startswith("  b: there is no agent 'clod'")
    assert done.stderr.splitlines()[2].startswith("proctor: 2 of 2 configurations cannot be run")
    assert list(cli_world.results.iterdir()) == []
