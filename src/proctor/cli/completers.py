"""The values that a shell can complete. What cannot be read completes to nothing: that line has no place for errors."""

import os
from collections.abc import Callable, Iterable
from typing import Any, Final

import click
from click.shell_completion import CompletionItem

from proctor.cli.groups import RESULTS_KEY
from proctor.core.errors import ProctorError
from proctor.core.plugins import entry_points

_MAX_VALUES: Final = 5000


def complete_values(what: str, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
    """The values of one kind that begin with what is typed."""
    try:
        known = dict.fromkeys(value for value in _VALUES[what](ctx) if value.startswith(incomplete))
    except (ProctorError, OSError):
        return []
    return [CompletionItem(value) for value in list(known)[:_MAX_VALUES]]


def _benchmarks(_: click.Context) -> Iterable[str]:
    from proctor.benchmarks.plugins import GROUP
    from proctor.benchmarks.suites.load import shipped_suites

    return sorted({*(entry.name for entry in entry_points(GROUP)), *shipped_suites()})


def _agents(_: click.Context) -> Iterable[str]:
    return sorted(entry.name for entry in entry_points("proctor.agents"))


def _runners(_: click.Context) -> Iterable[str]:
    return sorted(entry.name for entry in entry_points("proctor.environments"))


def _models(_: click.Context) -> Iterable[str]:
    from proctor.core.model_aliases import MODEL_ALIASES
    from proctor.gateway.prices import Prices

    return [*MODEL_ALIASES, *Prices.load().models]


def _stored_benchmarks(ctx: click.Context) -> Iterable[str]:
    """Those that have runs."""
    from proctor.results.run_names import all_runs

    with _results_of(ctx):
        return sorted({store.folder.parent.name for store in all_runs()})


def _runs(ctx: click.Context) -> Iterable[str]:
    from proctor.results.run_names import all_runs, names_of

    with _results_of(ctx):
        stores = all_runs()
        return [*(store.name for store in stores), *(name for store in stores for name in names_of(store))]


def _tasks_of_run(ctx: click.Context) -> Iterable[str]:
    from proctor.results import find_run

    with _results_of(ctx):
        return find_run(ctx.params.get("run") or "").config().tasks


def _tasks_of_benchmark(ctx: click.Context) -> Iterable[str]:
    """Of suites, which are read in no time."""
    from proctor.benchmarks.suites.load import load_suite, shipped_suites

    shipped = shipped_suites()
    # Before an option that still lacks its value, click has read no argument: the words themselves say which suite.
    words = [ctx.params.get("benchmark") or "", *os.environ.get("COMP_WORDS", "").split()]
    name = ctx.params.get("suite") or next((shipped[word] for word in words if word in shipped), None)
    return [] if name is None else [instance.id for instance in load_suite(str(name)).instances]


def _results_of(ctx: click.Context) -> Any:
    from contextlib import nullcontext

    from proctor.results.store import use_results

    folder = ctx.meta.get(RESULTS_KEY)
    return use_results(folder) if folder else nullcontext()


_VALUES: Final[dict[str, Callable[[click.Context], Iterable[str]]]] = {
    "agents": _agents,
    "benchmarks": _benchmarks,
    "models": _models,
    "runners": _runners,
    "runs": _runs,
    "stored_benchmarks": _stored_benchmarks,
    "tasks": _tasks_of_benchmark,
    "tasks_of_run": _tasks_of_run,
}
