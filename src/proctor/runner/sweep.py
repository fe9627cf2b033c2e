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
from proctor.runner.drive import Ending, OnPull, Sitting, Watch, drive_together
from proctor.runner.models import Access, choose_model
from proctor.runner.plan import cost_bound
from proctor.runner.selection import choose
from proctor.runner.start import check_access, configure
from proctor.runner.sweep_file import SweepFile


def benchmark_of(file: SweepFile) -> Benchmark:
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
    access: Access,
    program: str | None = None,
    h2_program: str | None = None,
    run_usd: float | None = None,
    on_pull: OnPull | None = None,
    prices: Path | None = None,
    pull: bool = True,
) -> Sweep:
    """What a sweep will be: every configuration with its programs and digests. Nothing is written.

    Raises:
        UsageError: there is no such task, or a configuration cannot be run; lists every one, and why.
    """
    tasks = choose(benchmark, file.selection).tasks
    runs: list[SweepRun] = []
    problems: list[str] = []
    for configuration in file.configurations:
        asked = configuration.asked
        if run_usd is not None:
            asked = msgspec.structs.replace(asked, budget=msgspec.structs.replace(asked.budget, run_usd=run_usd))
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
        baseline=file.baseline,
        rule=file.rule,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def sweep_bound(configs: Sequence[RunConfig]) -> float | None:
    """The most that runs with one budget can cost together; None when nothing bounds it.

    A run without a model costs nothing.
    """
    paying = [config for config in configs if config.model is not None]
    shared = [config.budget.run_usd for config in paying if config.budget.run_usd is not None]
    own = [cost_bound(config) for config in paying]
    each = [bound for bound in own if bound is not None]
    total = sum(each) if len(each) == len(own) else None
    return min([*shared, *([] if total is None else [total])], default=None)


def pays(configs: Sequence[RunConfig]) -> bool:
    """Whether a provider is asked, who wants money for it: scripts and recordings answer for nothing."""
    models = [config.model for config in configs if config.model is not None]
    return any(choose_model(model).kind == "provider" for model in models)


def begin_sweep(sweep: Sweep, *, root: Path | None = None) -> SweepStore:
    """Give a sweep and its runs their names and folders."""
    store = new_sweep(sweep, root=root)
    store.runs()
    return store


async def drive_sweep(store: SweepStore, benchmark: Benchmark, *, watch: Watch, sitting: Sitting) -> list[Ending]:
    """Start, or go on with, a stored sweep: its runs take turns, task by task, within one budget.

    Raises:
        UsageError: a run needs a key, a script or an agent that is not there.
        InvalidData: the benchmark's data is not what the sweep was begun with.
        RetryableError: another process is at work on it.
    """
    return await drive_together([run for _, run in store.runs()], benchmark, watch=watch, sitting=sitting)


def outcome_of(store: SweepStore) -> SweepOutcome:
    """What a sweep has shown, from what is stored."""
    return sweep_outcome(store.sweep(), {label: list(run.results_as(Observation)) for label, run in store.runs()})
