"""Time for what an agent has started to become a service, before everything that is none is ended."""

import asyncio
import time
from collections.abc import Collection
from typing import Final

from proctor.core.environment import Environment
from proctor.core.record import Record
from proctor.grading.state.processes import (
    LeftoverPolicy,
    ProcessInfo,
    find_leftovers,
    kill_processes,
    list_processes,
    starting_processes,
)

_PAUSE_SECONDS: Final = 0.5


class ServiceStartupWait(Record):
    """How long processes that serve nothing yet are waited for.

    Attributes:
        since: when the time was up, by the engine's clock; what files are like since then is no work of the agent's.
        named: the text of the task and of its tests; files that it names are work, whatever they look like.
    """

    seconds: float
    since: float
    named: str = ""


class ServiceWait(Record):
    """Whom a wait has met: the agent's own programs, which were killed, and those that served nothing at first."""

    killed: tuple[ProcessInfo, ...] = ()
    waited_for: tuple[ProcessInfo, ...] = ()


async def wait_for_services(
    environment: Environment, before: Collection[int], *, path: str, seconds: float
) -> ServiceWait:
    """Wait until all that runs beside `before` is a service or has ended, or the time is over.

    The agent's own programs are killed first: the time is for what they have started, not for them.

    Raises:
        InfrastructureError: the environment cannot be inspected.
    """
    deadline = time.monotonic() + seconds
    killed: list[ProcessInfo] = []
    waited: dict[int, ProcessInfo] = {}
    while True:
        listed = await list_processes(environment, path)
        own, _ = find_leftovers(listed, before, LeftoverPolicy.SERVICES)
        await kill_processes(environment, own)
        killed += own
        starting = () if own else starting_processes(listed, before)
        waited |= {process.pid: process for process in starting}
        if time.monotonic() >= deadline or not (own or starting):
            return ServiceWait(killed=tuple(killed), waited_for=tuple(waited.values()))
        if starting:
            await asyncio.sleep(min(_PAUSE_SECONDS, max(0.0, deadline - time.monotonic())))
