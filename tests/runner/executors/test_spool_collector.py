"""What a node still has when it comes back: added to the run folder, and booked once."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from toy_benchmark import Toy

from proctor.agents import agent_class
from proctor.core.causes import Cause
from proctor.core.run import JournalEntry, Trial
from proctor.gateway import RunBudget, load_recording
from proctor.results import Journal, usage_cost
from proctor.results.attempt_record import RECORDING_FILE
from proctor.results.journal import read_journal
from proctor.runner.executors.messages import run_key
from proctor.runner.executors.spool import Spool
from proctor.runner.executors.spool_collector import collect_spool
from proctor.runner.preflight import make_provider
from proctor.runner.request import list_trials
from proctor.runner.run_cost import attempt_costs, known_cost, recording_usage
from proctor.runner.run_resources import RunResources
from proctor.runner.state import RunSession, Session
from sessions import Toys
from toy_provider import ANSWER_USD, toy_provider

TRIAL = Trial(task_id="toy-0001", number=1)


class NodeWithSpool:
    """A node of which only the spool is called."""

    def __init__(self, spool: Spool) -> None:
        self._methods: dict[str, Callable[..., Any]] = {
            "spooled": spool.entries,
            "spooled_digest": spool.digest,
            "read_spooled": spool.read,
            "discard": spool.remove,
        }

    async def call(self, method: str, *arguments: Any) -> Any:
        await asyncio.sleep(0)
        return self._methods[method](*arguments)


class LostAttempt:
    """An attempt whose last answer reached its node and not the driver: booked with an upper estimate."""

    def __init__(self, run: RunSession, spool: Spool) -> None:
        self.run, self.spool = run, spool
        self.recording = run.store.logs(TRIAL.task_id, TRIAL.number, 1) / RECORDING_FILE
        whole = self.recording.read_bytes()
        spooled = spool.create(run_key(run.config), TRIAL, 1)
        (spooled / RECORDING_FILE).write_bytes(whole)
        spool.close()
        lines = whole.splitlines(keepends=True)
        for count in range(len(lines) - 1, 0, -1):
            self.recording.write_bytes(b"".join(lines[:count]))
            if load_recording(self.recording).unanswered:
                break
        self.estimated_usd = usage_cost(recording_usage(self.recording)) or 0.0
        self.usd = 3 * ANSWER_USD

    async def end(self) -> None:
        """As an attempt ends whose node was lost."""
        lost = JournalEntry(
            at="", task_id=TRIAL.task_id, trial=1, attempt=1, stage="answered", cause=Cause.NODE_LOST,
            cost_usd=self.estimated_usd,
        )  # fmt: skip
        await self.run.journal.commit(lost)

    async def collect(self, budget: RunBudget, over: asyncio.Event | None = None) -> None:
        async def wait_for_end(_: str) -> None:
            if over is not None:
                await over.wait()

        await collect_spool(NodeWithSpool(self.spool), [self.run], budget, wait_for_end)  # type: ignore[arg-type]

    @property
    def ledger_usd(self) -> float:
        return known_cost(attempt_costs(self.run.store, read_journal(self.run.store.journal)))


@pytest.fixture
async def lost(toys: Toys, tmp_path: Path) -> AsyncIterator[LostAttempt]:
    toys.benchmark = Toy(1)
    async with toy_provider() as provider:
        await toys.run(provider)
    begun = [line for line in read_journal(toys.store.journal) if line.stage == "prepared"]
    toys.store.journal.unlink()
    config = toys.store.config()
    environments = make_provider(config)
    resources = RunResources(config, toys.benchmark, environments, agent_class(config.agent), None)
    run = RunSession(Session(), resources, toys.store, list_trials(config))
    async with Journal(toys.store.journal) as run.journal:
        await run.journal.commit(*begun)
        yield LostAttempt(run, Spool(tmp_path / "spool"))
    await environments.close()


async def test_what_a_node_kept_of_an_ended_attempt_corrects_what_was_booked(lost: LostAttempt) -> None:
    await lost.end()
    assert lost.estimated_usd > lost.usd
    budget = RunBudget(10.0, spent_usd=lost.estimated_usd)
    await lost.collect(budget)
    assert budget.spent_usd == pytest.approx(lost.usd)
    assert lost.ledger_usd == pytest.approx(lost.usd)
    assert lost.spool.entries() == []


async def test_an_attempt_that_is_still_worked_on_is_booked_once(lost: LostAttempt) -> None:
    # Its node is back before its lease has ended, and what was in flight is not charged yet.
    budget, over = RunBudget(10.0, spent_usd=2 * ANSWER_USD), asyncio.Event()
    collecting = asyncio.create_task(lost.collect(budget, over))
    await asyncio.sleep(0.2)
    budget.correct((usage_cost(recording_usage(lost.recording)) or 0.0) - 2 * ANSWER_USD)
    await lost.end()
    over.set()
    await collecting
    assert budget.spent_usd == pytest.approx(lost.usd)
    assert lost.ledger_usd == pytest.approx(lost.usd)


async def test_a_driver_that_was_killed_as_it_took_over_a_recording_corrects_the_cost_when_it_is_resumed(
    lost: LostAttempt,
) -> None:
    await lost.end()
    (entry,) = lost.spool.entries()
    lost.recording.write_bytes(lost.spool.read(entry.key, 0))
    budget = RunBudget(10.0, spent_usd=lost.estimated_usd)
    await lost.collect(budget)
    assert budget.spent_usd == pytest.approx(lost.usd)
    assert lost.ledger_usd == pytest.approx(lost.usd)
