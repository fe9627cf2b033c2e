"""``proctor bench validate``."""

import asyncio
import time
from collections.abc import Iterator, Sequence
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
from proctor.cli.output import TaskCounter, print_json, print_table
from proctor.core.errors import Interrupted, InvalidData, UsageError

if TYPE_CHECKING:
    from proctor.core.benchmark import Benchmark, TaskHealth


@click.command()
@source_options
@selection_options
@environment_options
@repair_options
@click.option(
    "--determinism-runs",
    metavar="N",
    type=click.IntRange(min=1),
    default=2,
    show_default=True,
    help="Runs of the tests that must end alike.",
)
@click.option(
    "--write-exclusions",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the ids of unhealthy tasks to a file, which --exclude reads.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@format_option
@click.option("--quiet", is_flag=True, help="No progress on stderr.")
def command(bench: str | None, suite: str | None, split: str | None, **given: Any) -> int:
    """Prove on this machine that each task of BENCH, or of --suite, fails as labelled, is solved by its oracle,
    gives the same results again, and does not leak its answer.

    Exits 20 when a task is not healthy.
    """
    source = load_benchmark(bench, suite, split)
    clock = time.monotonic()
    healths = asyncio.run(_validate(source, given))
    sick = [health for health in healths if not health.healthy and not health.skipped]
    if given["write_exclusions"]:
        _write_exclusions(given["write_exclusions"], sick)
    form = "json" if given["as_json"] else given["form"]
    if form not in {"text", "json"}:
        from proctor.results.formats import find_format  # noqa: PLC0415 - for these forms only

        document = find_format(form).health_document(source, healths, time.monotonic() - clock)
        click.echo(document.decode(), nl=False)
    elif form == "json":
        from proctor.report.cli_records import ValidationReport  # noqa: PLC0415

        print_json(ValidationReport(benchmark=source.name, source=source.source, ok=not sick, tasks=healths))
    else:
        _print_table(healths)
        healthy = sum(health.healthy for health in healths)
        skipped = sum(bool(health.skipped) for health in healths)
        more = f", {skipped} could not be tried" if skipped else ""
        click.echo(f"\n{source.name}: {healthy} of {len(healths)} tasks are healthy on this machine{more}")
    return InvalidData.exit_code if sick else 0


async def _validate(source: "Benchmark", given: dict[str, Any]) -> "tuple[TaskHealth, ...]":
    from proctor.runner.evaluate import invalid_task_health, validate  # noqa: PLC0415 - the help page needs none of it
    from proctor.runner.selection import select_tasks  # noqa: PLC0415

    chosen = select_tasks(source, make_selection(given))
    tasks = chosen.tasks
    tally = TaskCounter(len(tasks), quiet=given["quiet"])

    def done(health: "TaskHealth") -> None:
        tally.done(health.task_id, "healthy" if health.healthy else "skipped" if health.skipped else "NOT healthy")

    rooms = make_provider(given)
    try:
        healths = await validate(
            source,
            tasks,
            provider=rooms,
            options=make_grade_options(given),
            artifacts=given["artifact_dir"].absolute(),
            jobs=given["jobs"],
            on_validated=done,
        )
    except asyncio.CancelledError:
        raise Interrupted(f"interrupted after {tally}", fix="what was learned is kept") from None
    finally:
        await rooms.close()
    return tuple(sorted((*healths, *map(invalid_task_health, chosen.invalid)), key=lambda health: health.task_id))


def _print_table(healths: "Sequence[TaskHealth]") -> None:
    def mark(health: "TaskHealth", good: bool) -> str:
        return "-" if health.skipped else "ok" if good else "NO"

    print_table(
        ["TASK", "BASELINE", "ORACLE", "REPEATS", "LEAKS", "PROBLEM"],
        [
            [
                health.task_id,
                mark(health, health.pre_patch_ok),
                mark(health, health.oracle_ok),
                mark(health, health.determinism_ok),
                "none" if not health.leaks else str(len(health.leaks)),
                health.skipped or "; ".join(_remarks(health)),
            ]
            for health in healths
        ],
    )


def _remarks(health: "TaskHealth") -> "Iterator[str]":
    yield from health.problems
    yield from (f"leak: {leak}" for leak in health.leaks)
    yield from (f"not as the benchmark has it: {deviation}" for deviation in health.deviations)


def _write_exclusions(file: Path, unhealthy: "Sequence[TaskHealth]") -> None:
    from proctor.core.files import write_atomic  # noqa: PLC0415

    lines = [f"{health.task_id}  # {'; '.join((*health.problems, *health.leaks))}\n" for health in unhealthy]
    try:
        write_atomic(file, "".join(lines))
    except OSError as error:
        raise UsageError(f"cannot write the exclusion list: {error.strerror}", where=file) from error
