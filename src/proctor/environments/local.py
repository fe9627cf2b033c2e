"""Local environments: bubblewrap around an overlay of the workspace, with a small process of ours as process 1."""

import asyncio
import itertools
import os
import posixpath
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from proctor.core.environment import (
    Environment,
    EnvironmentProvider,
    EnvironmentSpec,
    Mount,
    Network,
    OneShotCommand,
    OneShotResult,
)
from proctor.core.errors import InfrastructureError, UsageError
from proctor.core.trees import FileEntry, has_foreign_files, open_parent
from proctor.environments import local_unavailable_reason
from proctor.environments.bubblewrap import (
    HOME,
    MAX_STARTS,
    EnvironmentLayout,
    bubblewrap_error,
    environment_argv,
    etc_overlay_failed,
    mounts_changed,
    overlay_failed,
    unisolated_argv,
)
from proctor.environments.cgroup_pool import CgroupPool
from proctor.environments.digest import local_digest
from proctor.environments.environment_dir import default_environments_dir
from proctor.environments.environment_process import EnvironmentNotStarted, EnvironmentProcess
from proctor.environments.etc_layer import EtcLayers
from proctor.environments.limits import limits_for_command
from proctor.environments.local_environment import LocalEnvironment
from proctor.environments.one_shot import run_one_shot
from proctor.environments.tree_copy import Copier
from proctor.environments.visibility import PATH, hidden_paths, interpreter, is_visible

_SHARED_MEMORY_BYTES: Final = 256 << 20
_RESERVED_DIRS: Final = ("/dev", "/home/user", "/proc", "/run", "/tmp", "/var")  # noqa: S108 - the environment's own

T = TypeVar("T")


class LocalProvider(EnvironmentProvider):
    """Makes environments on this machine, without a daemon and without root.

    Args:
        isolation: False runs commands as plain processes of this user in a private directory. Nothing is hidden
            and the network is open: for agents and tasks that you trust, and for machines without bubblewrap.
        overlay: False copies every workspace instead of laying an environment's changes over it.
        environments: where environments keep what is written in them; a directory in the cache by default.
    """

    name = "local"

    def __init__(self, *, isolation: bool = True, overlay: bool = True, environments_dir: Path | None = None) -> None:
        self._isolation = isolation
        self.supports_run_once = isolation
        self._overlay = overlay and isolation
        self._environments_dir = (environments_dir or default_environments_dir()).resolve()
        self._foreign_files: dict[tuple[str, int, int, int], bool] = {}
        self._removing: set[asyncio.Task[None]] = set()
        self._cgroup_pool = CgroupPool(self._environments_dir)
        self._etc_layers = EtcLayers(self._environments_dir)

    async def start(self, spec: EnvironmentSpec) -> LocalEnvironment:
        """Make an environment.

        Raises:
            InfrastructureError: this machine cannot; says why and what to do.
            UsageError: the environment is described wrongly.
        """
        spec = _validated(spec, isolation=self._isolation)
        body = EnvironmentProcess(self._environments_dir, spec.limits, self._cgroup_pool)
        try:
            body.folder.write_labels(spec.labels)
            for starts in itertools.count(1):
                overlay = self._overlay
                layout = await self._lay_out(spec, body)
                try:
                    port = await self._launch(body, layout)
                    break
                except EnvironmentNotStarted as error:
                    await self._prepare_restart(error, body, starts, layout, overlay=overlay)
            return await self._open_environment(spec, body, port)
        except BaseException:
            await asyncio.shield(body.remove())
            raise

    async def run_once(
        self,
        spec: EnvironmentSpec,
        command: OneShotCommand,
        *,
        permit: AbstractAsyncContextManager[object] | None = None,
    ) -> OneShotResult:
        """Make an environment, run one command in it to its end, and remove the environment; `close` waits for its
        files to be gone.

        Raises:
            InfrastructureError: this machine cannot; says why and what to do.
            LimitReached: a limit of the whole environment ended it.
        """
        spec = _validated(spec, isolation=self._isolation)
        body = EnvironmentProcess(self._environments_dir, spec.limits, self._cgroup_pool)
        variables = self._variables(body) | spec.variables | command.variables
        cwd = posixpath.join(spec.workdir, command.cwd) if command.cwd else spec.workdir
        try:
            for starts in itertools.count(1):
                overlay = self._overlay
                layout = msgspec.structs.replace(await self._lay_out(spec, body), pinned=command.pinned)
                try:
                    return await run_one_shot(
                        command, layout, body, variables=variables, cwd=cwd, limits=spec.limits, permit=permit
                    )
                except EnvironmentNotStarted as error:
                    await self._prepare_restart(error, body, starts, layout, overlay=overlay)
            raise AssertionError("unreachable")
        finally:
            self._remove_in_background(body)

    async def pin_files(self, environment: Environment, files: Mapping[str, FileEntry]) -> bool:
        """Lay read-only files over these; impossible without isolation."""
        return isinstance(environment, LocalEnvironment) and await environment.pin_files(files)

    async def digest(self, spec: EnvironmentSpec) -> str:
        """Of the system that the environment shows, and its mounts."""
        return local_digest("local" if self._isolation else "plain", spec.mounts)

    async def unavailable_reason(self, spec: EnvironmentSpec | None = None) -> str | None:
        """Why bubblewrap cannot be used here; nothing is needed without isolation."""
        return await local_unavailable_reason() if spec is None and self._isolation else None

    async def close(self) -> None:
        """See that the folders of environments that have ended are gone, and their control groups."""
        await asyncio.gather(*self._removing)
        await asyncio.to_thread(self._cgroup_pool.close)
        await asyncio.to_thread(self._etc_layers.close)

    def _remove_in_background(self, process: EnvironmentProcess) -> None:
        """Give back what an environment used whose processes have ended, while the next one is made."""
        task = asyncio.create_task(process.remove())
        self._removing.add(task)
        task.add_done_callback(self._removing.discard)

    async def _lay_out(self, spec: EnvironmentSpec, process: EnvironmentProcess) -> EnvironmentLayout:
        """Put the workspace in its place: changes go over the prepared tree where that can be, else over a copy."""
        place = process.folder.workspace
        lower = spec.workspace if spec.workspace and await self._can_overlay(spec.workspace) else None
        if spec.workspace is None or lower is not None:
            place.mkdir()
        else:
            await _copy(spec.workspace, place)
        if lower is not None:
            process.folder.overlay_work.mkdir(mode=0o755, exist_ok=True)
        mounts = await self._effective_mounts(spec, process)
        hidden = hidden_paths(spec.hidden) if self._isolation else ()
        layer = self._etc_layers.get(hidden, spec.network) if self._overlay else None
        return _layout(spec, process, lower=lower, mounts=mounts, hidden=hidden, etc_layer=layer)

    async def _prepare_restart(
        self,
        error: EnvironmentNotStarted,
        process: EnvironmentProcess,
        starts: int,
        layout: EnvironmentLayout,
        *,
        overlay: bool,
    ) -> None:
        """Make way for another start where one may succeed: the machine's mounts changed while bubblewrap went through
        them, or the kernel has no overlay for /etc, or none for workspaces, which are copied from now on.

        Raises:
            InfrastructureError: it failed for another reason.
        """
        if mounts_changed(error.output) and starts < MAX_STARTS:
            pass
        elif layout.etc_layer is not None and etc_overlay_failed(error.output):
            self._etc_layers.give_up()
        elif overlay and overlay_failed(error.output):
            self._overlay = False
        else:
            raise bubblewrap_error(error.output) from error
        await asyncio.to_thread(process.folder.remove_copies)

    async def _effective_mounts(self, spec: EnvironmentSpec, process: EnvironmentProcess) -> tuple[Mount, ...]:
        """The environment's mounts; where no changes can be laid over a private one, a copy of it stands in its
        place.
        """
        mounts: list[Mount] = []
        for number, mount in enumerate(spec.mounts):
            source = _resolved_source(mount)
            if not mount.private or await self._can_overlay(source):
                mounts.append(mount)
                continue
            own = process.folder.private_copy(number)
            await _copy(source, own)
            mounts.append(Mount(source=str(own), target=mount.target, writable=True))
        return tuple(mounts)

    async def _can_overlay(self, tree: Path) -> bool:
        """Whether an environment's changes can be laid over this tree.

        The kernel cannot copy up a file whose owner has no number in the environment, so each tree is looked through
        once: a small part of what it cost to write it.
        """
        if not self._overlay:
            return False
        info = tree.stat()  # noqa: ASYNC240 - of a directory that was looked at a moment ago
        key = (str(tree), info.st_dev, info.st_ino, info.st_mtime_ns)
        if key not in self._foreign_files:
            try:
                self._foreign_files[key] = await asyncio.to_thread(has_foreign_files, tree)
            except OSError:
                return False  # the copy will say what cannot be read
        return not self._foreign_files[key]

    async def _launch(self, process: EnvironmentProcess, layout: EnvironmentLayout) -> int:
        if not self._isolation:
            socket = layout.model_socket
            return await process.launch(lambda descriptors: unisolated_argv(descriptors, socket), filtered=False)
        return await process.launch(lambda descriptors: environment_argv(layout, descriptors), filtered=True)

    async def _open_environment(
        self, spec: EnvironmentSpec, process: EnvironmentProcess, port: int
    ) -> LocalEnvironment:
        workdir = spec.workdir if self._isolation else str(process.folder.workspace)
        return LocalEnvironment(
            process=process,
            spec=spec,
            isolated=self._isolation,
            workdir=workdir,
            workspace_fd=await process.channel.open_directory(workdir),
            digest=await self.digest(spec),
            model_url=f"http://127.0.0.1:{port}" if port else None,
            variables=self._variables(process) | spec.variables,
            command_limits=limits_for_command(spec.limits, process.controllers, isolated=self._isolation),
        )

    def _variables(self, process: EnvironmentProcess) -> dict[str, str]:
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
            own = {"HOME": str(process.folder.home), "TMPDIR": str(process.folder.tmp)}
            return variables | own | {"PATH": os.environ.get("PATH", os.defpath)}
        python = interpreter()[0].parent
        if not is_visible(python):
            variables["PATH"] += f":{python}"
        return variables


def _layout(
    spec: EnvironmentSpec,
    process: EnvironmentProcess,
    *,
    lower: Path | None,
    mounts: tuple[Mount, ...],
    hidden: tuple[Path, ...],
    etc_layer: Path | None,
) -> EnvironmentLayout:
    memory = spec.limits.memory_mb
    has_model = spec.model_socket is not None and spec.network is not Network.NONE
    return EnvironmentLayout(
        workdir=spec.workdir,
        workspace=str(process.folder.workspace),
        tmp=str(process.folder.tmp),
        home=str(process.folder.home),
        overlay_work=str(process.folder.overlay_work),
        overlay_lower=None if lower is None else str(lower),
        network=spec.network,
        mounts=mounts,
        hidden=hidden,
        etc_layer=None if etc_layer is None else str(etc_layer),
        shared_memory_bytes=_SHARED_MEMORY_BYTES if memory is None else min(_SHARED_MEMORY_BYTES, memory << 19),
        model_socket=str(spec.model_socket) if has_model else None,
    )


def _resolved_source(mount: Mount) -> Path:
    return Path(mount.source).resolve()


async def _copy(source: Path, target: Path) -> None:
    copier = Copier()

    def copy() -> None:
        with open_parent(source) as inner, open_parent(target) as outer:
            copier.copy(inner, outer)

    try:
        await copier.in_thread(copy)
    except OSError as error:
        raise InfrastructureError(f"cannot copy the workspace: {error.strerror}", where=error.filename) from error


def _validated(spec: EnvironmentSpec, *, isolation: bool) -> EnvironmentSpec:
    """The same, with real paths and default limits; or what is wrong with it."""
    spec = msgspec.structs.replace(spec, limits=spec.limits.with_defaults())
    if spec.workspace is not None:
        if not spec.workspace.is_dir():
            raise UsageError("the workspace is not a directory", where=spec.workspace)
        spec = msgspec.structs.replace(spec, workspace=spec.workspace.resolve())
    if spec.network is not Network.NONE and spec.model_socket is not None and not spec.model_socket.is_socket():
        raise InfrastructureError("the model gateway does not answer there", where=spec.model_socket)
    for mount in spec.mounts:
        if not Path(mount.source).exists():
            raise UsageError("cannot be shown in an environment: there is no such path", where=mount.source)
        if not isolation and (mount.private or Path(mount.source).resolve() != Path(mount.target).resolve()):
            raise InfrastructureError(
                f"without isolation {mount.source} cannot be shown as {mount.target}",
                fix="mount it at its own path, or leave isolation on",
            )
    workdir = posixpath.normpath(spec.workdir)
    if not workdir.startswith("/") or workdir == "/" or workdir != spec.workdir:
        raise UsageError(f"an environment's workdir must be a plain absolute path, not {spec.workdir!r}")
    if is_visible(Path(workdir)) or any(
        workdir == place or workdir.startswith(f"{place}/") for place in _RESERVED_DIRS
    ):
        raise UsageError(
            f"a local environment has the system at {workdir}", fix="choose another workdir, such as /workspace"
        )
    return spec
