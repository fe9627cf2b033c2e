"""What a program can ask for: run, resume, sweep, evaluate, validate, load results. `proctor` exports it.

Each function has a twin whose name ends in ``_async``, for callers that have an event loop: a server, a notebook. The
plain ones run a loop of their own, and refuse to be called from within another, which they would block.
"""

import asyncio
import difflib
import os
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypedDict, TypeVar, Unpack, get_args, get_origin, get_type_hints

from proctor.analysis.sweep import SweepOutcome
from proctor.benchmarks import benchmark as find_benchmark
from proctor.benchmarks import reopen, suite_benchmark
from proctor.core.agent_options import AgentOptions
from proctor.core.benchmark import Benchmark, GradeOptions, TaskHealth
from proctor.core.causes import Cause
from proctor.core.environment import EnvironmentProvider, Limits, Network
from proctor.core.errors import UsageError
from proctor.core.evaluation import EvaluationReport, Prediction, TaskEvaluation
from proctor.core.result import TaskResult
from proctor.core.run import Budget, Mode, RunConfig, RunSummary
from proctor.core.sweep import Sweep
from proctor.environments import provider as find_provider
from proctor.results import RunStore, SweepStore, find_run, find_sweep, summarise
from proctor.runner import evaluate as grading
from proctor.runner.evaluation_report import make_evaluation_report
from proctor.runner.models import ModelAccess
from proctor.runner.records import Trial
from proctor.runner.request import DEFAULT_AGENTS, DEFAULT_PRESETS, RunRequest
from proctor.runner.selection import SelectedTasks, Selection, select_tasks
from proctor.runner.session import SessionOptions, SessionResult, run_session
from proctor.runner.start import check_access, configure, create_run
from proctor.runner.sweep import create_sweep, plan_sweep, run_sweep_session, stored_sweep_outcome, sweep_benchmark
from proctor.runner.sweep_file import read_sweep_file
from proctor.runner.trial import NullObserver, TrialRetry

T = TypeVar("T")
_ARTIFACTS: Final = Path("target/proctor")


@dataclass(frozen=True, slots=True)
class RunResults:
    """A run on disk. Iterating over it gives its results, read one at a time.

    Attributes:
        left: answers that are wanted and not recorded; `resume` goes on with them.
        stopped_by: what kept this sitting from going on, where anything did; `detail`: in words.
    """

    folder: Path
    config: RunConfig
    summary: RunSummary
    trials_left: int
    stopped_by: Cause | None = None
    detail: str = ""

    @property
    def name(self) -> str:
        """As commands and `resume` know it: benchmark/run-id."""
        return f"{self.folder.parent.name}/{self.folder.name}"

    def task(self, task_id: str, trial: int = 1) -> TaskResult:
        """The result of one answer.

        Raises:
            UsageError: there is none.
        """
        return RunStore(self.folder).result(task_id, trial)

    def __iter__(self) -> Iterator[TaskResult]:
        return RunStore(self.folder).results()


@dataclass(frozen=True, slots=True)
class SweepResults:
    """A sweep on disk.

    Attributes:
        sweep: what was asked: the configurations by their labels, the baseline, the rule.
        runs: each configuration's run, by its label.
        outcome: every configuration against the baseline, and what the rule says to it.
    """

    folder: Path
    sweep: Sweep
    runs: Mapping[str, RunResults]
    outcome: SweepOutcome

    @property
    def name(self) -> str:
        """As commands and `resume_sweep` know it: benchmark/sweep-id."""
        return f"{self.folder.parent.name}/{self.folder.name}"

    @property
    def trials_left(self) -> int:
        """Answers that are wanted and not recorded; `resume_sweep` goes on with them."""
        return sum(run.trials_left for run in self.runs.values())


TrialCallback = Callable[[str, int, TaskResult | None], None]


class CommonOptions(TypedDict, total=False):
    """What may be said whenever answers are made.

    Attributes:
        results: where runs are kept; PROCTOR_RESULTS or ``./results`` if not said.
        max_cost: what the whole run or sweep may cost, what it has spent before included.
        program: the agent's program, where it is not found by itself; `h2_program`: h2, likewise.
        retries: how often an error that was not the agent's is tried again.
        prices: a table of prices, beside the one that comes with the package.
        ended: is told of every answer that is done with: the task, which answer, and its result; None: given up.
    """

    results: Path | None
    max_cost: float | None
    program: str | None
    h2_program: str | None
    retries: int | None
    prices: Path | None
    on_trial_finished: TrialCallback | None


class ResumeOptions(CommonOptions, total=False):
    """What may be said when a run or a sweep is gone on with.

    Attributes:
        retry_errors: try answers again that ended in an error.
    """

    retry_errors: bool


class RunOptions(CommonOptions, total=False):
    """What may be said of a run; the options of ``proctor bench run`` by the same names.

    Attributes:
        command: with the agent ``command``: the words of the command.
        system_prompt: what the agent is told instead of its program's own; `append_system_prompt`: behind that.
        allowed_tools: the tools that the model is offered, or rules such as ``Bash(git *)``; all if not said.
        agent_env: variables for the agent's program. They are written down with the run.
        tasks: ids; all tasks if not said.
        attempts: how many answers are wanted to each task.
        network: ``none``, ``model`` or ``open``; as the benchmark says if not said.
    """

    split: str | None
    mode: Literal["baseline", "h2"]
    agent: str
    command: Sequence[str]
    system_prompt: str | None
    append_system_prompt: str | None
    allowed_tools: Sequence[str]
    agent_env: Mapping[str, str]
    model: str | None
    preset: str
    pod_template: str | None
    variables: Mapping[str, str]
    tasks: Sequence[str]
    limit: int | None
    shuffle: int | None
    trials: int
    concurrency: int
    grade_concurrency: int | None
    timeout: float | None
    max_turns: int
    max_cost_per_task: float | None
    network: Literal["none", "model", "open"] | None
    runner: str
    image: str | None
    isolation: bool


class EvaluateOptions(TypedDict, total=False):
    """What may be said of an evaluation or a validation; the options of ``proctor bench eval`` by the same names.

    Attributes:
        tasks: ids; all tasks if not said.
        artifacts: where graders leave their logs; ``target/proctor`` if not said.
    """

    split: str | None
    tasks: Sequence[str]
    limit: int | None
    jobs: int
    runner: str
    image: str | None
    isolation: bool
    timeout: float | None
    determinism_runs: int | None
    artifacts: Path


def run(benchmark: str | Benchmark, **options: Unpack[RunOptions]) -> RunResults:
    """Let an agent answer a benchmark's tasks, and grade and record every answer.

    Args:
        benchmark: a benchmark's or shipped suite's name, the path of a suite, or a benchmark of your own.
        options: see `RunOptions`.

    Raises:
        UsageError: it cannot be run as asked.
        InfrastructureError: a program that it needs is not on this machine.
    """
    return _run_blocking(run_async(benchmark, **options), "run_async")


async def run_async(benchmark: str | Benchmark, **options: Unpack[RunOptions]) -> RunResults:
    """The same as `run`, in the caller's event loop. Cancelling it ends the agents; `resume` goes on later."""
    _check_options(options, RunOptions)
    source = _find_benchmark(benchmark, options.get("split"))
    access = ModelAccess.from_environment(os.environ)
    tasks = _selected_tasks(source, options).tasks
    means = _program_options(options)
    config = await configure(_run_request(options), source, tasks, **means)
    check_access(config, access, prices=means["prices"])
    store = create_run(config, root=options.get("results"))
    sitting = SessionOptions(access=access, retry=_retry(options), **means)
    return await _run_session(store, source, sitting, options.get("on_trial_finished"))


def resume(name: str | Path, **options: Unpack[ResumeOptions]) -> RunResults:
    """Go on with a run where it stopped. No finished stage is done again, and no answer is paid for twice.

    Args:
        name: its folder, benchmark/run-id, or a run-id that only one benchmark has.
        options: see `ResumeOptions`.

    Raises:
        UsageError: there is no such run.
        InvalidData: the benchmark's data is not what the run was begun with.
    """
    return _run_blocking(resume_async(name, **options), "resume_async")


async def resume_async(name: str | Path, **options: Unpack[ResumeOptions]) -> RunResults:
    """The same as `resume`, in the caller's event loop."""
    store = find_run(str(name), root=options.get("results"))
    config = store.config()
    source = reopen(config.benchmark, config.source, config.split)
    return await _run_session(store, source, _resume_session_options(options), options.get("on_trial_finished"))


def sweep(file: str | Path, **options: Unpack[CommonOptions]) -> SweepResults:
    """Make the runs that a sweep's file asks for, task by task in turns, and compare them.

    Nobody is asked before it starts: what bounds its cost is `max_cost`, here or in the file.

    Args:
        file: TOML, as ``proctor bench sweep`` takes it.
        options: see `SittingOptions`.

    Raises:
        UsageError: something in the file is wrong, or a configuration cannot be run; lists everything that is.
    """
    return _run_blocking(sweep_async(file, **options), "sweep_async")


async def sweep_async(file: str | Path, **options: Unpack[CommonOptions]) -> SweepResults:
    """The same as `sweep`, in the caller's event loop. Cancelling it ends the agents; `resume_sweep` goes on later."""
    access, means = ModelAccess.from_environment(os.environ), _program_options(options)
    wanted = read_sweep_file(Path(file))
    source = sweep_benchmark(wanted)
    planned = await plan_sweep(wanted, source, access=access, max_run_usd=options.get("max_cost"), **means)
    store = create_sweep(planned, root=options.get("results"))
    sitting = SessionOptions(access=access, retry=_retry(options), **means)
    return await _run_sweep_session(store, source, sitting, options.get("on_trial_finished"))


def resume_sweep(name: str | Path, **options: Unpack[ResumeOptions]) -> SweepResults:
    """Go on with a sweep where it stopped, all of its runs together.

    Args:
        name: its folder, benchmark/sweep-id, or a sweep-id that only one benchmark has.
        options: see `ResumeOptions`.

    Raises:
        UsageError: there is no such sweep.
        InvalidData: the benchmark's data is not what the sweep was begun with.
    """
    return _run_blocking(resume_sweep_async(name, **options), "resume_sweep_async")


async def resume_sweep_async(name: str | Path, **options: Unpack[ResumeOptions]) -> SweepResults:
    """The same as `resume_sweep`, in the caller's event loop."""
    store = find_sweep(str(name), root=options.get("results"))
    if store is None:
        raise UsageError(f"there is no sweep {str(name)!r}", fix="name it as benchmark/sweep-id")
    config = store.sweep().runs[0].config
    source = reopen(config.benchmark, config.source, config.split)
    return await _run_sweep_session(store, source, _resume_session_options(options), options.get("on_trial_finished"))


def load_results(name: str | Path, *, results: Path | None = None) -> RunResults:
    """A run that was made before, finished or not.

    Raises:
        UsageError: there is no such run.
    """
    store = find_run(str(name), root=results)
    config = store.config()
    summary = summarise(config, store.results())
    return RunResults(store.folder, config, summary, len(config.tasks) * config.trials - summary.tasks)


def evaluate(
    benchmark: str | Benchmark,
    predictions: Path | Iterable[Prediction] | Literal["oracle"],
    *,
    cache: bool = True,
    on_evaluated: Callable[[TaskEvaluation], None] | None = None,
    **options: Unpack[EvaluateOptions],
) -> EvaluationReport:
    """Grade answers that are there already: of a predictions file, of your own making, or the reference answers.

    Args:
        benchmark: as for `run`.
        predictions: what to grade; a task without one is skipped.
        cache: take a verdict that is known for the same answer, data and room.
        done: is told of every verdict.
        options: see `EvaluateOptions`.

    Raises:
        UsageError: a task does not exist, or the predictions cannot be read.
    """
    return _run_blocking(
        evaluate_async(benchmark, predictions, cache=cache, on_evaluated=on_evaluated, **options), "evaluate_async"
    )


async def evaluate_async(
    benchmark: str | Benchmark,
    predictions: Path | Iterable[Prediction] | Literal["oracle"],
    *,
    cache: bool = True,
    on_evaluated: Callable[[TaskEvaluation], None] | None = None,
    **options: Unpack[EvaluateOptions],
) -> EvaluationReport:
    """The same as `evaluate`, in the caller's event loop."""
    _check_options(options, EvaluateOptions)
    source = _find_benchmark(benchmark, options.get("split"))
    chosen, rooms = _selected_tasks(source, options), _make_provider(options)
    try:
        return await make_evaluation_report(
            source,
            chosen,
            predictions,
            provider=rooms,
            options=_grade_options(options),
            artifacts=options.get("artifacts", _ARTIFACTS).absolute(),
            jobs=options.get("jobs", 1),
            use_cache=cache,
            on_evaluated=on_evaluated or (lambda _: None),
        )
    finally:
        await rooms.close()


def validate(
    benchmark: str | Benchmark,
    *,
    on_validated: Callable[[TaskHealth], None] | None = None,
    **options: Unpack[EvaluateOptions],
) -> tuple[TaskHealth, ...]:
    """Prove on this machine that each task can be failed, can be solved, and is graded alike each time.

    Args:
        benchmark: as for `run`.
        done: is told of every task.
        options: see `EvaluateOptions`.
    """
    return _run_blocking(validate_async(benchmark, on_validated=on_validated, **options), "validate_async")


async def validate_async(
    benchmark: str | Benchmark,
    *,
    on_validated: Callable[[TaskHealth], None] | None = None,
    **options: Unpack[EvaluateOptions],
) -> tuple[TaskHealth, ...]:
    """The same as `validate`, in the caller's event loop."""
    _check_options(options, EvaluateOptions)
    source = _find_benchmark(benchmark, options.get("split"))
    chosen, rooms = _selected_tasks(source, options), _make_provider(options)
    try:
        healths = await grading.validate(
            source,
            chosen.tasks,
            provider=rooms,
            options=_grade_options(options, determinism_runs=2),
            artifacts=options.get("artifacts", _ARTIFACTS).absolute(),
            jobs=options.get("jobs", 1),
            on_validated=on_validated or (lambda _: None),
        )
    finally:
        await rooms.close()
    return (*healths, *map(grading.invalid_task_health, chosen.invalid))


class _CallbackObserver(NullObserver):
    """Passes on what is done with."""

    def __init__(self, callback: TrialCallback | None) -> None:
        self._callback = callback

    def trial_finished(self, trial: Trial, result: TaskResult | None) -> None:
        """One answer."""
        if self._callback is not None:
            self._callback(trial.task_id, trial.number, result)


async def _run_session(
    store: RunStore, source: Benchmark, session_options: SessionOptions, on_trial_finished: TrialCallback | None
) -> RunResults:
    return _run_results(
        store,
        await run_session(
            store, source, make_observer=lambda *_: _CallbackObserver(on_trial_finished), options=session_options
        ),
    )


async def _run_sweep_session(
    store: SweepStore, source: Benchmark, session_options: SessionOptions, on_trial_finished: TrialCallback | None
) -> SweepResults:
    endings = await run_sweep_session(
        store, source, make_observer=lambda *_: _CallbackObserver(on_trial_finished), options=session_options
    )
    runs = {label: _run_results(run, ending) for (label, run), ending in zip(store.runs(), endings, strict=True)}
    return SweepResults(store.folder, store.sweep(), runs, stored_sweep_outcome(store))


def _run_results(store: RunStore, result: SessionResult) -> RunResults:
    return RunResults(
        store.folder, store.config(), result.summary, result.trials_left, result.stopped_by, result.detail
    )


def _run_blocking(work: Coroutine[Any, Any, T], async_name: str) -> T:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    work.close()
    raise UsageError("an event loop is running here, and would be blocked", fix=f"use `await proctor.{async_name}(…)`")


def _check_options(options: Mapping[str, Any], known: type) -> None:
    """A budget whose name is misspelt must not be no budget.

    Raises:
        UsageError: an option is not known, or has none of the values that it may have.
    """
    hints = get_type_hints(known)
    for name, value in options.items():
        if name not in hints:
            near = difflib.get_close_matches(name, hints, n=1)
            raise UsageError(f"there is no option {name!r}", fix=f"did you mean {near[0]!r}?" if near else None)
        choices = [word for kind in (hints[name], *get_args(hints[name])) for word in _literal_choices(kind)]
        if choices and value is not None and value not in choices:
            raise UsageError(f"{name} must be one of {', '.join(choices)}, not {value!r}")
        if isinstance(value, str) and get_origin(hints[name]) is Sequence:
            raise UsageError(f"{name} must be a list, not the text {value!r}")
    for name, least in (("jobs", 1), ("limit", 0), ("retries", 0)):
        if options.get(name) is not None and options[name] < least:
            raise UsageError(f"{name} must be {least} or more, not {options[name]}")


def _literal_choices(kind: Any) -> tuple[str, ...]:
    return get_args(kind) if get_origin(kind) is Literal else ()


def _find_benchmark(which: str | Benchmark, split: str | None) -> Benchmark:
    if not isinstance(which, str):
        return which
    if os.sep in which or which.endswith(".json"):
        return suite_benchmark(which)
    return find_benchmark(which, split)


def _selected_tasks(source: Benchmark, options: RunOptions | EvaluateOptions) -> SelectedTasks:
    return select_tasks(source, Selection(ids=tuple(options.get("tasks", ())), limit=options.get("limit")))


def _run_request(options: RunOptions) -> RunRequest:
    network, mode = options.get("network"), Mode(options.get("mode", "baseline"))
    return RunRequest(
        agent=options.get("agent", DEFAULT_AGENTS[mode]),
        mode=mode,
        command=tuple(options.get("command", ())),
        agent_options=AgentOptions(
            system_prompt=options.get("system_prompt"),
            append_system_prompt=options.get("append_system_prompt"),
            allowed_tools=tuple(options.get("allowed_tools", ())),
            env=dict(options.get("agent_env", {})),
        ),
        model=options.get("model"),
        preset=options.get("preset", DEFAULT_PRESETS[mode]),
        pod_template=options.get("pod_template"),
        variables=dict(options.get("variables", {})),
        runner=options.get("runner", "local"),
        image=options.get("image"),
        isolation=options.get("isolation", True),
        network=Network(network) if network else None,
        trials=options.get("trials", 1),
        concurrency=options.get("concurrency", 1),
        grade_concurrency=options.get("grade_concurrency"),
        limits=Limits(wall_seconds=options.get("timeout")),
        max_turns=options.get("max_turns"),
        budget=Budget(run_usd=options.get("max_cost"), task_usd=options.get("max_cost_per_task")),
        shuffle=options.get("shuffle"),
    )


class _ProgramOptions(TypedDict):
    program: str | None
    h2_program: str | None
    prices: Path | None


def _program_options(options: CommonOptions) -> _ProgramOptions:
    return {
        "program": options.get("program"),
        "h2_program": options.get("h2_program"),
        "prices": options.get("prices"),
    }


def _retry(options: CommonOptions) -> TrialRetry:
    retries = options.get("retries")
    return TrialRetry() if retries is None else TrialRetry(max_attempts=retries + 1)


def _resume_session_options(options: ResumeOptions) -> SessionOptions:
    return SessionOptions(
        access=ModelAccess.from_environment(os.environ),
        retry=_retry(options),
        retry_errors=options.get("retry_errors", False),
        max_run_usd=options.get("max_cost"),
        **_program_options(options),
    )


def _make_provider(options: EvaluateOptions) -> EnvironmentProvider:
    return find_provider(options.get("runner", "local"), isolation=options.get("isolation", True))


def _grade_options(options: EvaluateOptions, *, determinism_runs: int | None = None) -> GradeOptions:
    return GradeOptions(
        image=options.get("image"),
        determinism_runs=options.get("determinism_runs", determinism_runs),
        timeout_seconds=options.get("timeout"),
    )
