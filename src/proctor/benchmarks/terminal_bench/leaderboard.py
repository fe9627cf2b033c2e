"""Scores as the official leaderboard has them: the mean of the tasks' means, with its standard error."""

import math
from collections.abc import Iterable, Sequence
from pathlib import Path

from proctor.core.causes import Cause, Status
from proctor.core.errors import UsageError
from proctor.core.record import Record, to_json
from proctor.core.result import TaskResult
from proctor.results import RunStore
from proctor.results.formats import ExportOptions, ExportResult, ExternalRun, Format, ImportOptions


class LeaderboardTrial(Record):
    """One trial of one task. `reward` is None where it was lost for reasons that are not the agent's."""

    task_id: str
    reward: float | None


class LeaderboardScore(Record):
    """A submission's score.

    Attributes:
        accuracy: the mean over tasks of the mean reward of a task's trials; None where no trial counts.
        standard_error: sqrt(sum over tasks of p(1-p)/(n-1)) / tasks; None where a task has fewer than two trials.
        dropped: trials that were lost, which the leaderboard leaves out and does not count as failures.
        missing: tasks without a trial that counts; the leaderboard takes no submission that has any.
    """

    accuracy: float | None
    standard_error: float | None
    tasks: int
    trials: int
    dropped: int
    missing: tuple[str, ...] = ()


class LeaderboardFormat(Format):
    """A file with the score of a run."""

    about = "a score as Terminal-Bench's leaderboard counts it, with its standard error"
    suffix = ".json"

    def export(self, run: RunStore, target: Path, options: ExportOptions) -> ExportResult:
        """Score all trials of the run."""
        score = leaderboard_score(trials_of(run.results()), run.config().tasks)
        target.write_bytes(to_json(score))
        lost = [f"{score.dropped} lost to errors, which do not count"] if score.dropped else []
        return ExportResult(files=1, left_out=(*lost, *(f"{task} has no trial that counts" for task in score.missing)))

    def read(self, source: Path, options: ImportOptions) -> ExternalRun:
        """There is nothing to be read: a score is no run."""
        raise UsageError("a score does not hold the trials that it is of", fix="import the job: --format harbor")


def leaderboard_score(trials: Iterable[LeaderboardTrial], tasks: Sequence[str]) -> LeaderboardScore:
    """Score these trials of a data set with these tasks."""
    rewards: dict[str, list[float]] = {task: [] for task in tasks}
    dropped = 0
    for trial in trials:
        if trial.reward is None:
            dropped += 1
        else:
            rewards.setdefault(trial.task_id, []).append(trial.reward)
    counted = {task: got for task, got in rewards.items() if got}
    means = {task: sum(got) / len(got) for task, got in counted.items()}
    spread = None
    if counted and all(len(got) > 1 for got in counted.values()):
        variance = sum(means[task] * (1 - means[task]) / (len(got) - 1) for task, got in counted.items())
        spread = math.sqrt(max(variance, 0.0)) / len(counted)
    return LeaderboardScore(
        accuracy=sum(means.values()) / len(means) if means else None,
        standard_error=spread,
        tasks=len(counted),
        trials=sum(map(len, counted.values())),
        dropped=dropped,
        missing=tuple(task for task, got in rewards.items() if not got),
    )


def trials_of(results: Iterable[TaskResult]) -> tuple[LeaderboardTrial, ...]:
    """The trials of a run, as the leaderboard counts them: a verifier that broke or ran out of time has given nothing,
    and so has one that was deceived.
    """
    return tuple(LeaderboardTrial(task_id=result.task_id, reward=_reward(result)) for result in results)


def _reward(result: TaskResult) -> float | None:
    verdict = result.verdict
    if verdict is None:
        # No submission that could be verified: the agent's doing, or not.
        return 0.0 if result.status is Status.UNRESOLVED else None
    if verdict.cause is Cause.TAMPERED:
        return 0.0
    status = verdict.official or verdict.status
    if status in {Status.ERROR, Status.SKIPPED}:
        return None
    if verdict.official is None and verdict.score is not None:
        return verdict.score
    return 1.0 if status is Status.RESOLVED else 0.0
