"""``proctor bench sweep``, and what going on with a sweep needs."""

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from proctor.cli.bench.sitting import (
    access_of,
    bound_text,
    pulls_of,
    run_until_signalled,
    sitting_of,
    sitting_options,
    tell_what_is_left,
)
from proctor.cli.output import print_json, print_table
from proctor.core.errors import InfrastructureError, Interrupted, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proctor.core.benchmark import Benchmark
    from proctor.core.sweep import Sweep
    from proctor.results import SweepStore
    from proctor.runner.drive import Ending
    from proctor.runner.models import Access


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--dry-run", is_flag=True, help="Say what would be done, and what it can cost at most.")
@click.option("--yes", is_flag=True, help="Start without asking.")
@sitting_options
def command(file: Path, **given: Any) -> int:
    """Make the runs that FILE (TOML) asks for, task by task in turns, and compare them.

    The plan and the most that it can cost are shown first. On a terminal you are asked whether to start; elsewhere a
    sweep whose cost nothing bounds is started with --yes only. A sweep that stops is gone on with as one:
    `proctor bench resume BENCH/SWEEP`, which at its end, or after it, prints the comparison.

    Exits 0 when every answer has a verdict, 12 when one ended in an error or the sweep had to stop before its end.
    """
    from proctor.runner.sweep import begin_sweep, benchmark_of, plan_sweep  # noqa: PLC0415 - the help page needs none of it
    from proctor.runner.sweep_file import read_sweep  # noqa: PLC0415

    wanted = read_sweep(file)
    source = benchmark_of(wanted)
    access = access_of(given)
    sweep = asyncio.run(
        plan_sweep(
            wanted,
            source,
            access=access,
            program=given["claude_bin"],
            h2_program=given["h2_bin"],
            run_usd=given["max_cost"],
            on_pull=pulls_of(given),
            prices=given["prices"],
            pull=not given["dry_run"],
        )
    )
    if given["dry_run"]:
        _print_plan(sweep, as_json=given["as_json"])
        return 0
    if not given["yes"]:
        _ask(sweep, quiet=given["quiet"])
    return sit_sweep(begin_sweep(sweep), source, given, access)


def sit_sweep(store: "SweepStore", source: "Benchmark", given: dict[str, Any], access: "Access") -> int:
    """Go on with a sweep, and say what it has shown."""
    from proctor.cli.bench.progress import Progress  # noqa: PLC0415 - help pages need none of it
    from proctor.runner.scratch import temporary_files_here  # noqa: PLC0415
    from proctor.runner.sweep import drive_sweep, outcome_of  # noqa: PLC0415

    labels = {run.config.run_id: run.label for run in store.sweep().runs}
    try:
        with temporary_files_here(), Progress(quiet=given["quiet"], labels=labels) as progress:
            work = drive_sweep(store, source, watch=progress.board, sitting=sitting_of(given, access))
            endings = run_until_signalled(work)
    except (KeyboardInterrupt, asyncio.CancelledError):
        raise Interrupted(
            f"sweep {store.name} is interrupted, and nothing that was paid for is lost",
            fix=f"go on with `proctor bench resume {store.name}`",
        ) from None
    outcome = outcome_of(store)
    if given["as_json"]:
        print_json(outcome)
    else:
        from proctor.report.sweep import sweep_text  # noqa: PLC0415

        click.echo(sweep_text(outcome), nl=False)
    return _end(store, endings)


def _end(store: "SweepStore", endings: "Sequence[Ending]") -> int:
    left, errors = sum(ending.left for ending in endings), sum(ending.summary.errors for ending in endings)
    tell_what_is_left(store.name, endings)
    return InfrastructureError.exit_code if errors or left else 0


def _ask(sweep: "Sweep", *, quiet: bool) -> None:
    """Show the plan, and let nobody spend by mistake."""
    from proctor.runner.sweep import pays, sweep_bound  # noqa: PLC0415

    configs = [run.config for run in sweep.runs]
    if sys.stdin.isatty():
        _print_plan(sweep, as_json=False, err=True)
        if not click.confirm("Start?", err=True):
            raise Interrupted("the sweep is not started, and nothing is written")
        return
    if pays(configs) and sweep_bound(configs) is None:
        raise UsageError(
            "nothing bounds what this sweep can cost", fix="give max_cost in its file, --max-cost, or --yes"
        )
    if not quiet:
        _print_plan(sweep, as_json=False, err=True)


def _print_plan(sweep: "Sweep", *, as_json: bool, err: bool = False) -> None:
    from proctor.runner.plan import cost_bound  # noqa: PLC0415
    from proctor.runner.sweep import sweep_bound  # noqa: PLC0415

    configs = [run.config for run in sweep.runs]
    bound, answers = sweep_bound(configs), sum(len(config.tasks) * config.samples for config in configs)
    if as_json:
        from proctor.report.printed import SweepPlan  # noqa: PLC0415

        print_json(SweepPlan(sweep=sweep, answers=answers, cost_at_most_usd=bound))
        return
    rows = []
    for run in sweep.runs:
        config = run.config
        own = cost_bound(config)
        rows.append(
            [
                run.label + (" (baseline)" if run.label == sweep.baseline else ""),
                config.mode.value,
                config.agent,
                config.model or "none",
                f"{len(config.tasks)} x {config.samples}",
                "not bounded" if own is None else f"${own:.2f}",
            ]
        )
    print_table(["CONFIGURATION", "MODE", "AGENT", "MODEL", "ANSWERS", "COST AT MOST"], rows, err=err)
    first = configs[0]
    together = bound_text(bound, options="max_cost or max_cost_per_task")
    click.echo(
        f"\n{sweep.benchmark}: {answers} answers, in turns over {len(first.tasks)} tasks, "
        f"{first.concurrency} agents at once\ncost at most: {together}\n"
        f"rule: {sweep.rule or 'none; nothing will be decided'}",
        err=err,
    )
