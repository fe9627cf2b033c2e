"""A sweep: planned as a whole, begun as a whole, driven together, gone on with as one."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from proctor.analysis import Observation
from proctor.analysis.sweep import SweepOutcome, sweep_outcome
from proctor.benchmarks import benchmark as find_benchmark
from proctor.benchmarks import suite_benchmark
from proctor.core.benchmark import Benchmark
from proctor.core.errors import ProctorError, UsageError
from proctor.core.run import RunConfig
from proctor.core.sweep import Sweep, SweepRun
from proctor.results import SweepStore, new_sweep
from proctor.runner.models import ModelAccess, parse_model
from proctor.runner.request import cost_bound
from proctor.runner.selection import select_tasks
from proctor.runner.session import ObserverFactory, OnPull, SessionOptions, SessionResult, run_sessions
from proctor.runner.start import check_access, configure
from proctor.runner.sweep_file import SweepFile


def sweep_benchmark(file: SweepFile) -> Benchmark:
    """The benchmark whose tasks a sweep is about.

    Raises:
        UsageError: there is none, or it has no such split.
    """
    if file.suite is None:
        return find_benchmark(str(file.benchmark), file.split)
    if file.split is not None:
        raise UsageError("a suite has no splits", fix="leave split out of the sweep's file")
    return suite_benchmark(file.suite)


async def plan_sweep(
    file: SweepFile,
    benchmark: Benchmark,
    *,
    access: ModelAccess,
    program: str | None = None,
    h2_program: str | None = None,
    max_run_usd: float | None = None,
    on_pull: OnPull | None = None,
    prices: Path | None = None,
    pull: bool = True,
) -> Sweep:
    """What a sweep will be: every configuration with its programs and digests. Nothing is written.

    Raises:
        UsageError: there is no such task, or a configuration cannot be run; lists every one, and why.
    """
    tasks = select_tasks(benchmark, file.selection).tasks
    runs: list[SweepRun] = []
    problems: list[str] = []
    for configuration in file.configurations:
        asked = configuration.request
        if max_run_usd is not None:
            asked = msgspec.structs.replace(asked, budget=msgspec.structs.replace(asked.budget, run_usd=max_run_usd))
        try:
            config = await configure(
                asked,
                benchmark,
                tasks,
                excluded=file.selection.excluded,
                program=program,
                h2_program=h2_program,
                on_pull=on_pull,
                prices=prices,
                pull=pull,
            )
            check_access(config, access, prices=prices)
        except ProctorError as error:
            problems.append(f"{configuration.label}: {error}")
        else:
            runs.append(SweepRun(label=configuration.label, config=config))
    if problems:
        count = f"{len(problems)} of {len(file.configurations)} configurations cannot be run"
        raise UsageError(count, fix="mend the sweep's file", details=problems)
    return Sweep(
        sweep_id="",
        name=file.name,
        benchmark=benchmark.name,
        file=file.text,
        runs=tuple(runs),
        reference=file.reference,
        rule=file.rule,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def sweep_cost_bound(configs: Sequence[RunConfig]) -> float | None:
    """The most that runs with one budget can cost together; None when nothing bounds it.

    A run without a model costs nothing.
    """
    paying = [config for config in configs if config.model is not None]
    shared = [config.budget.run_usd for config in paying if config.budget.run_usd is not None]
    own = [cost_bound(config) for config in paying]
    each = [bound for bound in own if bound is not None]
    total = sum(each) if len(each) == len(own) else None
    return min([*shared, *([] if total is None else [total])], default=None)


def uses_paid_model(configs: Sequence[RunConfig]) -> bool:
    """Whether a provider is asked, who wants money for it: scripts and recordings answer for nothing."""
    models = [config.model for config in configs if config.model is not None]
    return any(parse_model(model).kind == "provider" for model in models)


def create_sweep(sweep: Sweep, *, root: Path | None = None) -> SweepStore:
    """Give a sweep and its runs their names and folders."""
    store = new_sweep(sweep, root=root)
    store.runs()
    return store


async def run_sweep_session(
    store: SweepStore, benchmark: Benchmark, *, make_observer: ObserverFactory, options: SessionOptions
) -> list[SessionResult]:
    """Start, or go on with, a stored sweep: its runs take turns, task by task, within one budget.

    Raises:
        UsageError: a run needs a key, a script or an agent that is not there.
        InvalidData: the benchmark's data is not what the sweep was begun with.
        RetryableError: another process is at work on it.
    """
    return await run_sessions([run for _, run in store.runs()], benchmark, make_observer=make_observer, options=options)


def stored_sweep_outcome(store: SweepStore) -> SweepOutcome:
    """What a sweep has shown, from what is stored."""
    return sweep_outcome(store.sweep(), {label: list(run.results_as(Observation)) for label, run in store.runs()})
