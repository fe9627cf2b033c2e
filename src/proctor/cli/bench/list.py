"""``proctor bench list``."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from proctor.cli.bench.options import format_option, load_benchmark, make_selection, selection_options, source_options
from proctor.cli.output import print_json, print_table

if TYPE_CHECKING:
    from proctor.core.benchmark import Benchmark
    from proctor.core.task import Task


@click.command()
@source_options
@selection_options
@click.option("--runnable", is_flag=True, help="Say which tasks this machine can run, and why not the others.")
@click.option(
    "--runner",
    metavar="NAME",
    default="local",
    show_default=True,
    help="With --runnable: the provider of environments.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@format_option
def command(bench: str | None, suite: str | None, split: str | None, *, as_json: bool, form: str, **given: Any) -> int:
    """List the benchmarks; with BENCH or --suite, the tasks of one."""
    from proctor.benchmarks import benchmark_table  # noqa: PLC0415 - the help page needs none of it
    from proctor.runner.selection import select_tasks  # noqa: PLC0415 - likewise

    if bench is None and suite is None:
        table = benchmark_table()
        if as_json or form == "json":
            print_json(table)
        else:
            print_table(
                ["BENCHMARK", "TASKS", "SPLITS", "ABOUT"],
                [
                    [row.name, "not fetched" if row.tasks is None else str(row.tasks), " ".join(row.splits), row.about]
                    for row in table
                ],
            )
        return 0
    source = load_benchmark(bench, suite, split)
    chosen = select_tasks(source, make_selection(given))
    tasks = chosen.tasks
    if given["runnable"]:
        _print_runnable(source, tasks, given["runner"], as_json=as_json or form == "json")
    elif form not in {"text", "json"} and not as_json:
        from proctor.results.formats import find_format  # noqa: PLC0415 - for these forms only

        click.echo(find_format(form).task_list_document(source, tasks).decode(), nl=False)
    elif as_json or form == "json":
        from proctor.report.cli_records import TaskList, TaskRow  # noqa: PLC0415 - likewise

        rows = tuple(TaskRow(id=task.id, tags=task.tags, categories=task.categories) for task in tasks)
        print_json(TaskList(benchmark=source.name, source=source.source, tasks=rows, invalid_tasks=chosen.invalid))
    else:
        names = list(dict.fromkeys(name for task in tasks for name in task.categories))
        print_table(
            ["TASK", *(name.upper() for name in names), "TAGS"],
            [[task.id, *(task.categories.get(name, "") for name in names), " ".join(task.tags)] for task in tasks],
        )
        for bad in chosen.invalid:
            for problem in bad.problems:
                click.echo(f"unusable: {bad.task_id}: {problem}", err=True)
    return 0


def _print_runnable(source: "Benchmark", tasks: "Sequence[Task]", runner: str, *, as_json: bool) -> None:
    from proctor.runner.preflight import obstacles_by_task  # noqa: PLC0415 - for those who ask

    known = asyncio.run(obstacles_by_task(source, tasks, runner))
    if as_json:
        from proctor.report.cli_records import RunnableList, RunnableRow  # noqa: PLC0415

        rows = tuple(RunnableRow(id=name, runnable=why is None, reason=why) for name, why in known.items())
        print_json(RunnableList(benchmark=source.name, runner=runner, tasks=rows))
        return
    print_table(
        ["TASK", "RUNS HERE", "WHY NOT"], [[name, "no" if why else "yes", why or ""] for name, why in known.items()]
    )
    count = sum(why is None for why in known.values())
    click.echo(f"\n{source.name}: {count} of {len(known)} tasks can be run on this machine with --runner {runner}")
