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
from proctor.sandboxes.agents import STOP, TIMEOUT, ask, endpoints
from proctor.sandboxes.processes import Key, Process, lineage, processes_of, send_signal, snapshot

_PAUSE: Final = 0.02
_NAMED: Final = 5


class Patience(Record):
    """How long each way of stopping is given, in seconds."""

    polite: float = 5.0
    terminate: float = 2.0
    kill: float = 10.0


PATIENCE: Final = Patience()


def stop_everything(
    home: Path,
    *,
    patience: Patience = PATIENCE,
    send: Callable[[Process, int], None] = send_signal,
) -> list[Process]:
    """Stop all that runs in the sandbox at `home`; return what was found running.

    Raises:
        UsageError: we run in it ourselves.
        InfrastructureError: some processes would not die; names them.
    """
    living = snapshot()
    found = {process.key: process for process in processes_of(home, living)}
    if any(process.key in found for process in lineage(living)):
        raise UsageError(
            "this command itself runs inside the sandbox",
            where=home.name,
            fix="leave its shell, or unset H2_DIR, first",
        )
    _ask_politely(home, patience.polite)
    for number, seconds in ((signal.SIGTERM, patience.terminate), (signal.SIGKILL, patience.kill)):
        left = _signal_until_gone(home, found, number, seconds, send)
        if not left:
            return list(found.values())
    named = ", ".join(str(process) for process in left[:_NAMED])
    more = f" and {len(left) - _NAMED} more" if len(left) > _NAMED else ""
    raise InfrastructureError(
        f"did not die when killed: {named}{more}", where=home.name, fix="end them, then try again; nothing was removed"
    )


def _ask_politely(home: Path, seconds: float) -> None:
    """Ask every agent to stop, and wait for those that say they will."""
    deadline = time.monotonic() + seconds
    leaving = ask(endpoints(home, ("agent", "bridge")), STOP, timeout=min(seconds, TIMEOUT))
    while time.monotonic() < deadline and any(endpoint.path.exists() for endpoint in leaving):
        time.sleep(_PAUSE)


def _signal_until_gone(
    home: Path, found: dict[Key, Process], number: int, seconds: float, send: Callable[[Process, int], None]
) -> list[Process]:
    """Signal until nothing is left, or the time is over; return what is left. Newcomers are added to `found`."""
    deadline = time.monotonic() + seconds
    signalled: set[Key] = set()
    empty_looks = 0 if found else 1
    while True:
        left = processes_of(home, snapshot(), known=found)
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
