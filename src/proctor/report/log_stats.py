"""What logs tell beyond results: steps that brought nothing, agents that gave up, and why a machine was not set up."""

from collections import Counter
from pathlib import Path

from proctor.analysis.failures import sorted_by_count
from proctor.analysis.log_stats import LogStats, ToolCallStats
from proctor.analysis.observation import Observation
from proctor.analysis.tool_calls import gave_up, tool_call_stats
from proctor.core.errors import InvalidData
from proctor.core.record import Record, read_record
from proctor.core.submission import PatchKind
from proctor.core.text import visible
from proctor.results import RunStore


class _FinalMessage(Record):
    """An answer as it lies in the logs, but for most of it."""

    final_text: str = ""


class _CommandOutput(Record):
    stdout: str = ""
    stderr: str = ""


class _StateSubmissionOutput(Record):
    """What the grader saw of a machine, as far as it is words."""

    official_run: _CommandOutput | None = None
    verifier_run: _CommandOutput | None = None


def read_log_stats(store: RunStore) -> LogStats:
    """Read the logs of the attempts that count, one at a time."""
    from proctor.report.trajectories import read_trajectory  # noqa: PLC0415 - brings the gateway's recordings

    agent, total, setups = store.config().agent, ToolCallStats(), _SetupStats()
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
            total += tool_call_stats(trajectory.steps)
        given_up += not one.resolved and gave_up(_final_text(logs))
        setups.add(logs, resolved=one.resolved)
    return LogStats(
        run=visible(store.run_id),
        trajectories_read=read,
        trajectories_missing=lacking,
        tool_calls=total,
        gave_up=given_up,
        setup_failures=sorted_by_count(setups.failures),
        setup_waste=sorted_by_count(setups.waste),
        setup_steps=setups.steps,
    )


class _SetupStats:
    """Machines that were set up, or not."""

    def __init__(self) -> None:
        self.failures: Counter[str] = Counter()
        self.waste: Counter[str] = Counter()
        self.steps = 0

    def add(self, logs: Path, *, resolved: bool) -> None:
        from proctor.analysis.setup_failures import count_waste, parse_actions, setup_failure  # noqa: PLC0415 - for set-ups only
        from proctor.report.trajectories import STREAM_FILE  # noqa: PLC0415
        from proctor.results.attempt_record import SUBMISSION_FILES  # noqa: PLC0415

        try:
            evidence = read_record(logs / SUBMISSION_FILES[PatchKind.STATE], _StateSubmissionOutput)
        except InvalidData:
            return  # the answer is no machine's state, or one that is not told in words
        ran = evidence.official_run or evidence.verifier_run
        if ran is None:
            return
        stream = logs / STREAM_FILE
        lines = stream.read_text(encoding="utf-8", errors="replace").splitlines() if stream.is_file() else []
        actions = parse_actions(lines)
        spent = count_waste(actions)
        self.steps += spent.steps
        self.waste.update(spent.causes)
        if not resolved:
            self.failures[setup_failure(ran.stdout + ran.stderr, actions).mode.value] += 1


def _final_text(logs: Path) -> str:
    from proctor.results.attempt_record import attempt_file  # noqa: PLC0415 - as above

    try:
        return read_record(attempt_file(logs), _FinalMessage).final_text
    except InvalidData:
        return ""  # not known
