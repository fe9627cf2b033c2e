"""The connection to a Docker engine: how it is found, what its errors mean, and what is ours on it."""

import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import aiohttp
import psutil
from aiodocker import Docker, DockerError

from proctor.core.errors import InfrastructureError, RetryableError

LABEL: Final = "proctor"
OWNER_LABEL: Final = "proctor.owner"
CHECKPOINT_LABEL: Final = "proctor.checkpoint"
_SOCKETS: Final = ("/var/run/docker.sock", "/run/docker.sock")
_FIX: Final = "start it, or say where it is with DOCKER_HOST"
_NOT_FOUND: Final = 404
_CONFLICT: Final = 409
_SERVER_ERROR: Final = 500
_UNREACHABLE: Final = 900  # the library's own number


def connect(url: str | None = None) -> Docker:
    """A client for the engine at `url`, or where DOCKER_HOST, the Docker context or habit says.

    Raises:
        InfrastructureError: there is no engine to be found.
    """
    address = url or os.environ.get("DOCKER_HOST") or _default_socket()
    try:
        if address is not None and address.startswith("unix://"):
            path = address.removeprefix("unix://")
            # No limit on connections: each environment holds one for as long as it lives.
            return Docker(url="unix://localhost", connector=aiohttp.UnixConnector(path, limit=0))
        return Docker(url=address)
    except (AssertionError, ValueError, OSError, DockerError) as error:
        raise InfrastructureError("no Docker engine found", fix=_FIX) from error


async def disconnect(docker: Docker) -> None:
    """Close a client made by `connect`."""
    await docker.close()
    await docker.connector.close()


def _default_socket() -> str | None:
    if os.environ.get("DOCKER_CONTEXT"):
        return None
    return next((f"unix://{path}" for path in _SOCKETS if Path(path).is_socket()), None)


@contextmanager
def engine_errors(action: str) -> Iterator[None]:
    """Turn what a client raises into our errors, with what was being done."""
    try:
        yield
    except DockerError as error:
        if error.status == _UNREACHABLE:
            raise _not_answering(action, error.message) from error
        worth_another_try = error.status in {_NOT_FOUND, _CONFLICT} or error.status >= _SERVER_ERROR
        kind = RetryableError if worth_another_try else InfrastructureError
        raise kind(f"the Docker engine could not {action}: {error.message}") from error
    except (aiohttp.ClientError, ConnectionError, TimeoutError, FileNotFoundError, PermissionError) as error:
        raise _not_answering(action, str(error) or type(error).__name__) from error


def _not_answering(action: str, detail: str) -> RetryableError:
    return RetryableError(f"the Docker engine did not answer when asked to {action} ({detail})", fix=_FIX)


def own_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Labels for whatever is made on the engine: that it is ours, whose, and what for."""
    return {**{f"{LABEL}.{name}": value for name, value in labels.items()}, LABEL: "1", OWNER_LABEL: current_owner()}


def current_owner() -> str:
    """Identifies this process among all others, on this machine and elsewhere, now and later."""
    return f"{socket.gethostname()} {_boot_id()} {os.getpid()} {_start_time(os.getpid())}"


def owner_has_ended(owner: str) -> bool:
    """Whether the process that `owner` named has ended. Of another machine's processes we know nothing: False."""
    host, boot, process, started = [*owner.split(" "), "", "", "", ""][:4]
    if host != socket.gethostname():
        return False
    return boot != _boot_id() or _start_time(int(process)) != started if process.isdigit() else True


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return "-"


def _start_time(process: int) -> str:
    """When a process was started; nothing when there is none."""
    try:
        running = psutil.Process(process)
        if running.status() == psutil.STATUS_ZOMBIE:
            return ""
        return f"{running.create_time():.2f}"
    except psutil.Error:
        return ""


@contextmanager
def ignore_already_removed() -> Iterator[None]:
    """Overlook that a thing to be removed is gone already, or about to be."""
    try:
        yield
    except DockerError as error:
        if not (is_missing(error) or is_conflict(error)):
            raise


def is_missing(error: BaseException | None) -> bool:
    """Whether an engine's error says that there is no such thing."""
    return getattr(error, "status", None) == _NOT_FOUND


def is_conflict(error: BaseException | None) -> bool:
    """Whether an engine's error says that a thing is not in the state for it."""
    return getattr(error, "status", None) == _CONFLICT


def is_not_running(error: DockerError) -> bool:
    """Whether a container has ended: before a command was asked for, or between that and its start."""
    return is_conflict(error) or "is not running" in str(error.message)
