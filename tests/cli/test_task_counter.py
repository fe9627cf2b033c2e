"""The lines of tasks that are graded or validated."""

import pytest

from proctor.cli.task_counter import ReasonLog, TaskCounter


def test_every_task_is_a_line_with_its_reason_which_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    with TaskCounter(4, quiet=False) as counter:
        counter.done("a", "healthy")
        counter.done("b", "NOT healthy", "b fails without a patch")
        counter.done("c", "NOT healthy", "c fails without a patch")
    assert str(counter) == "3 of 4 tasks"
    assert capsys.readouterr().err.splitlines() == [
        "[1/4] healthy     a",
        "[2/4] NOT healthy b: b fails without a patch",
        "[3/4] NOT healthy c: as for b",
    ]
    with TaskCounter(1, quiet=True) as quiet:
        quiet.done("a", "healthy")
    assert capsys.readouterr().err == ""


def test_running_tasks_are_listed_with_their_time() -> None:
    counter = TaskCounter(9, quiet=True)
    assert counter._describe() == ""
    for name in "abcde":
        counter.started(name)
    counter.done("a", "healthy")
    assert counter._describe().startswith("1 of 9 tasks are done; running: b for 0.0s, c for 0.0s, d for")
    assert counter._describe().endswith(", and 1 more")


def test_a_reason_is_given_in_full_once_and_then_by_the_task_that_had_it() -> None:
    log = ReasonLog()
    assert log.text("a-1", "a-1 has no\nrun script") == "a-1 has no run script"
    assert log.text("b-2", "b-2 has no run script") == "as for a-1"
    assert log.text("c-3", "the disk is full") == "the disk is full"
    assert log.text("a-1", "a-1 has no run script") == "a-1 has no run script"
