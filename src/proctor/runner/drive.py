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
from proctor.agents import needs_gold, needs_home
from proctor.core.agent import Agent, AgentSetup
from proctor.core.benchmark import Benchmark, GradeOptions, sited
from proctor.core.causes import Cause
from proctor.core.environment import EnvironmentProvider
from proctor.core.errors import InvalidData, UsageError
from proctor.core.files import locked
from proctor.core.record import Record
from proctor.core.run import RunConfig, RunSummary
from proctor.core.submission import PatchKind
from proctor.core.task import Gold, Task
from proctor.environments import provider as find_provider
from proctor.environments import reap
from proctor.gateway import Gateway, Ledger
from proctor.results import RunStore, read_journal, summarise
from proctor.runner.attempt import Way, Workplaces
from proctor.runner.homes import Homes, check_pod_unchanged
from proctor.runner.models import Access, backend_for, choose_model, prices_of
from proctor.runner.plan import check_amount, slots
from proctor.runner.records import Slot
from proctor.runner.resume import Standing, standings
from proctor.runner.run import Course, Places, Retry, Watcher, run
from proctor.runner.scratch import scratch_folder, socket_folder
from proctor.runner.spent import Spending, spending
from proctor.workspaces import apply_patch

if TYPE_CHECKING:
    from proctor.environments.docker import PullProgress

LOCK: Final = ".lock"
OnPull = Callable[["PullProgress"], None]


@dataclass(frozen=True, slots=True)
class Sitting:
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

    access: Access = field(default_factory=Access)
    program: str | None = None
    h2_program: str | None = None
    retry: Retry = field(default_factory=Retry)
    retry_errors: bool = False
    run_usd: float | None = None
    image_disk: int | None = None
    on_pull: OnPull | None = None
    prices: Path | None = None
    notice_seconds: float = 20.0


class Ending(Record):
    """How a sitting ended: what is recorded now, and what kept the run from going on, if anything did."""

    summary: RunSummary
    left: int
    stopped_by: Cause | None = None
    detail: str = ""


async def drive(store: RunStore, benchmark: Benchmark, *, watch: "Watch", sitting: Sitting) -> Ending:
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
    (ending,) = await drive_together([store], benchmark, watch=watch, sitting=sitting)
    return ending


async def drive_together(
    stores: Sequence[RunStore], benchmark: Benchmark, *, watch: "Watch", sitting: Sitting
) -> list[Ending]:
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
            stack.enter_context(locked(store.folder / LOCK, what=name, wait_seconds=0))
        stages = [await asyncio.to_thread(_stage, store, sitting) for store in stores]
        tasks = [_tasks(stage.config, benchmark) for stage in stages]
        for stage in stages:
            check_pod_unchanged(stage.config)
        watchers = [watch(stage.store, stage.config, stage.settled, stage.paid) for stage in stages]
        first = stages[0].config
        places = Places(first.concurrency, first.grade_concurrency)
        try:
            ledger = Ledger(first.budget.run_usd, spent_usd=sum(stage.paid.known_usd for stage in stages))
            # What killed runs have left goes first: rooms here, and containers where there is an engine for them.
            await reap(docker=first.runner == "docker")
            rooms = find_provider(
                first.runner, **room_options(first, image_disk=sitting.image_disk, on_pull=sitting.on_pull)
            )
            stack.push_async_callback(rooms.close)
            courses = [
                Course(
                    store=stage.store,
                    way=await _set_up(stack, stage.config, benchmark, sitting, rooms=rooms, ledger=ledger),
                    tasks=task_map,
                    slots=stage.wanted,
                    known=stage.known,
                    options=GradeOptions(image=stage.config.image),
                    watcher=watcher,
                    retry=sitting.retry,
                )
                for stage, task_map, watcher in zip(stages, tasks, watchers, strict=True)
            ]
            left, stop = await run(courses, places)
        finally:
            # However it ended: what is on disk is what there is.
            summaries = [_summary(stage.store, stage.config) for stage in stages]
        return [
            Ending(
                summary=summary,
                left=count,
                stopped_by=stop.cause if stop else None,
                detail=stop.detail if stop else "",
            )
            for summary, count in zip(summaries, left, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class _Stage:
    """Where a stored run stands before a sitting."""

    store: RunStore
    config: RunConfig
    known: dict[Slot, Standing]
    wanted: list[Slot]
    settled: list[Standing]
    paid: Spending


def _stage(store: RunStore, sitting: Sitting) -> _Stage:
    config = _configured(store, sitting)
    entries = list(read_journal(store.journal))
    known = standings(entries)
    return _Stage(
        store=store,
        config=config,
        known=known,
        wanted=[slot for slot in slots(config) if _is_open(known.get(slot), sitting)],
        settled=[standing for standing in known.values() if not _is_open(standing, sitting)],
        paid=spending(store, entries),
    )


# Makes the watcher of a sitting: of which run, where the slots stand that are done with, what was paid before.
Watch = Callable[[RunStore, RunConfig, Sequence[Standing], Spending], Watcher]


async def _set_up(
    stack: AsyncExitStack,
    config: RunConfig,
    benchmark: Benchmark,
    sitting: Sitting,
    *,
    rooms: EnvironmentProvider,
    ledger: Ledger,
) -> Way:
    scratch, sockets = (
        Path(stack.enter_context(tempfile.TemporaryDirectory(dir=folder)))
        for folder in (scratch_folder(), socket_folder())
    )
    access, secrets = sitting.access, list[str]()
    gateway, socket, model = None, None, None
    if config.model is not None:
        choice = choose_model(config.model)
        backend = backend_for(choice, access)
        secrets += backend.secrets
        gateway = await stack.enter_async_context(Gateway(backend, prices=prices_of(sitting.prices), ledger=ledger))
        socket = await gateway.listen_unix(sockets / "gateway.sock")
        model = choice.model
    homes = None
    if needs_home(config.agent):
        homes = Homes(sockets / "homes", preset=config.preset, auth_from=access.login)
        stack.push_async_callback(homes.close)
        secrets += homes.secrets()
    return Way(
        run_id=config.run_id,
        benchmark=sited(benchmark, rooms),
        provider=rooms,
        agent=agents(config, benchmark, program=sitting.program, h2_program=sitting.h2_program),
        workplaces=Workplaces(scratch),
        gateway=gateway,
        model_socket=socket,
        homes=homes,
        model=model,
        network=config.network,
        cap_usd=config.budget.task_usd,
        limits=config.limits,
        max_turns=config.max_turns,
        own_login=access.login is not None,
        image=config.image,
        secrets=tuple(secrets),
        notice_seconds=sitting.notice_seconds,
    )


def agents(
    config: RunConfig, benchmark: Benchmark, *, program: str | None, h2_program: str | None
) -> Callable[[Task], Agent]:
    """Makes the run's agent for a task. One agent serves all tasks, unless it must know their answers."""
    setup = AgentSetup(
        program=program,
        command=config.command,
        briefing=config.briefing,
        in_place=not config.isolation,
        apply_patch=apply_patch,
        h2_program=h2_program,
        pod_template=config.pod_template,
        pod_variables=config.variables,
    )
    if needs_gold(config.agent):
        return lambda task: find_agent(config.agent, msgspec.structs.replace(setup, gold=_gold(benchmark, task)))
    one = find_agent(config.agent, setup)
    return lambda _: one


def _gold(benchmark: Benchmark, task: Task) -> Gold | None:
    """The reference answer; some are too large, or too far away, to be read with the tasks."""
    if task.private.gold is not None:
        return task.private.gold
    known = benchmark.gold(task)
    if known is None:
        return None
    # Without a kind, the answer is the script that the oracle runs.
    kind = None if known.patch_kind is PatchKind.SHELL_SCRIPT else known.patch_kind
    return Gold(text=known.content.decode("utf-8", "surrogateescape"), patch_kind=kind)


def _configured(store: RunStore, sitting: Sitting) -> RunConfig:
    config = store.config()
    if sitting.run_usd is None or sitting.run_usd == config.budget.run_usd:
        return config
    check_amount("--max-cost", sitting.run_usd)
    budget = msgspec.structs.replace(config.budget, run_usd=sitting.run_usd)
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


def _is_open(standing: Standing | None, sitting: Sitting) -> bool:
    if standing is None or not standing.done:
        return True
    return standing.failed and sitting.retry_errors


def _summary(store: RunStore, config: RunConfig) -> RunSummary:
    paid = spending(store, read_journal(store.journal))
    summary = summarise(config, store.results(), unfinished_usd=paid.unfinished_usd)
    # It can be made again at any time, and on a full disk there are more important things to say.
    with suppress(OSError):
        store.write_summary(summary)
    return summary


def room_options(config: RunConfig, *, image_disk: int | None = None, on_pull: OnPull | None = None) -> dict[str, Any]:
    """What the provider of the run's rooms is to be told."""
    if config.runner == "local":
        return {"isolation": config.isolation}
    if config.runner != "docker":
        return {}
    return {"image_map": config.image_map, "image_disk": image_disk, "on_pull": on_pull}
