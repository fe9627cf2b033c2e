"""What `proctor suite mine` logs while it works: each candidate that is done, and what is being tried."""

from typing import Any

from proctor.cli.heartbeat import RunningLog
from proctor.core.formatting import duration, plural, truncate_line


class MiningProgress(RunningLog):
    """Logs each candidate that is done, and what is running while nothing else is logged."""

    def __init__(self, *, quiet: bool) -> None:
        super().__init__(quiet=quiet)
        self._done = self._tasks = 0

    def done(self, commit: str, result: Any) -> None:
        """A candidate is done."""
        self._done += 1
        self._tasks += result.task_id is not None

        def line() -> str:
            log_place = f" (log: {result.log})" if result.log else ""
            what = result.task_id or f"{result.code}: {truncate_line(result.reason, 500)}{log_place}"
            took = duration(result.measures.seconds)
            return f"[{self._done} tried, {plural(self._tasks, 'task')}] {commit} {took}  {what}"

        self._log_end(commit, line)

    def _describe(self) -> str:
        running = self._longest_running()
        return f"trying {running}" if running else ""
