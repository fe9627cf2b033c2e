"""One attempt, or one grading, on a node of a cluster: what the node sends is stored, and acknowledged."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from proctor.core.causes import Cause
from proctor.core.errors import InfrastructureError, UsageError
from proctor.core.evaluation import TaskEvaluation
from proctor.core.record import from_json, time_now, to_json
from proctor.core.result import AgentMetrics
from proctor.gateway.budget import BudgetReservation
from proctor.gateway.sync_queue import SyncQueue
from proctor.results import usage_cost
from proctor.results.attempt_record import ATTEMPT_FILE, RECORDING_FILE, AttemptRecord
from proctor.runner.attempt import AttemptOutput, AttemptSpec
from proctor.runner.executors.messages import (
    AttemptEnded,
    DigestFound,
    FileBytes,
    GradingEnded,
    HealthFound,
    ImageUsed,
    ModelResponded,
    NodeAttemptJob,
    NodeEvaluationJob,
    NodeGradingJob,
    NodeMessage,
    NodeMessages,
    Progress,
    RecordingBytes,
    StageFailed,
    StopRun,
    run_key,
)
from proctor.runner.executors.node_client import NodeClient
from proctor.runner.executors.ray_cluster import NodeGone
from proctor.runner.executors.recording_copy import RecordingCopy
from proctor.runner.executors.spool import file_digest
from proctor.runner.models import replayed_recording
from proctor.runner.run_cost import recording_usage
from proctor.runner.state import RunSession

# Whether a node's image is the one that others have.
ImageCheck = Callable[[NodeClient, ImageUsed], bool]


class ClusterAttempt:
    """An attempt on one node.

    Attributes:
        key: its name among all attempts, once it is made.
        over: is set when it is stored, or has failed.
    """

    def __init__(
        self,
        run: RunSession,
        node: NodeClient,
        reservation: BudgetReservation,
        *,
        syncs: SyncQueue,
        check_image: ImageCheck,
    ) -> None:
        self._run = run
        self._client = node
        self._reservation = reservation
        self._syncs = syncs
        self._check_image = check_image
        self._charged_usd = 0.0
        self.key = ""
        self.over = asyncio.Event()
        self._is_spool_kept = False

    async def make(self, spec: AttemptSpec) -> AttemptOutput:
        """Have the node make the attempt. A node that is lost gives an attempt that ended for this cause."""
        client, started_at, clock = self._client, time_now(), time.monotonic()
        recording = spec.logs / RECORDING_FILE
        job = await asyncio.to_thread(self._job, spec)
        self.key = job.key
        spec.progress(f"on {client.name}")
        copy = RecordingCopy(recording)
        receiving = asyncio.create_task(self._receive(job, spec, copy))
        lost = asyncio.create_task(client.lost.wait())
        try:
            await asyncio.wait({receiving, lost}, return_when=asyncio.FIRST_COMPLETED)
            if receiving.done():
                try:
                    return receiving.result()
                except NodeGone as gone:
                    client.lose(str(gone))
            receiving.cancel()
            self._is_spool_kept = True  # for when the node comes back
            spec.progress(f"{client.name} is lost: waiting for the end of its lease")
            await client.wait_for_lease_end()
            await asyncio.wait({receiving})
            copy.end_line()
        except BaseException:
            if not client.lost.is_set():
                client.send("cancel", job.key)
            raise
        finally:
            lost.cancel()
            receiving.cancel()
            client.finish(job.key)
            await self._syncs.run(copy.close)
        detail = f"node {client.name} was lost: {client.lost_reason}"
        return self._ended_early(spec, Cause.NODE_LOST, detail, started_at, time.monotonic() - clock)

    def discard_spool(self) -> None:
        """The attempt is stored: the node need not keep it."""
        if self.key and not self._is_spool_kept:
            self._client.send("discard", self.key)

    def _job(self, spec: AttemptSpec) -> NodeAttemptJob:
        model = self._run.resources.model
        replayed = None
        if model is not None and model.kind == "replay":
            replayed = replayed_recording(model, spec.trial).read_bytes()
        return NodeAttemptJob(
            run=run_key(self._run.config),
            trial=spec.trial,
            number=spec.number,
            spent_usd=spec.spent_usd,
            earlier_recordings=tuple(path.read_bytes() for path in spec.earlier_recordings if path.exists()),
            replayed=replayed,
        )

    async def _receive(self, job: NodeAttemptJob, spec: AttemptSpec, copy: RecordingCopy) -> AttemptOutput:
        started_at, clock = time_now(), time.monotonic()
        async for messages in self._client.stream("attempt", job):
            await self._store_recording(job, copy, messages)
            for message in messages:
                self._report(message, spec)
                match message:
                    case ImageUsed():
                        if not self._check_image(self._client, message):
                            await self._client.call("cancel", job.key)
                    case FileBytes():
                        _write(spec.logs, message)
                    case StageFailed() if message.usage:
                        raise UsageError(message.detail)
                    case StageFailed():
                        cause = self._node_cause(message.cause, message.detail) or message.cause
                        return self._ended_early(spec, cause, message.detail, started_at, time.monotonic() - clock)
                    case AttemptEnded():
                        size, digest = message.recording_size, message.recording_digest
                        if await asyncio.to_thread(file_digest, spec.logs / RECORDING_FILE, size) != digest:
                            raise NodeGone("what it sent of a recording is not what it has")
                        return self._output(message)
        raise NodeGone("the node disconnected without a result")

    def _report(self, message: NodeMessage, spec: AttemptSpec) -> None:
        match message:
            case Progress():
                spec.progress(f"{self._client.name}: {message.message}")
            case ModelResponded():
                spec.model_responded(message.event)
            case StopRun() if message.cause is not Cause.DISK_FULL:
                spec.stop_run(message.cause, message.detail)
            case _:
                pass

    async def _store_recording(self, job: NodeAttemptJob, copy: RecordingCopy, messages: NodeMessages) -> None:
        """Store and sync what was recorded, charge what was spent, and only then acknowledge it."""
        parts = [message for message in messages if isinstance(message, RecordingBytes)]
        if not parts:
            return
        try:
            for part in parts:
                copy.append(part.offset, part.data)
        except ValueError as error:
            raise NodeGone(str(error)) from error
        await self._syncs.sync(copy)
        self._charge(parts[-1].spent_usd)
        self._client.acknowledge(job.key, copy.size)

    def _charge(self, spent_usd: float) -> None:
        if spent_usd > self._charged_usd:
            self._reservation.charge(spent_usd - self._charged_usd)
            self._charged_usd = spent_usd

    def _node_cause(self, cause: Cause | None, detail: str) -> Cause | None:
        """A full disk is one node's: it gets no further work, and the attempt is repeated elsewhere."""
        if cause is not Cause.DISK_FULL:
            return cause
        self._client.drain_full_disk(detail)
        return Cause.NODE_LOST

    def _output(self, ended: AttemptEnded) -> AttemptOutput:
        info = self._client.info
        stamp: dict[str, Any] = {"node": self._client.name, "machine": None if info is None else info.machine}
        cause = self._node_cause(ended.record.cause, ended.record.detail)
        record = msgspec.structs.replace(ended.record, cause=cause, **stamp)
        stored = from_json(ended.files[ATTEMPT_FILE], AttemptRecord)
        stored = msgspec.structs.replace(stored, cause=cause, **stamp)
        return AttemptOutput(record, {**ended.files, ATTEMPT_FILE: to_json(stored)})

    def _ended_early(
        self, spec: AttemptSpec, cause: Cause, detail: str, started_at: str, seconds: float
    ) -> AttemptOutput:
        """An attempt of which no more is known than its recording has; what was in flight counts as spent."""
        usage = recording_usage(spec.logs / RECORDING_FILE, self._run.resources.prices)
        self._charge(usage_cost(usage) or 0.0)
        info = self._client.info
        record = AttemptRecord(
            number=spec.number,
            started_at=started_at,
            ended_at=time_now(),
            cause=cause,
            detail=detail,
            seconds=round(seconds, 3),
            usage=usage,
            metrics=AgentMetrics(agents=0),
            node=self._client.name,
            machine=None if info is None else info.machine,
        )
        return AttemptOutput(record, {ATTEMPT_FILE: to_json(record)})


async def receive_grading(
    client: NodeClient, job: NodeGradingJob, folder: Path, check_image: ImageCheck
) -> TaskEvaluation:
    """Have a node grade a submission; its evidence is stored in `folder`.

    Raises:
        NodeGone: the node is lost.
        InfrastructureError: it could not be graded there.
    """
    ended = await receive_work(client, "grade", job, folder, check_image)
    if not isinstance(ended, GradingEnded):
        raise NodeGone("the node returned no grading")
    return ended.evaluation


async def receive_work(
    client: NodeClient,
    method: str,
    job: NodeGradingJob | NodeEvaluationJob,
    folder: Path,
    check_image: ImageCheck,
) -> GradingEnded | HealthFound | DigestFound:
    """Have a node grade, validate or look at something; its evidence is stored in `folder`.

    Raises:
        NodeGone: the node is lost, or its image is another one.
        InfrastructureError: it could not be done there.
    """
    receiving = asyncio.create_task(_receive_work(client, method, job, folder, check_image))
    lost = asyncio.create_task(client.lost.wait())
    try:
        await asyncio.wait({receiving, lost}, return_when=asyncio.FIRST_COMPLETED)
        if not receiving.done():
            raise NodeGone(client.lost_reason)
        return receiving.result()
    except asyncio.CancelledError:
        client.send("cancel", job.key)
        raise
    finally:
        lost.cancel()
        receiving.cancel()


async def _receive_work(
    client: NodeClient,
    method: str,
    job: NodeGradingJob | NodeEvaluationJob,
    folder: Path,
    check_image: ImageCheck,
) -> GradingEnded | HealthFound | DigestFound:
    async for messages in client.stream(method, job):
        for message in messages:
            match message:
                case ImageUsed():
                    if not check_image(client, message):
                        client.send("cancel", job.key)
                        raise NodeGone(client.drained)
                case FileBytes():
                    _write(folder, message)
                case StageFailed():
                    raise _work_error(client, message)
                case GradingEnded() | HealthFound() | DigestFound():
                    return _with_evidence_in(folder, message)
    raise NodeGone("the node disconnected without a result")


def _with_evidence_in(
    folder: Path, ended: GradingEnded | HealthFound | DigestFound
) -> GradingEnded | HealthFound | DigestFound:
    """A result that says where its evidence is here, not where it was on the node."""

    def here(artifacts: str | None, there: str) -> str | None:
        is_there = artifacts is not None and artifacts.startswith(there)
        return str(folder) + artifacts.removeprefix(there) if artifacts is not None and is_there else artifacts

    match ended:
        case GradingEnded(evaluation=evaluation, folder=there):
            moved = here(evaluation.artifacts, there)
            return GradingEnded(msgspec.structs.replace(evaluation, artifacts=moved), str(folder))
        case HealthFound(health=health, folder=there):
            moved = here(health.artifacts, there)
            return HealthFound(msgspec.structs.replace(health, artifacts=moved), str(folder))
        case DigestFound():
            return ended


def _work_error(client: NodeClient, failed: StageFailed) -> Exception:
    """Why a node has not graded or validated something, as an error."""
    if failed.usage:
        return UsageError(failed.detail)
    if failed.cause is Cause.DISK_FULL:
        client.drain_full_disk(failed.detail)
    if failed.cause in {Cause.DISK_FULL, Cause.NODE_LOST}:
        return NodeGone(failed.detail)
    return InfrastructureError(failed.detail, cause=failed.cause)


def _write(folder: Path, part: FileBytes) -> None:
    """Store a part of a file below a folder, and nowhere else."""
    name = PurePosixPath(part.name)
    if name.is_absolute() or ".." in name.parts:
        raise NodeGone(f"it sent a file that would be outside of its folder: {part.name!r}")
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("r+b" if part.offset else "wb") as file:
        file.seek(part.offset)
        file.write(part.data)
