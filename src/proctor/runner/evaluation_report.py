"""An evaluation from what was asked for to its report, which says both."""

import os
import platform
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import proctor
from proctor.core.benchmark import Benchmark, GradeOptions
from proctor.core.causes import Status
from proctor.core.environment import EnvironmentProvider
from proctor.core.errors import UsageError
from proctor.core.evaluation import EvaluationReport, EvaluationSummary, Invocation, Prediction, TaskEvaluation
from proctor.core.task import Task
from proctor.results import RecordCache
from proctor.runner.evaluate import evaluate, invalid_task_evaluation
from proctor.runner.preflight import environment_digest
from proctor.runner.selection import SelectedTasks

PredictionSource = Path | Iterable[Prediction] | Literal["oracle"]


async def make_evaluation_report(
    benchmark: Benchmark,
    selected: SelectedTasks,
    predictions: PredictionSource,
    *,
    provider: EnvironmentProvider,
    options: GradeOptions,
    artifacts: Path,
    jobs: int,
    use_cache: bool,
    on_evaluated: Callable[[TaskEvaluation], None],
) -> EvaluationReport:
    """Grade the answers to the chosen tasks, and report on all of them, the broken ones too, in the order of their ids.

    Args:
        benchmark: whose tasks they are.
        chosen: which of them.
        answers: a predictions file, predictions, or the benchmark's own.
        rooms: makes the rooms, and is the caller's to close.
        options: how they are graded.
        artifacts: where graders leave their logs.
        jobs: how many tasks are graded at a time.
        use_cache: take a verdict that is known for the same answer, data and room.
        done: hears of every verdict.

    Raises:
        UsageError: the predictions cannot be read.
        InfrastructureError: no such room can be made.
    """
    started, clock = datetime.now(UTC), time.monotonic()
    graded = await evaluate(
        benchmark,
        selected.tasks,
        _predictions(benchmark, selected.tasks, predictions),
        provider=provider,
        options=options,
        artifacts=artifacts,
        jobs=jobs,
        cache=RecordCache(TaskEvaluation, "evaluations") if use_cache else None,
        on_evaluated=on_evaluated,
    )
    environment = await environment_digest(benchmark, selected.tasks, provider, options)
    tasks = tuple(sorted((*graded, *map(invalid_task_evaluation, selected.invalid)), key=lambda task: task.task_id))
    return EvaluationReport(
        benchmark=benchmark.name,
        source=benchmark.source,
        data_digest=benchmark.digest(),
        tool_version=proctor.__version__,
        platform=f"{platform.system().lower()}-{platform.machine()}",
        environment=environment,
        invocation=Invocation(
            argv=tuple(sys.argv),
            cwd=os.getcwd(),  # noqa: PTH109 - as it is, symlinks and all
            started_at=started.isoformat(timespec="milliseconds"),
            predictions=str(predictions.absolute()) if isinstance(predictions, Path) else None,
            oracle=predictions == "oracle",
            runner=provider.name,
            image=options.image,
            filter=selected.selection.filter,
            exact=selected.selection.exact,
            limit=selected.selection.limit,
            jobs=jobs,
            repair_mode=options.repair,
            keep_artifacts=options.keep_artifacts,
            artifact_dir=str(artifacts),
        ),
        summary=_summary(tasks, time.monotonic() - clock),
        tasks=tasks,
    )


def _predictions(benchmark: Benchmark, tasks: Iterable[Task], source: PredictionSource) -> Mapping[str, Prediction]:
    if isinstance(source, Path):
        return benchmark.read_predictions(source)
    if isinstance(source, str) and source != "oracle":
        raise UsageError(f"the predictions are the text {source!r}", fix='give a Path, predictions, or "oracle"')
    answers: Iterable[Prediction | None] = map(benchmark.oracle, tasks) if isinstance(source, str) else source
    return {answer.task_id: answer for answer in answers if answer is not None}


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
