"""Environments, in which agents work and tests run, and the base class of their providers.

Providers are found through the entry point group ``proctor.environments``: `local` (bubblewrap), `docker` (containers)
and plugins.
"""

import errno
import os
import shlex
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Final, Protocol, Self

from msgspec import field, structs

from proctor.core.causes import Cause
from proctor.core.errors import InfrastructureError
from proctor.core.record import Record
from proctor.core.trees import FileEntry, is_directory, make_readable

OutputCallback = Callable[[bytes], None]
MAX_COPY_BYTES: Final = 2_000_000_000
DEFAULT_MEMORY_MB: Final = 8192
DEFAULT_PROCESSES: Final = 4096
DEFAULT_DISK_MB: Final = 20480
_REQUIREMENT_SECONDS: Final = 600.0  # the machine may be busy; nothing is proven by how soon a program is found


class Network(StrEnum):
    """What an environment can reach: nothing, the model gateway, or whatever its host can."""

    NONE = "none"
    MODEL = "model"
    OPEN = "open"


class Limits(Record):
    """What an environment may use; None is no limit, but for memory, processes and disk, which have defaults.

    Attributes:
        wall_seconds: after this time every process in it is killed; its files stay until `stop`.
        output_bytes: how much is kept of each of a command's two streams.
        gpus: how many it is given.
    """

    wall_seconds: float | None = None
    memory_mb: int | None = None
    processes: int | None = None
    cpus: float | None = None
    disk_mb: int | None = None
    output_bytes: int = 10_000_000
    gpus: int = 0

    def with_defaults(self) -> "Limits":
        """The same, with the defaults of all that no environment is without."""
        return structs.replace(
            self,
            memory_mb=DEFAULT_MEMORY_MB if self.memory_mb is None else self.memory_mb,
            processes=DEFAULT_PROCESSES if self.processes is None else self.processes,
            disk_mb=DEFAULT_DISK_MB if self.disk_mb is None else self.disk_mb,
        )


class Mount(Record):
    """A path of the host that the environment shows, read-only by default.

    Attributes:
        writable: what is written there is written on the host.
        private: it can be written to, and the changes are the environment's own and removed with it (local only).
    """

    source: str
    target: str
    writable: bool = False
    private: bool = False


class EnvironmentSpec(Record):
    """What an environment is made from.

    Attributes:
        workspace: a prepared tree on the host; the environment works on a private copy and never writes to it.
        workdir: where the workspace is, and where commands start; empty, for one without a workspace: where those of
            its image do (docker only).
        image: the container image (docker only; None there means the provider's default).
        build: a folder with a Dockerfile that makes the image (docker only). Beside an `image`, it is built only by a
            provider that was told to build.
        hidden: paths of the host that must not be readable inside (local only; home, cache and results
            are always hidden).
        allowed_hosts: with the network `model`, hosts that can be reached beside it, through a proxy that knows names:
            a name, a name with a leading ``*.``, an address, or a range of them (docker only).
        changes_network: `Environment.set_network` takes effect; otherwise the network stays as it is.
        compose: a compose file whose other services run beside the environment, which is its service `main`
            (docker only).
        variables: added to the small, fixed environment that every command gets.
        model_socket: the gateway's unix socket; unless the network is `none`, it is reached inside at `model_url`.
        labels: what it was made for, for the reaper and for people.
    """

    workspace: Path | None = None
    workdir: str = "/workspace"
    image: str | None = None
    build: Path | None = None
    network: Network = Network.NONE
    allowed_hosts: tuple[str, ...] = ()
    changes_network: bool = False
    compose: Path | None = None
    mounts: tuple[Mount, ...] = ()
    hidden: tuple[str, ...] = ()
    variables: dict[str, str] = field(default_factory=dict)
    limits: Limits = Limits()
    model_socket: Path | None = None
    labels: dict[str, str] = field(default_factory=dict)


class EnvironmentRequirement(Record):
    """Something that an environment must have.

    Attributes:
        name: what it is, in words.
        command: succeeds in an environment that has it.
    """

    name: str
    command: tuple[str, ...]

    def missing_error(self) -> InfrastructureError:
        """That an environment does not have it, so that a task cannot be run in it."""
        return InfrastructureError(
            f"it needs {self.name}, which the environment does not have",
            fix=f"install {self.name} where environments see it, or choose an image that has it",
            cause=Cause.NOT_RUNNABLE_HERE,
        )


def required_program(name: str) -> EnvironmentRequirement:
    """A program on the PATH of the environment."""
    return EnvironmentRequirement(name=name, command=("sh", "-c", 'command -v "$0" >/dev/null', name))


async def find_missing_requirements(
    environment: "Environment", requirements: Sequence[EnvironmentRequirement]
) -> list[EnvironmentRequirement]:
    """Those of the requirements that an environment does not meet; one command looks for all.

    Raises:
        InfrastructureError: nothing can be looked for there.
    """
    script = "\n".join(
        f"{shlex.join(one.command)} >/dev/null 2>&1 </dev/null || echo {place}"
        for place, one in enumerate(requirements)
    )
    found = await environment.exec(("sh", "-c", script), timeout=_REQUIREMENT_SECONDS)
    if found.timed_out or found.stderr.strip():
        why = "no answer came" if found.timed_out else found.stderr.decode(errors="replace").strip()
        raise InfrastructureError(f"programs cannot be looked for in an environment: {why}")
    return [requirements[int(place)] for place in found.stdout.split()]


class AgentUser(Record):
    """Whom an agent's commands run as, and the variables that say so to its programs: its home, its name."""

    name: str
    variables: dict[str, str] = field(default_factory=dict)


class ExecResult(Record):
    """How a command ended. A command killed by signal N has exit code 128 + N, as in a shell.

    Attributes:
        timed_out: the wall clock ended it.
        truncated: it wrote more than the cap; the head and the tail were kept.
        limit: it failed, and while it ran its environment was at this limit of its own: memory, or processes.
    """

    exit_code: int
    stdout: bytes
    stderr: bytes
    seconds: float
    timed_out: bool = False
    truncated: bool = False
    limit: str = ""


class OneShotCommand(Record):
    """One command with an environment of its own, which is made for it and removed with it.

    Attributes:
        argv: the command. The numbers of its own descriptors are added to it: one for each input, to read it from,
            and one to report to. Nothing else in the environment has these, unless the command passes them on.
        variables: added to the small, fixed environment of every command.
        cwd: where it starts; the workdir by default.
        report_bytes: how much is kept of what it reports.
        pinned: files of the workspace, by their relative paths, that nothing in the environment can change, replace or
            move.
    """

    argv: tuple[str, ...]
    inputs: tuple[bytes, ...] = ()
    variables: dict[str, str] = field(default_factory=dict)
    cwd: str | None = None
    timeout: float | None = None
    output_bytes: int | None = None
    report_bytes: int = 10_000_000
    pinned: tuple[str, ...] = ()


class OneShotResult(Record):
    """How a one-shot command ended; its two streams of output are one, in `exec_result.stdout`."""

    exec_result: ExecResult
    report: bytes
    report_truncated: bool = False


class Environment(Protocol):
    """A running environment."""

    @property
    def workdir(self) -> str:
        """Where the workspace is inside."""
        ...

    @property
    def digest(self) -> str:
        """Identifies what the environment was made from: same digest, same programs and files."""
        ...

    @property
    def model_url(self) -> str | None:
        """Where the gateway is reached inside; None when there is none."""
        ...

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
        """Run one command to its end, as `user` where environments have users of their own; else as who may do all.

        A command that is not there ends with 127, one that cannot be run, or not in `cwd`, with 126, as in
        a shell. What it left in the background lives on until `stop`. On a timeout, or when the caller is
        cancelled, the command and all its descendants that are still its own (its process group and
        session) are killed.

        Raises:
            LimitReached: a limit of the whole environment (wall clock, disk) ended every process in it.
            RetryableError: the environment is gone, or its engine is.
        """
        ...

    async def put(self, source: Path | bytes, target: str, *, mode: int | None = None) -> None:
        """Copy a file's bytes, or a host file or directory tree, to an absolute path inside.

        Missing parents are made, directories are merged, anything else in the way is replaced. `mode` is
        for a single file; without it, 0644 for bytes and the host file's own mode otherwise.
        """
        ...

    async def get(self, path: str, target: Path, *, max_bytes: int = MAX_COPY_BYTES) -> None:
        """Copy a file or a tree out to the host, symlinks as symlinks, sockets and devices left behind.

        What runs inside cannot make this write outside `target`, or more than `max_bytes`, in which every
        file counts for 512 bytes more than it holds. The workspace can be had after a limit has ended the
        environment's processes. When this fails, nothing is left at a `target` that was not there before.

        Raises:
            FileNotFoundError: there is no such path inside.
            LimitReached: it is larger, or nested deeper, than allowed.
        """
        ...

    async def real_path(self, path: str) -> str:
        """Where an absolute path leads without links, as far as there is anything. By default, none are looked for.

        Raises:
            InfrastructureError: the environment is gone.
        """
        return path

    async def checkpoint(self) -> "Checkpoint | None":
        """Keep the files as they are at this moment; nothing runs in the environment meanwhile.

        By default, no copies of an environment can be made, and only what runs in it can be observed.

        Raises:
            InfrastructureError: the engine cannot do it.
        """
        return None

    @property
    def default_user(self) -> str:
        """Whom its image runs commands as; empty: who may do all."""
        return ""

    @property
    def refused_hosts(self) -> tuple[str, ...]:
        """The hosts that were asked for and are not among those that are allowed, each once."""
        return ()

    async def set_network(self, network: Network, allowed_hosts: Sequence[str] = ()) -> None:
        """Change what it can reach from now on, where its spec says that its network changes.

        Raises:
            InfrastructureError: it cannot be changed.
        """
        del network, allowed_hosts  # by default, it stays as it is

    def start_commands_with(self, shell: str) -> None:
        """Start commands with this shell inside from now on, where an environment starts them with one of its own."""
        del shell

    def service(self, name: str) -> "Environment":
        """One of the containers that run beside it.

        Raises:
            InfrastructureError: there is none of this name.
        """
        raise InfrastructureError(f"there is no service {name!r} beside the environment")

    async def stop(self) -> None:
        """End every process of the environment and free what it used. Safe to call twice."""
        ...

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()


async def get_tree(environment: Environment, path: str, target: Path) -> None:
    """Copy a directory out to the host, for us to read, and nothing else that an agent has put in its place.

    A symlink there would lead whoever reads `target` to files of the host.

    Raises:
        NotADirectoryError: something else is there, or nothing.
        LimitReached: as of `Environment.get`.
    """
    with suppress(FileNotFoundError):
        await environment.get(path, target)
    if not is_directory(target):
        raise NotADirectoryError(errno.ENOTDIR, f"{path} is not a directory any more")
    if os.geteuid() != 0:
        import asyncio

        await asyncio.to_thread(make_readable, target)


class Checkpoint(Protocol):
    """The files of an environment at one moment, and its image: other environments are made from them."""

    async def copy(self, *, live_files: bool = False) -> Environment:
        """An environment with these files and processes of its own, on the network of the one that they are from.

        What serves there, on the network or at a socket with a path, serves here. With `live_files`, the directories
        that hold data and not programs or settings are those of the running environment.

        Raises:
            InfrastructureError: no such environment can be made.
        """
        ...

    async def original(self) -> Environment:
        """An environment from the same image that nobody has worked in, on a network of its own.

        Raises:
            InfrastructureError: no such environment can be made.
        """
        ...

    async def remove(self) -> None:
        """Free what it uses. Environments that were made from it must have stopped. Safe to call twice."""
        ...


class EnvironmentProvider(ABC):
    """Makes environments of one kind.

    Attributes:
        supports_run_once: `run_once` is implemented, and costs less than an environment for many commands.
        uses_images: environments are made from the container images that specs name.
    """

    name: str
    supports_run_once: bool = False
    uses_images: bool = False

    @abstractmethod
    async def start(self, spec: EnvironmentSpec) -> Environment:
        """Make an environment; when this fails, nothing of it is left.

        Raises:
            InfrastructureError: the machine cannot make such an environment; says why and what to do.
        """

    @abstractmethod
    async def digest(self, spec: EnvironmentSpec) -> str:
        """The digest that an environment made from `spec` will have: what it shows, without its workspace.

        Raises:
            InfrastructureError: no such environment can be made here.
        """

    async def close(self) -> None:  # noqa: B027 - a default
        """Free what its environments shared, once all of them have stopped. Safe to call twice."""

    async def run_once(
        self,
        spec: EnvironmentSpec,
        command: OneShotCommand,
        *,
        permit: AbstractAsyncContextManager[object] | None = None,
    ) -> OneShotResult:
        """Make an environment, run one command in it to its end, and remove it. Nothing outlives the command.

        Called where `supports_run_once` is true. With `permit`, the environment is made at once, and the command runs
        while the permit is held; its clock starts then.

        Raises:
            LimitReached: a limit of the whole environment (wall clock, disk) ended it.
            InfrastructureError: the machine cannot make such an environment.
        """
        raise NotImplementedError(f"{self.name} environments cannot be made for a single command")

    async def pin_files(self, environment: Environment, files: Mapping[str, FileEntry]) -> bool:
        """Show these files, by their paths relative to the workdir, to one of its environments: from then on nothing
        in it can change, replace or move them, or a directory above them.

        Gives whether that could be done; where not, the caller must look whether they changed.
        """
        return False

    def prefetch(self, specs: Sequence[EnvironmentSpec]) -> None:  # noqa: B027 - a default
        """The environments that will be needed, one for each task, in order. Replaces an earlier list."""

    def release(self, spec: EnvironmentSpec) -> None:  # noqa: B027 - a default
        """One task of the list is done and needs no environment like this any more."""

    def required_images(self, spec: EnvironmentSpec) -> tuple[str, ...]:
        """The images that such an environment takes from elsewhere, as the benchmark names them."""
        return (spec.image,) if spec.image is not None else ()

    async def storage_folders(self) -> Sequence[Path]:
        """Folders of this machine in which its environments take space, beside Proctor's own; none by default.

        Raises:
            InfrastructureError: they cannot be found out.
        """
        return ()

    async def is_available(self, spec: EnvironmentSpec) -> bool:
        """Whether what such an environment is made from is on this machine already."""
        return True

    async def unavailable_reason(self, spec: EnvironmentSpec | None = None) -> str | None:
        """Why such an environment cannot be made, as far as is known without fetching anything; None when it can.

        Without a spec: why this machine cannot make any.
        """
        return None

    async def missing_support(self, spec: EnvironmentSpec) -> str | None:
        """What this machine does not have and such an environment needs beside its image; None: nothing is missing."""
        return None if spec.compose is None else f"{self.name} environments have no services beside them"

    async def gpu_count(self) -> int:
        """How many GPUs an environment can be given."""
        return 0
