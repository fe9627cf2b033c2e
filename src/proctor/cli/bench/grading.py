"""What `eval`, `validate` and `parity` do: grade without an agent, and print what was found."""

import asyncio
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from proctor.analysis.intervals import wilson
from proctor.benchmarks import harness_outcomes, parity
from proctor.cli.bench.options import read_request
from proctor.cli.bench.pull_progress import PullReporter
from proctor.cli.output import log, print_json, print_table
from proctor.cli.task_counter import TaskCounter
from proctor.core.benchmark import Benchmark, TaskHealth
from proctor.core.causes import Status
from proctor.core.errors import InfrastructureError, Interrupted, InvalidData, UsageError
from proctor.core.evaluation import EvaluationReport, TaskEvaluation
from proctor.core.files import write_atomic
from proctor.core.formatting import collapse_rows, plural, reason_lines
from proctor.core.record import to_json
from proctor.core.request import EvaluateRequest
from proctor.report.cli_records import ValidationReport
from proctor.results.formats import find_format
from proctor.runner.evaluation import Evaluation, PredictionSource, open_evaluation
from proctor.runner.observer import describe_nodes


def evaluate(given: dict[str, Any]) -> int:
    """``proctor bench eval``."""
    if given["oracle"] == (given["predictions"] is not None):
        raise UsageError("say what to grade: --predictions FILE or --oracle, not both")
    if given["out"]:
        _check_writable(given["out"], "the report")
    source, report = asyncio.run(_evaluate(given, given["predictions"] or "oracle"))
    form = "json" if given["as_json"] else given["form"]
    document, errors = to_json(report), report.summary.errors
    if form not in {"text", "json"}:
        printed = find_format(form).evaluation_document(source, report)
        document, errors = printed.data, printed.errors
    if given["out"]:
        _write(given["out"], document, "the report")
    if form == "text":
        _print_evaluations(report)
    else:
        sys.stdout.buffer.write(document)
    return InfrastructureError.exit_code if errors else 0


def validate(given: dict[str, Any]) -> int:
    """``proctor bench validate``."""
    if given["write_exclusions"]:
        _check_writable(given["write_exclusions"], "the exclusion list", make_folder=False)
    clock = time.monotonic()
    source, healths = asyncio.run(_validate(given))
    unhealthy = [health for health in healths if not health.healthy and not health.skipped]
    if given["write_exclusions"]:
        lines = [f"{health.task_id}  # {'; '.join((*health.problems, *health.leaks))}\n" for health in unhealthy]
        _write(given["write_exclusions"], "".join(lines).encode(), "the exclusion list", make_folder=False)
    form = "json" if given["as_json"] else given["form"]
    if form not in {"text", "json"}:
        document = find_format(form).health_document(source, healths, time.monotonic() - clock)
        click.echo(document.decode(), nl=False)
    elif form == "json":
        print_json(ValidationReport(benchmark=source.name, source=source.source, ok=not unhealthy, tasks=healths))
    else:
        _print_healths(healths)
        healthy = sum(health.healthy for health in healths)
        skipped = sum(bool(health.skipped) for health in healths)
        more = f", {skipped} could not be tried" if skipped else ""
        click.echo(f"\n{source.name}: {healthy} of {len(healths)} tasks are healthy on this machine{more}")
    return InvalidData.exit_code if unhealthy else 0


def compare(file: Path, given: dict[str, Any]) -> int:
    """``proctor bench parity``."""
    theirs = harness_outcomes(file)
    ours = asyncio.run(_grade_predictions(given, {outcome.instance_id for outcome in theirs}))
    found = parity(given["benchmark"], theirs, {evaluation.task_id: evaluation for evaluation in ours})
    if given["as_json"]:
        print_json(found)
    else:
        rows = [
            [one.task_id, one.theirs.value, one.ours.value, one.evidence, one.artifacts or ""]
            for one in found.disagreements
        ]
        if rows:
            print_table(["TASK", "THEIRS", "OURS", "EVIDENCE", "LOGS"], rows)
        click.echo(f"{given['benchmark']}: {found.agreed} of {found.compared} verdicts agree")
    for task, reason in found.errors.items():
        log(f"{task} could not be graded here: {reason}")
    if found.only_theirs:
        log(f"{len(found.only_theirs)} verdicts of theirs have no prediction, or no task, here")
    if found.errors:
        return InfrastructureError.exit_code
    return InvalidData.exit_code if found.disagreements else 0


async def _evaluate(given: dict[str, Any], predictions: PredictionSource) -> tuple[Benchmark, EvaluationReport]:
    async with open_evaluation(_request(given), on_pull=_on_pull(given), log=log) as evaluation:
        fix = "their verdicts are kept, and the same command continues from there"
        with _count_tasks(evaluation, given, fix) as counter:
            report = await evaluation.report(predictions, lambda one: _count_verdict(counter, one), counter.started)
        return evaluation.benchmark, report


async def _validate(given: dict[str, Any]) -> tuple[Benchmark, tuple[TaskHealth, ...]]:
    async with open_evaluation(_request(given), on_pull=_on_pull(given), log=log) as evaluation:
        with _count_tasks(evaluation, given, "what was found is kept") as counter:
            healths = await evaluation.validate(
                lambda one: counter.done(one.task_id, _health_state(one), _health_problem(one)), counter.started
            )
        return evaluation.benchmark, healths


async def _grade_predictions(given: dict[str, Any], task_ids: set[str]) -> tuple[TaskEvaluation, ...]:
    async with open_evaluation(_request(given), on_pull=_on_pull(given), log=log) as opened:
        predictions = opened.benchmark.read_predictions(given["predictions"])
        tasks = tuple(task for task in opened.tasks if task.id in task_ids and task.id in predictions)
        evaluation = replace(opened, tasks=tasks)
        fix = "their verdicts are kept, and the same command continues from there"
        with _count_tasks(evaluation, given, fix) as counter:
            return await evaluation.grade(predictions, lambda one: _count_verdict(counter, one), counter.started)


def _request(given: dict[str, Any]) -> EvaluateRequest:
    return read_request(EvaluateRequest, given, benchmark=given["benchmark"])


def _on_pull(given: dict[str, Any]) -> PullReporter | None:
    return None if given["quiet"] else PullReporter()


@contextmanager
def _count_tasks(evaluation: Evaluation, given: dict[str, Any], fix: str) -> Iterator[TaskCounter]:
    """Counts the tasks of an evaluation; one that is interrupted says after how many of them."""
    if not given["quiet"]:
        for line in reason_lines({bad.task_id: "; ".join(bad.problems) for bad in evaluation.invalid}):
            log(f"invalid: {line}")
    cluster = evaluation.cluster

    def nodes() -> str:
        return "" if cluster is None else describe_nodes(cluster.nodes)

    if cluster is not None and not given["quiet"]:
        log(f"{plural(len(evaluation.tasks), 'task')}{nodes()}")
    with TaskCounter(len(evaluation.tasks), quiet=given["quiet"], describe_nodes=nodes) as counter:
        try:
            yield counter
        except asyncio.CancelledError:
            raise Interrupted(f"interrupted after {counter}", fix=fix) from None


def _count_verdict(counter: TaskCounter, one: TaskEvaluation) -> None:
    is_failure = one.verdict.status in {Status.ERROR, Status.SKIPPED}
    counter.done(one.task_id, one.verdict.status.value, one.verdict.reason if is_failure else "")


def _print_evaluations(report: EvaluationReport) -> None:
    failed = {task.task_id: task for task in report.tasks if task.verdict.status in {Status.ERROR, Status.SKIPPED}}
    names = collapse_rows({name: f"{one.verdict.cause}: {one.verdict.reason}" for name, one in failed.items()})
    rows = [
        [str(name), task.verdict.status.value, task.verdict.cause.value, _remark(task)]
        for task in report.tasks
        if (name := names.get(task.task_id, task.task_id)) is not None
    ]
    print_table(["TASK", "STATUS", "CAUSE", "REASON"], rows)
    _point_to_list(names)
    numbers = report.summary
    counted = numbers.resolved + numbers.unresolved
    interval = wilson(numbers.resolved, counted)
    rate = (
        f" ({numbers.resolved / counted:.1%}, 95 % interval {interval.low:.1%} to {interval.high:.1%})"
        if interval
        else ""
    )
    findings = sum(bool(task.verdict.findings) for task in report.tasks)
    click.echo(
        f"\n{report.benchmark}: {numbers.resolved} of {counted} graded tasks resolved{rate}; "
        f"{numbers.errors} errors, {numbers.skipped} skipped, {findings} with audit findings; {numbers.seconds:.1f} s"
    )
    verdicts = [task.verdict for task in report.tasks]
    official = sum((verdict.official or verdict.status).value == "resolved" for verdict in verdicts)
    if official != numbers.resolved:
        click.echo(f"the benchmark's own grader resolves {official} of them")
    for name in sorted({name for verdict in verdicts for name in verdict.scores}):
        mean = sum(verdict.scores.get(name, 0.0) for verdict in verdicts) / (counted or 1)
        click.echo(f"mean {name.replace('_', ' ')}: {mean:.4f}")


def _remark(task: TaskEvaluation) -> str:
    verdict = task.verdict
    parts = [verdict.reason]
    if verdict.applied_with:
        parts.append(f"applied with {verdict.applied_with}")
    parts += verdict.deviations
    if verdict.controls is not None and verdict.controls.uncontrolled:
        why = f" ({verdict.controls.reason})" if verdict.controls.reason else ""
        parts.append(f"{plural(len(verdict.controls.uncontrolled), 'test')} without controls{why}")
    if verdict.findings:
        parts.append("audit: " + ", ".join(sorted({finding.code for finding in verdict.findings})))
    return "; ".join(parts)


def _health_state(health: TaskHealth) -> str:
    return "healthy" if health.healthy else "skipped" if health.skipped else "NOT healthy"


def _health_problem(health: TaskHealth) -> str:
    """What is wrong with a task, or why it was not tried; empty for a healthy one."""
    return health.skipped or "; ".join((*health.problems, *(f"leak: {leak}" for leak in health.leaks)))


def _point_to_list(names: Mapping[str, str | None]) -> None:
    """Say where the tasks are listed that have no row of their own."""
    if names:
        click.echo("--json lists every task")


def _print_healths(healths: Sequence[TaskHealth]) -> None:
    # What could not even be tried has no results of its own to show.
    untried = [health for health in healths if health.skipped or not health.environment]
    names = collapse_rows({health.task_id: _health_problem(health) for health in untried})

    def mark(health: TaskHealth, good: bool) -> str:
        return "-" if health.skipped else "ok" if good else "NO"

    print_table(
        ["TASK", "PRE-PATCH", "ORACLE", "REPEATS", "CONTROLS", "LEAKS", "PROBLEM"],
        [
            [
                str(name),
                mark(health, health.pre_patch_ok),
                mark(health, health.oracle_ok),
                mark(health, health.determinism_ok),
                _controls(health),
                "none" if not health.leaks else str(len(health.leaks)),
                health.skipped or "; ".join(_health_remarks(health)),
            ]
            for health in healths
            if (name := names.get(health.task_id, health.task_id)) is not None
        ],
    )
    _point_to_list(names)


def _controls(health: TaskHealth) -> str:
    """How many of the controlled tests have an altered version."""
    if health.controls is None:
        return "-"
    return f"{health.controls.controlled}/{health.controls.controlled + len(health.controls.uncontrolled)}"


def _health_remarks(health: TaskHealth) -> Iterator[str]:
    yield from health.problems
    yield from (f"leak: {leak}" for leak in health.leaks)
    yield from (f"deviation from the benchmark: {deviation}" for deviation in health.deviations)
    if health.controls is not None and health.controls.reason:
        yield f"without controls: {health.controls.reason}"


def _check_writable(file: Path, what: str, *, make_folder: bool = True) -> None:
    """Refuse, before anything is graded, a file that cannot be written."""
    is_new = not file.exists()
    try:
        if make_folder:
            file.parent.mkdir(parents=True, exist_ok=True)
        file.open("ab").close()
        if is_new:
            file.unlink()
    except OSError as error:
        raise UsageError(f"cannot write {what}: {error.strerror}", where=file) from error


def _write(file: Path, document: bytes, what: str, *, make_folder: bool = True) -> None:
    try:
        if make_folder:
            file.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(file, document)
    except OSError as error:
        raise UsageError(f"cannot write {what}: {error.strerror}", where=file) from error
