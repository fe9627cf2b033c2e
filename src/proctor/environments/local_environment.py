"""A running local environment."""

import asyncio
import os
import posixpath
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NoReturn

from proctor.core.environment import MAX_COPY_BYTES, EnvironmentSpec, ExecResult, OutputCallback
from proctor.core.errors import RetryableError, UsageError
from proctor.core.trees import DirFdPath, FileEntry, open_forced, open_parent
from proctor.environments.base import BaseEnvironment, check_command, split_path
from proctor.environments.channel import ChannelClosed, ExecSpec
from proctor.environments.environment_process import EnvironmentProcess
from proctor.environments.limit_monitor import LimitMonitor
from proctor.environments.limits import CommandLimits, limit_hit
from proctor.environments.pinning import pin_in_namespace
from proctor.environments.streams import CommandStreams, PipeReader
from proctor.environments.tree_copy import Copier, create_file, open_target_parent, write_all

_KILL_SECONDS: Final = 10
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class LocalEnvironment(BaseEnvironment):
    """Implements `proctor.core.environment.Environment`; made by `LocalProvider`.

    Attributes:
        workdir: where the workspace is inside.
        digest: identifies the system that the environment shows.
        model_url: where the gateway answers inside.
    """

    model_url: str | None = None

    def __init__(
        self,
        *,
        process: EnvironmentProcess,
        spec: EnvironmentSpec,
        isolated: bool,
        workdir: str,
        workspace_fd: int,
        digest: str,
        model_url: str | None,
        variables: Mapping[str, str],
        command_limits: CommandLimits,
    ) -> None:
        super().__init__(LimitMonitor(spec.limits, process.used_bytes, process.terminate))
        self.workdir = workdir
        self.digest = digest
        self.model_url = model_url
        self._process = process
        self._limits = spec.limits
        self._isolated = isolated
        # Keeps the workspace's mount, and with it our view of it, when every process of the environment has gone.
        self._workspace_fd: int | None = workspace_fd
        self._variables = dict(variables)
        self._command_limits = command_limits
        self._background_readers: list[PipeReader] = []

    async def exec(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        variables: Mapping[str, str] | None = None,
        cwd: str | None = None,
        timeout: float | None = None,
        on_stdout: OutputCallback | None = None,
        on_stderr: OutputCallback | None = None,
        output_bytes: int | None = None,
        user: str | None = None,
    ) -> ExecResult:
        """Run one command to its end."""
        check_command(argv, variables or {}, cwd or "")
        self._require_alive()
        started = time.monotonic()
        program = ExecSpec(
            argv=[os.fsencode(argument) for argument in argv],
            variables=_encode({**self._variables, **(variables or {})}),
            cwd=os.fsencode(posixpath.join(self.workdir, cwd or "")),
            limits=self._command_limits.rlimits,
            processors=list(self._command_limits.processors),
        )
        keep = self._limits.output_bytes if output_bytes is None else output_bytes
        streams = CommandStreams(stdin, keep, on_stdout, on_stderr)
        before = self._process.limit_events()
        try:
            code, timed_out = await self._run(program, streams, timeout)
        finally:
            self._background_readers = [pump for pump in self._background_readers if pump.open] + streams.drain()
        streams.check()
        return ExecResult(
            exit_code=code,
            stdout=streams.stdout.value(),
            stderr=streams.stderr.value(),
            seconds=time.monotonic() - started,
            timed_out=timed_out,
            truncated=streams.truncated,
            limit=limit_hit(self._limits, before, self._process.limit_events()) if code else "",
        )

    async def put(self, source: Path | bytes, target: str, *, mode: int | None = None) -> None:
        """Copy bytes, a host file or a host tree to an absolute path inside."""
        folder, name = self._split(target)
        self._require_alive()
        try:
            parent = await self._process.channel.open_directory(folder, make=True)
        except ChannelClosed as error:
            await self._raise_ended(error)
        except OSError as error:
            raise RetryableError(f"cannot write there in the environment: {error.strerror}", where=target) from error
        copier = Copier()
        try:
            if isinstance(source, bytes):
                _write(DirFdPath(parent, name), source, 0o644 if mode is None else mode)
            else:
                await copier.in_thread(lambda: _copy_in(copier, source, DirFdPath(parent, name), mode))
        except OSError as error:
            raise RetryableError(f"cannot write there in the environment: {error.strerror}", where=target) from error
        finally:
            os.close(parent)

    async def get(self, path: str, target: Path, *, max_bytes: int = MAX_COPY_BYTES) -> None:
        """Copy a file or a tree out to the host."""
        place = await self._find(path)
        copier = Copier(max_bytes)
        try:
            await copier.in_thread(lambda: _copy_out(copier, place, target))
        except FileNotFoundError as error:
            raise FileNotFoundError(f"there is no {path} in the environment") from error
        except OSError as error:
            raise RetryableError(f"cannot copy it out of the environment: {error.strerror}", where=path) from error
        finally:
            os.close(place.dir_fd)

    async def pin_files(self, files: Mapping[str, FileEntry]) -> bool:
        """Lay read-only files over these; see `EnvironmentProvider.pin_files`."""
        self._require_alive()
        pid = self._process.first_pid() if self._isolated else None
        return pid is not None and await pin_in_namespace(pid, self.workdir, files)

    async def _stop(self) -> None:
        await self._limit_monitor.stop()
        await self._process.terminate()
        for pump in self._background_readers:
            pump.close()
        if self._workspace_fd is not None:
            os.close(self._workspace_fd)
            self._workspace_fd = None
        await self._process.remove()

    async def _run(self, program: ExecSpec, streams: CommandStreams, timeout: float | None) -> tuple[int, bool]:
        """Run a program; its exit code, and whether the clock ended it."""
        try:
            channel = self._process.channel
            number, exited = channel.new_request()
            try:
                await channel.start(number, program, streams.command_fds)
                streams.close_command_fds()
                either: set[asyncio.Future[Any]] = {exited, streams.callback_error}
                done, _ = await asyncio.wait(either, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            except asyncio.CancelledError:
                await self._kill(number, exited)
                raise
            if exited not in done:
                await self._kill(number, exited)
            return exited.result(), not done
        except ChannelClosed as error:
            await self._raise_ended(error)
        except OSError as error:
            raise RetryableError(f"the environment cannot start a command: {error.strerror}") from error

    async def _kill(self, number: int, exited: "asyncio.Future[int]") -> None:
        """Kill one command; an environment in which that does not work is of no use, and ends."""
        with suppress(ChannelClosed):
            await self._process.channel.kill(number)
        done, _ = await asyncio.wait({exited}, timeout=_KILL_SECONDS)
        if not done:
            await self._process.terminate()

    async def _raise_ended(self, error: ChannelClosed) -> NoReturn:
        """Say why the environment has ended, when nothing of it runs any more."""
        await self._process.terminate()
        self._limit_monitor.check()
        log = " ".join(self._process.log().split())[-300:]
        raise RetryableError("the environment ended before its time" + (f" ({log})" if log else "")) from error

    def _split(self, path: str) -> tuple[str, str]:
        folder, name = split_path(path)
        if not self._isolated:
            inside = str(self._process.folder.path)
            if not f"{folder}/".startswith(f"{inside}/"):
                raise UsageError(f"without isolation an environment reaches no further than {inside}", where=path)
        return folder, name

    async def _find(self, path: str) -> DirFdPath:
        """A path as its environment sees it. When nothing runs in there any more, the workspace is still at hand."""
        folder, name = self._split(path)
        self._require_not_stopped()
        try:
            return DirFdPath(await self._process.channel.open_directory(folder), name)
        except ChannelClosed as error:
            inner = posixpath.relpath(posixpath.join(folder, name), self.workdir)
            if inner.startswith("..") or self._workspace_fd is None:
                await self._raise_ended(error)
            return _descend(self._workspace_fd, inner, path)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise FileNotFoundError(f"there is no {path} in the environment") from error
        except OSError as error:
            raise RetryableError(f"cannot read it in the environment: {error.strerror}", where=path) from error


def _encode(variables: Mapping[str, str]) -> dict[bytes, bytes]:
    return {os.fsencode(name): os.fsencode(value) for name, value in variables.items()}


def _write(target: DirFdPath, data: bytes, mode: int) -> None:
    writer = create_file(target)
    try:
        write_all(writer, data)
        os.fchmod(writer, mode)
    finally:
        os.close(writer)


def _copy_in(copier: Copier, source: Path, target: DirFdPath, mode: int | None) -> None:
    with open_parent(source.resolve()) as place:
        copier.copy(place, target, mode=mode)


def _copy_out(copier: Copier, source: DirFdPath, target: Path) -> None:
    with open_target_parent(target) as place:
        copier.copy(source, place)


def _descend(root: int, inner: str, path: str) -> DirFdPath:
    """A path below `root`, reached through no symlink."""
    *folders, name = inner.split("/")
    current = os.dup(root)
    for folder in folders:
        try:
            following = open_forced(DirFdPath(current, folder), _DIRECTORY)
        except OSError as error:
            raise FileNotFoundError(f"there is no {path} in the environment") from error
        finally:
            os.close(current)
        current = following
    return DirFdPath(current, name)
