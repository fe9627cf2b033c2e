"""Grading without an agent, from a request to a report: the way in for `eval`, `validate` and `parity`."""

import os
import platform
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from proctor.core import VERSION
from proctor.core.benchmark import Benchmark, GradeOptions, GradingContext, InvalidTask, TaskHealth
from proctor.core.causes import Status
from proctor.core.environment import EnvironmentProvider
from proctor.core.errors import UsageError
from proctor.core.evaluation import EvaluationReport, EvaluationSummary, Invocation, Prediction, TaskEvaluation
from proctor.core.request import EvaluateRequest
from proctor.core.suggestions import suggest
from proctor.core.task import Task
from proctor.runner.evaluate import Digest, evaluate, invalid_task_evaluation, invalid_task_health, validate
from proctor.runner.preflight import OnPull, environment_digest, make_provider
from proctor.runner.selection import open_benchmark, select_tasks

if TYPE_CHECKING:
    from proctor.runner.executors.cluster_grading import ClusterGrader

_MAX_ON_CLUSTER: Final = 2048
PredictionSource = Path | Iterable[Prediction] | Literal["oracle"]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What a request comes to: the benchmark, the selected tasks, those that cannot be used, and the environments.

    Attributes:
        cluster: grades, where that is not done on this machine.
    """

    request: EvaluateRequest
    benchmark: Benchmark
    tasks: tuple[Task, ...]
    invalid: tuple[InvalidTask, ...]
    provider: EnvironmentProvider
    cluster: "ClusterGrader | None" = None

    @property
    def _jobs(self) -> int:
        """Tasks that are worked on at once; a cluster has its own limits, node by node."""
        return self.request.jobs if self.cluster is None else _MAX_ON_CLUSTER

    @property
    def _digest(self) -> Digest | None:
        """Where images are the nodes', theirs are asked for: this machine pulls none."""
        return self.cluster.digest if self.cluster is not None and self.provider.uses_images else None

    @property
    def _artifacts(self) -> Path:
        return Path(self.request.artifacts).absolute()

    def context(self, determinism_runs: int | None = None) -> GradingContext:
        """How tasks are graded, as the request says."""
        request = self.request
        options = GradeOptions(
            image=request.image,
            determinism_runs=request.determinism_runs or determinism_runs,
            timeout_seconds=request.timeout,
            repair=request.repair,
            repair_max_iters=request.repair_max_iters,
            keep_artifacts=request.keep_artifacts,
            controls=request.controls,
        )
        return GradingContext(self.provider, self._artifacts, options, use_cache=request.cache)

    async def grade(
        self,
        predictions: Mapping[str, Prediction],
        on_evaluated: Callable[[TaskEvaluation], None],
        on_started: Callable[[str], None] = lambda _: None,
    ) -> tuple[TaskEvaluation, ...]:
        """Grade the predictions of the selected tasks, in the order of the tasks."""
        return await evaluate(
            self.benchmark,
            self.tasks,
            predictions,
            self.context(),
            jobs=self._jobs,
            on_evaluated=on_evaluated,
            on_started=on_started,
            grade=None if self.cluster is None else self.cluster.grade,
            digest=self._digest,
        )

    async def report(
        self,
        predictions: PredictionSource,
        on_evaluated: Callable[[TaskEvaluation], None],
        on_started: Callable[[str], None] = lambda _: None,
    ) -> EvaluationReport:
        """Grade predictions, and report on all selected tasks, the invalid ones too, in the order of their ids.

        Args:
            predictions: a predictions file, predictions, or the benchmark's own oracle.
            on_evaluated: receives every verdict as it is reached.
            on_started: receives the id of every task that is graded, before it is.

        Raises:
            UsageError: the predictions cannot be read.
            InfrastructureError: no such environment can be made.
        """
        request, started, clock = self.request, datetime.now(UTC), time.monotonic()
        graded = await self.grade(self._predictions(predictions), on_evaluated, on_started)
        environment = ""  # where nothing could be graded, none was made
        if self.tasks:
            environment = await environment_digest(self.benchmark, self.tasks, self.provider, self.context().options)
        tasks = tuple(sorted((*graded, *map(invalid_task_evaluation, self.invalid)), key=lambda task: task.task_id))
        return EvaluationReport(
            benchmark=self.benchmark.name,
            source=self.benchmark.source,
            data_digest=self.benchmark.digest(),
            tool_version=VERSION,
            platform=f"{platform.system().lower()}-{platform.machine()}",
            environment=environment,
            invocation=Invocation(
                argv=tuple(sys.argv),
                cwd=os.getcwd(),  # noqa: PTH109 - as it is, symlinks and all
                started_at=started.isoformat(timespec="milliseconds"),
                predictions=str(predictions.absolute()) if isinstance(predictions, Path) else None,
                oracle=predictions == "oracle",
                runner=self.provider.name,
                image=request.image,
                filter=request.filter,
                exact=request.exact,
                limit=request.limit,
                jobs=request.jobs,
                repair_mode=request.repair,
                keep_artifacts=request.keep_artifacts,
                artifact_dir=str(self._artifacts),
            ),
            summary=_summary(tasks, time.monotonic() - clock),
            tasks=tasks,
        )

    async def validate(
        self, on_validated: Callable[[TaskHealth], None], on_started: Callable[[str], None] = lambda _: None
    ) -> tuple[TaskHealth, ...]:
        """Prove every selected task on this machine; in the order of their ids, the invalid ones too."""
        healths = await validate(
            self.benchmark,
            self.tasks,
            self.context(determinism_runs=2),
            jobs=self._jobs,
            on_validated=on_validated,
            on_started=on_started,
            prove=None if self.cluster is None else self.cluster.validate,
            digest=self._digest,
        )
        return tuple(sorted((*healths, *map(invalid_task_health, self.invalid)), key=lambda health: health.task_id))

    def _predictions(self, source: PredictionSource) -> Mapping[str, Prediction]:
        if isinstance(source, Path):
            predictions = self.benchmark.read_predictions(source)
            self._check_ids(source, predictions)
            return predictions
        if isinstance(source, str) and source != "oracle":
            raise UsageError(f"the predictions are the text {source!r}", fix='give a Path, predictions, or "oracle"')
        found = map(self.benchmark.oracle, self.tasks) if isinstance(source, str) else source
        return {prediction.task_id: prediction for prediction in found if prediction is not None}

    def _check_ids(self, file: Path, predictions: Mapping[str, Prediction]) -> None:
        known = {task.id for task in self.benchmark.tasks()} | {bad.task_id for bad in self.benchmark.invalid_tasks()}
        if known.isdisjoint(predictions):
            first = next(iter(predictions), None)
            what = "it has no predictions" if first is None else f"no prediction is for a task of {self.benchmark.name}"
            raise UsageError(
                what, where=file, fix=None if first is None else suggest(first, known, f"one is for {first!r}")
            )


@asynccontextmanager
async def open_evaluation(
    request: EvaluateRequest,
    *,
    benchmark: Benchmark | None = None,
    provider: EnvironmentProvider | None = None,
    on_pull: OnPull | None = None,
    log: Callable[[str], None] = lambda _: None,
) -> AsyncIterator[Evaluation]:
    """What a request comes to, for the length of the block. A benchmark or a provider may be given as an object.

    Raises:
        UsageError: there is no such benchmark, task or provider, or the options contradict each other.
    """
    given = {"benchmark": benchmark, "runner": provider}
    objects = [name for name, value in given.items() if value is not None]
    benchmark = benchmark or open_benchmark(request)
    tasks, invalid = select_tasks(benchmark, request)
    _check_artifacts_folder(request)
    environments = provider or make_provider(request, on_pull)
    try:
        async with _grader(request, benchmark, objects, log) as cluster:
            yield Evaluation(request, benchmark, tasks, invalid, environments, cluster)
    finally:
        if provider is None:  # an object is the caller's, to be closed by the caller
            await environments.close()


def _check_artifacts_folder(request: EvaluateRequest) -> None:
    folder = Path(request.artifacts).absolute()
    if any(path.exists() and not path.is_dir() for path in (folder, *folder.parents)):
        raise UsageError("test results cannot be stored here: it is a file, or below one", where=folder)
    there = next(path for path in (folder, *folder.parents) if path.exists())
    if not os.access(there, os.W_OK | os.X_OK):
        raise UsageError("test results cannot be stored here: Permission denied", where=folder)


@asynccontextmanager
async def _grader(
    request: EvaluateRequest, benchmark: Benchmark, objects: Sequence[str], log: Callable[[str], None]
) -> AsyncIterator["ClusterGrader | None"]:
    if request.executor == "local":
        yield None
        return
    from proctor.runner.executors.cluster_grading import cluster_grader
    from proctor.runner.executors.node_pool import ClusterSettings
    from proctor.runner.executors.ray import check_request

    check_request(isolation=request.isolation, own_login=False, objects=objects)
    slots = request.node_slots or request.jobs
    settings = ClusterSettings(request.address, request.insecure_cluster, slots, slots, log)
    async with cluster_grader(request, benchmark, settings) as grader:
        yield grader


def _summary(tasks: Iterable[TaskEvaluation], seconds: float) -> EvaluationSummary:
    counts: dict[Status, int] = dict.fromkeys(Status, 0)
    healthy, healthy_resolved = 0, 0
    for one in tasks:
        counts[one.verdict.status] += 1
        if one.healthy:
            healthy += 1
            healthy_resolved += one.verdict.status is Status.RESOLVED
    return EvaluationSummary(
        total=sum(counts.values()),
        resolved=counts[Status.RESOLVED],
        unresolved=counts[Status.UNRESOLVED],
        errors=counts[Status.ERROR],
        skipped=counts[Status.SKIPPED],
        healthy=healthy,
        healthy_resolved=healthy_resolved,
        seconds=round(seconds, 3),
    )
