"""Sessions: the only way in to run something. A session starts runs, or resumes them, and works on them to their end.

The command line, the Python API and sweeps all call `run_session`, so that they have the same checks, the same
preflight and the same refusals.
"""

import asyncio
import os
from collections.abc import Collection, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import msgspec

from proctor.agents import agent_class
from proctor.benchmarks import reopen
from proctor.core.benchmark import Benchmark
from proctor.core.environment import EnvironmentProvider
from proctor.core.errors import InvalidData, ProctorError, UsageError
from proctor.core.files import cache_root
from proctor.core.formatting import plural
from proctor.core.options import Scope, option_fields
from proctor.core.request import RunRequest
from proctor.core.result import TaskResult
from proctor.core.run import RunConfig, Trial
from proctor.core.sweep import Sweep
from proctor.core.task import Task
from proctor.environments import reap
from proctor.environments.machine_check import check_machine
from proctor.gateway import RunBudget
from proctor.results import Journal, RunStore, SweepStore, new_run, new_sweep, read_journal, summarise
from proctor.results.run_lock import hold_runs
from proctor.results.run_results import RunResults
from proctor.results.store import CountedResult, counted, results_root
from proctor.runner.executors.base import Executor
from proctor.runner.executors.local import LocalExecutor
from proctor.runner.models import (
    ModelAccess,
    asked_dialects,
    make_backend,
    make_model_access,
    parse_model,
)
from proctor.runner.notify import Notifier, check_targets
from proctor.runner.parallel import run_in_parallel
from proctor.runner.pod import check_pod_unchanged
from proctor.runner.preflight import (
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
from proctor.runner.run_cost import attempt_costs, known_cost, unfinished_costs
from proctor.runner.run_resources import RunResources, adapt_benchmark
from proctor.runner.scratch import scratch_folder
from proctor.runner.selection import open_benchmark, select_tasks
from proctor.runner.state import RunSession, Session
from proctor.runner.sweep import make_sweep
from proctor.runner.sweep_file import SweepFile
from proctor.runner.trial import TrialRunner, interleave_trials

_AT_ONCE: Final = 64  # records that are written without waiting for each other
Job = RunRequest | SweepFile | RunStore | SweepStore


async def run_session(
    job: Job, session: Session | None = None, options: Mapping[str, Any] | None = None
) -> list[RunResults]:
    """Start what is requested, or resume what is stored, and work on it until it is done or has to stop.

    The runs of a sweep take turns, task by task, within one budget: what changes meanwhile, such as the provider's
    load, affects all alike.

    Args:
        job: a run or a sweep to be started, or the store of one to be resumed.
        session: what the caller brings beside options.
        options: options of the session, where the job is no `RunRequest`, which has its own.

    Returns:
        The runs, as the session has left them; none if nothing was started.

    Raises:
        UsageError: it cannot be run as asked.
        InfrastructureError: a program that it needs is not on this machine, or no task can be run here.
        InvalidData: the benchmark's data is not what the run was started with.
        RetryableError: another process works on the run.
    """
    session = session or Session()
    targets = job.notify if isinstance(job, RunRequest) else (options or {}).get("notify", ())
    check_targets(targets)
    notifier = Notifier(targets, session)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(notifier)
        if isinstance(job, RunRequest | SweepFile):
            planned, plan = await _plan_new(stack, job, session, options or {})
            if not session.confirm(plan or planned[0].config) or session.dry_run:
                return []
            await session.executor.check()
            stores, sweep = _create(planned[0].config, plan, session.results)
            await stack.enter_async_context(hold_runs(stores))
            runs = [_new_run(session, one, store) for one, store in zip(planned, stores, strict=True)]
        else:
            stores, sweep = _stored_runs(job)
            await stack.enter_async_context(hold_runs(stores))
            runs = await _plan_stored(stack, stores, session, options or {})
        notifier.stores, notifier.sweep = stores, sweep
        try:
            async with AsyncExitStack() as opened:
                await _start(opened, runs)
                turns = interleave_trials([run.pending for run in runs])
                runnable = [turn for turn in turns if turn[1].task_id not in session.missing]
                session.executor.prefetch(runs[0].resources.tasks[trial.task_id] for _, trial in runnable)
                await _skip_missing(runs, turns)
                trials = (TrialRunner(runs[number], trial) for number, trial in runnable)
                await run_in_parallel(TrialRunner.run, trials, session.executor.max_trials)
        finally:
            # However it ended: what is on disk is what there is.
            results = [_results(run) for run in runs]
    if session.usage_error is not None:
        raise session.usage_error
    return results


async def _plan_new(
    stack: AsyncExitStack, job: RunRequest | SweepFile, session: Session, options: Mapping[str, Any]
) -> tuple[list[RunResources], Sweep | None]:
    """Everything that is needed to start. Nothing is written."""
    single = isinstance(job, RunRequest)
    configurations = {"": job} if isinstance(job, RunRequest) else job.configurations
    requests = {
        label: _name_objects(_with_options(request, options), session) for label, request in configurations.items()
    }
    first = next(iter(requests.values()))
    check_environment_options(first)
    access = session.access or make_model_access(first, os.environ)
    benchmark = session.benchmark or open_benchmark(first)
    tasks, invalid = select_tasks(benchmark, first)
    for line in check_valid(tasks, invalid):
        session.log(f"left out, invalid: {line}")
    provider = _open_provider(stack, first, session)
    await check_machine(provider, _written_folders(session.results))
    for request in requests.values():
        await check_gpus(request, provider)
    runs: dict[str, RunResources] = {}
    problems: list[str] = []
    for label, request in requests.items():
        try:
            resolved = resolve_request(request)
            agent = session.agent or agent_class(str(resolved.agent))
            config, model = await configure(resolved, benchmark, tasks, provider, agent, pull=not session.dry_run)
            # A dry run of one configuration needs no key.
            backend = None if session.dry_run and single else check_access(config, model, access, agent)
        except ProctorError as error:
            if single:
                raise
            problems.append(f"{label}: {error}")
        else:
            config = msgspec.structs.replace(config, objects=session.objects)
            runs[label] = RunResources(
                config, benchmark, provider, agent, model, backend, access.login, session.grace_seconds
            )
    if problems:
        count = f"{len(problems)} of {len(requests)} configurations cannot be run"
        raise UsageError(count, fix="fix the sweep's file", details=problems)
    for note in dict.fromkeys(describe_scripted_model(run.config, run.model) for run in runs.values()):
        if note is not None:
            session.log(note)
    config = next(iter(runs.values())).config
    adapted = adapt_benchmark(benchmark, provider, config)  # with the first run's options, which hold for all
    planned = [replace(run, benchmark=adapted) for run in runs.values()]
    session.executor = _make_executor(config, access, session)
    await _find_missing(session, planned[0], tasks, {task.id for task in tasks})
    configs = {label: run.config for label, run in runs.items()}
    sweep = make_sweep(job, benchmark.name, configs) if isinstance(job, SweepFile) else None
    return planned, sweep


async def _plan_stored(
    stack: AsyncExitStack, stores: Sequence[RunStore], session: Session, options: Mapping[str, Any]
) -> list[RunSession]:
    """Everything that is needed to resume. A new budget is stored."""
    configs = [_resumed_config(store, options) for store in stores]
    first = configs[0]
    for part in first.objects:
        if part not in session.objects:
            raise UsageError(
                f"the run was started with an object as its {part}, {getattr(first, part)!r}",
                fix=f"give the same object again, as in proctor.resume(name, {part}=…)",
            )
    access = session.access or make_model_access(first, os.environ)
    benchmark = session.benchmark or reopen(first.benchmark, first.source, first.split).with_verifier(first.verifier)
    provider = _open_provider(stack, first, session)
    await check_machine(provider, _written_folders(stores[0].folder))
    for config in configs:
        await check_gpus(config, provider)
    adapted = adapt_benchmark(benchmark, provider, first)
    runs: list[RunSession] = []
    seen: set[str] = set()
    for store, config in zip(stores, configs, strict=True):
        tasks = _checked_tasks(config, benchmark)
        check_pod_unchanged(config)
        model = None if config.model is None else parse_model(config.model, config.providers)
        agent = session.agent or agent_class(config.agent)
        if agent.keeps_program and config.program is None:
            config = msgspec.structs.replace(config, program=store.config().program)  # noqa: PLW2901 - the same run's
        check_program_unchanged(config, agent, benchmark, tasks[config.tasks[0]])
        if config.agent not in seen:
            seen.add(config.agent)
            for change in changed_versions(config, agent, benchmark, tasks[config.tasks[0]]):
                session.log(f"{change}: trials of both will be in this run")
        backend = None if model is None else make_backend(model, access, asked_dialects(model, agent))
        resources = RunResources(config, adapted, provider, agent, model, backend, access.login, session.grace_seconds)
        runs.append(await asyncio.to_thread(_stored_run, session, resources, store))
        if store.unreadable:
            session.log(f"{store.name}: {plural(len(store.unreadable), 'result')} cannot be read, and made again")
            store.unreadable.clear()
    session.executor = _make_executor(first, access, session)
    pending = {trial: run.trial_states.get(trial, TrialState()) for run in runs for trial in run.pending}
    left, never_skipped = (
        {trial.task_id for trial in pending},
        {trial.task_id for trial, state in pending.items() if not state.skipped},
    )
    wanted = [tasks[name] for name in first.tasks if name in left]
    await _find_missing(session, runs[0].resources, wanted, never_skipped)
    for run in runs:
        # What is still missing here stays skipped.
        run.pending = [
            trial
            for trial in run.pending
            if trial.task_id not in session.missing or not run.trial_states.get(trial, TrialState()).skipped
        ]
    return runs


def _written_folders(results: Path | None) -> list[Path]:
    return [results or results_root(), cache_root(), scratch_folder()]


async def _find_missing(session: Session, run: RunResources, tasks: Sequence[Task], wanted: Collection[str]) -> None:
    """Find out which of these tasks cannot be run on this machine, and log why.

    Raises:
        InfrastructureError: none of those that are wanted can.
    """
    session.missing = await missing_requirements(
        run.benchmark,
        tasks,
        run.provider,
        image=run.config.image,
        machine=current_machine(),
        pull=not session.dry_run,
    )
    for line in check_runnable(session.missing, wanted):
        session.log(f"skipped, cannot be run here: {line}")


async def _skip_missing(runs: Sequence[RunSession], turns: Sequence[tuple[int, Trial]]) -> None:
    """Skip the trials of tasks that cannot be run on this machine."""
    reasons = runs[0].session.missing
    missing = [turn for turn in turns if turn[1].task_id in reasons]

    async def skip(turn: tuple[int, Trial]) -> None:
        number, trial = turn
        await TrialRunner(runs[number], trial).skip(reasons[trial.task_id])

    await run_in_parallel(skip, missing, _AT_ONCE)


def _make_executor(config: RunConfig, access: ModelAccess, session: Session) -> Executor:
    if config.executor == "local":
        return LocalExecutor(config.concurrency, config.grade_concurrency)
    from proctor.runner.executors.node_pool import ClusterSettings
    from proctor.runner.executors.ray import RayExecutor, check_request

    check_request(isolation=config.isolation, own_login=config.own_login, objects=session.objects)
    settings = ClusterSettings(
        address=config.address,
        insecure=config.insecure_cluster,
        slots=config.node_slots or config.concurrency,
        grading_slots=config.grade_concurrency,
        log=session.log,
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


def _name_objects(request: RunRequest, session: Session) -> RunRequest:
    """The request with the names of objects that the caller gives."""
    names = {}
    if session.agent is not None:
        names["agent"] = session.agent.name
    if session.provider is not None:
        names["runner"] = session.provider.name
    return msgspec.structs.replace(request, **names)


def _open_provider(stack: AsyncExitStack, request: RunRequest, session: Session) -> EnvironmentProvider:
    if session.provider is not None:
        return session.provider  # the caller's, to be closed by the caller
    provider = make_provider(request, session.on_pull)
    stack.push_async_callback(provider.close)
    return provider


def _create(config: RunConfig, sweep: Sweep | None, results: Path | None) -> tuple[list[RunStore], SweepStore | None]:
    """Give a new run, or a new sweep and its runs, their names and folders."""
    if sweep is not None:
        return _stored_runs(new_sweep(sweep, root=results))
    store = new_run(config.benchmark, root=results)
    store.write_config(msgspec.structs.replace(config, run_id=store.run_id))
    return [store], None


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


async def _start(stack: AsyncExitStack, runs: Sequence[RunSession]) -> None:
    """Open what the runs need. The budget is as the first run says."""
    session, first = runs[0].session, runs[0].resources
    tasks = _checked_tasks(first.config, first.benchmark)
    for run in runs:
        run.resources.tasks = tasks
        run.observer = session.make_observer(run.store, run.config, run.finished(), run.spent_usd)
    budget = RunBudget(first.config.max_cost, spent_usd=sum(run.spent_usd for run in runs))
    # What killed runs have left goes first: local environments, and containers where there is an engine for them.
    await reap(docker=first.config.runner == "docker")
    for run in runs:
        run.journal = await stack.enter_async_context(Journal(run.store.journal))
    await session.executor.open(stack, runs, budget)


def _new_run(session: Session, resources: RunResources, store: RunStore) -> RunSession:
    """A run that was just stored, with the names that it has got."""
    stored = store.config()
    named = msgspec.structs.replace(resources.config, run_id=store.run_id, sweep=stored.sweep, label=stored.label)
    return RunSession(session, replace(resources, config=named), store, list_trials(named))


def _stored_run(session: Session, resources: RunResources, store: RunStore) -> RunSession:
    """A stored run with where it stands.

    What was skipped is worked on if this machine can run it now; a result that cannot be read is made again.
    """
    config, entries = resources.config, list(read_journal(store.journal))
    readable: dict[Trial, tuple[str, CountedResult]] = {}
    for file, result in store.results_by_file(TaskResult):
        readable[Trial(task_id=result.task_id, number=result.trial)] = file, counted(result)
    states = {
        trial: state if trial in readable else state.without_result()
        for trial, state in read_trial_states(entries).items()
    }

    def is_pending(trial: Trial) -> bool:
        state = states.get(trial)
        return state is None or not state.recorded or state.skipped or (state.failed and config.retry_errors)

    pending = [trial for trial in list_trials(config) if is_pending(trial)]
    for trial in pending:
        readable.pop(trial, None)  # it will be written again
    spent = known_cost(attempt_costs(store, entries, resources.prices))
    return RunSession(session, resources, store, pending, states, spent, dict(readable.values()))


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


def _results(run: RunSession) -> RunResults:
    """What the session has left of a run; its summary is stored."""
    unfinished = unfinished_costs(run.store, list(read_journal(run.store.journal)), run.resources.prices)
    summary = summarise(run.config, run.store.counted_results(run.results), unfinished)
    # It can be made again at any time, and on a full disk the error that led here matters more.
    with suppress(OSError):
        run.store.write_summary(summary)
    session = run.session
    return RunResults(run.store.folder, run.config, summary, run.trials_left, session.stopped_by, session.detail)
