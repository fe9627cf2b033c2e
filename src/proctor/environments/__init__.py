"""Environments: isolated places in which an agent works or tests run.

`local` makes an environment with bubblewrap in some milliseconds, `docker` with a Docker engine; both keep the protocol
in `proctor.core.environment`. Providers are found through the entry point group ``proctor.environments``.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from proctor.core.environment import EnvironmentProvider
from proctor.core.errors import ProctorError, UsageError, plugin_error
from proctor.core.plugins import entry_points
from proctor.core.suggestions import suggest
from proctor.environments.reaper import ReapResult, reap

if TYPE_CHECKING:
    import aiodocker

__all__ = [
    "ReapResult",
    "compose_version",
    "docker_images",
    "docker_unavailable_reason",
    "docker_version",
    "local_unavailable_reason",
    "local_version",
    "provider",
    "provider_names",
    "reap",
]

_GROUP: Final = "proctor.environments"
_VERSION_SECONDS: Final = 10.0


def provider(name: str, *, isolation: bool = True, **options: Any) -> EnvironmentProvider:
    """The provider of this name, made with these options.

    Raises:
        UsageError: there is none, or it cannot do without isolation.
    """
    if not isolation:
        if name != "local":
            raise UsageError(f"{name} environments are always isolated", fix="leave --isolation off to --runner local")
        options["isolation"] = False
    found = entry_points(_GROUP, name=name)
    if not found:
        names = provider_names()
        raise UsageError(
            f"there is no provider {name!r}", fix=suggest(name, names, f"choose one of: {', '.join(names)}")
        )
    (entry, *_) = found
    try:
        made = entry.load()(**options)
    except ProctorError:
        raise
    except Exception as error:
        raise UsageError(f"the provider {name!r} cannot be loaded: {plugin_error(error)}", where=entry.value) from error
    if not isinstance(made, EnvironmentProvider):
        raise UsageError(f"the provider {name!r} is not a subclass of proctor.EnvironmentProvider", where=entry.value)
    return made


def provider_names() -> list[str]:
    """The providers that are installed; none of them is imported."""
    return sorted({entry.name for entry in entry_points(_GROUP)})


async def local_version() -> str:
    """What makes local environments on this machine, with its version.

    Raises:
        InfrastructureError: none can be made; says why and what to do.
    """
    from proctor.environments.bubblewrap import probe

    return probe()


async def compose_version() -> str | None:
    """The version of the engine's compose plugin; None: there is none."""
    from proctor.environments.docker_compose import compose_version as ask

    return await ask()


async def _ask_engine(url: str | None, what: str, question: "Callable[[aiodocker.Docker], Awaitable[Any]]") -> Any:
    """What the engine answers to one question, in time.

    Raises:
        InfrastructureError: there is none, or it does not respond.
    """
    from proctor.environments.docker_engine import connect, disconnect, engine_errors

    docker = connect(url)
    try:
        with engine_errors(what):
            async with asyncio.timeout(_VERSION_SECONDS):
                return await question(docker)
    finally:
        await disconnect(docker)


async def docker_version(url: str | None = None) -> str:
    """The version of the engine that makes environments in containers.

    Raises:
        InfrastructureError: there is none, or it does not respond.
    """
    return str((await _ask_engine(url, "say its version", lambda docker: docker.version()))["Version"])


async def docker_images() -> dict[str, str]:
    """The ids of the images that the engine has, by their tags.

    Raises:
        InfrastructureError: there is none, or it does not respond.
    """
    listed = await _ask_engine(None, "list its images", lambda docker: docker.images.list())
    return {tag: str(image["Id"]) for image in listed for tag in image.get("RepoTags") or () if tag != "<none>:<none>"}


async def docker_limits() -> dict[str, bool]:
    """Which limits the engine can lay on containers.

    Raises:
        InfrastructureError: there is none, or it does not respond.
    """
    found = await _ask_engine(None, "say what it can do", lambda docker: docker.system.info())
    return {"memory": bool(found.get("MemoryLimit")), "processes": bool(found.get("PidsLimit")), "disk": True}


async def local_unavailable_reason() -> str | None:
    """Why no local environment can be made on this machine; None when one can."""
    try:
        await local_version()
    except ProctorError as error:
        return error.sentence
    return None


async def docker_unavailable_reason(url: str | None = None) -> str | None:
    """Why no space can be made in a container here; None when one can."""
    try:
        await docker_version(url)
    except ProctorError as error:
        return error.sentence
    return None
