"""A reason that many tasks share is said once."""

from proctor.cli.reason_dedup import ReasonLog


def test_a_reason_is_given_in_full_once_and_then_by_the_task_that_had_it() -> None:
    log = ReasonLog()
    assert log.text("a-1", "a-1 has no\nrun script") == "a-1 has no run script"
    assert log.text("b-2", "b-2 has no run script") == "as for a-1"
    assert log.text("c-3", "the disk is full") == "the disk is full"
    assert log.text("a-1", "a-1 has no run script") == "a-1 has no run script"
