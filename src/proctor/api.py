"""The Python API: run, resume, sweep, evaluate, validate, load results. `proctor` exports it.

Functions whose names end in ``_async`` are for callers that have an event loop: a server, a notebook. Cancelling one
ends its agents; `resume` continues later. The functions without `_async` run a loop of their own, and refuse to be
called from within another, which they would block.
"""

import asyncio
import functools
import os
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, ParamSpec, TypeVar, Unpack, cast

from proctor.analysis.sweep import SweepOutcome
from proctor.core.agent import Agent
from proctor.core.benchmark import Benchmark, TaskHealth
from proctor.core.environment import EnvironmentProvider
from proctor.core.errors import UsageError
from proctor.core.evaluation import EvaluationReport, Prediction, TaskEvaluation
from proctor.core.formatting import truncate_line
from proctor.core.options import OptionField, Scope, is_sweep_option, option_fields, read_options, resolve_aliases
from proctor.core.request import EvaluateRequest, RunRequest, TaskRequest
from proctor.core.result import TaskResult
from proctor.core.run import Trial
from proctor.core.sweep import Sweep
from proctor.options import CommonOptions, EvaluateOptions, ResumeOptions, RunOptions, SweepOptions, TrialCallback
from proctor.results import RunStore, find_run, find_sweep, summarise
from proctor.results.frames import FrameKind, FrameLibrary, make_frame
from proctor.results.run_results import RunResults
from proctor.results.sweeps import sweep_beside
from proctor.runner.evaluation import PredictionSource, open_evaluation
from proctor.runner.observer import RunObserver
from proctor.runner.session import run_session
from proctor.runner.state import Session
from proctor.runner.sweep import stored_sweep_outcome
from proctor.runner.sweep_file import read_sweep_file

__all__ = [
    "CommonOptions",
    "EvaluateOptions",
    "ResumeOptions",
    "RunOptions",
    "RunResults",
    "SweepOptions",
    "SweepResults",
    "evaluate",
    "evaluate_async",
    "load_results",
    "resume",
    "resume_async",
    "resume_sweep",
    "resume_sweep_async",
    "run",
    "run_async",
    "sweep",
    "sweep_async",
    "validate",
    "validate_async",
]

P = ParamSpec("P")
T = TypeVar("T")
_OBJECTS: Final[dict[str, type]] = {"agent": Agent, "benchmark": Benchmark, "runner": EnvironmentProvider}


@dataclass(frozen=True, slots=True)
class SweepResults:
    """A sweep on disk.

    Attributes:
        sweep: what was asked for: the configurations by label, the reference, the rule.
        runs: each configuration's run, by its label.
        outcome: every configuration against the reference, and what the rule decides.
    """

    folder: Path
    sweep: Sweep
    runs: Mapping[str, RunResults]
    outcome: SweepOutcome

    @property
    def name(self) -> str:
        """As commands and `resume_sweep` know it: benchmark/sweep-id."""
        return f"{self.folder.parent.name}/{self.folder.name}"

    def to_frame(self, rows: FrameKind = "trials", *, library: FrameLibrary = "polars") -> Any:
        """A data frame of all runs, as `RunResults.to_frame` makes one of one run; `name` has the labels."""
        return make_frame([RunStore(run.folder) for run in self.runs.values()], rows, library)

    @property
    def trials_left(self) -> int:
        """Trials without a recorded result; `resume_sweep` continues with them."""
        return sum(run.trials_left for run in self.runs.values())


async def run_async(benchmark: str | Benchmark, **options: Unpack[RunOptions]) -> RunResults:
    """Let an agent solve a benchmark's tasks, and grade and record every submission.

    Args:
        benchmark: a benchmark's or shipped suite's name, the path of a suite, or a benchmark object of your own.
        options: see `RunOptions`.

    Raises:
        UsageError: it cannot be run as asked.
        InfrastructureError: a program that it needs is not on this machine, or no task can be run here.
    """
    session, values = _read(RunRequest, options, benchmark, lambda field: field.option.scope is not Scope.RESUME)
    (made,) = await run_session(RunRequest(**values), session)
    return made


async def resume_async(name: str | Path, **options: Unpack[ResumeOptions]) -> RunResults:
    """Resume a run where it stopped. No finished stage is repeated, and no submission is paid for twice.

    Args:
        name: its folder, benchmark/run-id, or a run-id that only one benchmark has.
        options: see `ResumeOptions`.

    Raises:
        UsageError: there is no such run, or it was started with an object that is not given again.
        InvalidData: the benchmark's data is not what the run was started with.
    """
    session, values = _read_resume(options)
    (made,) = await run_session(find_run(str(name), root=session.results), session, values)
    return made


async def sweep_async(file: str | Path, **options: Unpack[SweepOptions]) -> SweepResults:
    """Make the runs that a sweep's file describes, interleaved by task, and compare them.

    It starts without confirmation: `max_cost`, here or in the file, limits its cost.

    Args:
        file: TOML, as ``proctor bench sweep`` takes it.
        options: see `SweepOptions`.

    Raises:
        UsageError: something in the file is wrong, or a configuration cannot be run; lists everything that is.
    """
    session, values = _read(RunRequest, options, None, is_sweep_option)
    return _sweep_results(await run_session(read_sweep_file(_path("file", file)), session, values))


async def resume_sweep_async(name: str | Path, **options: Unpack[ResumeOptions]) -> SweepResults:
    """Resume a sweep where it stopped, all of its runs together.

    Args:
        name: its folder, benchmark/sweep-id, or a sweep-id that only one benchmark has.
        options: see `ResumeOptions`.

    Raises:
        UsageError: there is no such sweep.
        InvalidData: the benchmark's data is not what the sweep was started with.
    """
    session, values = _read_resume(options)
    store = find_sweep(str(name), root=session.results)
    if store is None:
        raise UsageError(f"there is no sweep {str(name)!r}", fix="name it as benchmark/sweep-id")
    return _sweep_results(await run_session(store, session, values))


def load_results(name: str | Path, *, results: str | Path | None = None) -> RunResults:
    """A run that was made before, finished or not.

    Raises:
        UsageError: there is no such run.
    """
    store = find_run(str(name), root=None if results is None else _path("results", results))
    config = store.config()
    summary = summarise(config, store.results())
    return RunResults(store.folder, config, summary, len(config.tasks) * config.trials - summary.tasks)


async def evaluate_async(
    benchmark: str | Benchmark,
    predictions: Path | Iterable[Prediction] | Literal["oracle"],
    *,
    on_evaluated: Callable[[TaskEvaluation], None] | None = None,
    **options: Unpack[EvaluateOptions],
) -> EvaluationReport:
    """Grade predictions: of a file, of your own making, or the oracle.

    Args:
        benchmark: as for `run`.
        predictions: what to grade; a task without one is skipped.
        on_evaluated: is called with every verdict.
        options: see `EvaluateOptions`.

    Raises:
        UsageError: a task does not exist, or the predictions cannot be read.
    """
    session, values = _read(EvaluateRequest, options, benchmark, lambda _: True)
    request = EvaluateRequest(**values)
    async with open_evaluation(request, benchmark=session.benchmark, provider=session.provider) as evaluation:
        return await evaluation.report(_predictions(predictions), _callback("on_evaluated", on_evaluated))


async def validate_async(
    benchmark: str | Benchmark,
    *,
    on_validated: Callable[[TaskHealth], None] | None = None,
    **options: Unpack[EvaluateOptions],
) -> tuple[TaskHealth, ...]:
    """Prove on this machine that each task can be failed, can be solved, and is graded alike each time.

    Args:
        benchmark: as for `run`.
        on_validated: is called with the health of every task.
        options: see `EvaluateOptions`.
    """
    session, values = _read(EvaluateRequest, options, benchmark, lambda _: True)
    request = EvaluateRequest(**values)
    async with open_evaluation(request, benchmark=session.benchmark, provider=session.provider) as evaluation:
        return await evaluation.validate(_callback("on_validated", on_validated))


def _blocking(function: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    """The same function with an event loop of its own, which refuses to block another."""

    @functools.wraps(function)
    def sync_wrapper(*arguments: P.args, **options: P.kwargs) -> T:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(function(*arguments, **options))
        fix = f"use `await proctor.{function.__name__}(…)`"
        raise UsageError("an event loop is running here, and would be blocked", fix=fix)

    sync_wrapper.__name__ = sync_wrapper.__qualname__ = function.__name__.removesuffix("_async")
    return sync_wrapper


run = _blocking(run_async)
resume = _blocking(resume_async)
sweep = _blocking(sweep_async)
resume_sweep = _blocking(resume_sweep_async)
evaluate = _blocking(evaluate_async)
validate = _blocking(validate_async)


class _CallbackObserver(RunObserver):
    """Passes finished trials on."""

    def __init__(self, callback: TrialCallback) -> None:
        self._callback = callback

    def trial_finished(self, trial: Trial, result: TaskResult | None) -> None:
        """One trial."""
        self._callback(trial.task_id, trial.number, result)


def _read_resume(options: ResumeOptions) -> tuple[Session, dict[str, Any]]:
    return _read(
        RunRequest,
        {name: value for name, value in options.items() if name != "benchmark"},
        options.get("benchmark"),
        lambda field: field.option.scope in {Scope.SESSION, Scope.RESUME} or field.option.resumable,
        resumed=True,
    )


def _read(
    record: type[TaskRequest],
    options: Mapping[str, Any],
    benchmark: str | Benchmark | None,
    only: Callable[[OptionField], bool],
    *,
    resumed: bool = False,
) -> tuple[Session, dict[str, Any]]:
    """The session and the values of a request, from the arguments of a function.

    Agent and runner may be objects; of a run that is resumed they can be nothing else.

    Raises:
        UsageError: an option is not known, or a value is refused.
    """
    # A suite is given as the benchmark.
    known = {name for name, field in option_fields(record).items() if only(field) and name != "suite"}
    if resumed:
        known |= {"agent", "runner"}
    given = resolve_aliases(record, options, {*known, "results", "on_trial_finished"})
    results, callback = given.pop("results", None), given.pop("on_trial_finished", None)
    _callback("on_trial_finished", callback)
    objects: dict[str, Any] = {
        name: given.pop(name)
        for name in ("agent", "runner")
        if given.get(name) is not None and (resumed or not isinstance(given[name], str))
    }
    values = read_options(record, given, folder=Path.cwd())
    if isinstance(benchmark, str):
        values["suite" if os.sep in benchmark or benchmark.endswith(".json") else "benchmark"] = benchmark
    elif benchmark is not None:
        objects["benchmark"] = benchmark
    for name, value in objects.items():
        _check_object(name, value)
    return (
        Session(
            benchmark=objects.get("benchmark"),
            agent=objects.get("agent"),
            provider=objects.get("runner"),
            results=None if results is None else _path("results", results),
            make_observer=lambda *_: RunObserver() if callback is None else _CallbackObserver(callback),
        ),
        values,
    )


def _check_object(name: str, value: object) -> None:
    """Refuse what is no object of its base class; an agent may be its class, too, and then must be a whole one."""
    base = _OBJECTS[name]
    if name == "agent" and isinstance(value, type) and issubclass(value, base):
        missing = [*sorted(getattr(value, "__abstractmethods__", ())), *([] if hasattr(value, "name") else ["name"])]
        if missing:
            raise UsageError(f"the agent {value.__name__} lacks {' and '.join(missing)}", fix="see docs/plugins.md")
    elif not isinstance(value, base):
        also = ", or a subclass of it" if name == "agent" else ""
        raise UsageError(f"{name} must be an object of the class {base.__name__}{also}, not {value!r}")


def _path(name: str, value: object) -> Path:
    if not isinstance(value, str | os.PathLike):
        raise UsageError(f"{name} must be a path, not {value!r}")
    return Path(value)


def _callback(name: str, function: Callable[..., None] | None) -> Callable[..., None]:
    if function is not None and not callable(function):
        raise UsageError(f"{name} must be a function, not {function!r}")
    return function or (lambda *_: None)


def _predictions(given: object) -> PredictionSource:
    """Checked by hand: who calls this may have no type checker."""
    if isinstance(given, str | Path):
        return cast("PredictionSource", given)
    known = list(given) if isinstance(given, Iterable) else None
    if known is None or not all(isinstance(one, Prediction) for one in known):
        kinds = "a Path, objects of the class Prediction, or 'oracle'"
        raise UsageError(f"predictions must be {kinds}, not {truncate_line(repr(given))}")
    return known


def _sweep_results(made: Sequence[RunResults]) -> SweepResults:
    store = sweep_beside(made[0].folder, made[0].config.sweep)
    if store is None:
        raise UsageError("the session was of no sweep")
    runs = {label: run for (label, _), run in zip(store.runs(), made, strict=True)}
    return SweepResults(store.folder, store.sweep(), runs, stored_sweep_outcome(store))
