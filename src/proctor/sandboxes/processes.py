"""Which processes run in a sandbox.

A process belongs to a sandbox when its environment says so: H2_DIR is the sandbox, or the session or configuration
directory lies in it; when it is an h2 daemon whose session lies in it; or when it descends from such a process, or
shares the session that such a process leads. Daemons leave their parents, and what they start may leave them, but the
environment a process was started with stays readable for as long as it lives.
"""

import os
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Final

from proctor.core.record import Record
from proctor.sandboxes.layout import config_directory

_HAS_PROC: Final = Path("/proc/self/environ").exists()
_HOME_VARIABLE: Final = "H2_DIR"
_INNER_VARIABLES: Final = ("H2_ROOT_DIR", "H2_SESSION_DIR", "CLAUDE_CONFIG_DIR")
_VARIABLES: Final = tuple(f"{name}=".encode() for name in (_HOME_VARIABLE, *_INNER_VARIABLES, "TMPDIR"))
_SHOWN: Final = 60
_LISTINGS: Final = 10
_CHUNK: Final = 1 << 16
_KERNEL_THREAD: Final = 0x00200000  # PF_KTHREAD: it has neither a command nor an environment

ProcessKey = tuple[int, float]


class SandboxProcess(Record):
    """A living process.

    Attributes:
        started: when, in some unit; only good for comparing.
        command_line: the arguments, each with a NUL behind it. There may be tens of thousands.
        variables: those of its environment that can name a sandbox.
    """

    pid: int
    parent: int
    session: int
    started: float
    command_line: bytes
    variables: dict[str, str]

    @property
    def command(self) -> tuple[str, ...]:
        """The arguments."""
        return tuple(os.fsdecode(part) for part in self.command_line.split(b"\0")[:-1])

    @property
    def key(self) -> ProcessKey:
        """Tells this process from all others, those that had its pid before it included."""
        return self.pid, self.started

    def __str__(self) -> str:
        line = "".join(letter if letter.isprintable() else "?" for letter in " ".join(self.command)) or "?"
        return f"{self.pid} ({line if len(line) <= _SHOWN else line[: _SHOWN - 1] + '…'})"


class DirectoryMatcher:
    """A directory as seen from any process: by its path, and by its identity where paths mean something else.

    A process in a container may say ``H2_DIR=/root/.h2/sandboxes/b1`` and mean another directory; one in a
    bubblewrap may have this one under another path.
    """

    def __init__(self, home: Path) -> None:
        self._home = os.fspath(home)
        self._identity = _identity(self._home)
        # An agent in a bubblewrap may be shown its configuration and nothing else of the sandbox.
        self._inner_identities = {self._identity, _identity(os.fspath(config_directory(home)))} - {None}
        self._our_root = _identity("/")

    def is_same_directory(self, pid: int, value: str) -> bool:
        """Whether the path `value`, in the mind of process `pid`, is this directory."""
        seen = self._host_path(pid, value)
        return os.path.normpath(seen) == self._home or (
            self._identity is not None and _identity(seen) == self._identity
        )

    def contains(self, pid: int, value: str) -> bool:
        """Whether the path `value`, in the mind of process `pid`, is this directory or lies in it."""
        seen = os.path.normpath(self._host_path(pid, value))
        if seen == self._home or seen.startswith(f"{self._home}/"):
            return True
        while len(seen) > 1:
            if _identity(seen) in self._inner_identities:
                return True
            seen = os.path.dirname(seen)  # noqa: PTH120 - this is hot, and pathlib is ten times slower
        return False

    def _host_path(self, pid: int, value: str) -> str:
        if not value.startswith("/"):
            return f"/proc/{pid}/cwd/{value}"
        root = _identity(f"/proc/{pid}/root")
        return value if root in {self._our_root, None} else f"/proc/{pid}/root{value}"


def processes_of(
    home: Path, processes: Sequence[SandboxProcess], known: Collection[ProcessKey] = ()
) -> list[SandboxProcess]:
    """The processes that run in the sandbox at `home`.

    Args:
        home: the sandbox.
        processes: a snapshot of all running processes.
        known: what earlier looks have found. Of these, some may since have lost the parent that gave them away.
    """
    place = DirectoryMatcher(home)
    found = {process.pid for process in processes if process.key in known or _belongs(process, place)}
    if not found:
        return []
    related = defaultdict(list)
    for process in processes:
        related[process.parent].append(process.pid)
        if process.session != process.pid:
            related[process.session].append(process.pid)
    pending = list(found)
    while pending:
        new = set(related[pending.pop()]) - found
        found |= new
        pending += new
    return [process for process in processes if process.pid in found]


def living_processes(home: Path, known: Collection[ProcessKey] = ()) -> list[SandboxProcess]:
    """The processes that run in the sandbox at `home` now.

    Mostly there are none, and then no process by which others could belong to it either: who is whose child is read
    only where it matters.
    """
    if not known and _HAS_PROC and not _anyone_belongs(DirectoryMatcher(home)):
        return []
    return processes_of(home, snapshot(), known)


def own_ancestors(processes: Sequence[SandboxProcess]) -> list[SandboxProcess]:
    """This process, its parent, and so on up."""
    by_pid = {process.pid: process for process in processes}
    line: list[SandboxProcess] = []
    current = by_pid.get(os.getpid())
    while current is not None and current not in line:
        line.append(current)
        current = by_pid.get(current.parent)
    return line


def snapshot() -> list[SandboxProcess]:
    """Every process but the zombies. One whose environment we may not read has an empty one."""
    return _from_proc() if _HAS_PROC else from_psutil()


def send_signal(process: SandboxProcess, number: int) -> None:
    """Signal this very process; if it has gone, and another has its pid, nothing happens.

    One that we may not signal stays, is found by the next look, and is reported by who looks.
    """
    if _started(process.pid) == process.started:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(process.pid, number)


def from_psutil() -> list[SandboxProcess]:
    """The same as read by psutil, where there is no /proc."""
    import psutil

    found = []
    for process in psutil.process_iter():
        with suppress(psutil.NoSuchProcess, ProcessLookupError):
            if process.status() == psutil.STATUS_ZOMBIE:
                continue
            command, environ = [], {}
            with suppress(psutil.AccessDenied, OSError):
                command, environ = process.cmdline(), process.environ()
            found.append(
                SandboxProcess(
                    pid=process.pid,
                    parent=process.ppid(),
                    session=os.getsid(process.pid),
                    started=process.create_time(),
                    command_line=b"".join(os.fsencode(part) + b"\0" for part in command),
                    variables={key: environ[key] for key in _variable_names() if key in environ},
                )
            )
    return found


def _belongs(process: SandboxProcess, directory: DirectoryMatcher) -> bool:
    variables = process.variables
    if _HOME_VARIABLE in variables and directory.is_same_directory(process.pid, variables[_HOME_VARIABLE]):
        return True
    inner = [variables[name] for name in _INNER_VARIABLES if name in variables]
    session = _session_of_daemon(process)
    return any(directory.contains(process.pid, path) for path in [*inner, *session])


def _session_of_daemon(process: SandboxProcess) -> list[str]:
    """The session directory in ``h2 _daemon --session-dir DIR``."""
    if b"_daemon\0" not in process.command_line or "_daemon" not in (command := process.command):
        return []
    return [value for flag, value in pairwise(command) if flag == "--session-dir"]


def _from_proc() -> list[SandboxProcess]:
    return [process for process in _each_process(_read) if process is not None]


def _anyone_belongs(directory: DirectoryMatcher) -> bool:
    """Whether a process says itself that it belongs to a sandbox."""
    return any(process is not None and _belongs(process, directory) for process in _each_process(_read_own_words))


def _each_process(read: Callable[[int], SandboxProcess | None]) -> Iterator[SandboxProcess | None]:
    """All of /proc. One that ended before it was read may have left a child that was not listed yet: look again."""
    seen: set[int] = set()
    for _ in range(_LISTINGS):
        pids = [pid for name in os.listdir("/proc") if name.isdigit() and (pid := int(name)) not in seen]  # noqa: PTH208 - hot
        seen.update(pids)
        some_ended = False
        for pid in pids:
            process = read(pid)
            some_ended |= process is None
            yield process
        if not some_ended:
            break


def _read_own_words(pid: int) -> SandboxProcess | None:
    """What a process was started with, if that may name a sandbox; None also for one that has ended."""
    try:
        command, environ = _bytes(f"/proc/{pid}/cmdline"), _environ(pid)
    except OSError:
        return None
    if b"_daemon\0" not in command and not any(name in environ for name in _VARIABLES):
        return None
    return SandboxProcess(
        pid=pid, parent=0, session=0, started=0.0, command_line=command, variables=_known_variables(environ)
    )


def _read(pid: int) -> SandboxProcess | None:
    try:
        fields = _stat_fields(pid)
        if fields[0] in {b"Z", b"X"}:
            return None
        command = environ = b""
        if not int(fields[6]) & _KERNEL_THREAD:
            command, environ = _bytes(f"/proc/{pid}/cmdline"), _environ(pid)
    except OSError:
        return None  # it has just ended
    return SandboxProcess(
        pid=pid,
        parent=int(fields[1]),
        session=int(fields[3]),
        started=float(fields[19]),
        command_line=command,
        variables=_known_variables(environ),
    )


def _environ(pid: int) -> bytes:
    try:
        return _bytes(f"/proc/{pid}/environ")
    except PermissionError:
        return b""


def _known_variables(environ: bytes) -> dict[str, str]:
    variables: dict[str, str] = {}
    if any(name in environ for name in _VARIABLES):
        for entry in environ.split(b"\0"):
            if entry.startswith(_VARIABLES):
                key, _, value = entry.partition(b"=")
                variables.setdefault(key.decode(), os.fsdecode(value))  # as getenv does it
    return variables


def _stat_fields(pid: int) -> list[bytes]:
    """The fields of ``/proc/PID/stat`` from the third on; the second, the name, may hold anything."""
    return _bytes(f"/proc/{pid}/stat").rpartition(b")")[2].split()


def _started(pid: int) -> float | None:
    if _HAS_PROC:
        with suppress(OSError):
            return float(_stat_fields(pid)[19])
        return None
    import psutil

    with suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).create_time()
    return None


def _bytes(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        data = os.read(descriptor, _CHUNK)
        if len(data) == _CHUNK:
            while chunk := os.read(descriptor, _CHUNK):
                data += chunk
        return data
    finally:
        os.close(descriptor)


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)  # noqa: PTH116 - hot
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _variable_names() -> list[str]:
    return [name.decode().removesuffix("=") for name in _VARIABLES]
