"""What works on a node of a cluster: makes attempts and gradings for one session, under a lease.

It holds what a local session holds (environments, gateway, sandboxes, agents), and nothing of the run itself.
"""

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from proctor.core.benchmark import Benchmark, TaskHealth
from proctor.core.causes import Cause
from proctor.core.disk_names import disk_name
from proctor.core.errors import UsageError
from proctor.core.evaluation import TaskEvaluation
from proctor.core.files import write_atomic
from proctor.core.task import Task
from proctor.gateway import BudgetCopy, Redactor, ReplayBackend
from proctor.gateway.backend import Backend, GatewaySessionSpec
from proctor.results.attempt_record import RECORDING_FILE
from proctor.runner.attempt import AttemptOutput, AttemptRunner, AttemptSpec
from proctor.runner.errors import CRASH_LOG, crash_log, failure_of, grading_cause
from proctor.runner.evaluation import Evaluation
from proctor.runner.executors.lease import NodeLease, boot_seconds
from proctor.runner.executors.messages import (
    MAX_CHUNK_BYTES,
    AttemptEnded,
    DigestFound,
    EvaluationSetup,
    FileBytes,
    GradingEnded,
    HealthFound,
    ImageUsed,
    ModelResponded,
    NodeAttemptJob,
    NodeEvaluationJob,
    NodeGradingJob,
    NodeInfo,
    NodeMessages,
    NodeRun,
    NodeSetup,
    Progress,
    SpoolEntry,
    StageFailed,
    StopRun,
    run_key,
)
from proctor.runner.executors.node_check import image_used, open_evaluating, prepare_runs
from proctor.runner.executors.node_gate import NodeGate, Outbox
from proctor.runner.executors.spool import Spool, file_digest
from proctor.runner.models import ModelAccess, asked_dialects, make_backend
from proctor.runner.prefetch import prefetch_environments
from proctor.runner.run_resources import RunResources
from proctor.runner.scratch import scratch_folder


class NodeWorker:
    """Makes attempts and gradings on a node, for one session.

    Args:
        name: the node's name, for messages.
        lease_seconds: how long it works without a renewal of its lease.
    """

    def __init__(self, name: str, lease_seconds: float) -> None:
        self._name = name
        self._loop = asyncio.get_event_loop()
        self._lease = NodeLease(lease_seconds, self._end)
        self._stack = AsyncExitStack()
        self._access: ModelAccess | None = None
        self._budget = BudgetCopy()
        self._runs: dict[str, RunResources] = {}
        self._evaluation: Evaluation | None = None
        self._spool = Spool()
        self._folder = Path(tempfile.mkdtemp(dir=scratch_folder()))
        self._gates: dict[str, NodeGate] = {}
        self._tasks: dict[str, asyncio.Task[Any]] = {}

    async def renew(
        self, reported_at: float | None, spent_usd: float = 0.0, acknowledged: Mapping[str, int] | None = None
    ) -> float:
        """Renew the lease; returns the present moment of this node's clock."""
        for key, size in (acknowledged or {}).items():
            await self.acknowledge(key, size, spent_usd)
        self._budget.update(spent_usd)
        return boot_seconds() if reported_at is None else self._lease.renew(reported_at)

    async def set_access(self, access: ModelAccess) -> None:
        """How the model's provider is reached. The key is kept in memory, and nowhere else."""
        self._access = access

    async def open(self, setup: NodeSetup) -> NodeInfo:
        """Prepare to work on these runs; says why that cannot be done, where it cannot."""
        prepared, info = await prepare_runs(self._stack, self._name, setup.runs, setup.grace_seconds)
        self._budget = BudgetCopy(setup.limit_usd, spent_usd=setup.spent_usd)
        for resources, run in zip(prepared, setup.runs, strict=False):
            await self._open_run(resources, run)
        return info

    async def _open_run(self, resources: RunResources, run: NodeRun) -> None:
        folder = self._folder / run.config.run_id
        await asyncio.to_thread(folder.mkdir, parents=True)
        config, model = run.config, run.model
        if run.prices is not None:
            config = msgspec.structs.replace(config, prices=str(_write(folder, run.prices)))
        if model is not None and run.script is not None:
            model = msgspec.structs.replace(model, source=str(_write(folder, run.script)))
        backend: Backend | None = None
        if model is not None and model.kind == "replay":
            backend = ReplayBackend(self._replayed_recording, name=f"replay of {Path(model.source or '').name}")
        elif model is not None:
            backend = make_backend(model, self._access or ModelAccess(), asked_dialects(model, resources.agent))
        opened = self._runs[run_key(config)] = replace(resources, config=config, model=model, backend=backend)
        await opened.open(self._stack, self._budget)

    async def prefetch(self, task_ids: Sequence[str]) -> None:
        """These tasks may come next."""
        run = next(iter(self._runs.values()))
        tasks = [run.tasks[task_id] for task_id in task_ids]
        prefetch_environments(run.provider, run.benchmark, tasks, run.grade_options)

    async def attempt(self, job: NodeAttemptJob) -> AsyncIterator[NodeMessages]:
        """Make an attempt; all that is known of it as it becomes known, and at last `AttemptEnded`."""
        resources, outbox = self._runs[job.run], Outbox()
        try:
            logs = await asyncio.to_thread(self._spool.create, job.run, job.trial, job.number)
            spec = await asyncio.to_thread(self._attempt_spec, job, logs, outbox)
        except OSError as error:
            yield [_failure(error)]
            return
        gate = self._gates[job.key] = NodeGate(logs / RECORDING_FILE, outbox, self._lease)
        runner = AttemptRunner(resources, spec, gate)
        task = asyncio.create_task(runner.run())
        self._tasks[job.key] = task
        task.add_done_callback(lambda _: outbox.notify(urgent=True))
        try:
            if (image := await _run_image(resources, job.trial.task_id)) is not None:
                yield [image]
            while not task.done():
                messages = await outbox.wait()
                yield [*gate.unsent(runner.spent_usd), *messages]
            output = _output(task)
            if isinstance(output, StageFailed):
                yield [*gate.unsent(runner.spent_usd), *outbox.take(), output]
                return
            recording = logs / RECORDING_FILE
            size = recording.stat().st_size if recording.exists() else 0
            gate.written(size)
            yield [*gate.unsent(runner.spent_usd), *outbox.take()]
            for message in _files(logs, exclude={RECORDING_FILE, *output.files}):
                yield [message]
            digest = await asyncio.to_thread(file_digest, recording, size)
            yield [AttemptEnded(output.record, output.files, size, digest)]
        finally:
            gate.close()
            self._gates.pop(job.key, None)
            await self._stop(job.key)

    async def grade(self, job: NodeGradingJob) -> AsyncIterator[NodeMessages]:
        """Grade a submission; its evidence, and at last `GradingEnded`."""
        resources = self._runs[job.run]
        folder = await self._new_folder()
        if (image := await _run_image(resources, job.prediction.task_id)) is not None:
            yield [image]
        grading = resources.grade(job.prediction, folder)
        async for messages in self._work(job.key, grading, folder, resources.secrets):
            yield messages

    async def open_evaluation(self, setup: EvaluationSetup) -> NodeInfo:
        """Prepare to grade without an agent; says why that cannot be done, where it cannot."""
        self._evaluation, info = await open_evaluating(self._stack, self._name, setup)
        return info

    async def evaluate(self, job: NodeEvaluationJob) -> AsyncIterator[NodeMessages]:
        """Grade a prediction, or validate a task; the evidence, and at last `GradingEnded` or `HealthFound`."""
        evaluation = self._evaluation
        if evaluation is None:
            yield [StageFailed(Cause.INTERNAL_ERROR, "the node was not opened")]
            return
        folder = await self._new_folder()
        task, benchmark = _evaluated(evaluation, job)
        if (image := await _evaluation_image(evaluation, benchmark, task)) is not None:
            yield [image]
        work: Coroutine[Any, Any, TaskEvaluation | TaskHealth]
        if job.prediction is None:
            work = benchmark.validate(task, replace(evaluation.context(determinism_runs=2), folder=folder))
        else:
            work = benchmark.grade(task, job.prediction, replace(evaluation.context(), folder=folder))
        async for messages in self._work(job.key, work, folder, ()):
            yield messages

    async def environment_digest(self, job: NodeEvaluationJob) -> AsyncIterator[NodeMessages]:
        """The digest of a task's environment, whose image is pulled if it is not there: `DigestFound`."""
        evaluation = self._evaluation
        if evaluation is None:
            yield [StageFailed(Cause.INTERNAL_ERROR, "the node was not opened")]
            return
        try:
            task, benchmark = _evaluated(evaluation, job)
            if (image := await _evaluation_image(evaluation, benchmark, task)) is not None:
                yield [image, DigestFound(image.digest)]
                return
            spec = benchmark.environment_spec(task, evaluation.context().options)
            yield [DigestFound(await evaluation.provider.digest(spec))]
        except Exception as error:  # noqa: BLE001 - whoever asks gets it as a message
            yield [_failure(error)]

    async def _new_folder(self) -> Path:
        return Path(await asyncio.to_thread(tempfile.mkdtemp, dir=self._folder)) / "grading"

    async def _work(
        self,
        key: str,
        work: Coroutine[Any, Any, TaskEvaluation | TaskHealth],
        folder: Path,
        secrets: tuple[str, ...],
    ) -> AsyncIterator[NodeMessages]:
        task = self._tasks[key] = asyncio.create_task(work)
        ended: GradingEnded | HealthFound | StageFailed
        try:
            await asyncio.wait({task})
            if task.cancelled():
                ended = StageFailed(Cause.NODE_LOST, "the grading was stopped")
            elif (error := task.exception()) is not None:
                ended = _failure(error)
                crashed = crash_log(error) if isinstance(error, Exception) else None
                if crashed is not None:
                    await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
                    write_atomic(folder / CRASH_LOG, Redactor(secrets).redact_bytes(crashed))
            elif isinstance(result := task.result(), TaskEvaluation):
                ended = GradingEnded(result, str(folder))
            else:
                ended = HealthFound(result, str(folder))
            for message in _files(folder):
                yield [message]
            yield [ended]
        finally:
            await self._stop(key)
            await asyncio.to_thread(shutil.rmtree, folder.parent, ignore_errors=True)

    async def acknowledge(self, key: str, size: int, spent_usd: float) -> None:
        """The driver has synced so much of an attempt's recording; so much has been spent by all nodes together."""
        self._budget.update(spent_usd)
        if (gate := self._gates.get(key)) is not None:
            gate.acknowledge(size)

    async def cancel(self, key: str) -> None:
        """End an attempt or a grading; returns when it has ended."""
        if (gate := self._gates.get(key)) is not None:
            gate.close()
        await self._stop(key)

    async def spooled(self) -> list[SpoolEntry]:
        """The recordings of attempts whose end no driver has acknowledged, and that are not being made now."""
        return await asyncio.to_thread(self._spool.entries)

    async def spooled_digest(self, key: str, size: int) -> str:
        """Of the first bytes of such a recording."""
        return await asyncio.to_thread(self._spool.digest, key, size)

    async def read_spooled(self, key: str, offset: int) -> bytes:
        """A part of such a recording."""
        return await asyncio.to_thread(self._spool.read, key, offset)

    async def discard(self, key: str) -> None:
        """The driver has all that an attempt left."""
        await asyncio.to_thread(self._spool.remove, key)

    async def close(self) -> None:
        """End all work, and free what was opened."""
        await self._stop_all()
        await self._stack.aclose()
        self._spool.close()
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)
        self._lease.close()

    def _end(self) -> None:
        """The lease has ended: nothing more is sent to a model, and all work ends."""
        for gate in list(self._gates.values()):
            self._loop.call_soon_threadsafe(gate.close)
        with suppress(RuntimeError):
            asyncio.run_coroutine_threadsafe(self._stop_all(), self._loop)

    async def _stop_all(self) -> None:
        await asyncio.gather(*(self.cancel(key) for key in list(self._tasks)))

    async def _stop(self, key: str) -> None:
        task = self._tasks.pop(key, None)
        if task is not None and not task.done():
            task.cancel()
            await asyncio.wait({task})

    def _attempt_spec(self, job: NodeAttemptJob, logs: Path, outbox: Outbox) -> AttemptSpec:
        folder = Path(tempfile.mkdtemp(dir=self._folder))
        earlier = []
        for number, content in enumerate(job.earlier_recordings, start=1):
            earlier.append(folder / f"{number}.jsonl")
            earlier[-1].write_bytes(content)
        if job.replayed is not None:
            _replay_file(self._folder, job.trial.task_id, job.trial.number).write_bytes(job.replayed)
        return AttemptSpec(
            job.trial,
            job.number,
            logs,
            tuple(earlier),
            job.spent_usd,
            progress=lambda message: outbox.put(Progress(message)),
            model_responded=lambda event: outbox.put(ModelResponded(event)),
            stop_run=lambda cause, detail: outbox.put(StopRun(cause, detail)),
        )

    def _replayed_recording(self, spec: GatewaySessionSpec) -> Path:
        return _replay_file(self._folder, spec.task_id, int(spec.values.get("trial", "1")))


async def _run_image(run: RunResources, task_id: str) -> ImageUsed | None:
    task, forced = run.tasks[task_id], run.config.force_build
    return await image_used(run.benchmark, task, run.provider, run.grade_options, force_build=forced)


def _evaluated(evaluation: Evaluation, job: NodeEvaluationJob) -> tuple[Task, Benchmark]:
    """The task that is graded without an agent, and what grades it here."""
    task = next(task for task in evaluation.tasks if task.id == job.task_id)
    return task, evaluation.benchmark.for_provider(evaluation.provider)


async def _evaluation_image(evaluation: Evaluation, benchmark: Benchmark, task: Task) -> ImageUsed | None:
    options, forced = evaluation.context().options, evaluation.request.force_build
    return await image_used(benchmark, task, evaluation.provider, options, force_build=forced)


def _write(folder: Path, named: tuple[str, bytes]) -> Path:
    path = folder / Path(named[0]).name
    path.write_bytes(named[1])
    return path


def _replay_file(folder: Path, task_id: str, trial: int) -> Path:
    return folder / f"replay-{disk_name(task_id)}.{trial}.jsonl"


def _output(task: asyncio.Task[AttemptOutput]) -> AttemptOutput | StageFailed:
    if task.cancelled():
        return StageFailed(Cause.NODE_LOST, "the attempt was stopped")
    error = task.exception()
    return task.result() if error is None else _failure(error)


def _failure(error: BaseException) -> StageFailed:
    if not isinstance(error, Exception):
        raise error
    if isinstance(error, UsageError):
        return StageFailed(Cause.INTERRUPTED, error.sentence, usage=True)
    return StageFailed(*failure_of(error, grading_cause))


def _files(folder: Path, exclude: Iterable[str] = ()) -> Iterable[FileBytes]:
    """The contents of all regular files below a folder."""
    left_out = set(exclude)
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if name in left_out or path.is_symlink() or not path.is_file():
            continue
        offset = 0
        with path.open("rb") as file:
            while (data := file.read(MAX_CHUNK_BYTES)) or not offset:
                yield FileBytes(name, offset, data)
                offset += len(data)
                if not data:
                    break
