from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.agents.claude_outcome import FAULTS, classify_exit
from proctor.agents.claude_stream import ClaudeResult, ClaudeStreamSummary
from proctor.agents.supervisor import ExitReason, ProcessExit
from proctor.core.causes import CONSEQUENCES, Cause
from proctor.core.result import ModelUsage, Tokens

USED = (ModelUsage(model="m", requests=0, tokens=Tokens(input=1), cost_usd=None),)


def stream(*, turns: int = 3, **more: Any) -> ClaudeStreamSummary:
    return ClaudeStreamSummary(started=True, turns=turns, **more)


def done(*, turns: int = 3, api_error: str = "", **more: Any) -> ClaudeStreamSummary:
    result = ClaudeResult(**{"subtype": "success", "is_error": False, "text": "Done.", **more})
    return stream(turns=turns, idle=True, result=result, api_error=api_error)


def failed(**more: Any) -> ClaudeStreamSummary:
    return done(**{"is_error": True, "reason": "api_error", "text": "API Error", **more})


def ended(ending: ExitReason = ExitReason.EXITED, **more: Any) -> ProcessExit:
    return ProcessExit(**{"reason": ending, "seconds": 5.0, "exit_code": 0, **more})


BUDGET = "API Error: 402 budget_exhausted: the {}'s budget is spent ($1 of $1)"


@pytest.mark.parametrize(
    ("what", "how", "cause"),
    [
        # it finished
        (done(), ended(), None),
        (done(text=""), ended(), None),
        (done(turns=0, text="", usage=USED), ended(), None),
        (done(), ended(exit_code=1), None),
        (done(), ended(ExitReason.LINGERED, exit_code=137), None),
        (done(), ended(ExitReason.WALL_CLOCK), None),
        (done(), ended(ExitReason.CANCELLED), None),
        (done(stop_reason="pause_turn"), ended(), None),
        (
            done(is_error=True, subtype="error_during_execution", reason="completed", stop_reason="end_turn"),
            ended(),
            None,
        ),
        # we ended it
        (stream(), ended(ExitReason.WALL_CLOCK), Cause.AGENT_TIMEOUT),
        (stream(turns=0), ended(ExitReason.WALL_CLOCK), Cause.AGENT_TIMEOUT),
        (
            failed(reason="aborted_tools", subtype="error_during_execution"),
            ended(ExitReason.WALL_CLOCK),
            Cause.AGENT_TIMEOUT,
        ),
        (stream(), ended(ExitReason.CANCELLED), Cause.INTERRUPTED),
        (failed(reason="aborted_streaming"), ended(ExitReason.CANCELLED), Cause.INTERRUPTED),
        (
            stream(),
            ended(ExitReason.ENVIRONMENT_LIMIT, limit="wall clock of the environment limit reached"),
            Cause.AGENT_TIMEOUT,
        ),
        (
            stream(),
            ended(ExitReason.ENVIRONMENT_LIMIT, limit="disk of the environment limit reached"),
            Cause.RESOURCE_LIMIT,
        ),
        (failed(reason="max_turns"), ended(ExitReason.LINGERED), Cause.TURN_LIMIT),
        # its own limits
        (failed(subtype="error_max_turns", reason="max_turns"), ended(exit_code=1), Cause.TURN_LIMIT),
        (failed(subtype="error_max_turns"), ended(exit_code=1), Cause.TURN_LIMIT),
        (failed(subtype="error_max_budget_usd"), ended(exit_code=1), Cause.TASK_BUDGET),
        (
            failed(status=402, text=BUDGET.format("task"), api_error="billing_error"),
            ended(exit_code=1),
            Cause.TASK_BUDGET,
        ),
        (failed(status=402, text=BUDGET.format("run")), ended(exit_code=1), Cause.RUN_BUDGET),
        (failed(status=402, text="API Error: 402 model_without_price: no price"), ended(exit_code=1), Cause.RUN_BUDGET),
        (failed(status=500, text="the agent says budget_exhausted"), ended(exit_code=1), Cause.PROVIDER_ERROR),
        (failed(status=403, text="session_closed: this attempt has ended"), ended(exit_code=1), Cause.INTERRUPTED),
        (failed(status=451, text="API Error: 451 web_not_allowed: …"), ended(exit_code=1), Cause.AGENT_CRASHED),
        (failed(stop_reason="refusal"), ended(exit_code=1), Cause.REFUSED),
        (done(stop_reason="refusal", is_error=True), ended(exit_code=1), Cause.REFUSED),
        (failed(reason="prompt_too_long", status=400), ended(exit_code=1), Cause.AGENT_CRASHED),
        (failed(reason="image_error", status=413), ended(exit_code=1), Cause.AGENT_CRASHED),
        (failed(status=413), ended(exit_code=1), Cause.AGENT_CRASHED),
        (failed(api_error="max_output_tokens"), ended(exit_code=1), Cause.AGENT_CRASHED),
        (failed(status=400), ended(exit_code=1), Cause.AGENT_CRASHED),
        (failed(status=422), ended(exit_code=1), Cause.AGENT_CRASHED),
        (
            failed(reason="aborted_tools", subtype="error_during_execution", text=""),
            ended(exit_code=1),
            Cause.AGENT_CRASHED,
        ),
        (failed(reason="something new", text="what?"), ended(exit_code=1), Cause.AGENT_CRASHED),
        # the login
        (failed(status=401), ended(exit_code=1), Cause.BAD_LOGIN),
        (failed(status=403), ended(exit_code=1), Cause.BAD_LOGIN),
        (failed(status=402), ended(exit_code=1), Cause.BAD_LOGIN),
        (failed(status=404), ended(exit_code=1), Cause.BAD_LOGIN),
        (failed(status=400, api_error="billing_error"), ended(exit_code=1), Cause.BAD_LOGIN),
        (failed(text="Not logged in", api_error="authentication_failed"), ended(exit_code=1), Cause.BAD_LOGIN),
        # the provider
        (failed(status=429), ended(exit_code=1), Cause.RATE_LIMITED),
        (failed(api_error="rate_limit"), ended(exit_code=1), Cause.RATE_LIMITED),
        (failed(status=529, api_error="server_error"), ended(exit_code=1), Cause.PROVIDER_ERROR),
        (failed(status=500), ended(exit_code=1), Cause.PROVIDER_ERROR),
        (failed(status=599), ended(exit_code=1), Cause.PROVIDER_ERROR),
        (failed(status=408), ended(exit_code=1), Cause.PROVIDER_ERROR),
        (failed(status=451), ended(exit_code=1), Cause.PROVIDER_ERROR),
        (
            failed(text="Unable to connect to API (ECONNRESET)", api_error="unknown"),
            ended(exit_code=1),
            Cause.PROVIDER_ERROR,
        ),
        (failed(text="Request timed out", api_error="server_error"), ended(exit_code=1), Cause.PROVIDER_ERROR),
        (failed(text="API Error: Overloaded", api_error="unknown"), ended(exit_code=1), Cause.PROVIDER_ERROR),
        (failed(status=400, turns=0), ended(exit_code=1), Cause.PROVIDER_ERROR),
        # no result
        (stream(), ended(exit_code=0), Cause.ENVIRONMENT_FAILED),
        (ClaudeStreamSummary(), ended(exit_code=0), Cause.ENVIRONMENT_FAILED),
        (ClaudeStreamSummary(), ended(exit_code=1, stderr="Error: unknown option"), Cause.ENVIRONMENT_FAILED),
        (
            ClaudeStreamSummary(unreadable=3, unreadable_lines=("garbage",)),
            ended(exit_code=0),
            Cause.ENVIRONMENT_FAILED,
        ),
        (stream(turns=0), ended(exit_code=1), Cause.ENVIRONMENT_FAILED),
        (stream(), ended(exit_code=1), Cause.AGENT_CRASHED),
        (stream(), ended(exit_code=137), Cause.AGENT_CRASHED),
        (stream(), ended(exit_code=143), Cause.AGENT_CRASHED),
        (stream(), ended(exit_code=None), Cause.AGENT_CRASHED),
        (stream(result=ClaudeResult(subtype="success", is_error=False)), ended(exit_code=1), Cause.AGENT_CRASHED),
        (done(turns=0, text="Unknown slash command"), ended(), Cause.ENVIRONMENT_FAILED),
        # it never started
        (ClaudeStreamSummary(), ended(exit_code=1, fault="no_bash"), Cause.MISSING_PROGRAM),
        (ClaudeStreamSummary(), ended(exit_code=1, fault="no_loader"), Cause.MISSING_PROGRAM),
    ],
)
def test_each_end_has_its_cause(what: ClaudeStreamSummary, how: ProcessExit, cause: Cause | None) -> None:
    assert classify_exit(what, how)[0] is cause


def test_the_sentence_holds_what_was_said() -> None:
    assert (
        classify_exit(failed(status=500, text="API Error: 500\nboom"), ended())[1]
        == "the provider failed: API Error: 500 boom"
    )
    assert "musl" in classify_exit(ClaudeStreamSummary(), ended(fault="no_loader"))[1]
    assert classify_exit(ClaudeStreamSummary(), ended(exit_code=1, stderr="Error: no such flag"))[1].endswith(
        "Error: no such flag"
    )


results = st.builds(
    ClaudeResult,
    subtype=st.sampled_from(["success", "error_max_turns", "error_during_execution", "error_max_budget_usd", "new"]),
    is_error=st.booleans(),
    status=st.none() | st.integers(100, 999),
    text=st.text(max_size=20) | st.sampled_from([BUDGET.format("task"), "API Error: x", "Unable to connect"]),
    stop_reason=st.sampled_from(["", "end_turn", "refusal", "tool_use", "new"]),
    reason=st.sampled_from(["", "completed", "api_error", "max_turns", "aborted_tools", "prompt_too_long", "new"]),
    errors=st.lists(st.text(max_size=9), max_size=2).map(tuple),
    usage=st.sampled_from([(), USED]),
)
streams = st.builds(
    ClaudeStreamSummary,
    started=st.booleans(),
    idle=st.booleans(),
    turns=st.integers(0, 3),
    api_error=st.sampled_from(["", "unknown", "rate_limit", "billing_error", "server_error", "new"]),
    result=st.none() | results,
    unreadable=st.integers(0, 2),
)
endings = st.builds(
    ProcessExit,
    reason=st.sampled_from(ExitReason),
    seconds=st.floats(0, 10),
    exit_code=st.none() | st.integers(0, 255),
    fault=st.sampled_from(["", "", "", *FAULTS, "new"]),
    stderr=st.text(max_size=20),
)
HOW_AN_AGENT_ENDS = {
    Cause.RESOURCE_LIMIT,
    None,
    *(Cause.AGENT_TIMEOUT, Cause.TASK_BUDGET, Cause.TURN_LIMIT, Cause.REFUSED, Cause.AGENT_CRASHED),
    *(Cause.PROVIDER_ERROR, Cause.RATE_LIMITED, Cause.BAD_LOGIN, Cause.ENVIRONMENT_FAILED),
    *(Cause.MISSING_PROGRAM, Cause.RUN_BUDGET, Cause.INTERRUPTED),
}


@given(streams, endings)
def test_every_end_is_one_of_an_agents_and_one_sentence(what: ClaudeStreamSummary, how: ProcessExit) -> None:
    cause, detail = classify_exit(what, how)
    assert cause in HOW_AN_AGENT_ENDS
    assert detail
    assert "\n" not in detail


@given(streams, endings)
def test_nothing_finishes_without_a_result_or_with_a_fault(what: ClaudeStreamSummary, how: ProcessExit) -> None:
    if not what.idle or what.result is None or how.fault:
        assert classify_exit(what, how)[0] is not None


@given(streams, endings)
def test_without_a_response_or_a_result_it_is_not_to_blame(what: ClaudeStreamSummary, how: ProcessExit) -> None:
    cause, _ = classify_exit(what, how)
    if how.reason is ExitReason.EXITED and not what.turns and not (what.idle and what.result):
        assert cause is not None
        assert not CONSEQUENCES[cause].counted
