from typing import Any

import pytest

from proctor.analysis.log_stats import ToolCallStats
from proctor.analysis.tool_calls import gave_up, tool_call_stats
from proctor.core.trajectory import Step, ToolCall


def call(name: str, *, failed: bool = False, **arguments: Any) -> ToolCall:
    return ToolCall(id="", name=name, arguments=arguments, output="", failed=failed)


def spent(*calls: ToolCall, lane: str = "main") -> ToolCallStats:
    return tool_call_stats([Step(source="agent", lane=lane, calls=(one,)) for one in calls])


READ = call("Read", file_path="/a.py")
EDIT = call("Edit", file_path="/a.py", old_string="x", new_string="y")
LOOK = call("Grep", pattern="def ")
TEST = call("Bash", command="pytest -q")


def test_a_file_that_is_read_again_unchanged_is_a_wasted_step() -> None:
    assert spent(READ, READ) == ToolCallStats(calls=2, reread=1)
    assert spent(READ, LOOK, READ).reread == 1


def test_reading_a_changed_file_again_is_not_wasted() -> None:
    assert spent(READ, EDIT, READ).wasted == 0
    assert spent(READ, TEST, READ).wasted == 0  # a command may have changed it
    other = call("Write", file_path="/b.py", content="")
    assert spent(READ, other, READ).reread == 1


def test_other_lines_of_a_file_are_not_read_again() -> None:
    first = call("Read", file_path="/a.py", offset=1, limit=100)
    assert spent(first, call("Read", file_path="/a.py", offset=101, limit=100)).wasted == 0
    assert spent(first, call("Read", file_path="/a.py", offset=20, limit=30)).reread == 1
    assert spent(first, READ).wasted == 0
    assert spent(READ, first).reread == 1


def test_the_same_read_or_command_again_is_a_wasted_step_unless_something_changed() -> None:
    assert spent(LOOK, READ, LOOK).repeated == 1
    assert spent(LOOK, EDIT, LOOK).repeated == 0
    assert spent(TEST, TEST).repeated == 1
    assert spent(TEST, EDIT, TEST).repeated == 0
    assert spent(TEST, call("Bash", command="ls"), TEST).repeated == 0


def test_a_call_that_failed_is_wasted_once_and_has_read_nothing() -> None:
    failed = call("Read", file_path="/a.py", failed=True)
    assert spent(failed, READ, READ) == ToolCallStats(calls=3, failed=1, reread=1)


def test_each_agent_of_a_pod_has_its_own_reads() -> None:
    steps = [Step(source="agent", lane=lane, calls=(READ,)) for lane in ("coder", "reviewer", "coder")]
    assert tool_call_stats(steps) == ToolCallStats(calls=3, reread=1)
    assert tool_call_stats([]) == ToolCallStats()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("I was unable to reproduce the problem, so nothing was changed.", True),
        ("I don't know what to do.", True),
        ("I do not know how to go on.", True),
        ("I give up.", True),
        ("I cannot fix this without the network.", True),
        ("It is fixed; the parser could not read empty lines.", False),
        ("Users who cannot log in now see why.", False),
        ("", False),
    ],
)
def test_the_final_text_may_say_that_the_agent_gave_up(words: str, says: bool) -> None:
    assert gave_up(words) is says
