"""``proctor bench parity``."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from proctor.cli.bench.options import (
    environment_options,
    load_benchmark,
    make_provider,
    make_selection,
    selection_options,
)
from proctor.cli.output import TaskCounter, log, print_json, print_table
from proctor.core.errors import InfrastructureError, InvalidData

if TYPE_CHECKING:
    from proctor.core.evaluation import TaskEvaluation


@click.command()
@click.argument("bench")
@click.argument("file", type=click.Path(path_type=Path, exists=True))
@click.option("--split", metavar="NAME", help="A part of the benchmark, where it has several.")
@click.option(
    "--predictions", type=click.Path(path_type=Path), required=True, help="The answers that were graded there."
)
@selection_options
@environment_options
@click.option("--no-cache", is_flag=True, help="Grade anew what was graded before.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@click.option("--quiet", is_flag=True, help="No progress on stderr.")
def command(bench: str, file: Path, split: str | None, **given: Any) -> int:
    """Grade the answers of another harness here, and list where its report FILE and the official rule here differ.

    FILE is a report of the benchmark's own harness, or a folder of its instances' reports. Exits 0 when all that could
    be graded agrees, 20 when something does not, 12 when an answer could not be graded here.
    """
    from proctor.benchmarks import harness_outcomes  # noqa: PLC0415 - the help page needs none of it
    from proctor.benchmarks import parity as compare  # noqa: PLC0415

    theirs = harness_outcomes(file)
    ours = asyncio.run(_grade_predictions(bench, split, {outcome.instance_id for outcome in theirs}, given))
    parity = compare(bench, theirs, {evaluated.task_id: evaluated for evaluated in ours})
    if given["as_json"]:
        print_json(parity)
    else:
        rows = [
            [one.task_id, one.theirs.value, one.ours.value, one.evidence, one.artifacts or ""]
            for one in parity.disagreements
        ]
        if rows:
            print_table(["TASK", "THEIRS", "OURS", "EVIDENCE", "LOGS"], rows)
        click.echo(f"{bench}: {parity.agreed} of {parity.compared} verdicts agree")
    for task, reason in parity.errors.items():
        log(f"{task} could not be graded here: {reason}")
    if parity.only_theirs:
        log(f"{len(parity.only_theirs)} verdicts of theirs have no prediction, or no task, here")
    if parity.errors:
        return InfrastructureError.exit_code
    return InvalidData.exit_code if parity.disagreements else 0


async def _grade_predictions(
    bench: str, split: str | None, task_ids: set[str], given: dict[str, Any]
) -> "tuple[TaskEvaluation, ...]":
    from proctor.core.benchmark import GradeOptions  # noqa: PLC0415
    from proctor.core.evaluation import TaskEvaluation  # noqa: PLC0415
    from proctor.results import RecordCache  # noqa: PLC0415
    from proctor.runner.evaluate import evaluate  # noqa: PLC0415
    from proctor.runner.selection import select_tasks  # noqa: PLC0415

    source = load_benchmark(bench, None, split)
    answers = source.read_predictions(given["predictions"])
    tasks = [
        task for task in select_tasks(source, make_selection(given)).tasks if task.id in task_ids and task.id in answers
    ]
    tally = TaskCounter(len(tasks), quiet=given["quiet"])
    rooms = make_provider(given)
    try:
        return await evaluate(
            source,
            tasks,
            answers,
            provider=rooms,
            options=GradeOptions(
                image=given["docker_image"],
                timeout_seconds=given["timeout"],
                keep_artifacts=given["keep_artifacts"],
            ),
            artifacts=given["artifact_dir"].absolute(),
            jobs=given["jobs"],
            cache=None if given["no_cache"] else RecordCache(TaskEvaluation, "evaluations"),
            on_evaluated=lambda done: tally.done(done.task_id, done.verdict.status.value),
        )
    finally:
        await rooms.close()
