"""The cost of a run, from its journal and the recordings of attempts that were cut short."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from proctor.core.errors import InvalidData
from proctor.core.result import Attempt, ModelUsage, estimated_cost
from proctor.core.run import JournalEntry, Trial
from proctor.gateway import Prices, load_recording
from proctor.gateway.meter import ExchangeOutcome, Meter
from proctor.results import RunStore, usage_cost
from proctor.results.attempt_record import RECORDING_FILE
from proctor.runner.resume import read_trial_states

_CHARGED_STAGES: Final = frozenset({"answered", "collected"})


def attempt_costs(store: RunStore, journal: Iterable[JournalEntry], prices: Prices | None = None) -> list[JournalEntry]:
    """What each attempt has cost, as its last entry says; for one that did not end, as its recording does.

    Args:
        store: the run.
        journal: its entries.
        prices: what tokens cost; the built-in table by default.
    """
    last: dict[tuple[str, int, int], JournalEntry] = {}
    for entry in journal:
        if entry.stage == "prepared" or entry.stage in _CHARGED_STAGES:
            last[entry.task_id, entry.trial, entry.attempt] = entry
    return [
        _with_recorded_cost(entry, store.logs(*attempt) / RECORDING_FILE, prices)
        if entry.stage == "prepared"
        else entry
        for attempt, entry in last.items()
    ]


def unfinished_costs(
    store: RunStore, journal: Sequence[JournalEntry], prices: Prices | None = None
) -> list[JournalEntry]:
    """Likewise of the attempts whose trials have no result yet."""
    recorded = {trial for trial, state in read_trial_states(journal).items() if state.recorded}
    costs = attempt_costs(store, journal, prices)
    return [cost for cost in costs if Trial(task_id=cost.task_id, number=cost.trial) not in recorded]


def attempts_cost(attempts: Iterable[Attempt]) -> float:
    """What these attempts have cost, as far as it is known."""
    return sum(usage_cost(attempt.usage) or 0.0 for attempt in attempts)


def known_cost(costs: Iterable[JournalEntry]) -> float:
    """The sum of what is known."""
    return sum(entry.cost_usd or 0.0 for entry in costs)


def _with_recorded_cost(entry: JournalEntry, recording: Path, prices: Prices | None) -> JournalEntry:
    usage = recording_usage(recording, prices)
    return msgspec.structs.replace(entry, cost_usd=usage_cost(usage), estimated_usd=estimated_cost(usage))


def recording_usage(recording: Path, prices: Prices | None = None) -> tuple[ModelUsage, ...]:
    """The usage of an attempt that was cut short; nothing when it left no readable recording.

    Requests that were under way when it was killed count with what their marks say.
    """
    try:
        loaded = load_recording(recording)
    except InvalidData:
        return ()
    meter = Meter(prices or Prices.load())
    for mark in loaded.unanswered:
        meter.add(
            ExchangeOutcome(
                conversation=mark.conversation,
                role=mark.role,
                model=mark.usage[0].model,
                status=None,
                agent=mark.agent,
                usages=mark.usage,
                cost_usd=mark.cost_usd,
                cut=True,
            )
        )
    for exchange in (recorded.exchange for recorded in loaded.exchanges):
        meter.add(
            ExchangeOutcome(
                conversation=exchange.conversation,
                role=exchange.role,
                model=exchange.request.model,
                status=exchange.response.status,
                agent=exchange.agent,
                usages=exchange.usage,
                cost_usd=exchange.cost_usd,
            )
        )
    return meter.snapshot().models
