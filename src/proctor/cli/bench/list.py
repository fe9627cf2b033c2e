"""``proctor bench list``."""

from typing import Any

import click

from proctor.cli.bench.options import load, selection, selection_options, source_options
from proctor.cli.output import print_json, print_table


@click.command()
@source_options
@selection_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@click.option("--format", "form", type=click.Choice(["text", "json", "x07"]), default="text", show_default=True)
def command(bench: str | None, suite: str | None, split: str | None, *, as_json: bool, form: str, **choice: Any) -> int:
    """List the benchmarks; with BENCH or --suite, the tasks of one."""
    from proctor.benchmarks import benchmark_table  # noqa: PLC0415 - the help page needs none of it
    from proctor.runner.selection import matches, select  # noqa: PLC0415 - likewise

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
    source = load(bench, suite, split)
    chosen = selection(choice)
    unusable = [bad for bad in source.unusable() if matches(bad.task_id, (), chosen)]
    tasks = select(source.tasks(), chosen, known=[bad.task_id for bad in unusable])
    if form == "x07":
        from proctor.benchmarks import x07_list_document  # noqa: PLC0415 - for this form only

        click.echo(x07_list_document(source, tasks).decode(), nl=False)
    elif as_json or form == "json":
        rows = [{"id": task.id, "tags": task.tags, "categories": task.categories} for task in tasks]
        print_json({"benchmark": source.name, "source": source.source, "tasks": rows, "unusable": unusable})
    else:
        print_table(
            ["TASK", "DIFFICULTY", "LANGUAGE", "TAGS"],
            [
                [
                    task.id,
                    task.categories.get("difficulty", ""),
                    task.categories.get("language", ""),
                    " ".join(task.tags),
                ]
                for task in tasks
            ],
        )
        for bad in unusable:
            for problem in bad.problems:
                click.echo(f"unusable: {bad.task_id}: {problem}", err=True)
    return 0
