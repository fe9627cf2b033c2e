import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest  # type: ignore[import-untyped]

from proctor.analysis.paired import compare, exact_mcnemar
from proctor.core.causes import Cause, Status
from proctor.core.result import AgentMetrics, TaskResult

BASE = TaskResult(
    run_id="r",
    benchmark="b",
    task_id="t",
    sample=1,
    status=Status.RESOLVED,
    cause=Cause.SOLVED,
    verdict=None,
    attempts=(),
    usage=(),
    metrics=AgentMetrics(),
    answer_seconds=1.0,
    grade_seconds=1.0,
    categories={},
)


def results(**marks: str) -> list[TaskResult]:
    """One result per letter: + resolved, - unresolved, e error."""
    statuses = {"+": Status.RESOLVED, "-": Status.UNRESOLVED, "e": Status.ERROR}
    return [
        msgspec.structs.replace(BASE, task_id=task, sample=number, status=statuses[mark])
        for task, samples in marks.items()
        for number, mark in enumerate(samples, start=1)
    ]


def test_only_tasks_that_both_have_graded_are_compared() -> None:
    paired = compare(results(a="+", b="-", c="e", d="+"), results(a="-", b="+", c="+", e="+"))
    assert (paired.common, paired.both, paired.neither) == (2, 0, 0)
    assert (paired.gained, paired.lost) == (("b",), ("a",))


def test_of_several_answers_most_decide_and_a_tie_does_not() -> None:
    paired = compare(results(a="++-", b="+-", c="e+"), results(a="--+", b="++", c="-"))
    assert (paired.gained, paired.lost) == (("b",), ("a", "c"))


@given(gained=st.integers(0, 60), lost=st.integers(0, 60))
@settings(max_examples=60, deadline=None)
def test_the_p_value_is_that_of_an_exact_binomial_test(gained: int, lost: int) -> None:
    expected = binomtest(gained, gained + lost).pvalue if gained + lost else 1.0
    assert exact_mcnemar(gained, lost) == pytest.approx(expected)


def test_thousands_of_flips_are_no_trouble() -> None:
    assert exact_mcnemar(2000, 2000) == 1.0
    assert exact_mcnemar(1000, 2000) == pytest.approx(binomtest(1000, 3000).pvalue)


@pytest.mark.parametrize(
    ("gained", "lost", "says"),
    [(0, 0, "No difference"), (9, 0, "The second run is better"), (0, 9, "The second run is worse"), (3, 2, "No diff")],
)
def test_the_sentence_says_no_more_than_the_data(gained: int, lost: int, says: str) -> None:
    first = results(**{f"t{n}": "-" for n in range(gained)}, **{f"u{n}": "+" for n in range(lost)}, same="+")
    second = results(**{f"t{n}": "+" for n in range(gained)}, **{f"u{n}": "-" for n in range(lost)}, same="+")
    assert compare(first, second).sentence.startswith(says)


def test_runs_without_a_common_task_have_nothing_to_say() -> None:
    assert compare([], results(a="+")).sentence == "The runs have no graded task in common."
