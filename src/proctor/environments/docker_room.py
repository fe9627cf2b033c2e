"""A running room in a container."""

import asyncio
import posixpath
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Self

from aiodocker import Docker, DockerError
from aiodocker.containers import DockerContainer
from aiodocker.stream import Stream

from proctor.core.environment import COPY_BYTES, EnvironmentSpec, ExecResult, Output
from proctor.core.errors import InfrastructureError, RetryableError
from proctor.environments.archives import Chunks, pack, unpack
from proctor.environments.commands import check_command, split_path
from proctor.environments.docker_exec import CallbackFailed, Command, NotStarted
from proctor.environments.docker_model import ModelDoor
from proctor.environments.engine import engine_errors, is_missing, is_not_running, somebody_else_did
from proctor.environments.relay import HostRelay
from proctor.environments.room import Room
from proctor.environments.watches import Watches

_KILL_SECONDS: Final = 10
_KILLED: Final = 137
_STOP_SECONDS: Final = 3
_WAIT: Final = 0.002


class DockerRoom(Room):
    """Implements `proctor.core.environment.Environment`; made by `DockerProvider`.

    Attributes:
        workdir: where the workspace is inside.
        digest: the image's id.
    """

    def __init__(
        self, container: DockerContainer, spec: EnvironmentSpec, *, digest: str, door: ModelDoor | None
    ) -> None:
        super().__init__(Watches(spec.limits, self._used_bytes, self._end))
        self.workdir = spec.workdir
        self.digest = digest
        self._container = container
        self._limits = spec.limits
        self._door = door
        self._relay: HostRelay | None = None
        self._life: Stream | None = None
        self._starting = asyncio.Lock()
        self._when_stopped: Callable[[], None] | None = None

    @property
    def model_url(self) -> str | None:
        """Where the gateway answers inside."""
        return self._relay.url if self._relay else None

    @classmethod
    async def make(
        cls, docker: Docker, config: dict[str, Any], spec: EnvironmentSpec, *, digest: str, door: ModelDoor | None
    ) -> Self:
        """Make the container, start it, and put the workspace into it; when this fails, nothing is left."""
        with engine_errors("make a container"):
            container = await _create(docker, config)
        room = cls(container, spec, digest=digest, door=door)
        try:
            with engine_errors("start a container"):
                await room._start()
            if spec.workspace is not None:
                await room.put(spec.workspace, spec.workdir)
        except BaseException:
            await room.stop()
            raise
        return room

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
        command = Command(self._limits.output_bytes if output_bytes is None else output_bytes, on_stdout, on_stderr)
        place = posixpath.join(self.workdir, cwd or "")
        running = asyncio.ensure_future(self._run(command, argv, variables or {}, place, stdin))
        timed_out = False
        try:
            done, _ = await asyncio.wait({running}, timeout=timeout)
            timed_out = not done
            with engine_errors("run a command"):
                code = await self._kill(command, running) if timed_out else running.result()
        except NotStarted as error:
            self._watches.check()
            raise RetryableError(f"the container could not start a command: {error}") from error
        except InfrastructureError:
            self._watches.check()
            raise
        except (asyncio.CancelledError, CallbackFailed) as error:
            # Nobody waits for the command any more.
            with suppress(InfrastructureError), engine_errors("kill a command"):
                await self._kill(command, running)
            if isinstance(error, CallbackFailed):
                raise error.error from None
            raise
        self._watches.check()
        return ExecResult(
            exit_code=code,
            stdout=command.stdout.value(),
            stderr=command.stderr.value(),
            seconds=time.monotonic() - started,
            timed_out=timed_out,
            truncated=command.truncated,
        )

    async def put(self, source: Path | bytes, target: str, *, mode: int | None = None) -> None:
        """Copy bytes, a host file or a host tree to an absolute path inside."""
        path = posixpath.join(*split_path(target))
        self._require_alive()
        try:
            with engine_errors(f"write {target}"):
                await self._container.put_archive("/", _pieces(source, path, mode))  # type: ignore[no-untyped-call]
        except OSError as error:
            raise InfrastructureError(
                f"cannot copy it into the room: {error.strerror}", where=error.filename
            ) from error

    async def get(self, path: str, target: Path, *, max_bytes: int = COPY_BYTES) -> None:
        """Copy a file or a tree out to the host."""
        inside = posixpath.join(*split_path(path))
        self._require_not_stopped()
        chunks = Chunks()
        unpacking = asyncio.ensure_future(asyncio.to_thread(unpack, chunks, target, max_bytes))
        try:
            with engine_errors(f"read {path}"):
                await self._receive(inside, chunks, unpacking)
        except InfrastructureError as error:
            if is_missing(error.__cause__) or "not a directory" in error.what:
                raise FileNotFoundError(f"there is no {path} in the room") from error
            raise
        finally:
            # Ends at once when it has not been given everything, and then its own end is of no interest.
            chunks.stop()
            await asyncio.wait([unpacking])
            unpacking.exception()
        try:
            unpacking.result()
        except OSError as error:
            raise RetryableError(f"cannot copy it out of the room: {error.strerror}", where=path) from error

    def when_stopped(self, call: Callable[[], None]) -> None:
        """Have this called once the room is gone."""
        self._when_stopped = call

    async def _start(self) -> None:
        """Start the container, held alive by a connection: when this process dies, so does what is in there."""
        await self._let_go()
        self._life = self._container.attach(stdin=True, stdout=True)
        await self._life.__aenter__()
        await self._container.start()
        if await self._life.read_out() is None:
            raise InfrastructureError("the image has no shell at /bin/sh, which every command is started with")
        if self._door is not None:
            self._relay = await self._door.open(self._container)

    async def _let_go(self) -> None:
        if self._life is not None:
            await self._life.close()
        if self._relay is not None:
            await self._relay.close()

    async def _run(
        self, command: Command, argv: Sequence[str], variables: Mapping[str, str], cwd: str, stdin: bytes
    ) -> int:
        try:
            return await command.run(self._container, argv, variables, cwd, stdin)
        except (DockerError, NotStarted) as error:
            # Something inside, where everybody is root, may have ended the container, or be about to.
            if isinstance(error, DockerError) and not is_not_running(error):
                raise
            try:
                await asyncio.wait_for(self._container.wait(), _STOP_SECONDS)
            except TimeoutError:
                raise error from None
        async with self._starting:
            if not (await self._container.show())["State"]["Running"]:
                self._watches.check()
                await self._start()
        return await command.run(self._container, argv, variables, cwd, stdin)

    async def _kill(self, command: Command, running: "asyncio.Future[int]") -> int:
        """Kill one command; where that fails, every process in the container, which is then started again."""
        with suppress(DockerError, NotStarted, TimeoutError):  # no process can be started in there to do it
            await asyncio.wait_for(command.kill(self._container), _KILL_SECONDS)
        done, _ = await asyncio.wait({running}, timeout=_KILL_SECONDS)
        if not done:
            async with self._starting:
                await self._end()
                await self._container.wait()
                await self._start()
            await asyncio.wait({running}, timeout=_KILL_SECONDS)
        if not running.done():
            running.cancel()
            return _KILLED
        return _KILLED if running.exception() is not None else running.result()

    async def _end(self) -> None:
        """Kill every process; the files stay."""
        with suppress(DockerError):  # it was not running
            await self._container.kill()

    async def _used_bytes(self) -> int:
        """What was written since the image; the engine looks it up."""
        try:
            return int((await self._container.show(size=1)).get("SizeRw", 0))
        except DockerError:
            return 0

    async def _receive(self, path: str, chunks: Chunks, reading: "asyncio.Future[None]") -> None:
        docker = self._container.docker
        place = f"containers/{self._container.id}/archive"
        async with docker._query(place, method="GET", params={"path": path}) as response:  # noqa: SLF001 - the library's own call keeps it all in memory
            async for piece in response.content.iter_chunked(1 << 18):
                await _give(chunks, piece, reading)
                if reading.done():
                    response.close()  # it has had enough; the engine would send the rest of a terabyte
                    return
        await _give(chunks, b"", reading)
        await asyncio.wait([reading])

    async def _stop(self) -> None:
        await self._watches.stop()
        try:
            with engine_errors("remove a container"), somebody_else_did():
                await self._container.delete(force=True, v=True)
        finally:
            if self._when_stopped is not None:
                self._when_stopped()
            await self._let_go()


async def _create(docker: Docker, config: dict[str, Any]) -> DockerContainer:
    """Make a container; a caller who is cancelled meanwhile leaves none behind."""
    creating = asyncio.ensure_future(docker.containers.create(config))
    try:
        return await asyncio.shield(creating)
    except asyncio.CancelledError:
        await asyncio.wait([creating])
        if creating.exception() is None:
            await creating.result().delete(force=True)
        raise


async def _give(chunks: Chunks, piece: bytes, reading: "asyncio.Future[None]") -> None:
    while not reading.done() and not chunks.give(piece):  # noqa: ASYNC110 - it is a thread that we wait for
        await asyncio.sleep(_WAIT)


async def _pieces(source: Path | bytes, target: str, mode: int | None) -> AsyncIterator[bytes]:
    packing = pack(source, target, mode)
    while (piece := await asyncio.to_thread(next, packing, None)) is not None:
        yield piece
