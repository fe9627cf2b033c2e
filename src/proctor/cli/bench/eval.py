"""``proctor bench eval``."""

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from proctor.cli.bench.options import (
    environment_options,
    format_option,
    load_benchmark,
    make_grade_options,
    make_provider,
    make_selection,
    repair_options,
    selection_options,
    source_options,
)
from proctor.cli.output import TaskCounter, print_table
from proctor.core.errors import InfrastructureError, Interrupted, UsageError

if TYPE_CHECKING:
    from proctor.core.benchmark import Benchmark
    from proctor.core.evaluation import EvaluationReport, TaskEvaluation


@click.command()
@source_options
@click.option(
    "--predictions",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The answers to grade: JSON lines, or as the benchmark's own harness is given them.",
)
@click.option("--oracle", is_flag=True, help="Grade the reference answers instead.")
@selection_options
@environment_options
@repair_options
@click.option(
    "--determinism-runs",
    metavar="N",
    type=click.IntRange(min=1),
    help="Run the tests after the patch N times. [default: the suite's, or 1]",
)
@click.option("--no-cache", is_flag=True, help="Grade anew what was graded before.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@format_option
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Also write the report to this file: in the form of --format, else JSON.",
)
@click.option("--quiet", is_flag=True, help="No progress on stderr.")
def command(bench: str | None, suite: str | None, split: str | None, **given: Any) -> int:
    """Grade answers to the tasks of BENCH, or of --suite, and report.

    Exits 0 when every task has a verdict, 12 when a task ended in an error that is not the answer's.
    """
    from proctor.core.record import to_json  # noqa: PLC0415 - the help page needs none of it

    source = load_benchmark(bench, suite, split)
    report = asyncio.run(_evaluate(source, given))
    form = "json" if given["as_json"] else given["form"]
    document, errors = to_json(report), report.summary.errors
    if form not in {"text", "json"}:
        from proctor.results.formats import find_format  # noqa: PLC0415 - for these forms only

        printed = find_format(form).evaluation_document(source, report)
        document, errors = printed.data, printed.errors
    if given["out"]:
        _write(given["out"], document)
    if form == "text":
        _print_table(report)
    else:
        sys.stdout.buffer.write(document)
    return InfrastructureError.exit_code if errors else 0


async def _evaluate(source: "Benchmark", given: dict[str, Any]) -> "EvaluationReport":
    from proctor.runner.evaluation_report import make_evaluation_report  # noqa: PLC0415
    from proctor.runner.selection import select_tasks  # noqa: PLC0415

    if given["oracle"] == (given["predictions"] is not None):
        raise UsageError("say what to grade: --predictions FILE or --oracle, not both")
    chosen = select_tasks(source, make_selection(given))
    tally = TaskCounter(len(chosen.tasks), quiet=given["quiet"])
    rooms = make_provider(given)
    try:
        return await make_evaluation_report(
            source,
            chosen,
            given["predictions"] or "oracle",
            provider=rooms,
            options=make_grade_options(given),
            artifacts=given["artifact_dir"].absolute(),
            jobs=given["jobs"],
            use_cache=not given["no_cache"],
            on_evaluated=lambda done: tally.done(done.task_id, done.verdict.status.value),
        )
    except asyncio.CancelledError:
        raise Interrupted(
            f"interrupted after {tally}",
            fix="their verdicts are kept, and the same command goes on from there",
        ) from None
    finally:
        await rooms.close()


def _print_table(report: "EvaluationReport") -> None:
    from proctor.analysis.intervals import wilson  # noqa: PLC0415

    rows = [[task.task_id, task.verdict.status.value, task.verdict.cause.value, _remark(task)] for task in report.tasks]
    print_table(["TASK", "STATUS", "CAUSE", "REASON"], rows)
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


def _remark(task: "TaskEvaluation") -> str:
    verdict = task.verdict
    parts = [verdict.reason]
    if verdict.applied_with:
        parts.append(f"applied with {verdict.applied_with}")
    parts += verdict.deviations
    if verdict.findings:
        parts.append("audit: " + ", ".join(sorted({finding.code for finding in verdict.findings})))
    return "; ".join(parts)


def _write(file: Path, document: bytes) -> None:
    from proctor.core.files import write_atomic  # noqa: PLC0415

    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(file, document)
    except OSError as error:
        raise UsageError(f"cannot write the report: {error.strerror}", where=file) from error
