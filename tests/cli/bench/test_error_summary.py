"""The line that names the most frequent error."""

import msgspec
from toy_benchmark import Toy

from proctor.cli.bench.error_summary import ADVICE, most_frequent_error
from proctor.core.causes import CONSEQUENCES, Cause, Status
from proctor.core.result import TaskResult
from proctor.core.run import Trial
from proctor.runner.task_result import skipped_result


def error(task_id: str, cause: Cause, reason: str) -> TaskResult:
    toy = Toy(1).tasks()[0]
    made = skipped_result("run-001", toy, Trial(task_id=task_id, number=1), reason)
    return msgspec.structs.replace(made, status=CONSEQUENCES[cause].status or Status.ERROR, cause=cause)


def test_every_cause_of_an_error_has_advice() -> None:
    assert ADVICE.keys() == {cause for cause, follows in CONSEQUENCES.items() if follows.status is Status.ERROR}


def test_the_most_frequent_error_is_named_with_its_count_and_what_to_do() -> None:
    results = [
        error("a", Cause.DISK_FULL, "no space"),
        error("b", Cause.RATE_LIMITED, "b: 429 too many requests"),
        error("c", Cause.RATE_LIMITED, "c: 429 too many requests"),
        error("b", Cause.RATE_LIMITED, "b: 429 too many requests"),  # of another run
        error("d", Cause.TESTS_FAILED, "a test fails"),
    ]
    assert most_frequent_error(results) == (
        f"most frequent error, 3 of 4 (b, …): rate_limited: 429 too many requests; {ADVICE[Cause.RATE_LIMITED]}"
    )
    assert most_frequent_error(results[:1]) == "most frequent error, 1 of 1 (a): disk_full: no space; free some space"
    assert most_frequent_error(results[-1:]) is None
