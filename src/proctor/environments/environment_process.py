"""The processes of a local environment, with its folder and its control group, and how they are ended."""

import asyncio
import os
import socket
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from proctor.core.environment import Limits
from proctor.core.errors import RetryableError
from proctor.core.record import Record
from proctor.core.trees import disk_bytes
from proctor.environments.bootstrap import init_program
from proctor.environments.cgroup_pool import CgroupPool
from proctor.environments.channel import Channel, ChannelClosed
from proctor.environments.environment_dir import EnvironmentDir
from proctor.environments.seccomp import filter_program

_START_SECONDS: Final = 60
_SHUTDOWN_SECONDS: Final = 5
_KILL_SECONDS: Final = 30


class InitDescriptors(Record):
    """What the first process inherits: its socket, the ways into its control groups, and a filter to read."""

    control_fd: int
    cgroup_fds: tuple[int, ...]
    seccomp_fd: int


class EnvironmentNotStarted(Exception):
    """The environment's first process did not start. Carries its output."""

    def __init__(self, output: str) -> None:
        super().__init__(output)
        self.output = output


class EnvironmentProcess:
    """Made before the environment's processes, and there until the environment is removed."""

    def __init__(self, environments_dir: Path, limits: Limits, cgroup_pool: CgroupPool) -> None:
        self.folder = EnvironmentDir.make(environments_dir)
        self._limits = limits
        self._cgroup_pool = cgroup_pool
        self._cgroup = cgroup_pool.acquire(limits)
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: Channel | None = None

    @property
    def controllers(self) -> frozenset[str]:
        """What the control group limits."""
        return self._cgroup.controllers if self._cgroup else frozenset()

    @property
    def cgroup_fds(self) -> Sequence[int]:
        """Where a process is written to, to be in the control group."""
        return self._cgroup.join_fds if self._cgroup else []

    def limit_events(self) -> dict[str, int]:
        """How often the environment has been at each limit that its control group holds."""
        return self._cgroup.limit_events() if self._cgroup else {}

    @property
    def channel(self) -> Channel:
        """The way to the first process."""
        if self._channel is None:
            raise ChannelClosed
        return self._channel

    async def launch(self, command: Callable[[InitDescriptors], list[str]], *, filtered: bool) -> int:
        """Start the first process with a command made from its descriptors; the port of its model relay.

        Only a command that takes the filter inherits it.

        Raises:
            NotStarted: it ended at once.
        """
        ours, its = socket.socketpair()
        joins = self.cgroup_fds
        with its, filled_pipe(filter_program(keys=True)) as filtering, self.folder.log.open("wb") as log:
            descriptors = InitDescriptors(control_fd=its.fileno(), cgroup_fds=tuple(joins), seccomp_fd=filtering)
            try:
                # By this thread, which lives as long as the event loop: the environment dies with the thread that made
                # it.
                self._process = subprocess.Popen(  # noqa: ASYNC220 - returns as soon as the program has started
                    command(descriptors),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env={},
                    cwd="/",
                    pass_fds=[its.fileno(), *joins, *([filtering] if filtered else [])],
                    start_new_session=True,
                )
            except BaseException:
                ours.close()
                raise
        self._channel = Channel(ours)
        try:
            await self._channel.send(init_program())
            async with asyncio.timeout(_START_SECONDS):
                return await asyncio.shield(self._channel.ready)
        except (ChannelClosed, TimeoutError) as error:
            await self.terminate()
            raise EnvironmentNotStarted(self.log()) from error

    async def used_bytes(self) -> int:
        """How much commands have written."""
        return await asyncio.to_thread(lambda: sum(map(disk_bytes, self.folder.writable_dirs)))

    def first_pid(self) -> int | None:
        """The environment's first process, as this machine numbers it; None when it has ended."""
        if self._process is None:
            return None
        pid = self._process.pid
        with suppress(OSError):
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
            return int(children[0]) if children else None
        return None

    def log(self) -> str:
        """What bubblewrap or the first process printed."""
        with suppress(OSError):
            return self.folder.log.read_text(errors="replace")
        return ""

    async def terminate(self) -> None:
        """End every process and see that it is so. The files stay.

        Raises:
            RetryableError: something could not be killed.
        """
        channel, process = self._channel, self._process
        if channel is None or process is None:
            return
        channel.shutdown()
        if not await _wait_for_event(channel.closed, _SHUTDOWN_SECONDS):
            process.kill()
            if not await _wait_for_event(channel.closed, _KILL_SECONDS):
                raise RetryableError("an environment's processes cannot be killed", where=self.folder.path)
        # The first process lets go of the socket before the kernel has killed the rest; bubblewrap ends after that.
        await _wait_for_process(process)
        channel.close()
        self._channel = self._process = None

    async def remove(self) -> None:
        """End every process and give back all that the environment used."""
        await self.terminate()
        group, self._cgroup = self._cgroup, None
        if group is not None:
            self._cgroup_pool.release(self._limits, group)
        await asyncio.to_thread(self.folder.remove)


async def _wait_for_process(process: "subprocess.Popen[bytes]") -> None:
    if process.poll() is not None:
        return
    if not hasattr(os, "pidfd_open"):
        await asyncio.to_thread(process.wait)
        return
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    handle = os.pidfd_open(process.pid)
    loop.add_reader(handle, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(handle)
        os.close(handle)
    process.wait()


async def _wait_for_event(event: asyncio.Event, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True


@contextmanager
def filled_pipe(data: bytes) -> Iterator[int]:
    """A descriptor from which `data`, which is short, can be read."""
    reading, writing = os.pipe()
    try:
        os.write(writing, data)
        os.close(writing)
        yield reading
    finally:
        os.close(reading)
