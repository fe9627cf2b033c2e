"""A running environment in a container."""

import asyncio
import posixpath
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any, Final, Self

import msgspec
from aiodocker import Docker, DockerError
from aiodocker.containers import DockerContainer
from aiodocker.stream import Stream

from proctor.core.environment import MAX_COPY_BYTES, EnvironmentSpec, ExecResult, Network, OutputCallback
from proctor.core.errors import InfrastructureError, RetryableError
from proctor.core.trees import FileEntry
from proctor.environments.archives import ChunkPipe, pack, unpack
from proctor.environments.base import BaseEnvironment, check_command, split_path
from proctor.environments.cgroups import limit_events, process_cgroups
from proctor.environments.compose_model import MAIN
from proctor.environments.docker_checkpoint import DockerCheckpoint, commit, paused, resolved
from proctor.environments.docker_compose import ComposeProject
from proctor.environments.docker_engine import engine_errors, ignore_already_removed, is_missing, is_not_running
from proctor.environments.docker_exec import ROOT, SHELL, CallbackFailed, ContainerCommand, ExecNotStarted
from proctor.environments.docker_model_relay import ModelRelayFactory
from proctor.environments.docker_network import ContainerNetwork
from proctor.environments.docker_volumes import VolumeFiles, read_name_files
from proctor.environments.host_relay import HostRelay
from proctor.environments.limit_monitor import LimitMonitor
from proctor.environments.limits import limit_hit
from proctor.environments.netns import may_enter_namespace
from proctor.environments.pinning import pin_in_namespace

_KILL_SECONDS: Final = 10
_NO_USER: Final = "unable to find user"  # in the engine's message
_KILLED_EXIT_CODE: Final = 137
_STOP_SECONDS: Final = 3
_POLL_SECONDS: Final = 0.002
_IN_BACKGROUND: Final = 'nohup "$@" </dev/null >/dev/null 2>&1 &'


class DockerEnvironment(BaseEnvironment):
    """Implements `proctor.core.environment.Environment`; made by `DockerProvider`.

    Attributes:
        workdir: where the workspace is inside.
        digest: the image's id.
    """

    def __init__(
        self,
        container: DockerContainer,
        config: dict[str, Any],
        spec: EnvironmentSpec,
        *,
        digest: str,
        relay_factory: ModelRelayFactory | None,
        network: ContainerNetwork | None = None,
        default_user: str = "",
    ) -> None:
        super().__init__(LimitMonitor(spec.limits, self._used_bytes, self._kill_all))
        self.workdir = spec.workdir
        self.digest = digest
        self._container = container
        self._config = config
        self._spec = spec
        self._limits = spec.limits
        self._relay_factory = relay_factory
        self._network = network
        self._phase: tuple[Network, tuple[str, ...]] | None = None
        self._default_user = default_user
        self._relay: HostRelay | None = None
        self._keepalive: Stream | None = None
        self._starting = asyncio.Lock()
        self._pausing = asyncio.Lock()
        self._limit_events: dict[str, int] = {}
        self._on_stopped: Callable[[], None] | None = None
        self._project: ComposeProject | None = None
        self._shell = SHELL
        self._name_files: dict[str, str] = {}
        self.another: Callable[[], Awaitable[DockerEnvironment]] | None = None

    @property
    def model_url(self) -> str | None:
        """Where the gateway answers inside."""
        return self._relay.url if self._relay else None

    @property
    def default_user(self) -> str:
        """The one of its image."""
        return self._default_user

    @property
    def refused_hosts(self) -> tuple[str, ...]:
        """Those that the proxy has refused."""
        return self._network.refused if self._network is not None else ()

    async def set_network(self, network: Network, allowed_hosts: Sequence[str] = ()) -> None:
        """Attach it to the open network or detach it, and serve the hosts that are allowed."""
        if self._network is None or not self._spec.changes_network:
            return
        self._require_alive()
        await self._change_network(network, tuple(allowed_hosts))

    def start_commands_with(self, shell: str) -> None:
        """Start commands with this shell of the container."""
        self._shell = shell

    def service(self, name: str) -> "DockerEnvironment":
        """One of the containers beside it, to run commands in and copy from; it is stopped with this one."""
        services = self._project.services if self._project is not None else {}
        if name not in services:
            raise InfrastructureError(f"there is no service {name!r} beside the environment")
        spec = msgspec.structs.replace(self._spec, workdir="/", workspace=None)
        return DockerEnvironment(services[name], {}, spec, digest=self.digest, relay_factory=None)

    async def join_services(
        self, project: ComposeProject, networks: Sequence[str], relay_factory: ModelRelayFactory | None
    ) -> None:
        """Put it on the other networks of its project, and let it reach what its spec says.

        Args:
            project: its services, which end with it.
            networks: those that it was not started on.
            relay_factory: opens the relay to the gateway, where that is not on its own loopback.
        """
        self._project = project
        with engine_errors("attach a container to its networks"):
            for network in networks:
                body = {"Container": self._container.id, "EndpointConfig": {"Aliases": [MAIN]}}
                await self._container.docker._query_json(f"networks/{network}/connect", method="POST", data=body)  # noqa: SLF001 - the library asks for the network first
        self._relay_factory = relay_factory or self._relay_factory
        await self._change_network(self._spec.network, self._spec.allowed_hosts)
        with engine_errors("look at a container"):
            self._name_files = await asyncio.to_thread(read_name_files, await self._container.show())
        command = project.main.get("command")
        if command:
            words = command if isinstance(command, list) else ["/bin/sh", "-c", str(command)]
            await self.exec(["/bin/sh", "-c", _IN_BACKGROUND, "sh", *(str(word) for word in words)])

    @classmethod
    async def make(
        cls,
        docker: Docker,
        config: dict[str, Any],
        spec: EnvironmentSpec,
        *,
        digest: str,
        relay_factory: ModelRelayFactory | None,
        network: ContainerNetwork | None = None,
        default_user: str = "",
    ) -> Self:
        """Make the container, start it, and put the workspace into it; when this fails, nothing is left."""
        with engine_errors("make a container"):
            container = await _create(docker, config)
        environment = cls(
            container,
            config,
            spec,
            digest=digest,
            relay_factory=relay_factory,
            network=network,
            default_user=default_user,
        )
        try:
            with engine_errors("start a container"):
                await environment._start()
            if network is not None and spec.allowed_hosts and spec.compose is None:
                await environment._change_network(spec.network, spec.allowed_hosts)
            if spec.workspace is not None:
                await environment.put(spec.workspace, spec.workdir)
        except BaseException:
            await environment.stop()
            raise
        return environment

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
        command = ContainerCommand(
            self._limits.output_bytes if output_bytes is None else output_bytes, on_stdout, on_stderr, shell=self._shell
        )
        place = posixpath.join(self.workdir, cwd or "")
        given = {**(self._network.variables if self._network is not None else {}), **(variables or {})}
        running = asyncio.ensure_future(self._run(command, argv, given, place, stdin=stdin, user=user or ROOT))
        timed_out = False
        try:
            done, _ = await asyncio.wait({running}, timeout=timeout)
            timed_out = not done
            with engine_errors("run a command"):
                code = await self._kill(command, running) if timed_out else running.result()
        except ExecNotStarted as error:
            self._limit_monitor.check()
            if _NO_USER in str(error):
                raise InfrastructureError(f"the container has no user {user}") from error
            raise RetryableError(f"the container could not start a command: {error}") from error
        except InfrastructureError:
            self._limit_monitor.check()
            raise
        except (asyncio.CancelledError, CallbackFailed) as error:
            # Nobody waits for the command any more.
            with suppress(InfrastructureError), engine_errors("kill a command"):
                await self._kill(command, running)
            if isinstance(error, CallbackFailed):
                raise error.error from None
            raise
        self._limit_monitor.check()
        return ExecResult(
            exit_code=code,
            stdout=command.stdout.value(),
            stderr=command.stderr.value(),
            seconds=time.monotonic() - started,
            timed_out=timed_out,
            truncated=command.truncated,
            limit=await self._limit_hit() if code else "",
        )

    async def put(self, source: Path | bytes, target: str, *, mode: int | None = None) -> None:
        """Copy bytes, a host file or a host tree to an absolute path inside."""
        path = posixpath.join(*split_path(target))
        self._require_alive()
        try:
            with engine_errors(f"write {target}"):
                await self._container.put_archive("/", _packed_chunks(source, path, mode))  # type: ignore[no-untyped-call]
        except OSError as error:
            raise InfrastructureError(
                f"cannot copy it into the environment: {error.strerror}", where=error.filename
            ) from error

    async def get(self, path: str, target: Path, *, max_bytes: int = MAX_COPY_BYTES) -> None:
        """Copy a file or a tree out to the host."""
        inside = posixpath.join(*split_path(path))
        self._require_not_stopped()
        try:
            await self._get(inside, path, target, max_bytes)
        except InfrastructureError as error:
            # The engine does not cope with files that change while it reads them.
            async with self._pausing, AsyncExitStack() as stack:
                try:
                    await stack.enter_async_context(paused(self._container))
                except InfrastructureError:
                    raise error from None
                await self._get(inside, path, target, max_bytes)

    async def real_path(self, path: str) -> str:
        """Where an absolute path leads without links; a circle of links leads nowhere, which is `/`."""
        self._require_not_stopped()
        with engine_errors(f"look at {path}"):
            return await resolved(self._container, posixpath.join("/", *split_path(path)), missing_too=True) or "/"

    async def _get(self, inside: str, path: str, target: Path, max_bytes: int) -> None:
        chunks = ChunkPipe()
        unpacking = asyncio.ensure_future(asyncio.to_thread(unpack, chunks, target, max_bytes))
        try:
            with engine_errors(f"read {path}"):
                await self._receive(inside, chunks, unpacking)
        except InfrastructureError as error:
            if is_missing(error.__cause__) or "not a directory" in error.what:
                raise FileNotFoundError(f"there is no {path} in the environment") from error
            raise
        finally:
            # Ends at once when it has not been given everything, and then its own end is of no interest.
            chunks.stop()
            await asyncio.wait([unpacking])
            unpacking.exception()
        try:
            unpacking.result()
        except OSError as error:
            raise RetryableError(f"cannot copy it out of the environment: {error.strerror}", where=path) from error

    async def pin_files(self, files: Mapping[str, FileEntry]) -> bool:
        """Lay read-only files over these; see `EnvironmentProvider.pin_files`."""
        self._require_alive()
        if not may_enter_namespace():
            return False
        with engine_errors("look at a container"):
            pid = int((await self._container.show())["State"]["Pid"])
        return pid > 0 and await pin_in_namespace(pid, self.workdir, files, container=self._container.id)

    async def checkpoint(self) -> DockerCheckpoint:
        """Keep the files as they are at this moment, as an image."""
        self._require_alive()
        kept = VolumeFiles(self._name_files)
        try:
            with engine_errors("keep a container's files"):
                await kept.keep(self, await self._container.show())
                image = await commit(self._container)
        except BaseException:
            await kept.remove()
            raise

        async def start(config: dict[str, Any], *, with_workspace: bool) -> DockerEnvironment:
            spec = msgspec.structs.replace(
                self._spec, mounts=(), model_socket=None, workspace=self._spec.workspace if with_workspace else None
            )
            if self.another is not None and with_workspace:
                return await self.another()
            shares = str(config["HostConfig"]["NetworkMode"]).startswith("container:")
            return await DockerEnvironment.make(
                self._container.docker,
                config,
                msgspec.structs.replace(spec, changes_network=False, allowed_hosts=()) if shares else spec,
                digest=self.digest,
                relay_factory=None,
                network=self._network if shares or self._network is None else self._network.another(),
                default_user=self._default_user,
            )

        return DockerCheckpoint(
            self._container,
            self._config,
            image,
            start,
            volumes=kept,
            service_names=tuple(self._project.services) if self._project is not None else (),
        )

    def on_stopped(self, callback: Callable[[], None]) -> None:
        """Have this called once the environment is gone."""
        self._on_stopped = callback

    async def _change_network(self, network: Network, allowed_hosts: tuple[str, ...]) -> None:
        assert self._network is not None  # noqa: S101 - asked before
        self._phase = (network, allowed_hosts)
        await self._network.change(self._container, network, allowed_hosts)
        factory = self._relay_factory
        if factory is not None and not factory.private and network is not Network.NONE:
            # It is reached through another network from now on.
            if self._relay is not None:
                await self._relay.close()
            self._relay_factory = await self._network.relay_factory(factory, network)
            self._relay = await self._relay_factory.open(self._container)

    async def _start(self) -> None:
        """Start the container, held alive by a connection: when this process dies, so does what is in there."""
        await self._disconnect()
        self._keepalive = self._container.attach(stdin=True, stdout=True)
        await self._keepalive.__aenter__()
        await self._container.start()
        if await self._keepalive.read_out() is None:
            raise InfrastructureError("the image has no shell at /bin/sh, which every command is started with")
        if self._relay_factory is not None:
            self._relay = await self._relay_factory.open(self._container)
        if self._phase is not None:
            await self._change_network(*self._phase)  # it was started again, with a loopback of its own

    async def _disconnect(self) -> None:
        if self._keepalive is not None:
            await self._keepalive.close()
        if self._relay is not None:
            await self._relay.close()

    async def _run(
        self,
        command: ContainerCommand,
        argv: Sequence[str],
        variables: Mapping[str, str],
        cwd: str,
        *,
        stdin: bytes,
        user: str,
    ) -> int:
        try:
            return await command.run(self._container, argv, variables, cwd, stdin=stdin, user=user)
        except (DockerError, ExecNotStarted) as error:
            # Something inside, where everybody is root, may have ended the container, or be about to.
            if isinstance(error, DockerError) and not is_not_running(error):
                raise
            try:
                await asyncio.wait_for(self._container.wait(), _STOP_SECONDS)
            except TimeoutError:
                raise error from None
        async with self._starting:
            if not (await self._container.show())["State"]["Running"]:
                self._limit_monitor.check()
                await self._start()
        return await command.run(self._container, argv, variables, cwd, stdin=stdin, user=user)

    async def _kill(self, command: ContainerCommand, running: "asyncio.Future[int]") -> int:
        """Kill one command; where that fails, every process in the container, which is then started again."""
        with suppress(DockerError, ExecNotStarted, TimeoutError):  # no process can be started in there to do it
            await asyncio.wait_for(command.kill(self._container), _KILL_SECONDS)
        done, _ = await asyncio.wait({running}, timeout=_KILL_SECONDS)
        if not done:
            async with self._starting:
                await self._kill_all()
                await self._container.wait()
                await self._start()
            await asyncio.wait({running}, timeout=_KILL_SECONDS)
        if not running.done():
            running.cancel()
            return _KILLED_EXIT_CODE
        return _KILLED_EXIT_CODE if running.exception() is not None else running.result()

    async def _kill_all(self) -> None:
        """Kill every process; the files stay."""
        with suppress(DockerError):  # it was not running
            await self._container.kill()

    async def _limit_hit(self) -> str:
        """The limit that the container has been at since a command failed last; empty: none that is known."""
        try:
            pid = (await self._container.show())["State"]["Pid"]
        except DockerError:
            return ""
        groups = await asyncio.to_thread(process_cgroups, pid)
        # Of an engine on another machine, or in another process namespace, the number is somebody else's.
        own = [group for group in groups if self._container.id in str(group)]
        before, self._limit_events = self._limit_events, await asyncio.to_thread(limit_events, own)
        return limit_hit(self._limits, before, self._limit_events)

    async def _used_bytes(self) -> int:
        """What was written since the image; the engine looks it up."""
        try:
            return int((await self._container.show(size=1)).get("SizeRw", 0))
        except DockerError:
            return 0

    async def _receive(self, path: str, chunks: ChunkPipe, reading: "asyncio.Future[None]") -> None:
        docker = self._container.docker
        place = f"containers/{self._container.id}/archive"
        async with docker._query(place, method="GET", params={"path": path}) as response:  # noqa: SLF001 - the library's own call keeps it all in memory
            async for piece in response.content.iter_chunked(1 << 18):
                await _put_chunk(chunks, piece, reading)
                if reading.done():
                    response.close()  # it has had enough; the engine would send the rest of a terabyte
                    return
        await _put_chunk(chunks, b"", reading)
        await asyncio.wait([reading])

    async def _stop(self) -> None:
        await self._limit_monitor.stop()
        try:
            with engine_errors("remove a container"), ignore_already_removed():
                await self._container.delete(force=True, v=True)
        finally:
            if self._on_stopped is not None:
                self._on_stopped()
            await self._disconnect()
            if self._project is not None:
                await self._project.down()
            if self._network is not None and (self._spec.changes_network or self._spec.allowed_hosts):
                await self._network.close()


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


async def _put_chunk(chunks: ChunkPipe, piece: bytes, reading: "asyncio.Future[None]") -> None:
    while not reading.done() and not chunks.put(piece):  # noqa: ASYNC110 - it is a thread that we wait for
        await asyncio.sleep(_POLL_SECONDS)


async def _packed_chunks(source: Path | bytes, target: str, mode: int | None) -> AsyncIterator[bytes]:
    packing = pack(source, target, mode)
    while (piece := await asyncio.to_thread(next, packing, None)) is not None:
        yield piece
