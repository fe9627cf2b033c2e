"""Environments: the rooms in which commands run for one attempt.

`local` makes a room with bubblewrap in some milliseconds, `docker` with a Docker engine; both keep the protocol in
`proctor.core.environment`. Providers are found through the entry point group ``proctor.environments``.
"""

from importlib.metadata import entry_points
from typing import Any, Final

from proctor.core.environment import EnvironmentProvider
from proctor.core.errors import ProctorError, UsageError
from proctor.environments.reaper import Reaped, reap

__all__ = ["Reaped", "docker_available", "local_available", "provider", "reap"]

_GROUP: Final = "proctor.environments"


def provider(name: str, *, isolation: bool = True, **options: Any) -> EnvironmentProvider:
    """The provider of this name, made with these options.

    Raises:
        UsageError: there is none, or it cannot do without isolation.
    """
    if not isolation:
        if name != "local":
            raise UsageError(f"{name} rooms are always isolated", fix="leave --isolation off to --runner local")
        options["isolation"] = False
    found = {entry.name: entry for entry in entry_points(group=_GROUP)}
    if name not in found:
        raise UsageError(f"no environment is called {name!r}", fix=f"choose one of: {', '.join(sorted(found))}")
    made: EnvironmentProvider = found[name].load()(**options)
    return made


async def local_available() -> str | None:
    """Why no local room can be made on this machine; None when one can."""
    from proctor.environments.bubblewrap import probe  # noqa: PLC0415 - a caller pays for what it asks

    try:
        return probe()
    except ProctorError as error:
        return error.sentence


async def docker_available(url: str | None = None) -> str | None:
    """Why no room can be made in a container here; None when one can."""
    from proctor.environments.engine import connect, disconnect, engine_errors  # noqa: PLC0415 - likewise

    try:
        docker = connect(url)
        try:
            with engine_errors("say its version"):
                await docker.version()
        finally:
            await disconnect(docker)
    except ProctorError as error:
        return error.sentence
    return None
