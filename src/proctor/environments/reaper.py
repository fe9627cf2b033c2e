"""Clears away what rooms have left behind whose owners were killed."""

import asyncio
import json
from pathlib import Path

from proctor.core.record import Record


class Reaped(Record):
    """What was removed: ids of containers and networks, names of local rooms."""

    containers: tuple[str, ...] = ()
    networks: tuple[str, ...] = ()
    rooms: tuple[str, ...] = ()


async def reap(*, docker_url: str | None = None, rooms: Path | None = None, docker: bool = True) -> Reaped:
    """Remove what belongs to no living process: containers and networks with our label, folders of local rooms.

    Their processes are dead already; this is about disks and address pools. What another machine's Proctor has made
    on a shared engine is left alone.

    Args:
        docker_url: where the engine is.
        rooms: where local rooms are, if not in their usual place.
        docker: False leaves the engine alone, for machines that have none.

    Raises:
        InfrastructureError: the engine does not answer.
    """
    from proctor.environments.folder import remove_abandoned, rooms_folder  # noqa: PLC0415 - a caller pays for its own

    folders = await asyncio.to_thread(remove_abandoned, rooms or rooms_folder())
    if not docker:
        return Reaped(rooms=tuple(folders))
    containers, networks = await _reap_engine(docker_url)
    return Reaped(containers=tuple(containers), networks=tuple(networks), rooms=tuple(folders))


async def _reap_engine(url: str | None) -> tuple[list[str], list[str]]:
    from proctor.environments import engine  # noqa: PLC0415

    docker = engine.connect(url)
    containers: list[str] = []
    networks: list[str] = []
    try:
        with engine.engine_errors("clear away old rooms"):
            filters = {"label": [engine.LABEL]}
            for container in await docker.containers.list(all="true", filters=json.dumps(filters)):
                if engine.is_gone(container["Labels"].get(engine.OWNER, "")):
                    with engine.somebody_else_did():
                        await container.delete(force=True, v=True)
                        containers.append(container.id)
            for network in await docker.networks.list(filters=filters):
                if engine.is_gone(network["Labels"].get(engine.OWNER, "")):
                    with engine.somebody_else_did():
                        await (await docker.networks.get(network["Id"])).delete()
                        networks.append(network["Id"])
    finally:
        await engine.disconnect(docker)
    return containers, networks
