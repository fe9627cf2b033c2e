"""Clears away what environments have left behind whose owners were killed."""

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING

from proctor.core.record import Record

if TYPE_CHECKING:
    from aiodocker import Docker


class ReapResult(Record):
    """What was removed: ids of containers and networks, names of local environments."""

    containers: tuple[str, ...] = ()
    networks: tuple[str, ...] = ()
    local_environments: tuple[str, ...] = ()


async def reap(
    *, docker_url: str | None = None, environments_dir: Path | None = None, docker: bool = True
) -> ReapResult:
    """Remove what belongs to no living process: containers and networks with our label, folders of local environments.

    Their processes are dead already; this is about disks and address pools. What another machine's Proctor has made
    on a shared engine is left alone.

    Args:
        docker_url: where the engine is.
        environments_dir: where local environments are; the default directory if None.
        docker: False leaves the engine alone, for machines that have none.

    Raises:
        InfrastructureError: the engine does not answer.
    """
    from proctor.environments.environment_dir import default_environments_dir, remove_abandoned

    folders = await asyncio.to_thread(remove_abandoned, environments_dir or default_environments_dir())
    if not docker:
        return ReapResult(local_environments=tuple(folders))
    containers, networks = await _reap_engine(docker_url)
    return ReapResult(containers=tuple(containers), networks=tuple(networks), local_environments=tuple(folders))


async def _reap_engine(url: str | None) -> tuple[list[str], list[str]]:
    from proctor.environments import docker_engine

    docker = docker_engine.connect(url)
    containers: list[str] = []
    networks: list[str] = []
    try:
        with docker_engine.engine_errors("clear away old environments"):
            filters = {"label": [docker_engine.LABEL]}
            for container in await docker.containers.list(all="true", filters=json.dumps(filters)):
                if docker_engine.owner_has_ended(container["Labels"].get(docker_engine.OWNER_LABEL, "")):
                    with docker_engine.ignore_already_removed():
                        await container.delete(force=True, v=True)
                        containers.append(container.id)
            # The files of environments, kept for their copies.
            for image in await docker.images.list(filters={"label": [docker_engine.CHECKPOINT_LABEL]}):
                if docker_engine.owner_has_ended(image["Labels"].get(docker_engine.OWNER_LABEL, "")):
                    with docker_engine.ignore_already_removed():
                        await docker.images.delete(image["Id"], force=True)
            for network in await docker.networks.list(filters=filters):
                if docker_engine.owner_has_ended(network["Labels"].get(docker_engine.OWNER_LABEL, "")):
                    with docker_engine.ignore_already_removed():
                        await (await docker.networks.get(network["Id"])).delete()
                        networks.append(network["Id"])
            await _reap_volumes(docker)
    finally:
        await docker_engine.disconnect(docker)
    return containers, networks


async def _reap_volumes(docker: "Docker") -> None:
    """The volumes that services of an environment shared."""
    from proctor.environments import docker_engine

    listed = await docker._query_json(  # noqa: SLF001 - the library's own call takes no filter
        "volumes", method="GET", params={"filters": json.dumps({"label": [docker_engine.LABEL]})}
    )
    for volume in listed.get("Volumes") or ():
        if docker_engine.owner_has_ended((volume.get("Labels") or {}).get(docker_engine.OWNER_LABEL, "")):
            with docker_engine.ignore_already_removed():
                async with docker._query(f"volumes/{volume['Name']}", method="DELETE"):  # noqa: SLF001
                    pass
