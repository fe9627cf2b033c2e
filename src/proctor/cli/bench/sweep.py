"""``proctor bench sweep``, and what going on with a sweep needs."""

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from proctor.cli.bench.session import (
    cost_bound_text,
    make_model_access,
    make_pull_reporter,
    make_session_options,
    report_trials_left,
    run_until_signalled,
    session_options,
)
from proctor.cli.output import print_json, print_table
from proctor.core.errors import InfrastructureError, Interrupted, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proctor.core.benchmark import Benchmark
    from proctor.core.sweep import Sweep
    from proctor.results import SweepStore
    from proctor.runner.models import ModelAccess
    from proctor.runner.session import SessionResult


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--dry-run", is_flag=True, help="Say what would be done, and what it can cost at most.")
@click.option("--yes", is_flag=True, help="Start without asking.")
@session_options
def command(file: Path, **given: Any) -> int:
    """Make the runs that FILE (TOML) asks for, task by task in turns, and compare them.

    The plan and the most that it can cost are shown first. On a terminal you are asked whether to start; elsewhere a
    sweep whose cost nothing bounds is started with --yes only. A sweep that stops is gone on with as one:
    `proctor bench resume BENCH/SWEEP`, which at its end, or after it, prints the comparison.

    Exits 0 when every answer has a verdict, 12 when one ended in an error or the sweep had to stop before its end.
    """
    from proctor.runner.sweep import create_sweep, plan_sweep, sweep_benchmark  # noqa: PLC0415 - the help page needs none of it
    from proctor.runner.sweep_file import read_sweep_file  # noqa: PLC0415

    wanted = read_sweep_file(file)
    source = sweep_benchmark(wanted)
    access = make_model_access(given)
    sweep = asyncio.run(
        plan_sweep(
            wanted,
            source,
            access=access,
            program=given["claude_bin"],
            h2_program=given["h2_bin"],
            max_run_usd=given["max_cost"],
            on_pull=make_pull_reporter(given),
            prices=given["prices"],
            pull=not given["dry_run"],
        )
    )
    if given["dry_run"]:
        _print_plan(sweep, as_json=given["as_json"])
        return 0
    if not given["yes"]:
        _confirm(sweep, quiet=given["quiet"])
    return run_and_report_sweep(create_sweep(sweep), source, given, access)


def run_and_report_sweep(store: "SweepStore", source: "Benchmark", given: dict[str, Any], access: "ModelAccess") -> int:
    """Go on with a sweep, and say what it has shown."""
    from proctor.cli.bench.progress import ProgressDisplay  # noqa: PLC0415 - help pages need none of it
    from proctor.runner.scratch import tempfiles_in_scratch  # noqa: PLC0415
    from proctor.runner.sweep import run_sweep_session, stored_sweep_outcome  # noqa: PLC0415

    labels = {run.config.run_id: run.label for run in store.sweep().runs}
    try:
        with tempfiles_in_scratch(), ProgressDisplay(quiet=given["quiet"], labels=labels) as progress:
            work = run_sweep_session(
                store, source, make_observer=progress.make_observer, options=make_session_options(given, access)
            )
            endings = run_until_signalled(work)
    except (KeyboardInterrupt, asyncio.CancelledError):
        raise Interrupted(
            f"sweep {store.name} is interrupted, and nothing that was paid for is lost",
            fix=f"go on with `proctor bench resume {store.name}`",
        ) from None
    outcome = stored_sweep_outcome(store)
    if given["as_json"]:
        print_json(outcome)
    else:
        from proctor.report.sweep import sweep_text  # noqa: PLC0415

        click.echo(sweep_text(outcome), nl=False)
    return _exit_code(store, endings)


def _exit_code(store: "SweepStore", results: "Sequence[SessionResult]") -> int:
    left, errors = sum(ending.trials_left for ending in results), sum(ending.summary.errors for ending in results)
    report_trials_left(store.name, results)
    return InfrastructureError.exit_code if errors or left else 0


def _confirm(sweep: "Sweep", *, quiet: bool) -> None:
    """Show the plan, and let nobody spend by mistake."""
    from proctor.runner.sweep import sweep_cost_bound, uses_paid_model  # noqa: PLC0415

    configs = [run.config for run in sweep.runs]
    if sys.stdin.isatty():
        _print_plan(sweep, as_json=False, err=True)
        if not click.confirm("Start?", err=True):
            raise Interrupted("the sweep is not started, and nothing is written")
        return
    if uses_paid_model(configs) and sweep_cost_bound(configs) is None:
        raise UsageError(
            "nothing bounds what this sweep can cost", fix="give max_cost in its file, --max-cost, or --yes"
        )
    if not quiet:
        _print_plan(sweep, as_json=False, err=True)


def _print_plan(sweep: "Sweep", *, as_json: bool, err: bool = False) -> None:
    from proctor.runner.request import cost_bound  # noqa: PLC0415
    from proctor.runner.sweep import sweep_cost_bound  # noqa: PLC0415

    configs = [run.config for run in sweep.runs]
    bound, answers = sweep_cost_bound(configs), sum(len(config.tasks) * config.trials for config in configs)
    if as_json:
        from proctor.report.cli_records import SweepPlan  # noqa: PLC0415

        print_json(SweepPlan(sweep=sweep, trials=answers, max_cost_usd=bound))
        return
    rows = []
    for run in sweep.runs:
        config = run.config
        own = cost_bound(config)
        rows.append(
            [
                run.label + (" (baseline)" if run.label == sweep.reference else ""),
                config.mode.value,
                config.agent,
                config.model or "none",
                f"{len(config.tasks)} x {config.trials}",
                "not bounded" if own is None else f"${own:.2f}",
            ]
        )
    print_table(["CONFIGURATION", "MODE", "AGENT", "MODEL", "ANSWERS", "COST AT MOST"], rows, err=err)
    first = configs[0]
    together = cost_bound_text(bound, options="max_cost or max_cost_per_task")
    click.echo(
        f"\n{sweep.benchmark}: {answers} answers, in turns over {len(first.tasks)} tasks, "
        f"{first.concurrency} agents at once\ncost at most: {together}\n"
        f"rule: {sweep.rule or 'none; nothing will be decided'}",
        err=err,
    )
