import pytest

from proctor.core.causes import Cause, Status
from proctor.core.evaluation import TaskEvaluation
from proctor.core.result import AgentMetrics, ModelUsage, Tokens, sum_usage
from proctor.core.verdict import Verdict
from proctor.results.attempt_record import AttemptRecord
from proctor.runner.task_result import status_and_cause


def answer(cause: Cause | None) -> AttemptRecord:
    return AttemptRecord(
        number=1,
        started_at="",
        ended_at="",
        cause=cause,
        detail="",
        seconds=1.0,
        usage=(),
        metrics=AgentMetrics(),
    )


def graded(status: Status, cause: Cause) -> TaskEvaluation:
    return TaskEvaluation(task_id="t", verdict=Verdict(task_id="t", status=status, cause=cause, reason=""))


SOLVED, WRONG = graded(Status.RESOLVED, Cause.SOLVED), graded(Status.UNRESOLVED, Cause.TESTS_FAILED)


@pytest.mark.parametrize(
    ("ended", "evaluated", "expected"),
    [
        (None, SOLVED, (Status.RESOLVED, Cause.SOLVED)),
        (None, WRONG, (Status.UNRESOLVED, Cause.TESTS_FAILED)),
        (Cause.AGENT_TIMEOUT, SOLVED, (Status.RESOLVED, Cause.SOLVED)),
        (Cause.AGENT_TIMEOUT, WRONG, (Status.UNRESOLVED, Cause.AGENT_TIMEOUT)),
        (Cause.TASK_BUDGET, WRONG, (Status.UNRESOLVED, Cause.TASK_BUDGET)),
        (Cause.REFUSED, graded(Status.ERROR, Cause.GRADER_FAILED), (Status.ERROR, Cause.GRADER_FAILED)),
        (Cause.PROVIDER_ERROR, None, (Status.ERROR, Cause.PROVIDER_ERROR)),
        (Cause.UNSAFE_SUBMISSION, None, (Status.UNRESOLVED, Cause.UNSAFE_SUBMISSION)),
        (Cause.NO_SUBMISSION, None, (Status.SKIPPED, Cause.NO_SUBMISSION)),
    ],
)
def test_the_grade_decides_where_there_is_one(
    ended: Cause | None, evaluated: TaskEvaluation | None, expected: tuple[Status, Cause]
) -> None:
    assert status_and_cause(answer(ended), evaluated) == expected


def usage(model: str, cost: float | None, tokens: int = 10) -> ModelUsage:
    return ModelUsage(model=model, requests=2, tokens=Tokens(input=tokens), cost_usd=cost)


def test_usage_adds_up_by_model_and_an_unknown_price_stays_unknown() -> None:
    added = sum_usage([usage("b", 0.1), usage("a", 0.2), usage("b", None), usage("a", 0.1)])
    assert [(one.model, one.requests, one.tokens.input, one.cost_usd) for one in added] == [
        ("a", 4, 20, 0.3),
        ("b", 4, 20, None),
    ]
