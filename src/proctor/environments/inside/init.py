"""The first process of an environment: starts commands, reaps, kills, opens paths, and relays the model.

As process 1 of its namespace it cannot be killed from inside, and as a process that is not dumpable it cannot be
traced, nor its memory or descriptors be had. Its socket was inherited, has no name, and is closed in every command.
When the other end of it is closed, this process ends, and with it every process of the environment.

Every environment waits for these imports: of `os` there is what the interpreter brings, and nothing in Python.
"""

import _ctypes
import _signal  # type: ignore[import-not-found]
import _socket
import errno
import marshal
import posix as os
import resource
import select
import sys

from . import wire
from .keyring import join_own_keyring, refuse_keys
from .loop import PollLoop
from .processes import kill_command, kill_descendants
from .relay import LoopbackRelay

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36
_CANNOT_RUN = 126
_NOT_FOUND = 127
_IGNORED_SIGNALS = (_signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP, _signal.SIGQUIT)
_CLOEXEC = getattr(_socket, "MSG_CMSG_CLOEXEC", 0)
_ANCILLARY_BYTES = _socket.CMSG_SPACE(3 * 4)


class InitProcess:
    """Answers requests until the socket is closed.

    Attributes:
        alone: this is process 1 of a namespace, which ends with it; otherwise what it started is looked for.
    """

    def __init__(self, control: _socket.socket, cgroup_fds: list[int], *, is_pid1: bool) -> None:
        self._control = control
        self._cgroup_fds = cgroup_fds
        self._is_pid1 = is_pid1
        self._request_numbers: dict[int, int] = {}
        self.loop = PollLoop()
        self.loop.register(control.fileno(), select.POLLIN, self._handle_request)
        reading, writing = os.pipe()
        for descriptor in (reading, writing):
            os.set_blocking(descriptor, False)
        self._wakeups = reading
        _signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        _signal.signal(_signal.SIGCHLD, lambda _number, _frame: None)
        self.loop.register(reading, select.POLLIN, self._reap)

    def reply(self, number: int, kind: int, value: int, descriptor: int | None = None) -> None:
        """Tell Proctor what became of a request."""
        attached = []
        if descriptor is not None:
            attached = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, descriptor.to_bytes(4, sys.byteorder))]
        self._control.sendmsg([wire.pack_reply(number, kind, value)], attached)

    def _handle_request(self, _events: int) -> None:
        header, attached, _, _ = self._control.recvmsg(wire.HEADER_BYTES, _ANCILLARY_BYTES, _CLOEXEC)
        descriptors = [
            int.from_bytes(data[start : start + 4], sys.byteorder)
            for _, _, data in attached
            for start in range(0, len(data), 4)
        ]
        header += self._receive(wire.HEADER_BYTES - len(header)) if header else b""
        if len(header) < wire.HEADER_BYTES:
            self._exit()
        body = self._receive(int.from_bytes(header, "little"))
        kind, number, *arguments = marshal.loads(body)
        try:
            if kind == wire.EXEC:
                self._start(number, descriptors, *arguments)
            elif kind == wire.KILL:
                self._kill(*arguments)
            elif kind == wire.OPEN:
                self._open(number, *arguments)
        except OSError as error:
            self.reply(number, wire.FAILED, error.errno or errno.EIO)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _receive(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            piece = self._control.recv(size - len(data))
            if not piece:
                self._exit()
            data += piece
        return bytes(data)

    def _exit(self) -> "NoReturn":
        if not self._is_pid1:
            kill_descendants()
        os._exit(0)  # noqa: SLF001 - it is public in os

    def _start(
        self,
        number: int,
        descriptors: list[int],
        arguments: list[bytes],
        variables: dict[bytes, bytes],
        directory: bytes,
        limits: dict[int, int],
        processors: list[int],
    ) -> None:
        process = os.fork()
        if process:
            self._request_numbers[process] = number
            return
        code = _CANNOT_RUN
        try:
            os.setsid()
            for target, descriptor in enumerate(descriptors):
                os.dup2(descriptor, target)
            _apply_limits(self._cgroup_fds, limits, processors)
            os.chdir(directory)
            _exec_program(arguments, variables)
        except FileNotFoundError as error:
            code = _NOT_FOUND if error.filename == arguments[0] else _CANNOT_RUN
            _print_error(error)
        except OSError as error:
            _print_error(error)
        finally:
            os._exit(code)  # noqa: SLF001 - as above

    def _kill(self, number: int) -> None:
        for process, its_number in self._request_numbers.items():
            if its_number == number:
                kill_command(process)
                return

    def _open(self, number: int, path: bytes, make: bool) -> None:
        """Open a folder as it is seen in here, made if need be."""
        if make:
            _make_directories(path)
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            self.reply(number, wire.OPENED, 0, descriptor)
        finally:
            os.close(descriptor)

    def _reap(self, _events: int) -> None:
        try:
            while os.read(self._wakeups, 4096):
                pass
        except BlockingIOError:
            pass
        while True:
            try:
                process, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if process == 0:
                return
            number = self._request_numbers.pop(process, None)
            if number is not None:
                code = os.waitstatus_to_exitcode(status)
                self.reply(number, wire.EXITED, code if code >= 0 else 128 - code)


def _make_directories(path: bytes) -> None:
    place = b""
    for name in path.strip(b"/").split(b"/"):
        place += b"/" + name
        try:
            os.mkdir(place)
        except OSError as error:
            if error.errno != errno.EEXIST:  # if it is no directory, opening it will say so
                raise


def _apply_limits(cgroup_fds: list[int], limits: dict[int, int], processors: list[int]) -> None:
    """Give a new process its limits and the signals that a program expects."""
    for join in cgroup_fds:
        os.write(join, b"0")
    for kind, value in limits.items():
        hard = resource.getrlimit(kind)[1]
        most = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (most, most))
    if processors:
        os.sched_setaffinity(0, processors)
    try:
        # When memory runs out on the machine, what is in the environment goes before what made it.
        adjustment = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
        os.write(adjustment, b"500")
        os.close(adjustment)
    except OSError:
        pass
    for ignored in (*_IGNORED_SIGNALS, _signal.SIGPIPE, _signal.SIGXFSZ):
        _signal.signal(ignored, _signal.SIG_DFL)


def _exec_program(arguments: list[bytes], variables: dict[bytes, bytes]) -> None:
    """Run the program in this process, found as a shell finds it."""
    name = arguments[0]
    if b"/" in name:
        _execute(name, arguments, variables)
    refused = None
    for folder in variables.get(b"PATH", b"").split(b":"):
        try:
            _execute((folder or b".") + b"/" + name, arguments, variables)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except PermissionError as error:
            refused = error
    raise refused or FileNotFoundError(errno.ENOENT, "command not found", name)


def _execute(path: bytes, arguments: list[bytes], variables: dict[bytes, bytes]) -> None:
    try:
        os.execve(path, arguments, variables)
    except OSError as error:
        if error.errno != errno.ENOEXEC:
            raise
        # A script without its first line is the shell's, as execvp has it.
        os.execve(b"/bin/sh", [b"/bin/sh", path, *arguments[1:]], variables)


def _print_error(error: OSError) -> None:
    name = error.filename.decode(errors="replace") if isinstance(error.filename, bytes) else error.filename
    os.write(2, f"{name or 'exec'}: {error.strerror}\n".encode(errors="replace"))


def _protect(*, is_pid1: bool) -> None:
    """Put this process out of the reach of what it will start."""
    for number in _IGNORED_SIGNALS:
        _signal.signal(number, _signal.SIG_IGN)
    if not sys.platform.startswith("linux"):
        return
    prctl = _ctypes.dlsym(_ctypes.dlopen(None, 2), "prctl")  # type: ignore[arg-type]
    if _ctypes.call_function(prctl, (_PR_SET_DUMPABLE, 0, 0, 0, 0)) != 0:
        raise OSError("cannot make the environment's first process private")
    if not is_pid1 and _ctypes.call_function(prctl, (_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)) != 0:
        raise OSError("cannot keep track of what is started")


def main(control: _socket.socket, arguments: list[str]) -> None:
    """``ALONE JOINS MODEL_SOCKET PORT KEYS``: numbers, descriptors with commas between them, a filter that refuses
    keys; ``-`` for nothing.
    """
    alone, joins, model, port, keys = arguments
    _protect(is_pid1=alone == "1")
    if sys.platform.startswith("linux") and not join_own_keyring() and keys != "-":
        refuse_keys(bytes.fromhex(keys))
    os.umask(0o022)
    inherited = [int(number) for number in joins.split(",") if number != "-"]
    for descriptor in (control.fileno(), *inherited):
        os.set_inheritable(descriptor, False)
    init = InitProcess(control, inherited, is_pid1=alone == "1")
    relay = LoopbackRelay(init.loop, model, int(port)) if model != "-" else None
    init.reply(0, wire.READY, relay.port if relay else 0)
    init.loop.run()
