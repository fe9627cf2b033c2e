"""Stopping everything that runs in a sandbox, and making sure.

First every agent is asked to stop, as ``h2 stop`` does it; h2 ends an agent's own process and nothing that it had
started. What is left gets SIGTERM, then SIGKILL, until two looks in a row find nothing.
"""

import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from proctor.core.errors import InfrastructureError, UsageError
from proctor.core.record import Record
from proctor.sandboxes.agent_sockets import STOP, TIMEOUT, list_endpoints, send_request
from proctor.sandboxes.processes import (
    ProcessKey,
    SandboxProcess,
    living_processes,
    own_ancestors,
    send_signal,
    snapshot,
)

_PAUSE: Final = 0.02
_MAX_NAMED: Final = 5


class StopTimeouts(Record):
    """How long each way of stopping is given, in seconds."""

    graceful: float = 5.0
    terminate: float = 2.0
    kill: float = 10.0


DEFAULT_TIMEOUTS: Final = StopTimeouts()


def stop_everything(
    home: Path,
    *,
    timeouts: StopTimeouts = DEFAULT_TIMEOUTS,
    send: Callable[[SandboxProcess, int], None] = send_signal,
) -> list[SandboxProcess]:
    """Stop all that runs in the sandbox at `home`; return what was found running.

    Raises:
        UsageError: we run in it ourselves.
        InfrastructureError: some processes would not die; names them.
    """
    found = {process.key: process for process in living_processes(home)}
    if found and any(process.key in found for process in own_ancestors(snapshot())):
        raise UsageError(
            "this command itself runs inside the sandbox",
            where=home.name,
            fix="leave its shell, or unset H2_DIR, first",
        )
    _request_stop(home, timeouts.graceful)
    for number, seconds in ((signal.SIGTERM, timeouts.terminate), (signal.SIGKILL, timeouts.kill)):
        left = _signal_until_gone(home, found, number, seconds, send)
        if not left:
            return list(found.values())
    named = ", ".join(str(process) for process in left[:_MAX_NAMED])
    more = f" and {len(left) - _MAX_NAMED} more" if len(left) > _MAX_NAMED else ""
    raise InfrastructureError(
        f"did not die when killed: {named}{more}", where=home.name, fix="end them, then try again; nothing was removed"
    )


def _request_stop(home: Path, seconds: float) -> None:
    """Ask every agent to stop, and wait for those that say they will."""
    deadline = time.monotonic() + seconds
    leaving = send_request(list_endpoints(home, ("agent", "bridge")), STOP, timeout=min(seconds, TIMEOUT))
    while time.monotonic() < deadline and any(endpoint.path.exists() for endpoint in leaving):
        time.sleep(_PAUSE)


def _signal_until_gone(
    home: Path,
    found: dict[ProcessKey, SandboxProcess],
    number: int,
    seconds: float,
    send: Callable[[SandboxProcess, int], None],
) -> list[SandboxProcess]:
    """Signal until nothing is left, or the time is over; return what is left. Newcomers are added to `found`."""
    deadline = time.monotonic() + seconds
    signalled: set[ProcessKey] = set()
    empty_looks = 0 if found else 1
    while True:
        left = living_processes(home, known=found)
        found |= {process.key: process for process in left}
        # Two empty looks: one may have missed a process that was just being started by another that then ended.
        empty_looks = 0 if left else empty_looks + 1
        if empty_looks > 1 or (left and time.monotonic() >= deadline):
            return left
        for process in left:
            if number == signal.SIGKILL or process.key not in signalled:
                signalled.add(process.key)
                send(process, number)
        if left:
            time.sleep(_PAUSE)
