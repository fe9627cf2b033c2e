"""What a run has spent, read back from what it left: the journal, and the recordings of attempts cut short."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from proctor.core.errors import InvalidData
from proctor.core.record import Record
from proctor.core.result import ModelUsage
from proctor.core.run import JournalEntry
from proctor.gateway import Prices, read_cassette
from proctor.gateway.meter import Meter, Outcome
from proctor.results import RunStore, total_cost
from proctor.results.answers import CASSETTE

_PAID: Final = frozenset({"answered", "collected"})


class Spending(Record):
    """What a run has paid, as far as prices are known.

    Attributes:
        known_usd: all of it.
        unfinished_usd: the part that went into attempts whose answers are not recorded yet; None: not known.
    """

    known_usd: float = 0.0
    unfinished_usd: float | None = 0.0


def spending(store: RunStore, journal: Iterable[JournalEntry]) -> Spending:
    """Add up what the journal says; for attempts that never came to their end, what their recordings say."""
    costs: dict[tuple[str, int, int], float | None] = {}
    begun: set[tuple[str, int, int]] = set()
    recorded: set[tuple[str, int]] = set()
    for entry in journal:
        attempt = (entry.task_id, entry.sample, entry.attempt)
        if entry.stage == "prepared":
            begun.add(attempt)
            recorded.discard(attempt[:2])
        elif entry.stage in _PAID:
            begun.discard(attempt)
            costs[attempt] = entry.cost_usd
        elif entry.stage == "recorded":
            recorded.add(attempt[:2])
    for attempt in begun:
        costs[attempt] = total_cost(cassette_usage(store.logs(*attempt) / CASSETTE))
    unfinished = [cost for attempt, cost in costs.items() if attempt[:2] not in recorded]
    known = [cost for cost in unfinished if cost is not None]
    return Spending(
        known_usd=sum(cost for cost in costs.values() if cost is not None),
        unfinished_usd=sum(known) if len(known) == len(unfinished) else None,
    )


def cassette_usage(cassette: Path) -> tuple[ModelUsage, ...]:
    """What an attempt that was cut short had paid for by then; nothing when it left no readable cassette."""
    try:
        exchanges = [recorded.exchange for recorded in read_cassette(cassette).exchanges]
    except InvalidData:
        return ()
    meter = Meter(Prices.load())
    for exchange in exchanges:
        meter.add(
            Outcome(
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
