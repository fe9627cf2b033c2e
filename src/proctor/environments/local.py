"""Local rooms: bubblewrap around an overlay of the workspace, with a small process of ours as process 1."""

import asyncio
import os
import posixpath
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from proctor.core.environment import EnvironmentSpec, Errand, ErrandResult, Mount, Network
from proctor.core.errors import InfrastructureError, UsageError
from proctor.environments.body import Body, NotStarted
from proctor.environments.bubblewrap import (
    HOME,
    Layout,
    errand_command,
    overlay_failed,
    plain_command,
    refusal,
    room_command,
)
from proctor.environments.digest import local_digest
from proctor.environments.errand import run as run_errand
from proctor.environments.folder import rooms_folder
from proctor.environments.groups import Groups
from proctor.environments.hiding import PATH, hidden, interpreter, is_visible
from proctor.environments.limits import rules_for
from proctor.environments.local_room import LocalRoom
from proctor.environments.trees import Copier, has_foreign_files, opened, remove_tree
from proctor.environments.work import in_thread

_SHARED_MEMORY_BYTES: Final = 256 << 20
_RESERVED: Final = ("/dev", "/home/user", "/proc", "/run", "/tmp", "/var")  # noqa: S108 - the room's own

T = TypeVar("T")


class LocalProvider:
    """Makes rooms on this machine, without a daemon and without root.

    Args:
        isolation: False runs commands as plain processes of this user in a private directory. Nothing is hidden
            and the network is open: for agents and tasks that you trust, and for machines without bubblewrap.
        overlay: False copies every workspace instead of laying a room's changes over it.
        rooms: where rooms keep what is written in them; a directory in the cache by default.
    """

    name = "local"

    def __init__(self, *, isolation: bool = True, overlay: bool = True, rooms: Path | None = None) -> None:
        self._isolation = isolation
        self._overlay = overlay and isolation
        self._rooms = (rooms or rooms_folder()).resolve()
        self._foreign: dict[tuple[str, int, int, int], bool] = {}
        self._clearing: set[asyncio.Task[None]] = set()
        self._groups = Groups(self._rooms)

    async def start(self, spec: EnvironmentSpec) -> LocalRoom:
        """Make a room.

        Raises:
            InfrastructureError: this machine cannot; says why and what to do.
            UsageError: the room is described wrongly.
        """
        spec = _checked(spec, isolation=self._isolation)
        body = Body(self._rooms, spec.limits, self._groups)
        try:
            body.folder.label(spec.labels)
            port = await self._furnish(spec, body, lambda layout: self._launch(body, layout))
            return await self._open(spec, body, port)
        except BaseException:
            await asyncio.shield(body.remove())
            raise

    @property
    def runs_errands(self) -> bool:
        """Whether a room for a single command costs less than one for many."""
        return self._isolation

    async def run_errand(
        self, spec: EnvironmentSpec, errand: Errand, *, turn: AbstractAsyncContextManager[object] | None = None
    ) -> ErrandResult:
        """Make a room, run one command in it to its end, and remove the room; `close` waits for its files to be gone.

        Raises:
            InfrastructureError: this machine cannot; says why and what to do.
            LimitReached: a limit of the whole room ended it.
        """
        spec = _checked(spec, isolation=self._isolation)
        body = Body(self._rooms, spec.limits, self._groups)
        variables = self._variables(body) | spec.variables | errand.variables
        cwd = posixpath.join(spec.workdir, errand.cwd) if errand.cwd else spec.workdir
        try:

            async def launch(layout: Layout) -> ErrandResult:
                return await run_errand(
                    errand,
                    lambda gates, argv: errand_command(layout, gates, variables, cwd, argv),
                    spec.limits,
                    body,
                    turn or nullcontext(),
                )

            return await self._furnish(spec, body, launch)
        finally:
            self._clear_away(body)

    async def digest(self, spec: EnvironmentSpec) -> str:
        """Of the system that the room shows, and its mounts."""
        return local_digest("local" if self._isolation else "plain", spec.mounts)

    async def close(self) -> None:
        """See that the folders of rooms that have ended are gone, and their control groups."""
        await asyncio.gather(*self._clearing)
        await asyncio.to_thread(self._groups.close)

    def _clear_away(self, body: Body) -> None:
        """Give back what a room used whose processes have ended, while the next one is made."""
        task = asyncio.create_task(body.remove())
        self._clearing.add(task)
        task.add_done_callback(self._clearing.discard)

    async def _furnish(self, spec: EnvironmentSpec, body: Body, launch: Callable[[Layout], Awaitable[T]]) -> T:
        """Put the workspace in its place and launch what is to run there, over the prepared tree where that can be."""
        place = body.folder.workspace
        while True:
            overlay = self._overlay
            lower = spec.workspace if spec.workspace and await self._can_overlay(spec.workspace) else None
            if spec.workspace is None or lower is not None:
                place.mkdir()
            else:
                await _copy(spec.workspace, place)
            if lower is not None:
                body.folder.work.mkdir(mode=0o755, exist_ok=True)
            try:
                return await launch(_layout(spec, body, lower=lower, mounts=await self._private(spec, body)))
            except NotStarted as error:
                if not (overlay and overlay_failed(error.said)):
                    raise refusal(error.said) from error
                self._overlay = False  # not to be had here, and not asked for again
            await asyncio.to_thread(remove_tree, place)

    async def _private(self, spec: EnvironmentSpec, body: Body) -> tuple[Mount, ...]:
        """The room's mounts; where no changes can be laid over a private one, a copy of it stands in its place."""
        mounts: list[Mount] = []
        for number, mount in enumerate(spec.mounts):
            source = _real(mount)
            if not mount.private or await self._can_overlay(source):
                mounts.append(mount)
                continue
            own = body.folder.path / f"private-{number}"
            await _copy(source, own)
            mounts.append(Mount(source=str(own), target=mount.target, writable=True))
        return tuple(mounts)

    async def _can_overlay(self, tree: Path) -> bool:
        """Whether a room's changes can be laid over this tree.

        The kernel cannot copy up a file whose owner has no number in the room, so each tree is looked through
        once: a small part of what it cost to write it.
        """
        if not self._overlay:
            return False
        info = tree.stat()  # noqa: ASYNC240 - of a directory that was looked at a moment ago
        key = (str(tree), info.st_dev, info.st_ino, info.st_mtime_ns)
        if key not in self._foreign:
            try:
                self._foreign[key] = await asyncio.to_thread(has_foreign_files, tree)
            except OSError:
                return False  # the copy will say what cannot be read
        return not self._foreign[key]

    async def _launch(self, body: Body, layout: Layout) -> int:
        if not self._isolation:
            socket = layout.model_socket
            return await body.launch(lambda descriptors: plain_command(descriptors, socket), filtered=False)
        return await body.launch(lambda descriptors: room_command(layout, descriptors), filtered=True)

    async def _open(self, spec: EnvironmentSpec, body: Body, port: int) -> LocalRoom:
        workdir = spec.workdir if self._isolation else str(body.folder.workspace)
        return LocalRoom(
            body=body,
            spec=spec,
            isolated=self._isolation,
            workdir=workdir,
            workspace=await body.channel.open_directory(workdir),
            digest=await self.digest(spec),
            model_url=f"http://127.0.0.1:{port}" if port else None,
            variables=self._variables(body) | spec.variables,
            rules=rules_for(spec.limits, body.controllers, isolated=self._isolation),
        )

    def _variables(self, body: Body) -> dict[str, str]:
        """The small, fixed environment of every command."""
        variables = {
            "HOME": HOME,
            "LANG": "C.UTF-8",
            "LOGNAME": "user",
            "PATH": ":".join(PATH),
            "SHELL": "/bin/sh",
            "TZ": "UTC",
            "USER": "user",
        }
        if not self._isolation:
            own = {"HOME": str(body.folder.home), "TMPDIR": str(body.folder.tmp)}
            return variables | own | {"PATH": os.environ.get("PATH", os.defpath)}
        python = interpreter()[0].parent
        if not is_visible(python):
            variables["PATH"] += f":{python}"
        return variables


def _layout(spec: EnvironmentSpec, body: Body, *, lower: Path | None, mounts: tuple[Mount, ...]) -> Layout:
    memory = spec.limits.memory_mb
    has_model = spec.model_socket is not None and spec.network is not Network.NONE
    return Layout(
        workdir=spec.workdir,
        workspace=str(body.folder.workspace),
        tmp=str(body.folder.tmp),
        home=str(body.folder.home),
        work=str(body.folder.work),
        lower=None if lower is None else str(lower),
        network=spec.network,
        mounts=mounts,
        hidden=hidden(spec.hidden),
        shared_memory_bytes=_SHARED_MEMORY_BYTES if memory is None else min(_SHARED_MEMORY_BYTES, memory << 19),
        model_socket=str(spec.model_socket) if has_model else None,
    )


def _real(mount: Mount) -> Path:
    return Path(mount.source).resolve()


async def _copy(source: Path, target: Path) -> None:
    copier = Copier()

    def copy() -> None:
        with opened(source) as inner, opened(target) as outer:
            copier.copy(inner, outer)

    try:
        await in_thread(copy, copier.stop)
    except OSError as error:
        raise InfrastructureError(f"cannot copy the workspace: {error.strerror}", where=error.filename) from error


def _checked(spec: EnvironmentSpec, *, isolation: bool) -> EnvironmentSpec:
    """The same, with real paths; or what is wrong with it."""
    if spec.workspace is not None:
        if not spec.workspace.is_dir():
            raise UsageError("the workspace is not a directory", where=spec.workspace)
        spec = msgspec.structs.replace(spec, workspace=spec.workspace.resolve())
    if spec.network is not Network.NONE and spec.model_socket is not None and not spec.model_socket.is_socket():
        raise InfrastructureError("the model gateway does not answer there", where=spec.model_socket)
    for mount in spec.mounts:
        if not Path(mount.source).exists():
            raise UsageError("cannot be shown in a room: there is no such path", where=mount.source)
        if not isolation and (mount.private or Path(mount.source).resolve() != Path(mount.target).resolve()):
            raise InfrastructureError(
                f"without isolation {mount.source} cannot be shown as {mount.target}",
                fix="mount it at its own path, or leave isolation on",
            )
    workdir = posixpath.normpath(spec.workdir)
    if not workdir.startswith("/") or workdir == "/" or workdir != spec.workdir:
        raise UsageError(f"a room's workdir must be a plain absolute path, not {spec.workdir!r}")
    if is_visible(Path(workdir)) or any(workdir == place or workdir.startswith(f"{place}/") for place in _RESERVED):
        raise UsageError(f"a local room has the system at {workdir}", fix="choose another workdir, such as /workspace")
    return spec
