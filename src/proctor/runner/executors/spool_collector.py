"""What a node still has of attempts whose end was never acknowledged: taken over when it joins."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

from proctor.core.causes import Cause
from proctor.core.result import estimated_cost
from proctor.core.run import JournalEntry
from proctor.gateway import RunBudget
from proctor.results import usage_cost
from proctor.results.attempt_record import RECORDING_FILE
from proctor.results.journal import read_journal
from proctor.runner.executors.messages import SpoolEntry, run_key
from proctor.runner.executors.node_client import NodeClient
from proctor.runner.executors.recording_copy import RecordingCopy
from proctor.runner.executors.spool import file_digest
from proctor.runner.run_cost import recording_usage
from proctor.runner.state import RunSession

_ENDED: Final = frozenset({"answered", "collected"})


async def collect_spool(node: NodeClient, runs: Sequence[RunSession], budget: RunBudget) -> None:
    """Add to the run folder what a node recorded and the driver does not have, and book what it cost.

    Raises:
        NodeGone: the node does not answer.
    """
    by_key = {run_key(run.config): run for run in runs}
    for entry in await node.call("spooled"):
        run = by_key.get(entry.run)
        if run is not None:
            await _collect(node, run, entry, budget)
            await node.call("discard", entry.key)


async def _collect(node: NodeClient, run: RunSession, entry: SpoolEntry, budget: RunBudget) -> None:
    logs = run.store.logs(entry.trial.task_id, entry.trial.number, entry.number)
    recording = logs / RECORDING_FILE
    size = recording.stat().st_size if recording.exists() else 0
    if entry.size <= size or not logs.is_dir():
        return
    here = await asyncio.to_thread(file_digest, recording, size)
    if here != await node.call("spooled_digest", entry.key, size):
        return  # of another attempt, which had the same number in a run folder that was put back
    before = usage_cost(recording_usage(recording, run.prices)) or 0.0
    copy = RecordingCopy(recording)
    try:
        while copy.size < entry.size:
            data = await node.call("read_spooled", entry.key, copy.size)
            if not data:
                break
            copy.append(copy.size, data)
        copy.end_line()
        await asyncio.to_thread(copy.sync)
    finally:
        copy.close()
    usage = recording_usage(recording, run.prices)
    budget.correct((usage_cost(usage) or 0.0) - before)
    last = None
    with suppress(OSError):
        for line in read_journal(run.store.journal):
            if (line.task_id, line.trial, line.attempt) == (entry.trial.task_id, entry.trial.number, entry.number):
                last = line
    # Of an attempt that has not ended in the journal, the recording is what counts.
    if last is not None and last.stage in _ENDED:
        corrected = JournalEntry(
            at=datetime.now(UTC).isoformat(timespec="milliseconds"),
            task_id=last.task_id,
            trial=last.trial,
            attempt=last.attempt,
            stage=last.stage,
            cause=last.cause or Cause.NODE_LOST,
            cost_usd=usage_cost(usage),
            estimated_usd=estimated_cost(usage),
        )
        await run.journal.commit(corrected)
