"""The verdict on a task of several steps, from those on its steps."""

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from proctor.benchmarks.harbor.verdict_rule import HarborEvidence, judge
from proctor.core.causes import Cause, Status
from proctor.core.record import Record
from proctor.core.verdict import ControlSummary, Finding, Verdict

_VERSION = "proctor.harbor_steps@1"


class _Versioned(Record):
    schema_version: str = ""


class StepEvidence(Record):
    """What the verifier of one step saw."""

    name: str
    evidence: HarborEvidence


class HarborSteps(Record):
    """What the verifiers of a task's steps saw, as far as it came.

    Attributes:
        planned: how many steps the task has.
    """

    task_id: str
    steps: tuple[StepEvidence, ...]
    strategy: Literal["mean", "final"]
    planned: int
    schema_version: Literal["proctor.harbor_steps@1"] = "proctor.harbor_steps@1"

    @staticmethod
    def is_one(data: bytes) -> bool:
        """Whether stored evidence is of several steps. What else it holds may be of the agent's choice."""
        try:
            return msgspec.json.decode(data, type=_Versioned).schema_version == _VERSION
        except msgspec.DecodeError:
            return False

    def score(self, verdicts: Mapping[str, Verdict]) -> float:
        """By the verdicts: of the last step, or the mean of those that were begun. A forged reward is worth nothing."""
        scores = [verdicts[step.name].score or 0.0 for step in self.steps]
        if not scores:
            return 0.0
        return scores[-1] if self.strategy == "final" else sum(scores) / len(scores)

    def rewards(self) -> dict[str, float]:
        """As Harbor has them: of the last step that was verified, or the mean of each name over those steps."""
        seen = [step.evidence.rewards for step in self.steps if step.evidence.rewards is not None]
        if not seen:
            return {}
        if self.strategy == "final":
            last = self.steps[-1].evidence.rewards
            return {} if last is None else last
        names = dict.fromkeys(name for rewards in seen for name in rewards)
        return {name: sum(rewards.get(name, 0.0) for rewards in seen) / len(seen) for name in names}


def meets(rewards: Mapping[str, float] | None, wanted: Mapping[str, float]) -> bool:
    """Whether rewards are as high as a step asks for before the next one is begun."""
    return all((rewards or {}).get(name, float("-inf")) >= least for name, least in wanted.items())


def judge_steps(steps: HarborSteps, grader: str) -> Verdict:
    """The verdict on a task: the reward by its strategy, and nothing against any step that it counts."""
    verdicts = {step.name: judge(step.evidence, grader) for step in steps.steps}
    rewards = steps.rewards()
    reward = rewards.get("reward", sum(rewards.values()) / len(rewards) if rewards else 0.0)
    counted = list(verdicts.values()) if steps.strategy == "mean" else list(verdicts.values())[-1:]
    complete = len(steps.steps) == steps.planned
    official = Status.RESOLVED if reward >= 1 else Status.UNRESOLVED
    status, cause, reason = official, Cause.SOLVED, f"the verifiers of {len(verdicts)} steps give {reward:g}"
    bad = _first_problem(verdicts)
    if bad is not None:
        status, cause, reason = bad
    elif not verdicts:
        status, cause, reason = Status.UNRESOLVED, Cause.TESTS_FAILED, "no step was verified"
    elif reward >= 1 and not complete:
        reason = f"only {len(verdicts)} of {steps.planned} steps were begun"
        status, cause = Status.UNRESOLVED, Cause.TESTS_FAILED
    elif reward >= 1 and any(one.status is not Status.RESOLVED for one in counted):
        name, one = next(
            (name, one) for name, one in verdicts.items() if one in counted and one.status is not Status.RESOLVED
        )
        status, cause, reason = one.status, one.cause, f"{name}: {one.reason}"
    elif reward < 1:
        cause = Cause.TESTS_FAILED
    clean = status is official
    return Verdict(
        task_id=steps.task_id,
        status=status,
        cause=cause,
        reason=reason,
        score=None if status is Status.ERROR else steps.score(verdicts) if clean else 0.0,
        scores={
            **rewards,
            **{
                f"{step.name}/{name}": value
                for step in steps.steps
                for name, value in (step.evidence.rewards or {}).items()
            },
        },
        official=official if official is not status else None,
        findings=_findings(steps, verdicts),
        controls=_controls([one.controls for one in verdicts.values() if one.controls is not None]),
        grader=grader,
        seconds=round(sum(one.seconds for one in verdicts.values()), 3),
    )


def _first_problem(verdicts: Mapping[str, Verdict]) -> tuple[Status, Cause, str] | None:
    """A verifier that broke, or else a step whose reward does not hold, also where the reward is not of that step."""
    for is_bad in (_is_broken, _is_refuted):
        for name, one in verdicts.items():
            if is_bad(one):
                return one.status, one.cause, f"{name}: {one.reason}"
    return None


def _is_broken(verdict: Verdict) -> bool:
    return verdict.status is Status.ERROR


def _is_refuted(verdict: Verdict) -> bool:
    return verdict.cause is Cause.TAMPERED or verdict.official is Status.RESOLVED


def holds(verdict: Verdict) -> bool:
    """Whether the reward of a step is what its verifier came to, and nothing was found against it."""
    return verdict.cause is not Cause.TAMPERED and verdict.official is None


def _findings(steps: HarborSteps, verdicts: Mapping[str, Verdict]) -> tuple[Finding, ...]:
    found = [
        msgspec.structs.replace(finding, detail=f"{step.name}: {finding.detail}")
        for step in steps.steps
        for finding in verdicts[step.name].findings
    ]
    return tuple(dict.fromkeys(found))


def _controls(summaries: Sequence[ControlSummary]) -> ControlSummary | None:
    if not summaries:
        return None
    return ControlSummary(
        pairs=min(one.pairs for one in summaries),
        controlled=sum(one.controlled for one in summaries),
        uncontrolled=tuple(test for one in summaries for test in one.uncontrolled),
        passed=tuple(test for one in summaries for test in one.passed),
        reason=next((one.reason for one in summaries if one.reason), ""),
    )
