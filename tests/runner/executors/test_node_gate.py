"""The gate of a node: requests wait for the driver's acknowledgement."""

import asyncio
from pathlib import Path

import pytest

from proctor.gateway.backend import RecordingLost
from proctor.runner.executors.lease import NodeLease
from proctor.runner.executors.messages import MAX_CHUNK_BYTES, Progress
from proctor.runner.executors.node_gate import NodeGate, Outbox
from waiting import rounds


async def test_a_request_waits_until_the_driver_has_its_mark(tmp_path: Path) -> None:
    lease, outbox = NodeLease(60, lambda: None), Outbox()
    recording = tmp_path / "recording"
    recording.write_bytes(b"mark\n")
    gate = NodeGate(recording, outbox, lease)
    waiting = asyncio.create_task(gate.wait_for_copy(5))
    await outbox.wait()
    (sent,) = gate.unsent(0.5)
    assert (sent.offset, sent.data, sent.spent_usd) == (0, b"mark\n", 0.5)
    assert gate.unsent(0.5) == []
    gate.acknowledge(4)
    await rounds()
    assert not waiting.done()
    gate.acknowledge(5)
    await waiting
    lease.close()


async def test_without_a_lease_nothing_is_sent_even_if_it_was_acknowledged(tmp_path: Path) -> None:
    lease = NodeLease(0.01, lambda: None)
    gate = NodeGate(tmp_path / "recording", Outbox(), lease)
    gate.acknowledge(10)
    await asyncio.sleep(0.05)
    with pytest.raises(RecordingLost):
        await gate.wait_for_copy(10)
    lease.close()


async def test_an_attempt_that_is_ended_sends_nothing_any_more(tmp_path: Path) -> None:
    lease = NodeLease(60, lambda: None)
    gate = NodeGate(tmp_path / "recording", Outbox(), lease)
    waiting = asyncio.create_task(gate.wait_for_copy(10))
    await rounds()
    gate.close()
    with pytest.raises(RecordingLost):
        await waiting
    lease.close()


async def test_long_recordings_are_sent_in_pieces_and_messages_together(tmp_path: Path) -> None:
    lease, outbox = NodeLease(60, lambda: None), Outbox()
    recording = tmp_path / "recording"
    recording.write_bytes(b"x" * (MAX_CHUNK_BYTES + 7))
    gate = NodeGate(recording, outbox, lease)
    gate.written(MAX_CHUNK_BYTES + 7)
    assert [len(part.data) for part in gate.unsent(0.0)] == [MAX_CHUNK_BYTES, 7]
    outbox.put(Progress("one"))
    outbox.put(Progress("two"))
    assert await outbox.wait() == [Progress("one"), Progress("two")]
    lease.close()
