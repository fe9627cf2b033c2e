"""A sitting of stored runs: everything that it needs is put together here, used, and taken down again."""

import asyncio
import tempfile
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from proctor.agents import agent as find_agent
from proctor.agents import agent_class
from proctor.core.agent import Agent, AgentSetup
from proctor.core.benchmark import Benchmark, GradeOptions
from proctor.core.causes import Cause
from proctor.core.environment import EnvironmentProvider
from proctor.core.errors import InvalidData, UsageError
from proctor.core.files import file_lock
from proctor.core.record import Record
from proctor.core.run import RunConfig, RunSummary
from proctor.core.submission import PatchKind
from proctor.core.task import Oracle, Task
from proctor.environments import provider as find_provider
from proctor.environments import reap
from proctor.gateway import Gateway, RunBudget
from proctor.results import RunStore, read_journal, summarise
from proctor.runner.attempt import RunContext, ScratchPool
from proctor.runner.models import ModelAccess, load_prices, make_backend, parse_model
from proctor.runner.records import Trial
from proctor.runner.request import check_amount, list_trials
from proctor.runner.resume import TrialState, read_trial_states
from proctor.runner.run_cost import RunCost, read_run_cost
from proctor.runner.sandbox_pool import SandboxPool, check_pod_unchanged
from proctor.runner.scratch import scratch_folder, socket_folder
from proctor.runner.trial import ConcurrencyLimits, RunObserver, RunState, TrialRetry, run_trials
from proctor.workspaces import apply_patch

if TYPE_CHECKING:
    from proctor.environments.docker import PullProgress

LOCK_FILE: Final = ".lock"
OnPull = Callable[["PullProgress"], None]


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """What holds for one sitting of a run, and may be another at the next.

    Attributes:
        program: the agent's program, where it is not found by itself.
        h2_program: h2, likewise.
        retry_errors: give slots whose recorded result is an error another chance.
        run_usd: what the whole run may cost from now on; None leaves its limit as it is.
        image_disk: how many bytes the images that are pulled may take; None is no limit.
        on_pull: told how images are brought to this machine.
        prices: a table of prices beside the one that comes with the package.
    """

    access: ModelAccess = field(default_factory=ModelAccess)
    program: str | None = None
    h2_program: str | None = None
    retry: TrialRetry = field(default_factory=TrialRetry)
    retry_errors: bool = False
    max_run_usd: float | None = None
    image_disk: int | None = None
    on_pull: OnPull | None = None
    prices: Path | None = None
    grace_seconds: float = 20.0


class SessionResult(Record):
    """How a sitting ended: what is recorded now, and what kept the run from going on, if anything did."""

    summary: RunSummary
    trials_left: int
    stopped_by: Cause | None = None
    detail: str = ""


async def run_session(
    store: RunStore, benchmark: Benchmark, *, make_observer: "ObserverFactory", options: SessionOptions
) -> SessionResult:
    """Start, or go on with, a stored run.

    Raises:
        UsageError: the run needs a key, a script or an agent that is not there, or is part of a sweep.
        InvalidData: the benchmark's data is not what the run was begun with.
        RetryableError: another process is at work on this run.
    """
    sweep = store.config().sweep
    if sweep is not None:
        raise UsageError(
            f"run {store.run_id} is part of a sweep, and shares its budget",
            fix=f"go on with `proctor bench resume {sweep}`",
        )
    (ending,) = await run_sessions([store], benchmark, make_observer=make_observer, options=options)
    return ending


async def run_sessions(
    stores: Sequence[RunStore], benchmark: Benchmark, *, make_observer: "ObserverFactory", options: SessionOptions
) -> list[SessionResult]:
    """Start, or go on with, runs of one benchmark that take turns, and share their places and their budget.

    How many agents and graders work at once, in which rooms, and what may be spent, is as the first of them says.

    Raises:
        UsageError: a run needs a key, a script or an agent that is not there.
        InvalidData: the benchmark's data is not what a run was begun with.
        RetryableError: another process is at work on one of these runs.
    """
    async with AsyncExitStack() as stack:
        for store in stores:
            name = f"run {store.folder.parent.name}/{store.run_id}"
            stack.enter_context(file_lock(store.folder / LOCK_FILE, what=name, wait_seconds=0))
        stages = [await asyncio.to_thread(_load_run_state, store, options) for store in stores]
        tasks = [_tasks(stage.config, benchmark) for stage in stages]
        for stage in stages:
            check_pod_unchanged(stage.config)
        watchers = [make_observer(stage.store, stage.config, stage.finished, stage.cost) for stage in stages]
        first = stages[0].config
        places = ConcurrencyLimits(first.concurrency, first.grade_concurrency)
        try:
            ledger = RunBudget(first.budget.run_usd, spent_usd=sum(stage.cost.known_usd for stage in stages))
            # What killed runs have left goes first: rooms here, and containers where there is an engine for them.
            await reap(docker=first.runner == "docker")
            rooms = find_provider(
                first.runner, **provider_options(first, image_disk=options.image_disk, on_pull=options.on_pull)
            )
            stack.push_async_callback(rooms.close)
            courses = [
                RunState(
                    store=stage.store,
                    context=await _make_context(stack, stage.config, benchmark, options, provider=rooms, ledger=ledger),
                    tasks=task_map,
                    trials=stage.pending,
                    trial_states=stage.trial_states,
                    grade_options=GradeOptions(image=stage.config.image),
                    observer=watcher,
                    retry=options.retry,
                )
                for stage, task_map, watcher in zip(stages, tasks, watchers, strict=True)
            ]
            left, stop = await run_trials(courses, places)
        finally:
            # However it ended: what is on disk is what there is.
            summaries = [_summary(stage.store, stage.config) for stage in stages]
        return [
            SessionResult(
                summary=summary,
                trials_left=count,
                stopped_by=stop.cause if stop else None,
                detail=stop.detail if stop else "",
            )
            for summary, count in zip(summaries, left, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class _StoredRunState:
    """Where a stored run stands before a sitting."""

    store: RunStore
    config: RunConfig
    trial_states: dict[Trial, TrialState]
    pending: list[Trial]
    finished: list[TrialState]
    cost: RunCost


def _load_run_state(store: RunStore, options: SessionOptions) -> _StoredRunState:
    config = _apply_run_budget(store, options)
    entries = list(read_journal(store.journal))
    known = read_trial_states(entries)
    return _StoredRunState(
        store=store,
        config=config,
        trial_states=known,
        pending=[slot for slot in list_trials(config) if _is_pending(known.get(slot), options)],
        finished=[standing for standing in known.values() if not _is_pending(standing, options)],
        cost=read_run_cost(store, entries),
    )


# Makes the watcher of a sitting: of which run, where the slots stand that are done with, what was paid before.
ObserverFactory = Callable[[RunStore, RunConfig, Sequence[TrialState], RunCost], RunObserver]


async def _make_context(
    stack: AsyncExitStack,
    config: RunConfig,
    benchmark: Benchmark,
    options: SessionOptions,
    *,
    provider: EnvironmentProvider,
    ledger: RunBudget,
) -> RunContext:
    scratch, sockets = (
        Path(stack.enter_context(tempfile.TemporaryDirectory(dir=folder)))
        for folder in (scratch_folder(), socket_folder())
    )
    access, secrets = options.access, list[str]()
    gateway, socket, model = None, None, None
    if config.model is not None:
        choice = parse_model(config.model)
        backend = make_backend(choice, access)
        secrets += backend.secrets
        gateway = await stack.enter_async_context(Gateway(backend, prices=load_prices(options.prices), budget=ledger))
        socket = await gateway.listen_unix(sockets / "gateway.sock")
        model = choice.model
    homes = None
    if agent_class(config.agent).needs_sandbox:
        homes = SandboxPool(sockets / "homes", preset=config.preset, auth_from=access.login)
        stack.push_async_callback(homes.close)
        secrets += homes.secrets()
    return RunContext(
        run_id=config.run_id,
        benchmark=benchmark.for_provider(provider),
        provider=provider,
        make_agent=agent_factory(config, benchmark, program=options.program, h2_program=options.h2_program),
        scratch=ScratchPool(scratch),
        gateway=gateway,
        model_socket=socket,
        sandboxes=homes,
        model=model,
        network=config.network,
        max_trial_usd=config.budget.task_usd,
        limits=config.limits,
        max_turns=config.max_turns,
        own_login=access.login is not None,
        image=config.image,
        secrets=tuple(secrets),
        grace_seconds=options.grace_seconds,
    )


def agent_factory(
    config: RunConfig, benchmark: Benchmark, *, program: str | None, h2_program: str | None
) -> Callable[[Task], Agent]:
    """Makes the run's agent for a task. One agent serves all tasks, unless it must know their answers."""
    setup = AgentSetup(
        program=program,
        command=config.command,
        agent_options=config.agent_options,
        in_place=not config.isolation,
        apply_patch=apply_patch,
        h2_program=h2_program,
        pod_template=config.pod_template,
        pod_variables=config.variables,
    )
    if agent_class(config.agent).needs_oracle:
        return lambda task: find_agent(config.agent, msgspec.structs.replace(setup, oracle=_oracle(benchmark, task)))
    one = find_agent(config.agent, setup)
    return lambda _: one


def _oracle(benchmark: Benchmark, task: Task) -> Oracle | None:
    """The reference answer; some are too large, or too far away, to be read with the tasks."""
    if task.private.oracle is not None:
        return task.private.oracle
    known = benchmark.oracle(task)
    if known is None:
        return None
    # Without a kind, the answer is the script that the oracle runs.
    kind = None if known.patch_kind is PatchKind.SHELL_SCRIPT else known.patch_kind
    return Oracle(text=known.content.decode("utf-8", "surrogateescape"), patch_kind=kind)


def _apply_run_budget(store: RunStore, options: SessionOptions) -> RunConfig:
    config = store.config()
    if options.max_run_usd is None or options.max_run_usd == config.budget.run_usd:
        return config
    check_amount("--max-cost", options.max_run_usd)
    budget = msgspec.structs.replace(config.budget, run_usd=options.max_run_usd)
    config = msgspec.structs.replace(config, budget=budget)
    store.write_config(config)
    return config


def _tasks(config: RunConfig, benchmark: Benchmark) -> dict[str, Task]:
    """The run's tasks, which must be the ones that it was begun with."""
    fix = "put the data back as it was, or begin a new run"
    tasks = {task.id: task for task in benchmark.tasks()}
    missing = [task_id for task_id in config.tasks if task_id not in tasks]
    if missing:
        raise InvalidData(
            f"the run has a task that the benchmark no longer has: {missing[0]!r}", where=benchmark.source, fix=fix
        )
    if benchmark.digest() != config.data_digest:
        raise InvalidData("the data has changed since the run was begun", where=benchmark.source, fix=fix)
    return tasks


def _is_pending(state: TrialState | None, options: SessionOptions) -> bool:
    if state is None or not state.recorded:
        return True
    return state.failed and options.retry_errors


def _summary(store: RunStore, config: RunConfig) -> RunSummary:
    paid = read_run_cost(store, read_journal(store.journal))
    summary = summarise(config, store.results(), unfinished_usd=paid.unfinished_usd)
    # It can be made again at any time, and on a full disk there are more important things to say.
    with suppress(OSError):
        store.write_summary(summary)
    return summary


def provider_options(
    config: RunConfig, *, image_disk: int | None = None, on_pull: OnPull | None = None
) -> dict[str, Any]:
    """What the provider of the run's rooms is to be told."""
    if config.runner == "local":
        return {"isolation": config.isolation}
    if config.runner != "docker":
        return {}
    return {"image_map": config.image_map, "image_disk": image_disk, "on_pull": on_pull}
