"""A running local room."""

import asyncio
import os
import posixpath
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NoReturn

from proctor.core.environment import COPY_BYTES, EnvironmentSpec, ExecResult, Output
from proctor.core.errors import RetryableError, UsageError
from proctor.environments.body import Body
from proctor.environments.channel import Gone, Program
from proctor.environments.commands import check_command, split_path
from proctor.environments.limits import Rules
from proctor.environments.room import Room
from proctor.environments.streams import Pump, Streams
from proctor.environments.trees import (
    Copier,
    Place,
    create_file,
    open_anyway,
    opened,
    opened_target,
    write_all,
)
from proctor.environments.watches import Watches
from proctor.environments.work import in_thread

_KILL_SECONDS: Final = 10
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class LocalRoom(Room):
    """Implements `proctor.core.environment.Environment`; made by `LocalProvider`.

    Attributes:
        workdir: where the workspace is inside.
        digest: identifies the system that the room shows.
        model_url: where the gateway answers inside.
    """

    def __init__(
        self,
        *,
        body: Body,
        spec: EnvironmentSpec,
        isolated: bool,
        workdir: str,
        workspace: int,
        digest: str,
        model_url: str | None,
        variables: Mapping[str, str],
        rules: Rules,
    ) -> None:
        super().__init__(Watches(spec.limits, body.used_bytes, body.end))
        self.workdir = workdir
        self.digest = digest
        self.model_url = model_url
        self._body = body
        self._limits = spec.limits
        self._isolated = isolated
        # Keeps the workspace's mount, and with it our view of it, when every process of the room has gone.
        self._workspace: int | None = workspace
        self._variables = dict(variables)
        self._rules = rules
        self._pumps: list[Pump] = []

    async def exec(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        variables: Mapping[str, str] | None = None,
        cwd: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - see the protocol
        on_stdout: Output | None = None,
        on_stderr: Output | None = None,
        output_bytes: int | None = None,
    ) -> ExecResult:
        """Run one command to its end."""
        check_command(argv, variables or {}, cwd or "")
        self._require_alive()
        started = time.monotonic()
        program = Program(
            argv=[os.fsencode(argument) for argument in argv],
            variables=_encode({**self._variables, **(variables or {})}),
            cwd=os.fsencode(posixpath.join(self.workdir, cwd or "")),
            limits=self._rules.resources,
            processors=list(self._rules.processors),
        )
        keep = self._limits.output_bytes if output_bytes is None else output_bytes
        streams = Streams(stdin, keep, on_stdout, on_stderr)
        try:
            code, timed_out = await self._run(program, streams, timeout)
        finally:
            self._pumps = [pump for pump in self._pumps if pump.open] + streams.finish()
        streams.check()
        return ExecResult(
            exit_code=code,
            stdout=streams.stdout.value(),
            stderr=streams.stderr.value(),
            seconds=time.monotonic() - started,
            timed_out=timed_out,
            truncated=streams.truncated,
        )

    async def put(self, source: Path | bytes, target: str, *, mode: int | None = None) -> None:
        """Copy bytes, a host file or a host tree to an absolute path inside."""
        folder, name = self._split(target)
        self._require_alive()
        try:
            parent = await self._body.channel.open_directory(folder, make=True)
        except Gone as error:
            await self._raise_gone(error)
        except OSError as error:
            raise RetryableError(f"cannot write there in the room: {error.strerror}", where=target) from error
        copier = Copier()
        try:
            if isinstance(source, bytes):
                _write(Place(parent, name), source, 0o644 if mode is None else mode)
            else:
                await in_thread(lambda: _copy_in(copier, source, Place(parent, name), mode), copier.stop)
        except OSError as error:
            raise RetryableError(f"cannot write there in the room: {error.strerror}", where=target) from error
        finally:
            os.close(parent)

    async def get(self, path: str, target: Path, *, max_bytes: int = COPY_BYTES) -> None:
        """Copy a file or a tree out to the host."""
        place = await self._find(path)
        copier = Copier(max_bytes)
        try:
            await in_thread(lambda: _copy_out(copier, place, target), copier.stop)
        except FileNotFoundError as error:
            raise FileNotFoundError(f"there is no {path} in the room") from error
        except OSError as error:
            raise RetryableError(f"cannot copy it out of the room: {error.strerror}", where=path) from error
        finally:
            os.close(place.directory)

    async def _stop(self) -> None:
        await self._watches.stop()
        await self._body.end()
        for pump in self._pumps:
            pump.close()
        if self._workspace is not None:
            os.close(self._workspace)
            self._workspace = None
        await self._body.remove()

    async def _run(self, program: Program, streams: Streams, timeout: float | None) -> tuple[int, bool]:  # noqa: ASYNC109
        """Run a program; its exit code, and whether the clock ended it."""
        try:
            channel = self._body.channel
            number, exited = channel.expect()
            try:
                await channel.start(number, program, streams.inside)
                streams.close_inside()
                either: set[asyncio.Future[Any]] = {exited, streams.problem}
                done, _ = await asyncio.wait(either, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            except asyncio.CancelledError:
                await self._kill(number, exited)
                raise
            if exited not in done:
                await self._kill(number, exited)
            return exited.result(), not done
        except Gone as error:
            await self._raise_gone(error)
        except OSError as error:
            raise RetryableError(f"the room cannot start a command: {error.strerror}") from error

    async def _kill(self, number: int, exited: "asyncio.Future[int]") -> None:
        """Kill one command; a room in which that does not work is of no use, and ends."""
        with suppress(Gone):
            await self._body.channel.kill(number)
        done, _ = await asyncio.wait({exited}, timeout=_KILL_SECONDS)
        if not done:
            await self._body.end()

    async def _raise_gone(self, error: Gone) -> NoReturn:
        """Say why the room has ended, when nothing of it runs any more."""
        await self._body.end()
        self._watches.check()
        said = " ".join(self._body.log().split())[-300:]
        raise RetryableError("the room ended before its time" + (f" ({said})" if said else "")) from error

    def _split(self, path: str) -> tuple[str, str]:
        folder, name = split_path(path)
        if not self._isolated:
            inside = str(self._body.folder.path)
            if not f"{folder}/".startswith(f"{inside}/"):
                raise UsageError(f"without isolation a room reaches no further than {inside}", where=path)
        return folder, name

    async def _find(self, path: str) -> Place:
        """A path as its room sees it. When nothing runs in there any more, the workspace is still at hand."""
        folder, name = self._split(path)
        self._require_not_stopped()
        try:
            return Place(await self._body.channel.open_directory(folder), name)
        except Gone as error:
            inner = posixpath.relpath(posixpath.join(folder, name), self.workdir)
            if inner.startswith("..") or self._workspace is None:
                await self._raise_gone(error)
            return _descend(self._workspace, inner, path)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise FileNotFoundError(f"there is no {path} in the room") from error
        except OSError as error:
            raise RetryableError(f"cannot read it in the room: {error.strerror}", where=path) from error


def _encode(variables: Mapping[str, str]) -> dict[bytes, bytes]:
    return {os.fsencode(name): os.fsencode(value) for name, value in variables.items()}


def _write(place: Place, data: bytes, mode: int) -> None:
    writer = create_file(place)
    try:
        write_all(writer, data)
        os.fchmod(writer, mode)
    finally:
        os.close(writer)


def _copy_in(copier: Copier, source: Path, target: Place, mode: int | None) -> None:
    with opened(source.resolve()) as place:
        copier.copy(place, target, mode=mode)


def _copy_out(copier: Copier, source: Place, target: Path) -> None:
    with opened_target(target) as place:
        copier.copy(source, place)


def _descend(root: int, inner: str, path: str) -> Place:
    """A path below `root`, reached through no symlink."""
    *folders, name = inner.split("/")
    current = os.dup(root)
    for folder in folders:
        try:
            following = open_anyway(Place(current, folder), _DIRECTORY)
        except OSError as error:
            raise FileNotFoundError(f"there is no {path} in the room") from error
        finally:
            os.close(current)
        current = following
    return Place(current, name)
