"""The processes of an environment: which are services that an agent set up, and which are merely left over."""

import re
from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum
from typing import Final

from proctor.core.environment import Environment
from proctor.core.errors import InfrastructureError
from proctor.core.record import Record

# Who is there, what each runs and holds open, which sockets listen, and what of the host is mounted in the environment.
LIST_PROCESSES: Final = r"""
read -r first </proc/1/stat; set -- ${first##*)}
echo "=self $$ ${20}"
for folder in /proc/[0-9]*; do
  echo "=process ${folder#/proc/}"
  cat "$folder/status" || continue
  printf 'Exe:\t'; readlink "$folder/exe" || echo
  printf 'Command:\t'; tr '\0\n\t' '   ' <"$folder/cmdline" | head -c 400; echo
  ls -lb "$folder/fd"
  [ -e "$folder/stat" ] && printf 'Alive:\tyes\n'
done 2>/dev/null
echo "=sockets"; cat /proc/net/tcp /proc/net/tcp6 /proc/net/udp /proc/net/udp6 /proc/net/unix 2>/dev/null
echo "=mounts"; cat /proc/self/mountinfo
"""
_SOCKET: Final = re.compile(r"-> socket:\[(\d+)\]$")
# What the tables of TCP and UDP say of a socket that anybody can call.
_LISTENS: Final = frozenset({"0A", "07"})
_UNIX_LISTENS: Final = 0x10000
_SHELLS: Final = frozenset({"ash", "bash", "busybox", "dash", "fish", "ksh", "sh", "zsh"})
_DAEMONS: Final = ("/usr/sbin/", "/sbin/", "/usr/lib/", "/usr/libexec/")
# What every container has of its engine's.
_ENGINE_MOUNTS: Final = re.compile(
    r"^/(proc|sys|dev)(/|$)|^/etc/(resolv\.conf|hostname|hosts)$|^/$|^/sbin/docker-init$"
)


class ProcessInfo(Record):
    """One process. `listens`: it holds a socket on which others can call it."""

    pid: int
    parent: int
    session: int
    exe: str
    command: str
    listens: bool = False


class ProcessList(Record):
    """All processes of an environment but those of the listing itself, and where the host's files are mounted.

    Attributes:
        init_start_time: when the environment's first process started, by the kernel's clock; it changes with a restart.
    """

    processes: dict[int, ProcessInfo]
    mounts: tuple[str, ...] = ()
    init_start_time: str = ""


class LeftoverPolicy(StrEnum):
    """What becomes of processes that are not the agent's own program.

    KEEP: all stay. SERVICES: those stay that others can call, those that belong to them, and the system's daemons.
    END: none stays.
    """

    KEEP = "keep"
    SERVICES = "services"
    END = "end"


async def list_processes(environment: Environment, path: str) -> ProcessList:
    """List every process of an environment; the tools for it are found on `path`.

    Raises:
        InfrastructureError: the environment cannot be inspected.
    """
    asked = await environment.exec(["/bin/sh", "-c", LIST_PROCESSES], variables={"PATH": path}, cwd="/", timeout=60)
    return parse_process_list("" if asked.timed_out else asked.stdout.decode("utf-8", "replace"))


def parse_process_list(text: str) -> ProcessList:
    """The processes from what the script printed.

    Raises:
        InfrastructureError: it did not print all of it.
    """
    if not text.startswith("=self ") or "\n=mounts\n" not in text:
        raise InfrastructureError("the environment's processes cannot be listed")
    head, _, rest = text.partition("\n=sockets\n")
    sockets, _, mounts = rest.partition("\n=mounts\n")
    listening, users = _listening_sockets(sockets.splitlines())
    first, *blocks = re.split(r"^=process (?=\d+$)", head, flags=re.MULTILINE)
    _, own, started = first.split()
    processes = {}
    for block in blocks:
        process = _parse_process(block.splitlines(), listening, users)
        if process is not None:
            processes[process.pid] = process
    for pid in _descendants((int(own),), _children(processes.values())):
        processes.pop(pid, None)
    return ProcessList(processes=processes, mounts=tuple(_host_mounts(mounts.splitlines())), init_start_time=started)


def service_pids(process_list: ProcessList, agents: Collection[int] = ()) -> frozenset[int]:
    """Those that others can call, the programs that keep them running (not shells, not `agents`), all below either."""
    children = _children(process_list.processes.values())
    roots = set()
    for process in process_list.processes.values():
        if process.pid == 1 or not (process.listens or process.exe.startswith(_DAEMONS)):
            continue
        roots.add(process.pid)
        above = process_list.processes.get(process.parent)
        while above is not None and above.pid not in {1, *agents} and above.exe.rpartition("/")[2] not in _SHELLS:
            roots.add(above.pid)
            above = process_list.processes.get(above.parent)
    return _descendants(roots, children)


def find_leftovers(
    process_list: ProcessList, before: Iterable[int], policy: LeftoverPolicy
) -> tuple[tuple[ProcessInfo, ...], tuple[ProcessInfo, ...]]:
    """Who is to be ended: the agent's own programs, and the processes that are no services, under a policy that ends
    those. What ran before the agent came is the task's, and stays.
    """
    known = {1, *before}
    children = _children(process_list.processes.values())
    agents = {
        process.pid
        for process in process_list.processes.values()
        if process.pid not in known and any(_runs_from(process, place) for place in process_list.mounts)
    }
    kept = frozenset() if policy is LeftoverPolicy.END else service_pids(process_list, agents)
    own = _descendants(agents, children) - known - kept | agents
    rest = (
        [pid for pid in process_list.processes if pid not in own | kept | known and not _is_main(process_list, pid)]
        if policy is not LeftoverPolicy.KEEP
        else []
    )
    return tuple(process_list.processes[pid] for pid in sorted(own)), tuple(
        process_list.processes[pid] for pid in sorted(rest)
    )


def starting_processes(process_list: ProcessList, before: Iterable[int]) -> tuple[ProcessInfo, ...]:
    """The leftovers that may be on their way to a service: nothing that they have started is one yet."""
    _, others = find_leftovers(process_list, before, LeftoverPolicy.SERVICES)
    children = _children(process_list.processes.values())
    services = service_pids(process_list)
    return tuple(process for process in others if not services & _descendants((process.pid,), children))


def started_since(before: ProcessList, now: ProcessList) -> tuple[ProcessInfo, ...]:
    """The processes that a command has left, which are no children of what ran before it."""
    found = []
    for process in now.processes.values():
        above: ProcessInfo | None = process
        while above is not None and above.pid not in before.processes:
            above = now.processes.get(above.parent)
        if process.pid != 1 and (above is None or above.pid == 1):
            found.append(process)
    return tuple(found)


async def kill_processes(environment: Environment, processes: Iterable[ProcessInfo]) -> None:
    """Stop them all, then kill them, so that none can start another one in between."""
    pids = [str(process.pid) for process in processes]
    if pids:
        await environment.exec(
            ["/bin/sh", "-c", 'kill -STOP "$@" 2>/dev/null; kill -KILL "$@" 2>/dev/null; :', "sh", *pids],
            cwd="/",
            timeout=30,
        )


def processes_beside_main(process_list: ProcessList) -> tuple[ProcessInfo, ...]:
    """Every process but the environment's first one, and its main one."""
    return tuple(
        process
        for pid, process in sorted(process_list.processes.items())
        if pid != 1 and not _is_main(process_list, pid)
    )


def _is_main(process_list: ProcessList, pid: int) -> bool:
    """Whether this is the environment's own main process, which keeps it alive: the oldest of those that look like it.

    What it is made to start, and leaves to the first process, looks like it too.
    """
    alike = [one.pid for one in process_list.processes.values() if one.parent in {0, 1} and one.session == 1]
    return pid == min((one for one in alike if one != 1), default=None)


def _runs_from(process: ProcessInfo, directory: str) -> bool:
    return (
        process.exe.startswith(f"{directory}/") or process.exe == directory or f" {directory}/" in f" {process.command}"
    )


def _children(processes: Iterable[ProcessInfo]) -> Mapping[int, list[int]]:
    children: dict[int, list[int]] = {}
    for process in processes:
        children.setdefault(process.parent, []).append(process.pid)
    return children


def _descendants(roots: Iterable[int], children: Mapping[int, list[int]]) -> frozenset[int]:
    found: set[int] = set()
    waiting = list(roots)
    while waiting:
        pid = waiting.pop()
        if pid not in found:
            found.add(pid)
            waiting += children.get(pid, ())
    return frozenset(found)


def _parse_process(lines: list[str], listening: Collection[str], users: Collection[str]) -> ProcessInfo | None:
    """One process, from its part of the listing. Of another user's, neither program nor sockets can be seen."""
    facts: dict[str, str] = {}
    sockets = []
    seen = False
    for line in lines[1:]:
        seen = seen or line.startswith("total ")
        if match := _SOCKET.search(line):
            sockets.append(match[1])
        else:
            key, colon, value = line.partition(":\t")
            if colon and key not in facts:
                facts[key] = value.strip()
    try:
        if facts["State"].startswith("Z") or "Alive" not in facts:
            return None  # it has ended, or did while it was looked at
        command = facts.get("Command", "")
        listens = any(socket in listening for socket in sockets) if seen else facts["Uid"].split()[0] in users
        return ProcessInfo(
            pid=int(lines[0]),
            parent=int(facts["PPid"]),
            session=int(facts["NSsid"].split()[-1]),
            exe=facts.get("Exe", "").removesuffix(" (deleted)") or command.partition(" ")[0],
            command=command,
            listens=listens,
        )
    except (KeyError, ValueError, IndexError):
        return None


def _listening_sockets(lines: Iterable[str]) -> tuple[set[str], set[str]]:
    """The inodes of sockets that listen, from the kernel's tables, and the users of those of TCP and UDP."""
    inodes, users = set(), set()
    for line in lines:
        words = line.split()
        if len(words) > 9 and words[0].endswith(":") and words[3] in _LISTENS:  # noqa: PLR2004 - the inode's column
            users.add(words[7])
            inodes.add(words[9])
        elif len(words) > 6 and words[0].endswith(":"):  # noqa: PLR2004 - likewise
            try:
                if int(words[3], 16) & _UNIX_LISTENS:
                    inodes.add(words[6])
            except ValueError:
                continue
    return inodes, users


def _host_mounts(lines: Iterable[str]) -> Iterable[str]:
    for line in lines:
        words = line.split()
        if len(words) > 4 and not _ENGINE_MOUNTS.search(words[4]):  # noqa: PLR2004 - the mount point's column
            yield words[4]
