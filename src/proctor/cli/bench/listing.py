"""What `list` and `fetch` do: the benchmarks, the tasks of one, and bringing its data here."""

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from proctor.benchmarks import benchmark_table, fetch_dataset
from proctor.cli.bench.options import read_request
from proctor.cli.output import log, print_json, print_table
from proctor.core.benchmark import Benchmark
from proctor.core.errors import UsageError
from proctor.core.formatting import reason_lines
from proctor.core.request import TaskRequest
from proctor.core.task import Task
from proctor.report.cli_records import RunnableList, RunnableRow, TaskList, TaskRow
from proctor.results.formats import find_format
from proctor.runner.request import given_options
from proctor.runner.selection import open_benchmark, select_tasks


def print_list(given: dict[str, Any]) -> int:
    """``proctor bench list``."""
    as_json = given["as_json"] or given["form"] == "json"
    request = read_request(TaskRequest, given, benchmark=given["benchmark"])
    if request.benchmark is None and request.suite is None:
        if given["runnable"] or given_options(request):
            raise UsageError("options that select tasks need a benchmark", fix="give BENCH or --suite too")
        _print_benchmarks(as_json=as_json)
        return 0
    source = open_benchmark(request)
    tasks, invalid = select_tasks(source, request)
    if given["runnable"]:
        _print_runnable(source, tasks, request, as_json=as_json)
    elif given["form"] not in {"text", "json"} and not as_json:
        click.echo(find_format(given["form"]).task_list_document(source, tasks).decode(), nl=False)
    elif as_json:
        rows = tuple(TaskRow(id=task.id, tags=task.tags, categories=task.categories) for task in tasks)
        print_json(TaskList(benchmark=source.name, source=source.source, tasks=rows, invalid_tasks=invalid))
    else:
        names = list(dict.fromkeys(name for task in tasks for name in task.categories))
        print_table(
            ["TASK", *(name.upper() for name in names), "TAGS"],
            [[task.id, *(task.categories.get(name, "") for name in names), " ".join(task.tags)] for task in tasks],
        )
        lines = reason_lines({bad.task_id: "; ".join(bad.problems) for bad in invalid})
        for line in lines:
            log(f"invalid: {line}")
        if len(lines) < len(invalid):
            log("--json lists every task, with all that is wrong with it")
    return 0


def fetch(bench: str, *, origin: str | None, split: str | None, as_json: bool, quiet: bool) -> None:
    """``proctor bench fetch``."""
    place = None if origin is None else _origin(origin)
    got = asyncio.run(fetch_dataset(bench, split, place, (lambda _: None) if quiet else log))
    if as_json:
        print_json(got)
        return
    revision = f" at {got.revision}" if got.revision else ""
    click.echo(
        f"{got.benchmark} ({got.split}): {got.tasks} tasks from {got.origin}{revision}, digest {got.digest[:16]}"
    )


def _origin(text: str) -> Path | str:
    """A path on this machine, or the address of a repository."""
    if Path(text).exists():
        return Path(text).absolute()
    if "://" in text or re.fullmatch(r"[\w.-]+@[\w.-]+:.+", text):
        return text
    raise UsageError("there is no such path", where=text, fix="give a path, or the address of a repository")


def _print_benchmarks(*, as_json: bool) -> None:
    table = benchmark_table()
    if as_json:
        print_json(table)
        return
    print_table(
        ["BENCHMARK", "TASKS", "SPLITS", "ABOUT"],
        [
            [row.name, "not fetched" if row.tasks is None else str(row.tasks), " ".join(row.splits), row.about]
            for row in table
        ],
    )


def _print_runnable(source: Benchmark, tasks: Sequence[Task], request: TaskRequest, *, as_json: bool) -> None:
    from proctor.runner.preflight import missing_requirements_by_task

    known = asyncio.run(missing_requirements_by_task(source, tasks, request))
    if as_json:
        rows = tuple(RunnableRow(id=name, runnable=why is None, reason=why) for name, why in known.items())
        print_json(RunnableList(benchmark=source.name, runner=request.runner, tasks=rows))
        return
    print_table(
        ["TASK", "RUNS HERE", "WHY NOT"], [[name, "no" if why else "yes", why or ""] for name, why in known.items()]
    )
    count = sum(why is None for why in known.values())
    click.echo(
        f"\n{source.name}: {count} of {len(known)} tasks can be run on this machine with --runner {request.runner}"
    )
