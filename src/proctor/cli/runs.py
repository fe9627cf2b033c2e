"""``proctor runs``: all runs of all benchmarks; what they are called, and which of them are kept."""

from typing import TYPE_CHECKING, Any

import click

from proctor.cli.groups import DefaultGroup, completes, results_option

if TYPE_CHECKING:
    from proctor.report.run_list import RunFilter, RunListRow
    from proctor.results import RunStore, SweepStore

_SORTS = ("age", "run", "state", "agent", "model", "rate", "cost", "time")
_STATES = ("running", "finished", "stopped", "unreadable")
_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")


@click.group(cls=DefaultGroup)
def command() -> None:
    """All runs: list, rename, tag, annotate, archive and delete them.

    `proctor runs` alone lists them. RUN is a folder, benchmark/run-id, a run-id, a name, or a sweep's label; where a
    whole sweep can be meant, also that.
    """


@command.command("list", short_help="List all runs of all benchmarks, the newest first.")
@click.argument("benchmark", required=False, metavar="[BENCH]", shell_complete=completes("stored_benchmarks"))
@click.option("--state", type=click.Choice(_STATES), help="Only runs in this state.")
@click.option("--agent", metavar="NAME", shell_complete=completes("agents"), help="Only runs of this agent.")
@click.option("--model", metavar="TEXT", help="Only runs whose model contains TEXT.")
@click.option("--sweep", metavar="SWEEP", help="Only runs of this sweep.")
@click.option("--tag", "tags", multiple=True, metavar="NAME[=VALUE]", help="Only runs with this tag; may be repeated.")
@click.option(
    "--search", "text", default="", metavar="TEXT", help="Only runs matching TEXT in name, tags, note, agent or model."
)
@click.option("--archived", is_flag=True, help="Archived runs too.")
@click.option("--sort", "by", type=click.Choice(_SORTS), default="age", show_default=True, help="Sort key.")
@click.option("--reverse", is_flag=True, help="Reverse the order.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Show at most N.")
@results_option
@_json_option
def list_(*, by: Any, reverse: bool, limit: int | None, as_json: bool, **chosen: Any) -> None:
    """List runs: state, agent, model, rate with its 95 % interval, cost, and age."""
    from proctor.cli.output import log, print_json
    from proctor.core.formatting import money, plural
    from proctor.report.run_list import RunFilter, RunList, list_runs_below, sort_runs, total_cost
    from proctor.results.run_names import no_runs_of
    from proctor.results.store import results_root

    root = results_root()
    known = list_runs_below(root)
    wanted = RunFilter(**chosen)
    if wanted.benchmark is not None and all(row.benchmark != wanted.benchmark for row in known):
        raise no_runs_of(wanted.benchmark)
    _check_filter(wanted, known)
    found = sort_runs(filter(wanted.accepts, known), by, reverse=reverse)
    shown = found[:limit]
    if as_json:
        print_json(RunList(results=str(root), runs=tuple(shown)))
        return
    if shown:
        _print_rows(shown)
    hidden = sum(row.archived for row in known) if not wanted.archived else 0
    archived = f"; {hidden} archived (--archived)" if hidden else ""
    cut = f", {len(shown)} shown" if len(shown) < len(found) else ""
    missing = "" if root.is_dir() else ", which is not there"
    log(f"{plural(len(found), 'run')}{cut}, {money(total_cost(found))}, in {root}{missing}{archived}")


def _check_filter(wanted: "RunFilter", known: "list[RunListRow]") -> None:
    """See that a name which selects nothing is at least one that something could have."""
    from proctor.core.errors import UsageError
    from proctor.core.plugins import entry_points
    from proctor.core.suggestions import suggest

    agents = {row.agent for row in known if row.agent}
    if wanted.agent is not None and wanted.agent not in agents:
        agents |= {entry.name for entry in entry_points("proctor.agents")}
        if wanted.agent not in agents:
            choices = f"choose one of: {', '.join(sorted(agents))}"
            raise UsageError(f"there is no agent {wanted.agent!r}", fix=suggest(wanted.agent, agents, choices))
    sweeps = {name for row in known if row.sweep for name in (row.sweep, row.sweep.rpartition("/")[2])}
    if wanted.sweep is not None and wanted.sweep not in sweeps:
        choices = f"choose one of: {', '.join(sorted(sweeps))}" if sweeps else "there are none"
        raise UsageError(f"no run is part of a sweep {wanted.sweep!r}", fix=suggest(wanted.sweep, sweeps, choices))


def _print_rows(rows: "list[RunListRow]") -> None:
    from datetime import UTC, datetime

    from proctor.cli.output import log, print_table
    from proctor.core.formatting import NO_VALUE, age, money, percent, percent_interval
    from proctor.results.run_names import run_title

    now = datetime.now(UTC)
    tagged, noted = any(row.tags for row in rows), any(row.note for row in rows)
    headings = ["RUN", "STATE", "AGENT", "MODEL", "RESOLVED", "RATE", "95 % INTERVAL", "COST", "AGE"]
    cells = [
        [
            run_title(row.run, row.name or row.label or ""),
            _state(row),
            row.agent or NO_VALUE,
            row.model or NO_VALUE,
            f"{row.resolved}/{row.counted}",
            percent(row.rate),
            percent_interval(row.low, row.high),
            money(row.cost_usd) if row.counted or row.cost_usd else NO_VALUE,
            age(row.age_seconds(now)),
            *([" ".join(f"{name}={value}" for name, value in row.tags.items())] if tagged else []),
            *([row.note or ""] if noted else []),
        ]
        for row in rows
    ]
    print_table([*headings, *(["TAGS"] if tagged else []), *(["NOTE"] if noted else [])], cells)
    for row in rows:
        if row.problem:
            log(f"{row.run} cannot be read: {row.problem}")


def _state(row: "RunListRow") -> str:
    state = f"{row.state} {row.done}/{row.trials}" if row.state in {"running", "stopped"} else row.state
    return ", ".join([state, *(["imported"] if row.origin else []), *(["archived"] if row.archived else [])])


@command.command(short_help="Give a run a name.")
@click.argument("run", shell_complete=completes("runs"))
@click.argument("name", required=False)
@click.option("--clear", is_flag=True, help="Remove the name.")
@results_option
def rename(run: str, name: str | None, *, clear: bool) -> None:
    """Give RUN the name NAME, which commands then take where they take its id."""
    from proctor.core.errors import UsageError
    from proctor.results import find_run
    from proctor.results.run_edits import rename_run

    if (name is None) is not clear:
        raise UsageError("rename needs a name, or --clear", fix="give one of them")
    store = find_run(run)
    rename_run(store, name)
    click.echo(f"{store.name}: {name or 'no name'}")


@command.command(short_help="Tag a run.")
@click.argument("run", shell_complete=completes("runs"))
@click.argument("tags", nargs=-1, metavar="[NAME=VALUE]...")
@click.option("--remove", "removed", multiple=True, metavar="NAME", help="Remove this tag; may be repeated.")
@results_option
def tag(run: str, tags: tuple[str, ...], removed: tuple[str, ...]) -> None:
    """Add tags to RUN, or remove some; without either, print those that it has."""
    from proctor.results import find_run
    from proctor.results.run_edits import tag_run

    store = find_run(run)
    config = tag_run(store, tags, removed) if tags or removed else store.config()
    click.echo(f"{store.name}: {' '.join(f'{name}={value}' for name, value in config.run_tags.items()) or 'no tags'}")


@command.command(short_help="Write a note about a run.")
@click.argument("run", shell_complete=completes("runs"))
@click.argument("text", required=False)
@click.option("--clear", is_flag=True, help="Remove the note.")
@results_option
def note(run: str, text: str | None, *, clear: bool) -> None:
    """Keep the note TEXT with RUN; without TEXT, print the note that it has."""
    from proctor.core.errors import UsageError
    from proctor.core.formatting import visible
    from proctor.results import find_run

    if clear and text is not None:
        raise UsageError("a note and --clear are both given", fix="give one of them")
    store = find_run(run)
    config = store.update_config(note=text or None) if clear or text is not None else store.config()
    click.echo(visible(f"{store.name}: {config.note or 'no note'}"))


@command.command(short_help="Archive runs.")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...", shell_complete=completes("runs"))
@click.option("--undo", is_flag=True, help="List them again.")
@results_option
def archive(runs: tuple[str, ...], *, undo: bool) -> None:
    """Archive runs, or the runs of a sweep: lists and reports leave them out. They stay usable by name."""
    for store in [store for name in runs for store in _named(name)[0]]:  # all are found before the first is changed
        store.update_config(archived=not undo)
        click.echo(f"{store.name} is {'listed again' if undo else 'archived'}")


@command.command(short_help="Delete runs from the disk.")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...", shell_complete=completes("runs"))
@click.option("--yes", is_flag=True, help="Delete without asking.")
@results_option
def delete(runs: tuple[str, ...], *, yes: bool) -> int:
    """Delete runs, or a sweep with all of its runs: results, logs, recordings. Shows their cost first.

    On a terminal you are asked; elsewhere --yes is needed. A run that is running is not deleted.
    """
    import sys

    from proctor.cli.output import log
    from proctor.core.errors import UsageError
    from proctor.core.formatting import plural
    from proctor.results.run_edits import check_deletable, delete_runs

    found = [_named(name) for name in runs]
    stores = list({store.folder.resolve(): store for some, _ in found for store in some}.values())
    sweeps = list({sweep.folder.resolve(): sweep for _, sweep in found if sweep is not None}.values())
    check_deletable(stores, sweeps)
    for line in _describe(stores):
        log(line)
    if not yes:
        if not sys.stdin.isatty():
            raise UsageError("deleting runs needs confirmation, and this is not a terminal", fix="give --yes")
        if not click.confirm(f"Delete {plural(len(stores), 'run')} permanently?", err=True):
            log("nothing is deleted")
            return 0
    delete_runs(stores, sweeps)
    for store in stores:
        click.echo(f"deleted {store.name}")
    return 0


def _named(name: str) -> "tuple[list[RunStore], SweepStore | None]":
    """The runs of a sweep, or one run."""
    from proctor.results import find_run, find_sweep

    sweep = find_sweep(name)
    return ([store for _, store in sweep.runs()], sweep) if sweep is not None else ([find_run(name)], None)


def _describe(stores: "list[RunStore]") -> list[str]:
    """What would be lost, and what it cost."""
    from proctor.core.formatting import money, plural
    from proctor.report.run_index import RunIndex

    lines, costs = [], []
    for store in stores:
        entry = RunIndex(store.folder.parent.parent, [store]).entries()[0]
        counts = entry.counts
        costs.append(counts.cost_usd if counts else None)
        what = f"{plural(counts.done, 'result')}, which cost {money(costs[-1])}" if counts else entry.problem
        lines.append(f"{entry.title}: {what}")
    if len(stores) > 1:
        unknown = ", and what is not known" if None in costs else ""
        lines.append(f"{plural(len(stores), 'run')}, which cost {money(sum(cost or 0.0 for cost in costs))}{unknown}")
    return lines
