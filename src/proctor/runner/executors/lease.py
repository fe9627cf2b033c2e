"""Leases: a node may work, and pay, only while it holds one that the driver renews.

A renewal names a moment of the node's own clock, which the node has reported before; the lease ends a fixed time after
that moment. So a renewal that was held up on the way extends nothing, and the driver, who knows when that report
arrived, knows by its own clock when the lease has ended at the latest. The two clocks need not agree.
"""

import os
import threading
import time
from collections.abc import Callable
from typing import Final

DEFAULT_LEASE_SECONDS: Final = 20.0
LEASE_VARIABLE: Final = "PROCTOR_LEASE_SECONDS"
# Between the end of a lease on the node and the next attempt elsewhere: for a request that was just being sent.
MARGIN_SECONDS: Final = 2.0
# How long a node whose lease has ended may take to record what was in flight, and to end its environments.
END_SECONDS: Final = 8.0


def boot_seconds() -> float:
    """A clock that goes on while the machine is suspended, and is never set."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def lease_seconds() -> float:
    """How long a lease lasts."""
    try:
        return max(float(os.environ.get(LEASE_VARIABLE, "")), 1.0)
    except ValueError:
        return DEFAULT_LEASE_SECONDS


class NodeLease:
    """The node's side: says whether the lease holds, and ends the process once it does not.

    Args:
        seconds: how long the lease lasts.
        on_end: is called in a thread of its own when the lease has ended; the process ends after it.
    """

    def __init__(self, seconds: float, on_end: Callable[[], None]) -> None:
        self._seconds = seconds
        self._ends_at = boot_seconds() + seconds
        self._on_end = on_end
        self._closed = threading.Event()
        threading.Thread(target=self._watch, name="lease", daemon=True).start()

    def renew(self, reported_at: float) -> float:
        """Extend the lease to its full length after a moment that this node has reported; returns the present one."""
        if self.holds:  # what has ended stays so: the driver counts on it
            self._ends_at = max(self._ends_at, reported_at + self._seconds)
        return boot_seconds()

    @property
    def holds(self) -> bool:
        """Whether anything may be paid for."""
        return boot_seconds() < self._ends_at

    def close(self) -> None:
        """The work is done; the process is not ended any more."""
        self._closed.set()

    def _watch(self) -> None:
        # A thread, not a task: the lease ends also where the event loop is held up.
        while (left := self._ends_at - boot_seconds()) > 0:
            if self._closed.wait(min(left, 1.0)):
                return
        threading.Thread(target=self._on_end, name="lease-end", daemon=True).start()
        if not self._closed.wait(END_SECONDS):
            os._exit(1)


class DriverLease:
    """The driver's side: knows when the node's lease has ended at the latest."""

    def __init__(self, seconds: float, reported_at: float) -> None:
        self.seconds = seconds
        self._reported_at = reported_at
        self._received_at = boot_seconds()

    @property
    def reported_at(self) -> float:
        """The node's moment that the next renewal names."""
        return self._reported_at

    def renewed(self, reported_at: float) -> None:
        """The node has answered a renewal."""
        self._reported_at = reported_at
        self._received_at = boot_seconds()

    @property
    def silent_seconds(self) -> float:
        """For how long the node has not answered."""
        return boot_seconds() - self._received_at

    @property
    def overdue(self) -> bool:
        """Whether the node has not answered for as long as a lease lasts."""
        return self.silent_seconds > self.seconds

    @property
    def seconds_left(self) -> float:
        """How long until the node cannot pay for anything any more."""
        return max(self._received_at + self.seconds + MARGIN_SECONDS - boot_seconds(), 0.0)
