"""A run that is killed again and again, and goes on each time as if nothing had been."""

import asyncio
import random
import signal
from collections import Counter
from typing import Any, NamedTuple

import pytest

from claude_provider import ClaudeProvider
from cli_world import CliWorld, access, asked_for_more, toy_run
from proctor.core.causes import Cause, Status
from proctor.core.programs import find_claude
from proctor.core.record import read_record
from proctor.core.result import TaskResult, estimated_cost
from proctor.core.run import RunSummary
from proctor.environments import local_unavailable_reason
from proctor.gateway import load_recording
from proctor.results import RunStore
from slow_tests import scaled
from toy_provider import ANSWER_USD, MODEL, ServedTurn, ToyProvider, serving, toy_provider


class Moment(NamedTuple):
    """When to kill: after so many more requests to the provider, and so many seconds."""

    requests: int
    seconds: float


async def killed_and_resumed(
    cli_world: CliWorld, provider: ToyProvider, command: tuple[object, ...], *, moments: list[Moment], **env: Any
) -> tuple[str, int]:
    """Start a run, kill it at so many moments, resume it each time, and once more to its end.

    What it is called, and how often it was at work when it was killed.
    """
    env = {**access(provider), **env}
    at_work = 0
    for moment in moments:
        job = cli_world.start(*command, **env)
        await asked_for_more(provider, moment.requests, job)
        await asyncio.sleep(moment.seconds)
        at_work += job.poll() is None
        job.signal(signal.SIGKILL)
        await job.wait()
        if (name := cli_world.begun()) is not None:
            command = ("bench", "resume", name, "--quiet")
    last = await cli_world.run(*command, **env)
    assert last.code == 0, last.stderr
    name = cli_world.begun()
    assert name is not None
    return name, at_work


def check(cli_world: CliWorld, provider: ToyProvider, name: str, tasks: list[str], *, repeats: int) -> list[TaskResult]:
    """One result per task, one payment per answer, every attempt in the ledger, nothing left over."""
    store = cli_world.store(name)
    results = list(store.results())
    assert [result.task_id for result in results] == tasks
    assert {(result.status, result.cause) for result in results} == {(Status.RESOLVED, Cause.SOLVED)}

    wanted = {ServedTurn(task, turn) for task in tasks for turn in range(provider.turns)}
    assert answers_recorded(store) == dict.fromkeys(wanted, 1), "an answer that was recorded was asked for again"
    assert all(provider.served[asked] >= 1 for asked in wanted)
    # What was under way at a kill may have been asked for again; nothing else.
    assert provider.asked.total() - len(wanted) <= repeats
    check_ledger(store, provider, results, answers=len(wanted))

    for result in results:
        assert [attempt.number for attempt in result.attempts] == list(range(1, len(result.attempts) + 1))
        # An attempt that was killed between its answer's file and its line in the journal is made again, for nothing.
        assert {attempt.cause for attempt in result.attempts[:-1]} <= {Cause.INTERRUPTED, Cause.ANSWERED}
        assert result.attempts[-1].cause is Cause.ANSWERED
        assert all((store.folder / attempt.logs).is_dir() for attempt in result.attempts)
        assert all(attempt.started_at <= attempt.ended_at for attempt in result.attempts)
    assert cli_world.leftovers() == []
    return results


def check_ledger(store: RunStore, provider: ToyProvider, results: list[TaskResult], *, answers: int) -> None:
    """What was recorded is known to the cent; what was under way at a kill is an estimate, and none too low."""
    usages = [usage for result in results for usage in result.usage]
    cost, estimated = sum(usage.cost_usd or 0 for usage in usages), estimated_cost(usages)
    assert cost - estimated == pytest.approx(answers * ANSWER_USD)
    # The provider's books, where all that has arrived is charged in full.
    assert cost >= provider.asked.total() * ANSWER_USD - 1e-9
    assert sum(usage.requests - usage.estimated_requests for usage in usages) == answers
    summary = read_record(store.folder / "summary.json", RunSummary)
    assert summary.cost_usd == pytest.approx(cost)
    assert summary.estimated_usd == pytest.approx(estimated)
    assert summary.unfinished_usd == 0
    assert sum(usage.estimated_requests for usage in usages) == requests_lost(store)


def requests_lost(store: RunStore) -> int:
    """How many requests have left a mark and no response, in all recordings."""
    recordings = [path for path in store.folder.glob("logs/*/attempt-*/cassette.jsonl") if path.stat().st_size]
    return sum(len(load_recording(recording).unanswered) for recording in recordings)


def answers_recorded(store: RunStore) -> Counter[ServedTurn]:
    """How often each answer was paid for, as far as anything was written down."""
    counted: Counter[ServedTurn] = Counter()
    for recording in store.folder.glob("logs/*/attempt-*/cassette.jsonl"):
        for recorded in load_recording(recording).exchanges if recording.stat().st_size else ():
            if not recorded.exchange.paid and recorded.exchange.response.cut is None:
                turn = sum(message["role"] == "assistant" for message in recorded.messages)
                counted[ServedTurn(recording.parent.parent.name, turn)] += 1
    return counted


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("pairs", scaled(7, 20))
async def test_a_run_killed_at_many_moments_has_one_result_per_task_and_pays_once_per_answer(
    cli_world: CliWorld, pairs: int
) -> None:
    chance = random.Random(20260217)
    # Half of them at any time from the start on, half when it is at work, however slow this machine is.
    moments = [
        moment
        for _ in range(pairs)
        for moment in (Moment(0, chance.uniform(0.0, 0.7)), Moment(1, chance.uniform(0.0, 0.3)))
    ]
    async with toy_provider(turns=5, delay=0.1) as provider:
        command = toy_run(provider, "--concurrency", 4, "--quiet")
        name, at_work = await killed_and_resumed(cli_world, provider, command, moments=moments, TOY_TASKS=3 * pairs)
    assert at_work >= 1.5 * pairs
    tasks = [f"toy-{number:04}" for number in range(1, 3 * pairs + 1)]
    results = check(cli_world, provider, name, tasks, repeats=len(moments) * 4)
    assert sum(len(result.attempts) for result in results) > len(tasks)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("kills", scaled(2, 6))
async def test_claude_code_in_bubblewrap_survives_the_same(cli_world: CliWorld, kills: int) -> None:
    if find_claude() is None:
        pytest.skip("Claude Code is not installed")
    if (why := await local_unavailable_reason()) is not None:
        pytest.skip(why)
    tasks = [
        *("py_cache_0001", "py_duration_0002", "py_ratelimit_0007"),
        *("py_spans_0005", "py_tally_0004", "py_workdays_0003"),
    ]
    tasks = tasks[:kills]
    chosen = [word for task in tasks for word in ("--task", task)]
    chance = random.Random(20260218)
    moments = [Moment(chance.randint(1, 2), chance.uniform(0.0, 0.4)) for _ in range(kills)]
    async with serving(ClaudeProvider("core", tuple(tasks), delay=0.3)) as provider:
        command = ("bench", "run", "core", "--model", MODEL, *chosen, "--concurrency", 3, "--quiet", "--controls", 0)
        name, at_work = await killed_and_resumed(cli_world, provider, command, moments=moments)
    assert at_work == len(moments)
    results = check(cli_world, provider, name, tasks, repeats=len(moments) * 3)
    assert sum(len(result.attempts) for result in results) > len(tasks)
