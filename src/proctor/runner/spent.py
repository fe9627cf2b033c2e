"""What earlier sittings of a run have spent, read back from what they left."""

import asyncio
from pathlib import Path
from typing import Final

from proctor.core.errors import InvalidData
from proctor.core.result import ModelUsage
from proctor.core.run import RunConfig
from proctor.gateway import Prices, read_cassette
from proctor.gateway.meter import Meter, Outcome
from proctor.results import RunStore, read_journal
from proctor.results.store import total_cost

CASSETTE: Final = "cassette.jsonl"


async def spent_so_far(store: RunStore, config: RunConfig) -> float:
    """What the journal says, and for attempts that never came to their end, what their cassettes say."""
    if config.budget.run_usd is None:
        return 0.0
    return await asyncio.to_thread(_spent, store)


def _spent(store: RunStore) -> float:
    total = 0.0
    begun: set[tuple[str, int, int]] = set()
    for entry in read_journal(store.journal):
        attempt = (entry.task_id, entry.sample, entry.attempt)
        if entry.stage == "prepared":
            begun.add(attempt)
        elif entry.cost_usd is not None:
            total += entry.cost_usd
            begun.discard(attempt)
    for task_id, sample, number in begun:
        usage = cassette_usage(store.logs(task_id, sample) / f"attempt-{number}" / CASSETTE)
        total += total_cost(usage) or 0.0
    return total


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
