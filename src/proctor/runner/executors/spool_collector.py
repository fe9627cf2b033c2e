"""What a node still has of attempts whose end was never acknowledged: taken over when it joins."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from proctor.core.causes import Cause
from proctor.core.errors import InvalidData
from proctor.core.record import read_record, time_now, to_json
from proctor.core.result import ModelUsage, TaskResult, estimated_cost
from proctor.core.run import JournalEntry
from proctor.gateway import RunBudget
from proctor.results import usage_cost
from proctor.results.attempt_record import RECORDING_FILE, AttemptRecord, attempt_file
from proctor.results.journal import read_journal
from proctor.runner.executors.messages import SpoolEntry, run_key
from proctor.runner.executors.node_client import NodeClient
from proctor.runner.executors.recording_copy import RecordingCopy
from proctor.runner.executors.spool import file_digest
from proctor.runner.run_cost import recording_usage
from proctor.runner.state import RunSession
from proctor.runner.task_result import with_attempt_usage

_ENDED: Final = frozenset({"answered", "collected"})


async def collect_spool(
    node: NodeClient, runs: Sequence[RunSession], budget: RunBudget, wait_for_end: Callable[[str], Awaitable[None]]
) -> None:
    """Add to the run folder what a node recorded and the driver does not have, and book what it cost.

    `wait_for_end` waits for the end of an attempt that this session still works on, by its key: until then, what was in
    flight is not booked, and its recording may grow.

    Raises:
        NodeGone: the node does not answer.
    """
    by_key = {run_key(run.config): run for run in runs}
    for entry in await node.call("spooled"):
        run = by_key.get(entry.run)
        if run is not None:
            await wait_for_end(entry.key)
            await _collect(node, run, entry, budget)
            await node.call("discard", entry.key)


async def _collect(node: NodeClient, run: RunSession, entry: SpoolEntry, budget: RunBudget) -> None:
    logs = run.store.logs(entry.trial.task_id, entry.trial.number, entry.number)
    recording = logs / RECORDING_FILE
    size = recording.stat().st_size if recording.exists() else 0
    if entry.size < size or not logs.is_dir():
        return
    here = await asyncio.to_thread(file_digest, recording, size)
    if here != await node.call("spooled_digest", entry.key, size):
        return  # of another attempt, which had the same number in a run folder that was put back
    end = await asyncio.to_thread(_last_end, run, entry)
    if entry.size == size and (end is None or end.cause is not Cause.NODE_LOST):
        return
    prices = run.resources.prices
    booked = usage_cost(recording_usage(recording, prices)) if end is None else end.cost_usd
    copy = RecordingCopy(recording)
    try:
        while size < entry.size and (data := await node.call("read_spooled", entry.key, size)):
            copy.append(size, data)
            size += len(data)
        copy.end_line()
        await asyncio.to_thread(copy.sync)
    finally:
        copy.close()
    usage = recording_usage(recording, prices)
    # Compared also where nothing was added: a driver may have been killed after it had added all, and before this.
    if (cost := usage_cost(usage)) != booked:
        budget.correct((cost or 0.0) - (booked or 0.0))
        if end is not None:
            await _correct_records(run, entry, end, logs, usage)


def _last_end(run: RunSession, entry: SpoolEntry) -> JournalEntry | None:
    """What the journal says of an attempt's end; while it has not ended, its recording counts."""
    last = None
    with suppress(OSError):
        for line in read_journal(run.store.journal):
            if (line.task_id, line.trial, line.attempt) == (entry.trial.task_id, entry.trial.number, entry.number):
                last = line if line.stage in _ENDED else last
    return last


async def _correct_records(
    run: RunSession, entry: SpoolEntry, end: JournalEntry, logs: Path, usage: tuple[ModelUsage, ...]
) -> None:
    """Put what an attempt really cost into all that was written of it."""
    at = time_now()
    cost = {"cost_usd": usage_cost(usage), "estimated_usd": estimated_cost(usage)}
    files: dict[Path, bytes] = {}
    with suppress(InvalidData, OSError):
        record = read_record(attempt_file(logs), AttemptRecord)
        files[attempt_file(logs)] = to_json(msgspec.structs.replace(record, usage=usage))
    stored = run.store.result_file(entry.trial.task_id, entry.trial.number)
    with suppress(InvalidData, OSError):
        files[stored] = to_json(with_attempt_usage(read_record(stored, TaskResult), entry.number, usage))
    await run.journal.commit(msgspec.structs.replace(end, at=at, **cost), files=files)
