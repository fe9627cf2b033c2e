"""The cost of a run, from its journal and the recordings of attempts that were cut short."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from proctor.core.errors import InvalidData
from proctor.core.record import Record
from proctor.core.result import ModelUsage, estimated_cost
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
        unfinished_estimated_usd: the part of that which is an upper estimate.
    """

    known_usd: float = 0.0
    unfinished_usd: float | None = 0.0
    unfinished_estimated_usd: float = 0.0


def read_run_cost(store: RunStore, journal: Iterable[JournalEntry], prices: Prices | None = None) -> RunCost:
    """The sum of what the journal has; for attempts that did not end, what their recordings have.

    Args:
        store: the run.
        journal: its entries.
        prices: what tokens cost; the built-in table by default.
    """
    costs: dict[tuple[str, int, int], float | None] = {}
    estimates: dict[tuple[str, int, int], float] = {}
    started: set[tuple[str, int, int]] = set()
    recorded: set[tuple[str, int]] = set()
    for entry in journal:
        attempt = (entry.task_id, entry.trial, entry.attempt)
        if entry.stage == "prepared":
            started.add(attempt)
            recorded.discard(attempt[:2])
        elif entry.stage in _CHARGED_STAGES:
            started.discard(attempt)
            costs[attempt], estimates[attempt] = entry.cost_usd, entry.estimated_usd
        elif entry.stage == "recorded":
            recorded.add(attempt[:2])
    for attempt in started:
        usage = recording_usage(store.logs(*attempt) / RECORDING_FILE, prices)
        costs[attempt], estimates[attempt] = usage_cost(usage), estimated_cost(usage)
    unfinished = [cost for attempt, cost in costs.items() if attempt[:2] not in recorded]
    known = [cost for cost in unfinished if cost is not None]
    return RunCost(
        known_usd=sum(cost for cost in costs.values() if cost is not None),
        unfinished_usd=sum(known) if len(known) == len(unfinished) else None,
        unfinished_estimated_usd=sum(
            estimate for attempt, estimate in estimates.items() if attempt[:2] not in recorded
        ),
    )


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
