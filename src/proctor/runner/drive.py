"""A sitting of a stored run: everything that it needs is put together here, used, and taken down again."""

import tempfile
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import msgspec

from proctor.agents import agent as find_agent
from proctor.agents import needs_gold
from proctor.core.agent import Agent, AgentSetup
from proctor.core.benchmark import Benchmark, GradeOptions
from proctor.core.environment import EnvironmentProvider
from proctor.core.errors import InvalidData, UsageError
from proctor.core.files import locked
from proctor.core.record import Record
from proctor.core.run import RunConfig
from proctor.core.task import Task
from proctor.environments import provider as find_provider
from proctor.gateway import Gateway, Ledger, ReplayBackend, ScriptBackend, Secret, SessionSpec, Upstream, read_script
from proctor.gateway.backend import Backend
from proctor.gateway.script import Script
from proctor.results import RunStore, find_run
from proctor.runner.attempt import CASSETTE, Way
from proctor.runner.homes import Homes
from proctor.runner.models import choose_model
from proctor.runner.plan import slots
from proctor.runner.run import Course, Ending, Retry, Watcher, run
from proctor.runner.spent import spent_so_far
from proctor.workspaces import apply_patch

LOCK: Final = ".lock"
# Agents that talk to no model and need no home of their own.
_HOMELESS: Final = frozenset({"oracle", "nop", "command"})


class Access(Record):
    """How the provider is reached, where the model is a provider's.

    Attributes:
        own_login: the agent's own login passes through, instead of a key that the gateway adds.
    """

    base_url: str | None = None
    own_login: bool = False


async def drive(
    store: RunStore,
    config: RunConfig,
    benchmark: Benchmark,
    *,
    watcher: Watcher,
    key: Secret | None = None,
    access: Access = Access(),  # noqa: B008 - frozen
    program: str | None = None,
    retry: Retry = Retry(),  # noqa: B008 - frozen
) -> Ending:
    """Start, or go on with, a stored run.

    Raises:
        UsageError: the run needs a key, a script or an agent that is not there.
        RetryableError: another process is at work on this run.
    """
    tasks = {task.id: task for task in benchmark.tasks()}
    missing = [task_id for task_id in config.tasks if task_id not in tasks]
    if missing:
        raise InvalidData(
            f"the run has a task that the benchmark no longer has: {missing[0]!r}", where=benchmark.source
        )
    async with AsyncExitStack() as stack:
        stack.enter_context(locked(store.folder / LOCK, what=f"run {config.run_id}", wait_seconds=0))
        # Short, because sockets are made below it.
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="proctor-run-")))
        rooms: EnvironmentProvider = find_provider(config.runner, isolation=config.isolation)
        stack.push_async_callback(rooms.close)
        gateway = await stack.enter_async_context(
            Gateway(
                _backend(config, key, access),
                ledger=Ledger(config.budget.run_usd, spent_usd=await spent_so_far(store, config)),
            )
        )
        homes = None
        if config.agent not in _HOMELESS:
            homes = Homes(scratch / "homes", preset=config.preset, model=None)
            stack.push_async_callback(homes.close)
        way = Way(
            run_id=config.run_id,
            benchmark=benchmark,
            provider=rooms,
            gateway=gateway,
            agent=agents(config, program),
            homes=homes,
            model=choose_model(config.model).model if config.model else None,
            model_socket=await gateway.listen_unix(scratch / "gateway.sock"),
            network=config.network,
            cap_usd=config.budget.task_usd,
            limits=config.limits,
            max_turns=config.max_turns,
            own_login=access.own_login,
            image=config.image,
        )
        return await run(
            Course(
                store=store,
                way=way,
                tasks=tasks,
                slots=slots(config),
                options=GradeOptions(image=config.image),
                concurrency=config.concurrency,
                grade_concurrency=config.grade_concurrency,
                watcher=watcher,
                retry=retry,
            )
        )


def agents(config: RunConfig, program: str | None) -> Callable[[Task], Agent]:
    """Makes the run's agent for a task. One agent serves all tasks, unless it must know their answers."""
    setup = AgentSetup(program=program, command=config.command, in_place=not config.isolation, apply_patch=apply_patch)
    if needs_gold(config.agent):
        return lambda task: find_agent(config.agent, msgspec.structs.replace(setup, gold=task.private.gold))
    one = find_agent(config.agent, setup)
    return lambda _: one


def _backend(config: RunConfig, key: Secret | None, access: Access) -> Backend:
    if config.model is None:
        return ScriptBackend(Script(), name="no model")
    choice = choose_model(config.model)
    if choice.kind == "script":
        return ScriptBackend(read_script(Path(choice.source or "")))
    if choice.kind == "replay":
        return ReplayBackend(_recordings(find_run(choice.source or "")), name=choice.source or "replay")
    if key is None and not access.own_login:
        raise UsageError(
            f"there is no key for the model {config.model}",
            fix="set ANTHROPIC_API_KEY, give --own-login, or use --model script:FILE",
        )
    return Upstream(access.base_url, key=key) if access.base_url else Upstream(key=key)


def _recordings(store: RunStore) -> Callable[[SessionSpec], Path]:
    """The last cassette that a run has of a slot."""

    def find(spec: SessionSpec) -> Path:
        folder = store.logs(spec.task_id, int(spec.values.get("sample", "1")))
        found = sorted(folder.glob(f"attempt-*/{CASSETTE}"), key=lambda file: int(file.parent.name.split("-")[1]))
        if not found:
            raise InvalidData(f"the run {store.run_id} has no recording of {spec.task_id!r}", where=store.folder)
        return found[-1]

    return find
