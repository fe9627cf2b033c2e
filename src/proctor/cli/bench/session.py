"""What `run`, `resume` and `sweep` do: a session with its progress, its signals, and the report at its end."""

import asyncio
import signal
import sys
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

import click

from proctor.cli.bench.error_summary import most_frequent_error
from proctor.cli.bench.progress import ProgressDisplay
from proctor.cli.bench.pull_progress import PullReporter
from proctor.cli.output import log, print_json, print_table, terminal_width
from proctor.core.agent_options import AgentOptions
from proctor.core.causes import Cause
from proctor.core.errors import InfrastructureError, Interrupted, UsageError
from proctor.core.formatting import plural
from proctor.core.run import RunConfig
from proctor.core.sweep import Sweep
from proctor.report.cli_records import RunPlan, SweepPlan
from proctor.report.sweep import sweep_text
from proctor.results import RunStore, SweepStore, find_run, find_sweep
from proctor.results.run_names import run_title
from proctor.results.run_results import RunResults
from proctor.results.sweeps import sweep_beside
from proctor.runner.request import cost_bound
from proctor.runner.scratch import tempfiles_in_scratch
from proctor.runner.session import Job, run_session
from proctor.runner.state import Session
from proctor.runner.sweep import stored_sweep_outcome, sweep_cost_bound, uses_paid_model
from proctor.runner.sweep_file import read_sweep_file

T = TypeVar("T")
__all__ = ["read_sweep_file", "run_job", "stored_job"]
_SHOWN_TASKS = 5


def run_job(job: Job, given: dict[str, Any], options: dict[str, Any] | None = None) -> int:
    """Start or resume what is asked for, and report how the session ended."""
    with tempfiles_in_scratch(), ProgressDisplay(quiet=given["quiet"]) as progress:
        session = Session(
            make_observer=progress.make_observer,
            confirm=lambda plan: _confirm(plan, given),
            dry_run=given.get("dry_run", False),
            log=log,
            on_pull=None if given["quiet"] else PullReporter(),
        )
        try:
            runs = asyncio.run(_cancel_on_signals(run_session(job, session, options)))
        except (KeyboardInterrupt, asyncio.CancelledError):
            if progress.name is None:
                raise KeyboardInterrupt from None  # nothing is written yet
            raise Interrupted(
                f"{progress.kind} {progress.name} is interrupted, and nothing that was paid for is lost",
                fix=f"resume with `proctor bench resume {progress.name}`",
            ) from None
    return _report(runs, as_json=given["as_json"]) if runs else 0


def stored_job(name: str) -> RunStore | SweepStore:
    """The sweep or run of this name.

    Raises:
        UsageError: there is none, or more than one.
    """
    return find_sweep(name) or find_run(name)


async def _cancel_on_signals(work: Coroutine[Any, Any, T]) -> T:
    """Run to the end. SIGTERM and SIGHUP cancel the work, and drop it at the second time.

    Ctrl-C is asyncio's own to handle, in the same way.
    """
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    signalled = False

    def stop() -> None:
        nonlocal signalled
        if signalled:
            raise KeyboardInterrupt
        signalled = True
        if task is not None:
            task.cancel()

    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, stop)
    try:
        return await work
    finally:
        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.remove_signal_handler(number)


def _confirm(plan: RunConfig | Sweep, given: dict[str, Any]) -> bool:
    """Show the plan, and see that nothing is spent by mistake."""
    if isinstance(plan, RunConfig):
        if given["dry_run"]:
            _print_run_plan(plan, as_json=given["as_json"])
        return True
    if given["dry_run"]:
        _print_sweep_plan(plan, as_json=given["as_json"])
    elif not given["yes"]:
        _confirm_sweep(plan, quiet=given["quiet"])
    return True


def _confirm_sweep(sweep: Sweep, *, quiet: bool) -> None:
    configs = [run.config for run in sweep.runs]
    if sys.stdin.isatty():
        _print_sweep_plan(sweep, as_json=False, err=True)
        # While the question is open, Ctrl-C ends it at once; asyncio would wait for the reply.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            if not click.confirm("Start?", err=True):
                raise Interrupted("the sweep is not started, and nothing is written")
        finally:
            signal.signal(signal.SIGINT, before)
        return
    if uses_paid_model(configs) and sweep_cost_bound(configs) is None:
        raise UsageError(
            "nothing bounds what this sweep can cost", fix="give max_cost in its file, --max-cost, or --yes"
        )
    if not quiet:
        _print_sweep_plan(sweep, as_json=False, err=True)


def _report(runs: Sequence[RunResults], *, as_json: bool) -> int:
    sweep = sweep_beside(runs[0].folder, runs[0].config.sweep)
    if sweep is None:
        _print_summary(runs[0], as_json=as_json)
        _report_trials_left(runs[0].name, runs)
    else:
        outcome = stored_sweep_outcome(sweep)
        if as_json:
            print_json(outcome)
        else:
            click.echo(sweep_text(outcome, width=terminal_width()), nl=False)
        _report_trials_left(sweep.name, runs)
    failed = any(run.summary.errors or run.trials_left for run in runs)
    return InfrastructureError.exit_code if failed else 0


def _print_summary(run: RunResults, *, as_json: bool) -> None:
    summary = run.summary
    if as_json:
        print_json(summary)
        return
    counted = summary.resolved + summary.unresolved
    spent = None if summary.cost_usd is None or summary.unfinished_usd is None else summary.cost_usd
    cost = "unknown" if spent is None else f"${spent + (summary.unfinished_usd or 0.0):.4f}"
    cost += f", ${summary.estimated_usd:.4f} of it estimated" if summary.estimated_usd else ""
    title = run_title(run.name, run.config.name or run.config.label or "")
    click.echo(
        f"{title}: {summary.resolved} of {counted} graded trials resolved, {summary.errors} errors, "
        f"{summary.skipped} skipped; {summary.tokens:,} tokens, cost {cost}"
    )


def _report_trials_left(name: str, runs: Sequence[RunResults]) -> None:
    """Say why a run, or the runs of a sweep, stopped before the end, and how to resume."""
    left, errors = sum(run.trials_left for run in runs), sum(run.summary.errors for run in runs)
    stopped_by, detail = runs[0].stopped_by, runs[0].detail
    if stopped_by is not None:
        log(f"stopped ({stopped_by.value}): {detail}")
    if left:
        more = " --max-cost USD`, with a higher limit" if stopped_by is Cause.RUN_BUDGET else "`"
        log(f"{left} trials are left; resume with `proctor bench resume {name}{more}")
    elif errors:
        log(f"retry the errors with `proctor bench resume {name} --retry-errors`")
    skipped = sum(run.summary.causes.get(Cause.NOT_RUNNABLE_HERE, 0) for run in runs)
    if skipped:
        where = ", ".join(f"`proctor bench show {run.name}`" for run in runs)
        log(
            f"{plural(skipped, 'trial')} cannot be run on this machine ({where} lists them with the reasons); "
            f"`proctor bench resume {name}` runs what can be run by then"
        )
    frequent = most_frequent_error(result for run in runs if run.summary.errors for result in run)
    if frequent is not None:
        log(frequent)


def _print_run_plan(config: RunConfig, *, as_json: bool) -> None:
    bound = cost_bound(config)
    if as_json:
        print_json(RunPlan(config=config, trials=len(config.tasks) * config.trials, max_cost_usd=bound))
        return
    trials = f"{len(config.tasks)}, {config.trials} trial{'s' if config.trials > 1 else ''} each"
    instructions = _describe_agent_options(config.agent_options)
    rows = [
        ["benchmark", f"{config.benchmark} ({config.source})"],
        ["tasks", trials],
        ["order", " ".join(config.tasks[:_SHOWN_TASKS]) + (" …" if len(config.tasks) > _SHOWN_TASKS else "")],
        ["agent", f"{config.agent} ({', '.join(f'{name} {version}' for name, version in config.versions.items())})"],
        ["model", config.model or "none"],
        *([["agent options", ", ".join(instructions)]] if instructions else []),
        ["runner", f"{config.runner}{'' if config.isolation else ', no isolation'}"],
        ["network", config.network.value if config.network else "as the benchmark says"],
        ["at once", f"{config.concurrency} agents, {config.grade_concurrency} graders"],
        ["cost at most", _cost_bound_text(bound, options="--max-cost or --max-cost-per-task")],
    ]
    print_table(["WHAT", "VALUE"], rows)


def _print_sweep_plan(sweep: Sweep, *, as_json: bool, err: bool = False) -> None:
    configs = [run.config for run in sweep.runs]
    bound, trials = sweep_cost_bound(configs), sum(len(config.tasks) * config.trials for config in configs)
    if as_json:
        print_json(SweepPlan(sweep=sweep, trials=trials, max_cost_usd=bound))
        return
    rows = []
    for run in sweep.runs:
        config, own = run.config, cost_bound(run.config)
        rows.append(
            [
                run.label + (" (reference)" if run.label == sweep.reference else ""),
                config.mode.value,
                config.agent,
                config.model or "none",
                f"{len(config.tasks)} x {config.trials}",
                "not bounded" if own is None else f"${own:.2f}",
            ]
        )
    print_table(["CONFIGURATION", "MODE", "AGENT", "MODEL", "TRIALS", "COST AT MOST"], rows, err=err)
    first = configs[0]
    together = _cost_bound_text(bound, options="max_cost or max_cost_per_task")
    click.echo(
        f"\n{sweep.benchmark}: {trials} trials, in turns over {len(first.tasks)} tasks, "
        f"{first.concurrency} agents at once\ncost at most: {together}\n"
        f"rule: {sweep.rule or 'none; nothing will be decided'}",
        err=err,
    )


def _cost_bound_text(bound: float | None, *, options: str) -> str:
    """The most that something can cost, in words; `options` are what bounds it."""
    if bound is None:
        return f"not bounded: give {options}"
    return f"${bound:.2f}, and the requests under way when it is reached" if bound else "nothing: no model is used"


def _describe_agent_options(options: AgentOptions) -> list[str]:
    parts = []
    if options.system_prompt is not None:
        parts.append(f"a system prompt of {len(options.system_prompt):,} characters")
    if options.append_system_prompt is not None:
        parts.append(f"{len(options.append_system_prompt):,} characters added to its system prompt")
    if options.allowed_tools:
        parts.append(f"tools {' '.join(options.allowed_tools)}")
    if options.effort is not None:
        parts.append(f"effort {options.effort}")
    return parts + [f"{name}={value}" for name, value in options.env.items()]
