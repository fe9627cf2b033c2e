"""What a program can ask for: run, resume, evaluate, validate, load results. `proctor` exports it.

Each function has a twin whose name ends in ``_async``, for callers that have an event loop: a server, a notebook. The
plain ones run a loop of their own, and refuse to be called from within another, which they would block.
"""

import asyncio
import difflib
import os
import sys
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal, TypedDict, TypeVar, Unpack, get_args, get_origin, get_type_hints

from proctor.benchmarks import benchmark as find_benchmark
from proctor.benchmarks import read_predictions, reopen, suite_benchmark
from proctor.core.benchmark import Benchmark, GradeOptions, Health
from proctor.core.causes import Cause
from proctor.core.environment import EnvironmentProvider, Limits, Network
from proctor.core.errors import UsageError
from proctor.core.evaluation import Evaluated, EvaluationReport, Invocation, Prediction
from proctor.core.result import TaskResult
from proctor.core.run import Budget, Mode, RunConfig, RunSummary
from proctor.core.task import Task
from proctor.environments import provider as find_provider
from proctor.results import RecordCache, RunStore, find_run, summarise
from proctor.runner import evaluate as grading
from proctor.runner.drive import Sitting, drive
from proctor.runner.models import Access
from proctor.runner.needs import environment_of
from proctor.runner.plan import AGENTS, PRESETS, Asked
from proctor.runner.records import Slot
from proctor.runner.run import Retry, Silence
from proctor.runner.selection import Selection, select
from proctor.runner.start import begin, check_access, configure

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
    left: int
    stopped_by: Cause | None = None
    detail: str = ""

    @property
    def name(self) -> str:
        """As commands and `resume` know it: benchmark/run-id."""
        return f"{self.folder.parent.name}/{self.folder.name}"

    def task(self, task_id: str, attempt: int = 1) -> TaskResult:
        """The result of one answer.

        Raises:
            UsageError: there is none.
        """
        return RunStore(self.folder).result(task_id, attempt)

    def __iter__(self) -> Iterator[TaskResult]:
        return RunStore(self.folder).results()


class RunOptions(TypedDict, total=False):
    """What may be said of a run; the options of ``proctor bench run`` by the same names.

    Attributes:
        command: with the agent ``command``: the words of the command.
        tasks: ids; all tasks if not said.
        attempts: how many answers are wanted to each task.
        network: ``none``, ``model`` or ``open``; as the benchmark says if not said.
        results: where runs are kept; PROCTOR_RESULTS or ``./results`` if not said.
        program: the agent's program, where it is not found by itself; `h2_program`: h2, likewise.
        retries: how often an error that was not the agent's is tried again.
        prices: a table of prices, beside the one that comes with the package.
        ended: is told of every answer that is done with: the task, which answer, and its result; None: given up.
    """

    split: str | None
    mode: Literal["baseline", "h2"]
    agent: str
    command: Sequence[str]
    model: str | None
    preset: str
    pod_template: str | None
    variables: Mapping[str, str]
    tasks: Sequence[str]
    limit: int | None
    shuffle: int | None
    attempts: int
    concurrency: int
    grade_concurrency: int | None
    timeout: float | None
    max_turns: int
    max_cost: float | None
    max_cost_per_task: float | None
    network: Literal["none", "model", "open"] | None
    runner: str
    image: str | None
    isolation: bool
    results: Path | None
    program: str | None
    h2_program: str | None
    retries: int
    prices: Path | None
    ended: Callable[[str, int, TaskResult | None], None]


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
    return _now(run_async(benchmark, **options), "run_async")


async def run_async(benchmark: str | Benchmark, **options: Unpack[RunOptions]) -> RunResults:
    """The same as `run`, in the caller's event loop. Cancelling it ends the agents; `resume` goes on later."""
    _check_names(options, RunOptions)
    source = _benchmark(benchmark, options.get("split"))
    access = Access.from_environment(os.environ)
    tasks = _chosen(source, options.get("tasks", ()), options)
    program, h2_program = options.get("program"), options.get("h2_program")
    prices = options.get("prices")
    config = await configure(_asked(options), source, tasks, program=program, h2_program=h2_program, prices=prices)
    check_access(config, access, prices=prices)
    store = begin(config, root=options.get("results"))
    retry = _retry(options.get("retries"))
    sitting = Sitting(access=access, program=program, h2_program=h2_program, retry=retry, prices=prices)
    return await _sit(store, source, sitting, options.get("ended"))


def resume(
    name: str | Path,
    *,
    results: Path | None = None,
    retry_errors: bool = False,
    max_cost: float | None = None,
    program: str | None = None,
    h2_program: str | None = None,
    retries: int | None = None,
    prices: Path | None = None,
    ended: Callable[[str, int, TaskResult | None], None] | None = None,
) -> RunResults:
    """Go on with a run where it stopped. No finished stage is done again, and no answer is paid for twice.

    Args:
        name: its folder, benchmark/run-id, or a run-id that only one benchmark has.
        results: where runs are kept, if not in PROCTOR_RESULTS or ``./results``.
        retry_errors: try answers again that ended in an error.
        max_cost: a new limit for the whole run, in which what it has spent before counts.
        program: the agent's program, where it is not found by itself.
        h2_program: h2, likewise.
        retries: how often an error that was not the agent's is tried again.
        prices: a table of prices, beside the one that comes with the package.
        ended: as in `RunOptions`.

    Raises:
        UsageError: there is no such run.
        InvalidData: the benchmark's data is not what the run was begun with.
    """
    going_on = resume_async(
        name,
        results=results,
        retry_errors=retry_errors,
        max_cost=max_cost,
        program=program,
        h2_program=h2_program,
        retries=retries,
        prices=prices,
        ended=ended,
    )
    return _now(going_on, "resume_async")


async def resume_async(
    name: str | Path,
    *,
    results: Path | None = None,
    retry_errors: bool = False,
    max_cost: float | None = None,
    program: str | None = None,
    h2_program: str | None = None,
    retries: int | None = None,
    prices: Path | None = None,
    ended: Callable[[str, int, TaskResult | None], None] | None = None,
) -> RunResults:
    """The same as `resume`, in the caller's event loop."""
    store = find_run(str(name), root=results)
    config = store.config()
    sitting = Sitting(
        access=Access.from_environment(os.environ),
        program=program,
        h2_program=h2_program,
        retry=_retry(retries),
        retry_errors=retry_errors,
        run_usd=max_cost,
        prices=prices,
    )
    source = reopen(config.benchmark, config.source, config.split)
    return await _sit(store, source, sitting, ended)


def load_results(name: str | Path, *, results: Path | None = None) -> RunResults:
    """A run that was made before, finished or not.

    Raises:
        UsageError: there is no such run.
    """
    store = find_run(str(name), root=results)
    config = store.config()
    summary = summarise(config, store.results())
    return RunResults(store.folder, config, summary, len(config.tasks) * config.samples - summary.tasks)


def evaluate(
    benchmark: str | Benchmark,
    predictions: Path | Iterable[Prediction] | Literal["oracle"],
    *,
    cache: bool = True,
    done: Callable[[Evaluated], None] | None = None,
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
    return _now(evaluate_async(benchmark, predictions, cache=cache, done=done, **options), "evaluate_async")


async def evaluate_async(
    benchmark: str | Benchmark,
    predictions: Path | Iterable[Prediction] | Literal["oracle"],
    *,
    cache: bool = True,
    done: Callable[[Evaluated], None] | None = None,
    **options: Unpack[EvaluateOptions],
) -> EvaluationReport:
    """The same as `evaluate`, in the caller's event loop."""
    _check_names(options, EvaluateOptions)
    started, clock = datetime.now(UTC), time.monotonic()
    source = _benchmark(benchmark, options.get("split"))
    tasks = _chosen(source, options.get("tasks", ()), options)
    rooms, grade_options = _rooms(options), _grade_options(options)
    artifacts = options.get("artifacts", _ARTIFACTS).absolute()
    file = str(predictions.absolute()) if isinstance(predictions, Path) else None  # noqa: ASYNC240 - no system call
    try:
        evaluated = await grading.evaluate(
            source,
            tasks,
            _predictions(source, tasks, predictions),
            provider=rooms,
            options=grade_options,
            artifacts=artifacts,
            jobs=options.get("jobs", 1),
            cache=RecordCache(Evaluated, "verdicts") if cache else None,
            done=done or (lambda _: None),
        )
        environment = await environment_of(source, tasks, rooms, grade_options)
    finally:
        await rooms.close()
    broken = () if options.get("tasks") else source.unusable()
    return grading.make_report(
        source,
        (*evaluated, *map(grading.unusable, broken)),
        seconds=time.monotonic() - clock,
        environment=environment,
        invocation=Invocation(
            argv=tuple(sys.argv),
            cwd=os.getcwd(),  # noqa: PTH109 - as it is, symlinks and all
            started_at=started.isoformat(timespec="milliseconds"),
            predictions=file,
            oracle=predictions == "oracle",
            runner=options.get("runner", "local"),
            image=grade_options.image,
            filter=None,
            exact=False,
            limit=options.get("limit"),
            jobs=options.get("jobs", 1),
            repair_mode=grade_options.repair,
            keep_artifacts=False,
            artifact_dir=str(artifacts),
        ),
    )


def validate(
    benchmark: str | Benchmark,
    *,
    done: Callable[[Health], None] | None = None,
    **options: Unpack[EvaluateOptions],
) -> tuple[Health, ...]:
    """Prove on this machine that each task can be failed, can be solved, and is graded alike each time.

    Args:
        benchmark: as for `run`.
        done: is told of every task.
        options: see `EvaluateOptions`.
    """
    return _now(validate_async(benchmark, done=done, **options), "validate_async")


async def validate_async(
    benchmark: str | Benchmark,
    *,
    done: Callable[[Health], None] | None = None,
    **options: Unpack[EvaluateOptions],
) -> tuple[Health, ...]:
    """The same as `validate`, in the caller's event loop."""
    _check_names(options, EvaluateOptions)
    source = _benchmark(benchmark, options.get("split"))
    rooms = _rooms(options)
    try:
        healths = await grading.validate(
            source,
            _chosen(source, options.get("tasks", ()), options),
            provider=rooms,
            options=_grade_options(options, determinism_runs=2),
            artifacts=options.get("artifacts", _ARTIFACTS).absolute(),
            jobs=options.get("jobs", 1),
            done=done or (lambda _: None),
        )
    finally:
        await rooms.close()
    broken = () if options.get("tasks") else source.unusable()
    return (*healths, *map(grading.broken_health, broken))


class _Told(Silence):
    """Passes on what is done with."""

    def __init__(self, ended: Callable[[str, int, TaskResult | None], None] | None) -> None:
        self._ended = ended

    def ended(self, slot: Slot, result: TaskResult | None) -> None:
        """One answer."""
        if self._ended is not None:
            self._ended(slot.task_id, slot.sample, result)


async def _sit(
    store: RunStore,
    source: Benchmark,
    sitting: Sitting,
    ended: Callable[[str, int, TaskResult | None], None] | None,
) -> RunResults:
    ending = await drive(store, source, watch=lambda *_: _Told(ended), sitting=sitting)
    return RunResults(store.folder, store.config(), ending.summary, ending.left, ending.stopped_by, ending.detail)


def _now(work: Coroutine[Any, Any, T], twin: str) -> T:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    work.close()
    raise UsageError("an event loop is running here, and would be blocked", fix=f"use `await proctor.{twin}(…)`")


def _check_names(options: Mapping[str, Any], known: type) -> None:
    """A budget whose name is misspelt must not be no budget.

    Raises:
        UsageError: an option is not known, or has none of the values that it may have.
    """
    hints = get_type_hints(known)
    for name, value in options.items():
        if name not in hints:
            near = difflib.get_close_matches(name, hints, n=1)
            raise UsageError(f"there is no option {name!r}", fix=f"did you mean {near[0]!r}?" if near else None)
        choices = [word for kind in (hints[name], *get_args(hints[name])) for word in _words(kind)]
        if choices and value is not None and value not in choices:
            raise UsageError(f"{name} must be one of {', '.join(choices)}, not {value!r}")
        if isinstance(value, str) and get_origin(hints[name]) is Sequence:
            raise UsageError(f"{name} must be a list, not the text {value!r}")
    for name, least in (("jobs", 1), ("limit", 0), ("retries", 0)):
        if options.get(name) is not None and options[name] < least:
            raise UsageError(f"{name} must be {least} or more, not {options[name]}")


def _words(kind: Any) -> tuple[str, ...]:
    return get_args(kind) if get_origin(kind) is Literal else ()


def _benchmark(which: str | Benchmark, split: str | None) -> Benchmark:
    if not isinstance(which, str):
        return which
    if os.sep in which or which.endswith(".json"):
        return suite_benchmark(which)
    return find_benchmark(which, split)


def _chosen(source: Benchmark, ids: Sequence[str], options: RunOptions | EvaluateOptions) -> tuple[Task, ...]:
    chosen = Selection(ids=tuple(ids), limit=options.get("limit"))
    return select(source.tasks(), chosen, known=[bad.task_id for bad in source.unusable()])


def _asked(options: RunOptions) -> Asked:
    network, mode = options.get("network"), Mode(options.get("mode", "baseline"))
    return Asked(
        agent=options.get("agent", AGENTS[mode]),
        mode=mode,
        command=tuple(options.get("command", ())),
        model=options.get("model"),
        preset=options.get("preset", PRESETS[mode]),
        pod_template=options.get("pod_template"),
        variables=dict(options.get("variables", {})),
        runner=options.get("runner", "local"),
        image=options.get("image"),
        isolation=options.get("isolation", True),
        network=Network(network) if network else None,
        samples=options.get("attempts", 1),
        concurrency=options.get("concurrency", 1),
        grade_concurrency=options.get("grade_concurrency"),
        limits=Limits(wall_seconds=options.get("timeout")),
        max_turns=options.get("max_turns"),
        budget=Budget(run_usd=options.get("max_cost"), task_usd=options.get("max_cost_per_task")),
        shuffle=options.get("shuffle"),
    )


def _retry(retries: int | None) -> Retry:
    return Retry() if retries is None else Retry(tries=retries + 1)


def _rooms(options: EvaluateOptions) -> EnvironmentProvider:
    return find_provider(options.get("runner", "local"), isolation=options.get("isolation", True))


def _grade_options(options: EvaluateOptions, *, determinism_runs: int | None = None) -> GradeOptions:
    return GradeOptions(
        image=options.get("image"),
        determinism_runs=options.get("determinism_runs", determinism_runs),
        timeout_seconds=options.get("timeout"),
    )


def _predictions(
    source: Benchmark, tasks: Sequence[Task], given: Path | Iterable[Prediction] | Literal["oracle"]
) -> Mapping[str, Prediction]:
    if isinstance(given, Path):
        return read_predictions(given, source)
    if isinstance(given, str) and given != "oracle":
        raise UsageError(f"the predictions are the text {given!r}", fix='give a Path, predictions, or "oracle"')
    if isinstance(given, str):
        answers: Iterable[Prediction | None] = map(source.gold, tasks)
    else:
        answers = given
    return {answer.task_id: answer for answer in answers if answer is not None}
