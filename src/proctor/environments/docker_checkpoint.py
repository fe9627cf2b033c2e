"""Copies of a container: its files at one moment as an image, and containers made from it on the same network.

A copy has processes of its own, which those of the first container cannot see. Servers of the first container are
reached over the shared network, and at their unix sockets, which are shown at the same paths.
"""

import asyncio
import base64
import json
import posixpath
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final, Protocol

from aiodocker import DockerError
from aiodocker.containers import DockerContainer

from proctor.core.errors import InfrastructureError
from proctor.environments.docker_engine import CHECKPOINT_LABEL, OWNER_LABEL, current_owner, engine_errors, is_missing
from proctor.environments.docker_volumes import VolumeFiles, volumes

if TYPE_CHECKING:
    from proctor.environments.docker_environment import DockerEnvironment

# Programs and settings: in a copy with live files these are still the copy's own.
_SYSTEM_DIRS: Final = frozenset(
    """bin boot dev etc lib lib32 lib64 libx32 logs opt proc root run sbin solution sys tests usr var""".split()  # noqa: SIM905 - names read best as words
)
_LIVE_DIRS_BELOW: Final = ("/var/log", "/var/spool", "/var/www")
_LISTENS: Final = 0x10000
_MAX_SOCKETS: Final = 50
_MAX_DIRS: Final = 50
_PAUSE_TRIES: Final = 40
_PAUSE_AGAIN_SECONDS: Final = 0.05
# Of a pause that is over the engine hears once more from its runtime, for a moment too late; on a busy machine a
# container that starts processes all the time is not frozen within the runtime's own tries.
_PAUSED_SOON: Final = ("already paused", "unable to freeze")
# The engine's bits for the kinds of files.
_IS_DIR: Final = 1 << 31
_IS_LINK: Final = 1 << 27
_IS_SOCKET: Final = 1 << 24


class StartCopy(Protocol):
    """Makes an environment from a container's configuration."""

    async def __call__(self, config: dict[str, Any], *, with_workspace: bool) -> "DockerEnvironment": ...


class DockerCheckpoint:
    """Implements `proctor.core.environment.Checkpoint`; made by `DockerEnvironment.checkpoint`."""

    def __init__(
        self,
        container: DockerContainer,
        config: dict[str, Any],
        image: str,
        start: StartCopy,
        *,
        volumes: VolumeFiles,
        service_names: Sequence[str] = (),
    ) -> None:
        self._container = container
        self._config = config
        self._image = image
        self._start = start
        self._volumes = volumes
        self._service_names = tuple(service_names)

    async def copy(self, *, live_files: bool = False) -> "DockerEnvironment":
        """A container with these files, on the first one's network."""
        copied = await self._copy(live_files=live_files)
        if not live_files:
            try:
                await self._volumes.put_into(copied)
            except BaseException:
                await copied.stop()
                raise
        return copied

    async def _copy(self, *, live_files: bool) -> "DockerEnvironment":
        with engine_errors("copy a container"):
            sockets = await _socket_paths(self._container)
            # While nothing runs there, a path cannot become a link to somewhere else behind our back.
            async with paused(self._container):
                mounts = await self._mounts(sockets, live_files=live_files)
                config = _without_own_network(self._config, self._image, f"container:{self._container.id}", mounts)
                return await self._start(config, with_workspace=False)

    async def original(self) -> "DockerEnvironment":
        """A container from the first one's image, on a network of its own."""
        network = str(self._config["HostConfig"]["NetworkMode"])
        config = _without_own_network(self._config, self._config["Image"], network, [])
        return await self._start({**config, "Hostname": self._config["Hostname"]}, with_workspace=True)

    async def remove(self) -> None:
        """Remove the image, and what was kept of volumes."""
        await self._volumes.remove()
        with engine_errors("remove an image"):
            try:
                await self._container.docker.images.delete(self._image, force=True)
            except DockerError as error:
                if not is_missing(error):
                    raise

    async def _mounts(self, sockets: Iterable[str], *, live_files: bool) -> list[dict[str, Any]]:
        described = await self._container.show()
        names = await asyncio.to_thread(self._volumes.name_files, described, self._service_names)
        own = [{"Type": "bind", "Source": file, "Target": place, "ReadOnly": True} for place, file in names.items()]
        if live_files:
            own += [
                {"Type": "volume", "Source": one["Name"], "Target": one["Destination"]} for one in volumes(described)
            ]
        root = (described.get("GraphDriver", {}).get("Data") or {}).get("MergedDir")
        if not root:
            return own  # another storage driver: what serves at a path is not reached
        places: list[str] = []
        if live_files:
            listed = (await _top_directories(self._container, described))[:_MAX_DIRS]
            places += [name for name in listed if await self._is_plain_directory(name)]
        for path in sockets:
            if any(path.startswith(f"{place}/") for place in places):
                continue
            real = await resolved(self._container, path)
            if real is not None and await _kind(self._container, real) & _IS_SOCKET:
                places.append(real)
        return own + [
            {"Type": "bind", "Source": f"{root}{place}", "Target": place, "BindOptions": {"Propagation": "rslave"}}
            for place in dict.fromkeys(places)
        ]

    async def _is_plain_directory(self, name: str) -> bool:
        """Whether a path leads to a directory without following a link."""
        plain = await resolved(self._container, name) == name
        return plain and bool(await _kind(self._container, name) & _IS_DIR)


async def commit(container: DockerContainer) -> str:
    """Keep a container's files, without a name; the image's id."""
    config = {"Labels": {CHECKPOINT_LABEL: "1", OWNER_LABEL: current_owner()}}
    made = await pausing(
        lambda: container.docker._query_json(  # noqa: SLF001 - the library's own call gives the image a name
            "commit", method="POST", params={"container": container.id, "pause": "true"}, data=config
        )
    )
    return str(made["Id"])


def _without_own_network(
    config: dict[str, Any], image: str, network: str, mounts: list[dict[str, Any]]
) -> dict[str, Any]:
    host = {**config["HostConfig"], "NetworkMode": network, "Mounts": mounts}
    kept = {key: value for key, value in config.items() if key not in {"Hostname", "NetworkingConfig"}}
    return {**kept, "Image": image, "HostConfig": host}


@asynccontextmanager
async def paused(container: DockerContainer) -> AsyncIterator[None]:
    """Have nothing run in a container for the length of the block.

    Raises:
        InfrastructureError: it cannot be paused, or nothing runs in it.
    """
    await _pause(container)
    try:
        yield
    finally:
        with suppress(DockerError):  # it was ended meanwhile
            await asyncio.shield(container.unpause())


async def _pause(container: DockerContainer) -> None:
    try:
        await pausing(container.pause)
    except DockerError as error:
        raise InfrastructureError(f"the container cannot be paused: {error.message}") from error


async def pausing(request: Callable[[], Awaitable[Any]]) -> Any:
    """Make a request that pauses a container, again where it cannot be paused for a moment only.

    Raises:
        DockerError: it cannot be paused, or something else went wrong.
    """
    for _ in range(_PAUSE_TRIES - 1):
        try:
            return await request()
        except DockerError as error:
            if not any(words in error.message for words in _PAUSED_SOON):
                raise
        await asyncio.sleep(_PAUSE_AGAIN_SECONDS)
    return await request()


async def _socket_paths(container: DockerContainer) -> list[str]:
    """The absolute paths at which something in the container listens."""
    execution = await container.exec(["cat", "/proc/net/unix"], user="0:0", workdir="/")
    output = b""
    async with execution.start() as stream:
        while (message := await stream.read_out()) is not None:
            output += message.data
    paths = []
    for line in output.decode("utf-8", "replace").splitlines():
        words = line.split(maxsplit=7)
        with suppress(ValueError, IndexError):
            if int(words[3], 16) & _LISTENS and words[7].startswith("/"):
                paths.append(posixpath.normpath(words[7]))
    return list(dict.fromkeys(paths))[:_MAX_SOCKETS]


async def _top_directories(container: DockerContainer, described: dict[str, Any]) -> list[str]:
    """The directories that hold data: those that no image has for its system."""
    changed = await container.docker._query_json(f"containers/{container.id}/changes", method="GET") or []  # noqa: SLF001 - the library has no call for it
    names = {PurePosixPath(change["Path"]).parts[1] for change in changed if len(change["Path"]) > 1}
    mounted = {mount["Destination"] for mount in described.get("Mounts", ())}
    tops = [f"/{name}" for name in sorted(names - _SYSTEM_DIRS)]
    below = [place for place in _LIVE_DIRS_BELOW if any(change["Path"].startswith(place) for change in changed)]
    return [place for place in (*tops, *below) if place not in mounted]


async def _kind(container: DockerContainer, path: str) -> int:
    """The kind of file at a path, its last part not followed; 0: there is none."""
    try:
        async with container.docker._query(  # noqa: SLF001 - likewise
            f"containers/{container.id}/archive", method="HEAD", params={"path": path}
        ) as response:
            stat = json.loads(base64.b64decode(response.headers["X-Docker-Container-Path-Stat"]))
            return int(stat["mode"])
    except (DockerError, KeyError, ValueError):
        return 0


async def resolved(container: DockerContainer, path: str, *, missing_too: bool = False) -> str | None:
    """A path without links in it, as the container sees it; None: it leads nowhere.

    With `missing_too`, what is not there is no link, and the rest of the path is as it is. The engine follows links of
    what it mounts on its own machine, so none may be left.
    """
    done, waiting = "/", list(PurePosixPath(path).parts[1:])
    for _ in range(100):
        if not waiting:
            return done
        step = waiting.pop(0)
        here = posixpath.normpath(posixpath.join(done, step))
        kind = await _kind(container, here)
        if kind & _IS_LINK:
            target = await _link_target(container, here)
            if target is None:
                return None
            whole = posixpath.normpath(posixpath.join(done, target, *waiting))
            done, waiting = "/", list(PurePosixPath(whole).parts[1:])
        elif kind == 0:
            return posixpath.normpath(posixpath.join(here, *waiting)) if missing_too else None
        else:
            done = here
    return None


async def _link_target(container: DockerContainer, path: str) -> str | None:
    try:
        async with container.docker._query(  # noqa: SLF001 - likewise
            f"containers/{container.id}/archive", method="HEAD", params={"path": path}
        ) as response:
            stat = json.loads(base64.b64decode(response.headers["X-Docker-Container-Path-Stat"]))
            return str(stat["linkTarget"]) or None
    except (DockerError, KeyError, ValueError):
        return None
