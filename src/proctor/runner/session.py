"""Sessions: the only way in to run something. A session starts runs, or resumes them, and works on them to their end.

The command line, the Python API and sweeps all call `run_session`, so that they have the same checks, the same
preflight and the same refusals.
"""

import asyncio
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import msgspec

from proctor.agents import agent_class
from proctor.benchmarks import reopen
from proctor.core.benchmark import Benchmark
from proctor.core.causes import Cause
from proctor.core.environment import EnvironmentProvider
from proctor.core.errors import InvalidData, ProctorError, UsageError
from proctor.core.files import cache_root
from proctor.core.formatting import plural
from proctor.core.options import Scope, option_fields
from proctor.core.request import RunRequest
from proctor.core.result import TaskResult
from proctor.core.run import RunConfig, RunSummary, Trial
from proctor.core.sweep import Sweep
from proctor.core.task import Task
from proctor.environments import reap
from proctor.environments.machine_check import check_machine
from proctor.gateway import RunBudget
from proctor.results import Journal, RunStore, SweepStore, new_run, new_sweep, read_journal, summarise
from proctor.results.frames import FrameKind, FrameLibrary, make_frame
from proctor.results.run_lock import hold_runs
from proctor.results.store import CountedResult, counted, results_root
from proctor.runner.agents import AgentSource
from proctor.runner.executors.base import Executor
from proctor.runner.executors.local import LocalExecutor
from proctor.runner.models import (
    ModelAccess,
    asked_dialects,
    load_prices,
    make_backend,
    make_model_access,
    parse_model,
    requested_model,
)
from proctor.runner.notify import Notifier, check_targets
from proctor.runner.observer import RunObserver
from proctor.runner.parallel import run_in_parallel
from proctor.runner.preflight import (
    OnPull,
    changed_versions,
    check_access,
    check_gpus,
    check_program_unchanged,
    check_runnable,
    check_valid,
    configure,
    describe_scripted_model,
    make_provider,
    missing_requirements,
)
from proctor.runner.request import check_environment_options, current_machine, is_used, list_trials, resolve_request
from proctor.runner.resume import TrialState, read_trial_states
from proctor.runner.retry import DEFAULT_RETRY_SECONDS
from proctor.runner.run_cost import RunCost, read_run_cost
from proctor.runner.run_resources import MachineResources, PlannedRun
from proctor.runner.sandbox_pool import check_pod_unchanged
from proctor.runner.scratch import scratch_folder
from proctor.runner.selection import open_benchmark, select_tasks
from proctor.runner.state import DEFAULT_GRACE_SECONDS, RunSession, Session
from proctor.runner.sweep import make_sweep
from proctor.runner.sweep_file import SweepFile
from proctor.runner.trial import TrialRunner, interleave_trials

_AT_ONCE: Final = 64  # records that are written without waiting for each other
Job = RunRequest | SweepFile | RunStore | SweepStore
# Makes the observer of a run: of which store and configuration, where its finished trials stand, and its cost so far.
ObserverFactory = Callable[[RunStore, RunConfig, Sequence[TrialState], RunCost], RunObserver]


@dataclass(frozen=True, slots=True)
class SessionHooks:
    """What a caller brings to a session beside options.

    Attributes:
        benchmark: an object to use instead of the benchmark that is named; `agent` and `provider` likewise.
        access: how the model's provider is reached; None: as options and environment say.
        results: where runs are stored; None: PROCTOR_RESULTS, or ``./results``.
        dry_run: plan only: nothing is pulled, written or paid for.
        confirm: is shown what is planned before anything is written, and decides whether to start.
        log: receives warnings, a sentence each.
        on_pull: receives the progress of images that are pulled or built.
        retry_seconds: the first delay before a retry.
        grace_seconds: how long an agent has to end by itself after the model has been taken away.
    """

    benchmark: Benchmark | None = None
    agent: AgentSource | None = None
    provider: EnvironmentProvider | None = None
    access: ModelAccess | None = None
    results: Path | None = None
    dry_run: bool = False
    confirm: Callable[[RunConfig | Sweep], bool] = lambda _: True
    make_observer: ObserverFactory = lambda *_: RunObserver()
    log: Callable[[str], None] = lambda _: None
    on_pull: OnPull | None = None
    retry_seconds: float = DEFAULT_RETRY_SECONDS
    grace_seconds: float = DEFAULT_GRACE_SECONDS


@dataclass(frozen=True, slots=True)
class RunResults:
    """A run on disk. Iterating over it gives its results, read one at a time.

    Attributes:
        trials_left: trials without a recorded result; `resume` continues with them.
        stopped_by: what stopped this session before its end, where anything did; `detail`: in words.
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
        """The result of one trial.

        Raises:
            UsageError: there is none.
        """
        return RunStore(self.folder).result(task_id, trial)

    def __iter__(self) -> Iterator[TaskResult]:
        return RunStore(self.folder).results()

    def to_frame(self, rows: FrameKind = "trials", *, library: FrameLibrary = "polars") -> Any:
        """A data frame with a row for each trial, each of the `tests`, or each of the `model_calls`.

        Raises:
            UsageError: the library is not installed (`pip install 'proctor[frames]'`), or there are no such rows.
        """
        return make_frame([RunStore(self.folder)], rows, library)


@dataclass(frozen=True, slots=True)
class SessionResult:
    """How a session ended: its runs, none if nothing was started, and the sweep that they are, if they are one."""

    runs: list[RunResults] = field(default_factory=list)
    sweep: SweepStore | None = None


async def run_session(
    job: Job, hooks: SessionHooks | None = None, options: Mapping[str, Any] | None = None
) -> SessionResult:
    """Start what is requested, or resume what is stored, and work on it until it is done or has to stop.

    The runs of a sweep take turns, task by task, within one budget: what changes meanwhile, such as the provider's
    load, affects all alike.

    Args:
        job: a run or a sweep to be started, or the store of one to be resumed.
        hooks: what the caller brings beside options.
        options: options of the session, where the job is no `RunRequest`, which has its own.

    Raises:
        UsageError: it cannot be run as asked.
        InfrastructureError: a program that it needs is not on this machine, or no task can be run here.
        InvalidData: the benchmark's data is not what the run was started with.
        RetryableError: another process works on the run.
    """
    hooks = hooks or SessionHooks()
    targets = job.notify if isinstance(job, RunRequest) else (options or {}).get("notify", ())
    check_targets(targets)
    notifier = Notifier(targets, hooks.log)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(notifier)
        if isinstance(job, RunRequest | SweepFile):
            shared, planned, plan = await _plan_new(stack, job, hooks, options or {})
            if not hooks.confirm(plan or planned[0].config) or hooks.dry_run:
                return SessionResult()
            await shared.executor.check()
            stores, sweep = _create(planned[0].config, plan, hooks.results)
            await stack.enter_async_context(hold_runs(stores))
        else:
            stores, sweep = _stored_runs(job)
            await stack.enter_async_context(hold_runs(stores))
            shared, planned = await _plan_stored(stack, stores, hooks, options or {})
        notifier.stores, notifier.sweep, notifier.session = stores, sweep, shared
        planned = [
            replace(run, config=_stored_names(run.config, store)) for store, run in zip(stores, planned, strict=True)
        ]
        try:
            async with AsyncExitStack() as opened:
                sessions = await _start(opened, shared, stores, planned, hooks)
                turns = interleave_trials([run.plan.pending for run in sessions])
                runnable = [turn for turn in turns if turn[1].task_id not in shared.missing]
                shared.executor.prefetch(sessions[0].tasks[trial.task_id] for _, trial in runnable)
                await _skip_missing(sessions, turns, shared)
                trials = (TrialRunner(sessions[number], trial) for number, trial in runnable)
                await run_in_parallel(TrialRunner.run, trials, shared.executor.max_trials)
        finally:
            # However it ended: what is on disk is what there is.
            summaries = [_summarise(store, run) for store, run in zip(stores, planned, strict=True)]
    if shared.usage_error is not None:
        raise shared.usage_error
    return SessionResult(
        [
            RunResults(run.store.folder, run.config, summary, run.trials_left, shared.stopped_by, shared.detail)
            for run, summary in zip(sessions, summaries, strict=True)
        ],
        sweep,
    )


async def _plan_new(
    stack: AsyncExitStack, job: RunRequest | SweepFile, hooks: SessionHooks, options: Mapping[str, Any]
) -> tuple[Session, list[PlannedRun], Sweep | None]:
    """Everything that is needed to start. Nothing is written."""
    single = isinstance(job, RunRequest)
    configurations = {"": job} if isinstance(job, RunRequest) else job.configurations
    requests = {
        label: _name_objects(_with_options(request, options), hooks) for label, request in configurations.items()
    }
    first = next(iter(requests.values()))
    check_environment_options(first)
    access = hooks.access or make_model_access(first, os.environ)
    benchmark = hooks.benchmark or open_benchmark(first)
    tasks, invalid = select_tasks(benchmark, first)
    for line in check_valid(tasks, invalid):
        hooks.log(f"left out, invalid: {line}")
    provider = _open_provider(stack, first, hooks)
    await check_machine(provider, _written_folders(hooks.results))
    for request in requests.values():
        await check_gpus(request, provider)
    runs: dict[str, PlannedRun] = {}
    problems: list[str] = []
    for label, request in requests.items():
        try:
            resolved = resolve_request(request)
            agent = hooks.agent or agent_class(str(resolved.agent))
            config, model = await configure(resolved, benchmark, tasks, provider, agent, pull=not hooks.dry_run)
            # A dry run of one configuration needs no key.
            backend = None if hooks.dry_run and single else check_access(config, model, access, agent)
        except ProctorError as error:
            if single:
                raise
            problems.append(f"{label}: {error}")
        else:
            config = msgspec.structs.replace(config, objects=_objects(hooks))
            runs[label] = PlannedRun(config, agent, model, backend, list_trials(config))
    if problems:
        count = f"{len(problems)} of {len(requests)} configurations cannot be run"
        raise UsageError(count, fix="fix the sweep's file", details=problems)
    for note in dict.fromkeys(describe_scripted_model(run.config, run.model) for run in runs.values()):
        if note is not None:
            hooks.log(note)
    config = next(iter(runs.values())).config
    session = _open_session(benchmark, provider, access, config, hooks)
    await _find_missing(session, config, tasks, {task.id for task in tasks}, hooks)
    configs = {label: run.config for label, run in runs.items()}
    sweep = make_sweep(job, benchmark.name, configs) if isinstance(job, SweepFile) else None
    return session, list(runs.values()), sweep


async def _plan_stored(
    stack: AsyncExitStack, stores: Sequence[RunStore], hooks: SessionHooks, options: Mapping[str, Any]
) -> tuple[Session, list[PlannedRun]]:
    """Everything that is needed to resume. A new budget is stored."""
    configs = [_resumed_config(store, options) for store in stores]
    first = configs[0]
    given = _objects(hooks)
    for part in first.objects:
        if part not in given:
            raise UsageError(
                f"the run was started with an object as its {part}, {getattr(first, part)!r}",
                fix=f"give the same object again, as in proctor.resume(name, {part}=…)",
            )
    access = hooks.access or make_model_access(first, os.environ)
    benchmark = hooks.benchmark or reopen(first.benchmark, first.source, first.split).with_verifier(first.verifier)
    provider = _open_provider(stack, first, hooks)
    await check_machine(provider, _written_folders(stores[0].folder))
    for config in configs:
        await check_gpus(config, provider)
    runs: list[PlannedRun] = []
    seen: set[str] = set()
    for store, config in zip(stores, configs, strict=True):
        tasks = _checked_tasks(config, benchmark)
        check_pod_unchanged(config)
        model = None if config.model is None else parse_model(config.model, config.providers)
        agent = hooks.agent or agent_class(config.agent)
        if agent.keeps_program and config.program is None:
            config = msgspec.structs.replace(config, program=store.config().program)  # noqa: PLW2901 - the same run's
        check_program_unchanged(config, agent, benchmark, tasks[config.tasks[0]])
        if config.agent not in seen:
            seen.add(config.agent)
            for change in changed_versions(config, agent, benchmark, tasks[config.tasks[0]]):
                hooks.log(f"{change}: trials of both will be in this run")
        backend = None if model is None else make_backend(model, access, asked_dialects(model, agent))
        planned = PlannedRun(config, agent, model, backend)
        runs.append(await asyncio.to_thread(_with_state, planned, store))
        if store.unreadable:
            hooks.log(f"{store.name}: {plural(len(store.unreadable), 'result')} cannot be read, and made again")
            store.unreadable.clear()
    session = _open_session(benchmark, provider, access, first, hooks)
    pending = {trial: run.trial_states.get(trial, TrialState()) for run in runs for trial in run.pending}
    left, never_skipped = (
        {trial.task_id for trial in pending},
        {trial.task_id for trial, state in pending.items() if not state.skipped},
    )
    await _find_missing(session, first, [tasks[name] for name in first.tasks if name in left], never_skipped, hooks)
    # What is still missing here stays skipped.
    return session, [
        replace(
            run,
            pending=[
                trial
                for trial in run.pending
                if trial.task_id not in session.missing or not run.trial_states.get(trial, TrialState()).skipped
            ],
        )
        for run in runs
    ]


def _written_folders(results: Path | None) -> list[Path]:
    return [results or results_root(), cache_root(), scratch_folder()]


async def _find_missing(
    session: Session, config: RunConfig, tasks: Sequence[Task], wanted: Collection[str], hooks: SessionHooks
) -> None:
    """Find out which of these tasks cannot be run on this machine, and log why.

    Raises:
        InfrastructureError: none of those that are wanted can.
    """
    session.missing = await missing_requirements(
        session.benchmark,
        tasks,
        session.provider,
        image=config.image,
        machine=current_machine(),
        pull=not hooks.dry_run,
    )
    for line in check_runnable(session.missing, wanted):
        hooks.log(f"skipped, cannot be run here: {line}")


async def _skip_missing(sessions: Sequence[RunSession], turns: Sequence[tuple[int, Trial]], shared: Session) -> None:
    """Skip the trials of tasks that cannot be run on this machine."""
    missing = [turn for turn in turns if turn[1].task_id in shared.missing]

    async def skip(turn: tuple[int, Trial]) -> None:
        number, trial = turn
        await TrialRunner(sessions[number], trial).skip(shared.missing[trial.task_id])

    await run_in_parallel(skip, missing, _AT_ONCE)


def _open_session(
    benchmark: Benchmark, provider: EnvironmentProvider, access: ModelAccess, config: RunConfig, hooks: SessionHooks
) -> Session:
    delays = {"retry_seconds": hooks.retry_seconds, "grace_seconds": hooks.grace_seconds}
    executor = _make_executor(config, access, hooks)
    return Session(benchmark, provider, access, config, executor, **delays)


def _make_executor(config: RunConfig, access: ModelAccess, hooks: SessionHooks) -> Executor:
    if config.executor == "local":
        return LocalExecutor(config.concurrency, config.grade_concurrency)
    from proctor.runner.executors.node_pool import ClusterSettings
    from proctor.runner.executors.ray import RayExecutor, check_request

    check_request(isolation=config.isolation, own_login=config.own_login, objects=_objects(hooks))
    settings = ClusterSettings(
        address=config.address,
        insecure=config.insecure_cluster,
        slots=config.node_slots or config.concurrency,
        grading_slots=config.grade_concurrency,
        log=hooks.log,
    )
    return RayExecutor(settings, access)


def _resumed_config(store: RunStore, options: Mapping[str, Any]) -> RunConfig:
    """A stored configuration with the options of this session. A new budget holds from now on, and is stored."""
    config = store.config()
    defaults = {
        name: option.default
        for name, option in option_fields(RunRequest).items()
        if option.option.scope in {Scope.SESSION, Scope.RESUME}
    }
    max_cost = options.get("max_cost")
    if max_cost is not None and max_cost != config.max_cost:
        config = store.update_config(max_cost=max_cost)
    return msgspec.structs.replace(config, **{**defaults, **options})


def _with_options(request: RunRequest, options: Mapping[str, Any]) -> RunRequest:
    """The request with those options of the session that it uses; other configurations may use the rest."""
    fields = option_fields(RunRequest)
    settings = {name: getattr(request, name) for name in ("mode", "agent", "runner")}
    settings["executor"] = options.get("executor", request.executor)
    used = {name: value for name, value in options.items() if is_used(fields[name].option.use, settings)}
    return msgspec.structs.replace(request, **used)


def _name_objects(request: RunRequest, hooks: SessionHooks) -> RunRequest:
    """The request with the names of objects that the caller gives."""
    names = {}
    if hooks.agent is not None:
        names["agent"] = hooks.agent.name
    if hooks.provider is not None:
        names["runner"] = hooks.provider.name
    return msgspec.structs.replace(request, **names)


def _objects(hooks: SessionHooks) -> tuple[str, ...]:
    given = {"benchmark": hooks.benchmark, "agent": hooks.agent, "runner": hooks.provider}
    return tuple(name for name, value in given.items() if value is not None)


def _open_provider(stack: AsyncExitStack, request: RunRequest, hooks: SessionHooks) -> EnvironmentProvider:
    if hooks.provider is not None:
        return hooks.provider  # the caller's, to be closed by the caller
    provider = make_provider(request, hooks.on_pull)
    stack.push_async_callback(provider.close)
    return provider


def _create(config: RunConfig, sweep: Sweep | None, results: Path | None) -> tuple[list[RunStore], SweepStore | None]:
    """Give a new run, or a new sweep and its runs, their names and folders."""
    if sweep is not None:
        return _stored_runs(new_sweep(sweep, root=results))
    store = new_run(config.benchmark, root=results)
    store.write_config(msgspec.structs.replace(config, run_id=store.run_id))
    return [store], None


def _stored_names(config: RunConfig, store: RunStore) -> RunConfig:
    """The configuration with the names that the run has got when it was stored."""
    stored = store.config()
    return msgspec.structs.replace(config, run_id=store.run_id, sweep=stored.sweep, label=stored.label)


def _stored_runs(job: RunStore | SweepStore) -> tuple[list[RunStore], SweepStore | None]:
    if isinstance(job, SweepStore):
        return [store for _, store in job.runs()], job
    sweep = job.config().sweep
    if sweep is not None:
        raise UsageError(
            f"run {job.run_id} is part of a sweep, and shares its budget",
            fix=f"resume with `proctor bench resume {sweep}`",
        )
    return [job], None


async def _start(
    stack: AsyncExitStack,
    shared: Session,
    stores: Sequence[RunStore],
    planned: Sequence[PlannedRun],
    hooks: SessionHooks,
) -> list[RunSession]:
    """Open what the runs need. The budget is as the first run says."""
    first = planned[0].config
    tasks = _checked_tasks(first, shared.benchmark)
    observers = [
        hooks.make_observer(store, run.config, run.finished(), run.cost)
        for store, run in zip(stores, planned, strict=True)
    ]
    budget = RunBudget(first.max_cost, spent_usd=sum(run.cost.known_usd for run in planned))
    # What killed runs have left goes first: local environments, and containers where there is an engine for them.
    await reap(docker=first.runner == "docker")
    machine = MachineResources(
        benchmark=shared.benchmark,
        provider=shared.provider,
        tasks=tasks,
        grade_options=shared.grade_options,
        grace_seconds=shared.grace_seconds,
        login=shared.access.login,
    )
    sessions = [
        RunSession(
            shared=shared,
            plan=run,
            store=store,
            journal=await stack.enter_async_context(Journal(store.journal)),
            tasks=tasks,
            observer=observer,
            prices=load_prices(run.config.prices),
            model=requested_model(run.model, run.agent) if run.model else None,
            secrets=run.secrets(shared.access.login),
        )
        for store, run, observer in zip(stores, planned, observers, strict=True)
    ]
    await shared.executor.open(stack, machine, sessions, budget)
    return sessions


def _with_state(run: PlannedRun, store: RunStore) -> PlannedRun:
    """A stored run with where it stands.

    What was skipped is worked on if this machine can run it now; a result that cannot be read is made again.
    """
    entries = list(read_journal(store.journal))
    readable: dict[Trial, tuple[str, CountedResult]] = {}
    for file, result in store.results_by_file(TaskResult):
        readable[Trial(task_id=result.task_id, number=result.trial)] = file, counted(result)
    states = {
        trial: state if trial in readable else state.without_result()
        for trial, state in read_trial_states(entries).items()
    }

    def is_pending(trial: Trial) -> bool:
        state = states.get(trial)
        return state is None or not state.recorded or state.skipped or (state.failed and run.config.retry_errors)

    cost = read_run_cost(store, entries, load_prices(run.config.prices))
    pending = [trial for trial in list_trials(run.config) if is_pending(trial)]
    for trial in pending:
        readable.pop(trial, None)  # it will be written again
    return replace(run, pending=pending, trial_states=states, cost=cost, results=dict(readable.values()))


def _checked_tasks(config: RunConfig, benchmark: Benchmark) -> dict[str, Task]:
    """The benchmark's tasks, by id, which must be the ones that the run was started with."""
    fix = "put the data back as it was, or start a new run"
    tasks = {task.id: task for task in benchmark.tasks()}
    missing = [task_id for task_id in config.tasks if task_id not in tasks]
    if missing:
        raise InvalidData(
            f"the run has a task that the benchmark no longer has: {missing[0]!r}", where=benchmark.source, fix=fix
        )
    if benchmark.digest() != config.data_digest:
        raise InvalidData("the data has changed since the run was started", where=benchmark.source, fix=fix)
    return tasks


def _summarise(store: RunStore, run: PlannedRun) -> RunSummary:
    cost = read_run_cost(store, read_journal(store.journal), load_prices(run.config.prices))
    summary = summarise(
        run.config,
        store.counted_results(run.results),
        unfinished_usd=cost.unfinished_usd,
        unfinished_estimated_usd=cost.unfinished_estimated_usd,
    )
    # It can be made again at any time, and on a full disk the error that led here matters more.
    with suppress(OSError):
        store.write_summary(summary)
    return summary
