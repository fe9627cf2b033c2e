"""Verdicts on tasks of several steps."""

import pytest
from msgspec.structs import replace

from proctor.benchmarks.harbor.step_rule import HarborSteps, StepEvidence, judge_steps, meets
from proctor.benchmarks.harbor.verdict_rule import HarborControlCheck, HarborEvidence
from proctor.core.causes import Cause, Status
from proctor.core.record import to_json
from proctor.core.verdict import ControlSummary
from proctor.grading.state import QuarantinedEnvironment, ShellResult


def evidence(rewards: dict[str, float] | None, *, problem: str = "") -> HarborEvidence:
    return HarborEvidence(
        task_id="t",
        rewards=rewards,
        problem=problem,
        tests=None,
        verifier_run=ShellResult(exit_code=0, stdout="", stderr="", seconds=1.0),
        quarantine_result=QuarantinedEnvironment(grader_dir="/g", search_path="/bin"),
        environment="docker:x",
        tests_expected=False,
    )


def steps(*rewards: dict[str, float] | None, strategy: str = "mean", planned: int | None = None) -> HarborSteps:
    seen = tuple(StepEvidence(name=f"s{number}", evidence=evidence(one)) for number, one in enumerate(rewards, start=1))
    return HarborSteps(task_id="t", steps=seen, strategy=strategy, planned=planned or len(rewards))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("made", "rewards"),
    [
        (steps({"reward": 1}, {"reward": 0}), {"reward": 0.5}),
        (steps({"reward": 1, "speed": 4}, {"reward": 1}), {"reward": 1.0, "speed": 2.0}),
        (steps({"reward": 0}, {"reward": 1}, strategy="final"), {"reward": 1}),
        (steps({"reward": 1}, None), {"reward": 1.0}),
        (steps(), {}),
    ],
)
def test_rewards_are_combined_as_harbor_does(made: HarborSteps, rewards: dict[str, float]) -> None:
    assert made.rewards() == rewards


def test_all_steps_solved_is_resolved() -> None:
    verdict = judge_steps(steps({"reward": 1}, {"reward": 1}), "g")
    assert (verdict.status, verdict.cause, verdict.score) == (Status.RESOLVED, Cause.SOLVED, 1.0)
    assert verdict.scores == {"reward": 1.0, "s1/reward": 1, "s2/reward": 1}


def test_half_of_it_is_its_score() -> None:
    verdict = judge_steps(steps({"reward": 1}, {"reward": 0}), "g")
    assert (verdict.status, verdict.cause, verdict.score) == (Status.UNRESOLVED, Cause.TESTS_FAILED, 0.5)


def test_a_last_step_alone_does_not_resolve_what_was_not_begun() -> None:
    verdict = judge_steps(steps({"reward": 1}, strategy="final", planned=2), "g")
    assert (verdict.status, verdict.official) == (Status.UNRESOLVED, Status.RESOLVED)
    assert verdict.reason == "only 1 of 2 steps were begun"


def test_the_last_step_decides_where_the_task_says_so() -> None:
    verdict = judge_steps(steps({"reward": 0}, {"reward": 1}, strategy="final"), "g")
    assert verdict.status is Status.RESOLVED


def test_a_verifier_that_broke_is_an_error() -> None:
    verdict = judge_steps(steps({"reward": 1}, None), "g")
    assert (verdict.status, verdict.cause, verdict.score) == (Status.ERROR, Cause.GRADER_FAILED, None)
    assert verdict.reason.startswith("s2: ")


def refuted(step: StepEvidence) -> StepEvidence:
    """The same, with a full reward that the machine gave only after the time was up."""
    check = HarborControlCheck(
        target=None, cause=Cause.TESTS_FAILED, reason="late", controls=ControlSummary(pairs=1, controlled=1)
    )
    return replace(step, evidence=replace(step.evidence, control_check=check))


@pytest.mark.parametrize("strategy", ["mean", "final"])
def test_a_step_whose_reward_does_not_hold_is_not_resolved_and_scores_nothing(strategy: str) -> None:
    first, second = steps({"reward": 1}, {"reward": 1}, strategy=strategy).steps
    made = HarborSteps(task_id="t", steps=(refuted(first), second), strategy=strategy, planned=2)  # type: ignore[arg-type]
    verdict = judge_steps(made, "g")
    assert (verdict.status, verdict.official, verdict.score) == (Status.UNRESOLVED, Status.RESOLVED, 0.0)
    assert verdict.reason == "s1: late"


def test_a_refuted_step_adds_nothing_to_the_score_of_the_others() -> None:
    first, second, third = steps({"reward": 1}, {"reward": 0}, {"reward": 1}).steps
    made = HarborSteps(task_id="t", steps=(refuted(first), second, third), strategy="mean", planned=3)
    assert judge_steps(made, "g").score == pytest.approx(1 / 3)


def test_the_next_step_asks_for_rewards_by_name() -> None:
    assert meets({"reward": 1.0}, {"reward": 1.0})
    assert not meets({"reward": 0.9}, {"reward": 1.0})
    assert not meets({"reward": 1.0}, {"quality": 0.5})
    assert not meets(None, {"reward": 0.0})


def test_stored_evidence_says_that_it_is_of_steps() -> None:
    assert HarborSteps.is_one(to_json(steps({"reward": 1})))
    assert not HarborSteps.is_one(to_json(evidence({"reward": 1})))
    # The agent's code may have written the names of rewards.
    assert not HarborSteps.is_one(to_json(evidence({"reward": 1, "proctor.harbor_steps@1": 1})))
