"""What logs tell beyond results: steps that brought nothing, agents that gave up, and why a machine was not set up."""

from collections import Counter
from pathlib import Path

from proctor.analysis.failures import most_first
from proctor.analysis.log_figures import Effort, LogFigures
from proctor.analysis.observation import Observation
from proctor.analysis.steps import effort, gave_up
from proctor.core.errors import InvalidData
from proctor.core.record import Record, read_record
from proctor.core.submission import PatchKind
from proctor.core.text import visible
from proctor.results import RunStore


class _LastWords(Record):
    """An answer as it lies in the logs, but for most of it."""

    final_text: str = ""


class _Ran(Record):
    stdout: str = ""
    stderr: str = ""


class _State(Record):
    """What the grader saw of a machine, as far as it is words."""

    ran: _Ran | None = None


def log_figures(store: RunStore) -> LogFigures:
    """Read the logs of the attempts that count, one at a time."""
    from proctor.report.trajectories import read_trajectory  # noqa: PLC0415 - brings the gateway's recordings

    agent, total, setups = store.config().agent, Effort(), _Setups()
    read = lacking = given_up = 0
    for one in store.results_as(Observation):
        if not one.counted or not one.attempts:
            continue
        logs = store.folder / one.attempts[-1].logs
        try:
            trajectory = read_trajectory(logs, task_id=one.task_id, agent=agent)
        except InvalidData:
            trajectory = None
        read += trajectory is not None
        lacking += trajectory is None
        if trajectory is not None:
            total += effort(trajectory.steps)
        given_up += not one.resolved and gave_up(_last_words(logs))
        setups.add(logs, resolved=one.resolved)
    return LogFigures(
        run=visible(store.run_id),
        read=read,
        lacking=lacking,
        effort=total,
        gave_up=given_up,
        setup_failures=most_first(setups.failures),
        setup_waste=most_first(setups.waste),
        setup_steps=setups.steps,
    )


class _Setups:
    """Machines that were set up, or not."""

    def __init__(self) -> None:
        self.failures: Counter[str] = Counter()
        self.waste: Counter[str] = Counter()
        self.steps = 0

    def add(self, logs: Path, *, resolved: bool) -> None:
        from proctor.analysis.setup_failures import actions_of, failure_mode, waste  # noqa: PLC0415 - for set-ups only
        from proctor.report.trajectories import STREAM_FILE  # noqa: PLC0415
        from proctor.results.answers import SUBMISSION  # noqa: PLC0415

        try:
            ran = read_record(logs / SUBMISSION[PatchKind.STATE], _State).ran
        except InvalidData:
            return  # the answer is no machine's state, or one that is not told in words
        if ran is None:
            return
        stream = logs / STREAM_FILE
        lines = stream.read_text(encoding="utf-8", errors="replace").splitlines() if stream.is_file() else []
        actions = actions_of(lines)
        spent = waste(actions)
        self.steps += spent.steps
        self.waste.update(spent.causes)
        if not resolved:
            self.failures[failure_mode(ran.stdout + ran.stderr, actions).mode.value] += 1


def _last_words(logs: Path) -> str:
    from proctor.results.answers import ANSWER  # noqa: PLC0415 - as above

    try:
        return read_record(logs / ANSWER, _LastWords).final_text
    except InvalidData:
        return ""  # not known
