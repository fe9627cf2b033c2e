"""What logs tell beyond results: steps that brought nothing, and agents that say they could not do it."""

from proctor.analysis.observation import Observation
from proctor.analysis.steps import Effort, effort, gave_up
from proctor.core.errors import InvalidData
from proctor.core.record import Record, read_record
from proctor.results import RunStore


class LogFigures(Record):
    """The logs of one run, in numbers.

    Attributes:
        read: counted answers whose trajectory could be read; `lacking`: those that left none, or none that can be.
        gave_up: unresolved answers whose last words say that it could not be done.
    """

    run: str
    read: int
    lacking: int
    effort: Effort
    gave_up: int


class _LastWords(Record):
    """An answer as it lies in the logs, but for most of it."""

    final_text: str = ""


def log_figures(store: RunStore) -> LogFigures:
    """Read the logs of the attempts that count, one at a time."""
    from proctor.report.trajectories import read_trajectory  # noqa: PLC0415 - brings the gateway's recordings
    from proctor.results.answers import ANSWER  # noqa: PLC0415

    agent, total, read, lacking, given_up = store.config().agent, Effort(), 0, 0, 0
    for one in store.results_as(Observation):
        if not one.counted or not one.attempts:
            continue
        logs = store.folder / one.attempts[-1].logs
        try:
            trajectory = read_trajectory(logs, task_id=one.task_id, agent=agent)
        except InvalidData:
            trajectory = None
        if trajectory is None:
            lacking += 1
        else:
            read += 1
            total += effort(trajectory.steps)
        if not one.resolved:
            try:
                given_up += gave_up(read_record(logs / ANSWER, _LastWords).final_text)
            except InvalidData:
                continue  # its last words are not known
    return LogFigures(run=store.run_id, read=read, lacking=lacking, effort=total, gave_up=given_up)
