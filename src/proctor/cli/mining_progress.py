"""What `proctor suite mine` logs while it works: each candidate that is done, and what is being tried."""

import time
from types import TracebackType
from typing import Any, Self

from proctor.cli.heartbeat import Heartbeat
from proctor.cli.output import log
from proctor.core.formatting import duration, plural, truncate_line


class MiningProgress:
    """Logs each candidate that is done, and what is running while nothing else is logged."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._running: dict[str, float] = {}
        self._heartbeat = Heartbeat(self._describe)
        self._done = self._tasks = 0

    def started(self, candidate: Any) -> None:
        """A candidate was started."""
        self._running[candidate.change.commit] = time.monotonic()

    def done(self, candidate: Any, result: Any) -> None:
        """A candidate is done."""
        self._running.pop(candidate.change.commit, None)
        self._done += 1
        self._tasks += result.task_id is not None
        if not self._quiet:
            self._heartbeat.logged()
            log_place = f" (log: {result.log})" if result.log else ""
            what = result.task_id or f"{result.code}: {truncate_line(result.reason, 500)}{log_place}"
            took = duration(result.measures.seconds)
            log(f"[{self._done} tried, {plural(self._tasks, 'task')}] {candidate.change.commit[:10]} {took}  {what}")

    def _describe(self) -> str:
        now = time.monotonic()
        running = sorted(self._running.items(), key=lambda item: item[1])[:3]
        return (
            "trying " + ", ".join(f"{commit[:10]} for {duration(now - since)}" for commit, since in running)
            if running
            else ""
        )

    def __enter__(self) -> Self:
        if not self._quiet:
            self._heartbeat.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._quiet:
            self._heartbeat.__exit__(kind, error, trace)
