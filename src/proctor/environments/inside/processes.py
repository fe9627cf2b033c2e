"""Which processes belong to a command, and how all of them are killed."""

import _signal  # type: ignore[import-not-found]
import posix as os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_PASSES = 100
_MAX_WAITS = 500


def kill_command(leader: int) -> None:
    """Kill a command: its session, its process group and every descendant, wherever these have gone.

    They are dead when this returns, but for one that hangs in the kernel.
    """
    _kill(lambda: _command_processes(leader))


def kill_descendants() -> None:
    """Kill every process that descends from this one, which gets the children of what has ended."""
    try:
        # Without reaping: somebody may be waiting for the exit code of a child that has ended.
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return  # there is none: no need to look through the machine's processes
    own = os.getpid()
    _kill(lambda: _descendants(_table(), {own}) - {own})


def _kill(members: "Callable[[], set[int]]") -> None:
    # All are stopped before the first one is killed: a stopped process forks no more, and a living parent
    # still tells whose child its child is.
    stopped: set[int] = set()
    for _ in range(_PASSES):
        new = members() - stopped
        if not new:
            break
        for process in new:
            _send(process, _signal.SIGSTOP)
        stopped |= new
    for process in stopped:
        _send(process, _signal.SIGKILL)
    for _ in range(_MAX_WAITS):
        if not stopped & _table().keys():
            return
        time.sleep(0.002)


def _command_processes(leader: int) -> set[int]:
    table = _table()
    own = {process for process, (_, group, session) in table.items() if leader in (process, group, session)}
    return _descendants(table, own | {leader})


def _descendants(table: dict[int, tuple[int, int, int]], roots: set[int]) -> set[int]:
    children: dict[int, list[int]] = {}
    for process, (parent, _, _) in table.items():
        children.setdefault(parent, []).append(process)
    found = set(roots)
    waiting = list(roots)
    while waiting:
        for child in children.get(waiting.pop(), ()):
            if child not in found:
                found.add(child)
                waiting.append(child)
    return found


def _table() -> dict[int, tuple[int, int, int]]:
    """Parent, group and session of every living process; without /proc, none."""
    table: dict[int, tuple[int, int, int]] = {}
    try:
        names = os.listdir("/proc")
    except OSError:
        return table
    for name in names:
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                line = file.read()
        except OSError:
            continue  # ended since it was listed
        # The name of the program, in parentheses, may hold anything.
        state, parent, group, session = line[line.rindex(b")") + 2 :].split(maxsplit=4)[:4]
        if state not in (b"Z", b"X"):
            table[int(name)] = (int(parent), int(group), int(session))
    return table


def _send(process: int, number: int) -> None:
    try:
        os.kill(process, number)
    except (ProcessLookupError, PermissionError):
        return
