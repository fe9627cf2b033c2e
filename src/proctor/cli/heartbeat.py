"""Logs what is running while nothing else is logged, so that minutes of building are not taken for a hang."""

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from proctor.cli.output import log
from proctor.core.formatting import duration

_INTERVAL_SECONDS: Final = 30.0
_CHECK_SECONDS: Final = 1.0
_SHOWN: Final = 3


class Heartbeat:
    """Logs a description whenever nothing was logged for a while, for the length of a `with` block.

    Args:
        describe: says what is running; nothing is logged where that is nothing.
        seconds: how long it may be silent.
        write: where to.
        clock: a monotonic one.
    """

    def __init__(
        self,
        describe: Callable[[], str],
        *,
        seconds: float = _INTERVAL_SECONDS,
        write: Callable[[str], None] = log,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._describe = describe
        self._seconds = seconds
        self._write = write
        self._clock = clock
        self._last = clock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)

    def logged(self) -> None:
        """Something else was logged: the next sign of life can wait."""
        self._last = self._clock()

    def check(self) -> None:
        """Log what is running, if it is time to."""
        if self._clock() - self._last >= self._seconds:
            self._last = self._clock()
            text = self._describe()
            if text:
                self._write(text)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _beat(self) -> None:
        while not self._ended.wait(min(_CHECK_SECONDS, self._seconds)):
            self.check()


class RunningLog(ABC):
    """Logs each piece of work that is done, and what is running while nothing else is logged, in a `with` block."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._running: dict[str, float] = {}
        self._heartbeat = Heartbeat(self._describe)

    def started(self, name: str) -> None:
        """Work on this was started."""
        self._running[name] = time.monotonic()

    @abstractmethod
    def _describe(self) -> str:
        """What is running; empty where nothing is."""

    def _log_end(self, name: str, line: Callable[[], str]) -> None:
        self._running.pop(name, None)
        if not self._quiet:
            self._heartbeat.logged()
            log(line())

    def _longest_running(self) -> str:
        now, running = time.monotonic(), sorted(self._running.items(), key=lambda item: item[1])
        shown = ", ".join(f"{name} for {duration(now - since)}" for name, since in running[:_SHOWN])
        return f"{shown}, and {len(running) - _SHOWN} more" if len(running) > _SHOWN else shown

    def __enter__(self) -> Self:
        if not self._quiet:
            self._heartbeat.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._quiet:
            self._heartbeat.__exit__(kind, error, trace)
