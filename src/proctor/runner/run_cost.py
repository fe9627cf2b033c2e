"""The cost of a run, from its journal and the recordings of attempts that were cut short."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from proctor.core.errors import InvalidData
from proctor.core.record import Record
from proctor.core.result import ModelUsage
from proctor.core.run import JournalEntry
from proctor.gateway import Prices, load_recording
from proctor.gateway.meter import ExchangeOutcome, Meter
from proctor.results import RunStore, usage_cost
from proctor.results.attempt_record import RECORDING_FILE

_CHARGED_STAGES: Final = frozenset({"answered", "collected"})


class RunCost(Record):
    """The cost of a run so far, as far as prices are known.

    Attributes:
        known_usd: all of it.
        unfinished_usd: the part of attempts whose trials are not recorded yet; None: not known.
    """

    known_usd: float = 0.0
    unfinished_usd: float | None = 0.0


def read_run_cost(store: RunStore, journal: Iterable[JournalEntry]) -> RunCost:
    """The sum of what the journal has; for attempts that did not end, what their recordings have."""
    costs: dict[tuple[str, int, int], float | None] = {}
    started: set[tuple[str, int, int]] = set()
    recorded: set[tuple[str, int]] = set()
    for entry in journal:
        attempt = (entry.task_id, entry.trial, entry.attempt)
        if entry.stage == "prepared":
            started.add(attempt)
            recorded.discard(attempt[:2])
        elif entry.stage in _CHARGED_STAGES:
            started.discard(attempt)
            costs[attempt] = entry.cost_usd
        elif entry.stage == "recorded":
            recorded.add(attempt[:2])
    for attempt in started:
        costs[attempt] = usage_cost(recording_usage(store.logs(*attempt) / RECORDING_FILE))
    unfinished = [cost for attempt, cost in costs.items() if attempt[:2] not in recorded]
    known = [cost for cost in unfinished if cost is not None]
    return RunCost(
        known_usd=sum(cost for cost in costs.values() if cost is not None),
        unfinished_usd=sum(known) if len(known) == len(unfinished) else None,
    )


def recording_usage(recording: Path) -> tuple[ModelUsage, ...]:
    """The usage of an attempt that was cut short; nothing when it left no readable recording."""
    try:
        exchanges = [recorded.exchange for recorded in load_recording(recording).exchanges]
    except InvalidData:
        return ()
    meter = Meter(Prices.load())
    for exchange in exchanges:
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
