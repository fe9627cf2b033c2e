"""Statistics of a run's logs: wasted tool calls, agents that gave up, and the benchmark's own measures."""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from proctor.analysis.failures import sorted_by_count
from proctor.analysis.log_stats import LogStats, ToolCallStats
from proctor.analysis.observation import Observation
from proctor.analysis.tool_calls import gave_up, tool_call_stats
from proctor.benchmarks.plugins import registered_source
from proctor.core.benchmark import AttemptLogs
from proctor.core.errors import InvalidData
from proctor.core.record import Record, read_record
from proctor.report.stored_runs import display_name
from proctor.results import RunStore


class _FinalMessage(Record):
    """The last message of an attempt, from its stored record."""

    final_text: str = ""


def read_log_stats(store: RunStore) -> LogStats:
    """Read the logs of the counted attempts, one at a time."""
    config, reader = store.config(), _LogReader()
    attempts = reader.read(store, config.agent)
    source = registered_source(config.benchmark)
    measures = source.measure_logs(attempts) if source is not None else ()
    for _ in attempts:
        pass  # what the benchmark has not read
    return LogStats(
        run=display_name(store),
        trajectories_read=reader.found,
        trajectories_missing=reader.missing,
        tool_calls=reader.tool_calls,
        gave_up=reader.gave_up,
        measures=tuple(msgspec.structs.replace(one, counts=sorted_by_count(one.counts)) for one in measures),
    )


class _LogReader:
    """Reads the logs of a run, and counts what is the same for every benchmark."""

    def __init__(self) -> None:
        self.found = self.missing = self.gave_up = 0
        self.tool_calls = ToolCallStats()

    def read(self, store: RunStore, agent: str) -> Iterator[AttemptLogs]:
        from proctor.report.trajectories import read_trajectory

        for one in store.results_as(Observation):
            if not one.counted or not one.attempts:
                continue
            logs = store.folder / one.attempts[-1].logs
            try:
                trajectory = read_trajectory(logs, task_id=one.task_id, agent=agent)
            except InvalidData:
                trajectory = None
            steps = () if trajectory is None else trajectory.steps
            self.found += trajectory is not None
            self.missing += trajectory is None
            self.tool_calls += tool_call_stats(steps)
            self.gave_up += not one.resolved and gave_up(_final_text(logs))
            yield AttemptLogs(folder=logs, resolved=one.resolved, steps=steps)


def _final_text(logs: Path) -> str:
    from proctor.results.attempt_record import attempt_file

    try:
        return read_record(attempt_file(logs), _FinalMessage).final_text
    except InvalidData:
        return ""  # unknown
