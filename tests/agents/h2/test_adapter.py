"""What h2 prints and writes is read, and what it is given is written."""

import os
import subprocess
from pathlib import Path

import pytest

from proctor.agents.h2 import adapter
from proctor.agents.h2.events import AgentActivity, PodEventKind

STATES = {
    ("initialized", ""): AgentActivity.STARTING,
    ("active", "thinking"): AgentActivity.WORKING,
    ("active", "tool_use"): AgentActivity.WORKING,
    ("active", "of a later version"): AgentActivity.WORKING,
    ("active", "compacting"): AgentActivity.COMPACTING,
    ("active", "permission_review"): AgentActivity.AWAITING_PERMISSION,
    ("active", "blocked_on_permission"): AgentActivity.AWAITING_USER,
    ("idle", ""): AgentActivity.IDLE,
    ("idle", "usage_limit"): AgentActivity.RATE_LIMITED,
    ("idle", "auth_error"): AgentActivity.AUTH_ERROR,
    ("idle", "server_error"): AgentActivity.PROVIDER_ERROR,
    ("exited", ""): AgentActivity.EXITED,
    ("something", "new"): AgentActivity.WORKING,
}


@pytest.mark.parametrize(("state", "activity"), STATES.items())
def test_every_state_of_h2_means_something(state: tuple[str, str], activity: AgentActivity) -> None:
    assert adapter.activity_of(*state) is activity


def test_events_are_read_and_what_is_none_is_passed_over() -> None:
    lines = [
        b'{"type":"state_change","timestamp":"2026-08-14T10:00:00.123456789Z","data":{"state":"idle","sub_state":""}}',
        b'{"type":"user_prompt","timestamp":"2026-08-14T12:00:01+02:00"}',
        b'{"type":"","timestamp":"2026-08-14T10:00:02Z","data":{"Message":"Invalid API key"}}',
        b'{"type":"agent_message","timestamp":"2026-08-14T10:00:03Z","data":{"Content":"Hello"}}',
        b'{"type":"of_a_later_version","timestamp":"2026-08-14T10:00:04Z"}',
        b"not json",
        b"[1]",
        b'{"type":"user_prompt"}',
        b'{"type":"user_prompt","timestamp":"yesterday"}',
        b"[" * 100_000,
    ]
    events = list(adapter.read_events(lines))
    assert [event.kind for event in events] == [
        PodEventKind.STATE,
        PodEventKind.PROMPT,
        PodEventKind.ERROR,
        PodEventKind.MESSAGE,
        PodEventKind.OTHER,
    ]
    assert [round(event.at - events[0].at, 3) for event in events] == [0, 0.877, 1.877, 2.877, 3.877]
    assert (events[2].text, events[3].text) == ("Invalid API key", "Hello")


def test_a_status_tells_what_an_agent_does_and_why_it_cannot() -> None:
    limited = (
        b'{"name":"a","state":"idle","sub_state":"usage_limit","queued_count":2,"usage_limit_message":"Limit",'
        b'"usage_limit_resets_at":"2026-08-14T10:00:00Z"}'
    )
    status = adapter.read_status(limited)
    assert status == adapter.DaemonStatus(
        activity=AgentActivity.RATE_LIMITED, queued=2, error_text="Limit (until 2026-08-14T10:00:00Z)"
    )
    blocked = adapter.read_status(b'{"state":"active","sub_state":"thinking","blocked_on_permission":true}')
    assert blocked is not None
    assert blocked.activity is AgentActivity.AWAITING_USER
    assert adapter.read_status(b"No running agents.") is None


def test_an_exit_is_read_from_the_log_of_the_daemon() -> None:
    log = b"2026/08/14 10:00:00 child process exited (code 3): exit status 3 [command=claude]\n"
    assert adapter.exit_code_of(log) == 3
    assert adapter.exit_code_of(b"child process exited with error: signal: killed [command=claude]") == 1
    assert adapter.exit_code_of(b"panic recovered in acceptLoop") is None


def test_messages_between_agents_are_read_without_our_own() -> None:
    lines = [b"1794783554.25 lead coder-1", b"1794783555.%N coder-1 lead", b"1794783550 bench lead", b"half a line"]
    assert [(one.at, one.sender, one.to) for one in adapter.read_sent_messages(lines)] == [
        (1794783554.25, "lead", "coder-1"),
        (1794783555.0, "coder-1", "lead"),
    ]


def test_the_task_goes_to_the_concierge_or_else_to_the_first() -> None:
    one, two = (
        adapter.LaunchedAgent(name="a", role="coder", index=0),
        adapter.LaunchedAgent(name="b", role="concierge", index=1),
    )
    assert adapter.lead_of([two, one]) == "b"
    assert adapter.lead_of([adapter.LaunchedAgent(name="z", role="x", index=2), one]) == "a"


def test_what_h2_complains_about_is_found_among_its_usage() -> None:
    sentence = b'cannot connect to agent "x"'
    printed = b"Error: " + sentence + b"\nUsage:\n  h2 status\n\nerror: " + sentence + b"\n\nAvailable: y\n"
    assert adapter.error_message(printed) == 'cannot connect to agent "x"'
    assert adapter.is_connection_refused(printed)
    assert adapter.error_message(b"") == "it printed nothing"


@pytest.mark.parametrize("text", ["x", "x\ny\n", "é" * 200, "long " * 500])
def test_a_task_always_arrives_as_a_file(text: str) -> None:
    body = adapter.as_message(text)
    assert len(body) > 300
    assert body.decode().strip() == text.strip()


def test_claude_code_is_made_to_trust_and_forgets_nothing() -> None:
    once = adapter.trust_workspace(b'{"projects": {"/": {"a": 1}}, "theme": "dark"}', "/workspace", "k" * 30)
    assert adapter.trust_workspace(once, "/workspace", "k" * 30) == once
    assert b'"theme": "dark"' in once
    assert ("k" * 20).encode() in once
    assert ("k" * 21).encode() not in once


MODES: dict[str, tuple[list[str], list[str]]] = {
    "none": (["--resume", "x"], ["--permission-mode", "bypassPermissions"]),
    "the role's": (["--permission-mode", "plan"], []),
    "in one word": (["--permission-mode=plan"], []),
    "only in an instruction": (
        ["--append-system-prompt", "Say --permission-mode plan"],
        ["--permission-mode", "bypassPermissions"],
    ),
}


@pytest.mark.parametrize(("given", "added"), MODES.values(), ids=MODES.keys())
def test_every_agent_of_a_pod_has_the_permission_mode_of_its_role_or_that_of_baseline(
    tmp_path: Path, given: list[str], added: list[str]
) -> None:
    claude = tmp_path / "claude"
    claude.write_text('#!/bin/sh\nprintf "%s\\n" "$ANTHROPIC_BASE_URL" "$@"\n')
    claude.chmod(0o755)
    environ = {"PATH": os.environ["PATH"], "PROCTOR_CLAUDE": str(claude), "PROCTOR_MODEL_URL": "u", "H2_ACTOR": "a1"}
    command = ["sh", "-c", adapter.CLAUDE_SCRIPT, "claude", *given]
    done = subprocess.run(command, env={**environ, "given": "1"}, capture_output=True, text=True, check=True)
    ours = ["--setting-sources", "user", "--strict-mcp-config"]
    assert done.stdout.splitlines() == ["u/a/a1", *ours, *added, *given]
