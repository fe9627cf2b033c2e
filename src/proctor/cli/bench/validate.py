"""``proctor bench validate``."""

import asyncio
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from proctor.cli.bench.options import (
    form_option,
    grade_options,
    load,
    provider,
    repair_options,
    room_options,
    selection,
    selection_options,
    source_options,
)
from proctor.cli.output import Tally, print_json, print_table
from proctor.core.errors import Interrupted, InvalidData, UsageError

if TYPE_CHECKING:
    from proctor.core.benchmark import Benchmark, Health


@click.command()
@source_options
@selection_options
@room_options
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
@form_option
@click.option("--quiet", is_flag=True, help="No progress on stderr.")
def command(bench: str | None, suite: str | None, split: str | None, **given: Any) -> int:
    """Prove on this machine that each task of BENCH, or of --suite, fails as labelled, is solved by its oracle,
    gives the same results again, and does not leak its answer.

    Exits 20 when a task is not healthy.
    """
    source = load(bench, suite, split)
    clock = time.monotonic()
    healths = asyncio.run(_validate(source, given))
    sick = [health for health in healths if not health.healthy and not health.skipped]
    if given["write_exclusions"]:
        _write_exclusions(given["write_exclusions"], sick)
    form = "json" if given["as_json"] else given["form"]
    if form == "x07":
        from proctor.benchmarks import x07_health_document  # noqa: PLC0415 - for this form only

        click.echo(x07_health_document(source, healths, time.monotonic() - clock).decode(), nl=False)
    elif form == "json":
        from proctor.report.printed import Validation  # noqa: PLC0415

        print_json(Validation(benchmark=source.name, source=source.source, ok=not sick, tasks=healths))
    else:
        _print_table(healths)
        healthy = sum(health.healthy for health in healths)
        skipped = sum(bool(health.skipped) for health in healths)
        more = f", {skipped} could not be tried" if skipped else ""
        click.echo(f"\n{source.name}: {healthy} of {len(healths)} tasks are healthy on this machine{more}")
    return InvalidData.exit_code if sick else 0


async def _validate(source: "Benchmark", given: dict[str, Any]) -> "tuple[Health, ...]":
    from proctor.runner.evaluate import broken_health, validate  # noqa: PLC0415 - the help page needs none of it
    from proctor.runner.selection import choose  # noqa: PLC0415

    chosen = choose(source, selection(given))
    tasks = chosen.tasks
    tally = Tally(len(tasks), quiet=given["quiet"])

    def done(health: "Health") -> None:
        tally.done(health.task_id, "healthy" if health.healthy else "skipped" if health.skipped else "NOT healthy")

    rooms = provider(given)
    try:
        healths = await validate(
            source,
            tasks,
            provider=rooms,
            options=grade_options(given),
            artifacts=given["artifact_dir"].absolute(),
            jobs=given["jobs"],
            done=done,
        )
    except asyncio.CancelledError:
        raise Interrupted(f"interrupted after {tally}", fix="what was learned is kept") from None
    finally:
        await rooms.close()
    return tuple(sorted((*healths, *map(broken_health, chosen.broken)), key=lambda health: health.task_id))


def _print_table(healths: "Sequence[Health]") -> None:
    def mark(health: "Health", good: bool) -> str:
        return "-" if health.skipped else "ok" if good else "NO"

    print_table(
        ["TASK", "BASELINE", "ORACLE", "REPEATS", "LEAKS", "PROBLEM"],
        [
            [
                health.task_id,
                mark(health, health.baseline_ok),
                mark(health, health.oracle_ok),
                mark(health, health.determinism_ok),
                "none" if not health.leaks else str(len(health.leaks)),
                health.skipped or "; ".join(_remarks(health)),
            ]
            for health in healths
        ],
    )


def _remarks(health: "Health") -> "Iterator[str]":
    yield from health.problems
    yield from (f"leak: {leak}" for leak in health.leaks)
    yield from (f"not as the benchmark has it: {deviation}" for deviation in health.deviations)


def _write_exclusions(file: Path, sick: "Sequence[Health]") -> None:
    from proctor.core.files import write_atomic  # noqa: PLC0415

    lines = [f"{health.task_id}  # {'; '.join((*health.problems, *health.leaks))}\n" for health in sick]
    try:
        write_atomic(file, "".join(lines))
    except OSError as error:
        raise UsageError(f"cannot write the exclusion list: {error.strerror}", where=file) from error
