"""Another harness's verdicts beside ours, on the same predictions: where they differ, and why."""

from collections.abc import Mapping, Sequence
from typing import Literal

from proctor.benchmarks.swe.harness_reports import SweOutcome
from proctor.core.causes import Status
from proctor.core.evaluation import TaskEvaluation
from proctor.core.record import Record


class Disagreement(Record):
    """One prediction on which the two verdicts differ.

    Attributes:
        ours: what the official rule says here.
        theirs: what the other harness says.
        evidence: why we say so, in one sentence.
        tests: labels whose results differ, where the other harness lists them.
        artifacts: where our logs of it are.
    """

    task_id: str
    ours: Status
    theirs: Status
    evidence: str
    tests: tuple[str, ...] = ()
    artifacts: str | None = None


class Parity(Record):
    """How far two harnesses agree.

    Attributes:
        compared: predictions that both have judged.
        errors: predictions that could not be judged here, with the reason.
        only_theirs: judged by them, and not handed over to be judged here.
    """

    benchmark: str
    compared: int
    agreed: int
    disagreements: tuple[Disagreement, ...]
    errors: dict[str, str]
    only_theirs: tuple[str, ...] = ()
    schema_version: Literal["proctor.parity@1"] = "proctor.parity@1"


def compare(benchmark: str, theirs: Sequence[SweOutcome], ours: Mapping[str, TaskEvaluation]) -> Parity:
    """Compare what the official rule says here with what was said there."""
    disagreements: list[Disagreement] = []
    errors: dict[str, str] = {}
    compared = 0
    for outcome in theirs:
        evaluated = ours.get(outcome.instance_id)
        if evaluated is None:
            continue
        verdict = evaluated.verdict
        official = verdict.official or verdict.status
        if official not in {Status.RESOLVED, Status.UNRESOLVED}:
            errors[outcome.instance_id] = verdict.reason
            continue
        compared += 1
        if official is not outcome.status:
            disagreements.append(
                Disagreement(
                    task_id=outcome.instance_id,
                    ours=official,
                    theirs=outcome.status,
                    evidence=verdict.reason,
                    tests=_differing(outcome, evaluated),
                    artifacts=evaluated.artifacts,
                )
            )
    return Parity(
        benchmark=benchmark,
        compared=compared,
        agreed=compared - len(disagreements),
        disagreements=tuple(disagreements),
        errors=errors,
        only_theirs=tuple(outcome.instance_id for outcome in theirs if outcome.instance_id not in ours),
    )


def _differing(outcome: SweOutcome, evaluated: TaskEvaluation) -> tuple[str, ...]:
    said = outcome.tests or {}
    found = {test.id: test.after in _GOOD for test in evaluated.verdict.tests if test.after is not None}
    return tuple(sorted(test for test, good in said.items() if test in found and found[test] != good))


_GOOD = frozenset({"passed", "xfailed", "skipped"})
