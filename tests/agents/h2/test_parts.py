"""What h2 prints and writes, read; templates found; frames and screens taken apart."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.agents.h2 import adapter
from proctor.agents.h2.events import AgentActivity, PodEventKind
from proctor.agents.h2.frames import FrameReader, new_mark
from proctor.agents.h2.screen import plain_screen
from proctor.agents.h2.template import load_checked_template, load_template
from proctor.core.errors import UsageError

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


@pytest.mark.parametrize(("state", "doing"), STATES.items())
def test_every_state_of_h2_means_something(state: tuple[str, str], doing: AgentActivity) -> None:
    assert adapter.activity_of(*state) is doing


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


def test_who_sent_to_whom_is_read_without_what_we_sent_ourselves() -> None:
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
    said = b"Error: " + sentence + b"\nUsage:\n  h2 status\n\nerror: " + sentence + b"\n\nAvailable: y\n"
    assert adapter.error_message(said) == 'cannot connect to agent "x"'
    assert adapter.is_connection_refused(said)
    assert adapter.error_message(b"") == "it said nothing"


@pytest.mark.parametrize("text", ["x", "x\ny\n", "é" * 200, "long " * 500])
def test_a_task_always_arrives_as_a_file(text: str) -> None:
    body = adapter.as_message(text)
    assert len(body) > 300
    assert body.decode().strip() == text.strip()


def test_claude_code_is_told_to_trust_and_forgets_nothing() -> None:
    once = adapter.trust_workspace(b'{"projects": {"/": {"a": 1}}, "theme": "dark"}', "/workspace", "k" * 30)
    assert adapter.trust_workspace(once, "/workspace", "k" * 30) == once
    assert b'"theme": "dark"' in once
    assert ("k" * 20).encode() in once
    assert ("k" * 21).encode() not in once


NAMES = st.text("abc/.-", min_size=1, max_size=8)
CONTENT = st.lists(st.sampled_from([b"x", b"\n", b"\n\n", b"yy", b" ", b"==", b"\r\n"]), max_size=12).map(b"".join)


@given(st.lists(st.tuples(NAMES, CONTENT), max_size=5), st.integers(1, 9))
def test_frames_give_back_what_was_framed_however_it_is_cut(files: list[tuple[str, bytes]], size: int) -> None:
    mark = new_mark()
    stream = b"".join(f"\n{mark} file {name}\n".encode() + data for name, data in files) + f"\n{mark} end -\n".encode()
    found: list[tuple[str, bytes]] = []

    def take(kind: str, name: str, data: bytes) -> None:
        if found and found[-1][0] == name and kind == "file" and not fresh[0]:
            found[-1] = (name, found[-1][1] + data)
        else:
            found.append((name, data))
        fresh[0] = False

    fresh = [True]
    frames = FrameReader(mark, take)
    for start in range(0, len(stream), size):
        frames.feed(stream[start : start + size])
    assert frames.complete
    # Neighbours of one name run together here; the driver has no two files of one name.
    if len({name for name, _ in files}) == len(files):
        assert found == files


def test_a_screen_is_read_as_a_person_would() -> None:
    painted = (
        b"\x1b[2J\x1b[1;1H\x1b[1mDo you\x1b[0m trust\x1b[2C\x1b[31mthis\x1b[0m folder?"
        b"\x1b[2;1H 1. Yes\x1b[K\r\n\x1b[3;1H 2. No"
    )
    assert plain_screen(painted) == "Do you trust this folder?\n1. Yes\n2. No"
    assert plain_screen(b"") == ""


PODS = {
    "pods/duo.yaml": b"agents: []\n",
    "pods/benchmark.yaml.tmpl": b"variables:\n  n: {}\n  model:\n    default: x\nagents:\n",
}


def test_a_template_is_found_by_name_or_file_with_its_variables(tmp_path: Path) -> None:
    assert load_template(None, PODS).declared == {"n": True, "model": False}
    assert load_template("duo", PODS).declared == {}
    file = tmp_path / "pods" / "trio.yaml.tmpl"
    (tmp_path / "pods" / "roles").mkdir(parents=True)
    (tmp_path / "pods" / "roles" / "scout.yaml").write_text("role_name: scout\n")
    file.write_text('# variables: no\nvariables:\n  working_dir: {description: d}\nagents:\n  - name: "{{ .Var.x }}"\n')
    trio = load_template(str(file), PODS)
    assert (trio.name, trio.declared, list(trio.roles)) == ("trio", {"working_dir": True}, ["scout.yaml"])
    before = trio.digest(PODS)
    assert before != trio.digest({}), "the preset's files are a part of the pod"
    (tmp_path / "pods" / "roles" / "scout.yaml").write_text("role_name: scout\ndescription: other\n")
    assert load_template(str(file), PODS).digest(PODS) != before


def test_a_template_is_given_what_it_asks_for_and_what_the_user_says() -> None:
    template = load_template(None, {"pods/benchmark.yaml": b"variables:\n  model: {}\n  n: {default: 1}\n"})
    assert template.values({"n": "3"}, working_dir="/w", model="m") == {"model": "m", "n": "3"}
    assert template.values({"model": "mine"}, working_dir="/w", model="m") == {"model": "mine"}
    assert template.values({}, working_dir="/w", model=None) == {}


BAD = {
    "missing": ({}, "needs the variable 'n'"),
    "unknown": ({"n": "1", "k": "2"}, "no variable 'k'; it takes model, n"),
    "ours": ({"n": "1", "working_dir": "/"}, "Proctor sets working_dir by itself"),
}


@pytest.mark.parametrize(("given", "sentence"), BAD.values(), ids=BAD.keys())
def test_a_template_that_cannot_be_filled_in_is_refused(given: dict[str, str], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        load_checked_template(None, PODS, given)


def test_a_template_that_is_no_template_is_refused(tmp_path: Path) -> None:
    broken = tmp_path / "broken.yaml"
    broken.write_text("variables:\n  - [\n")
    with pytest.raises(UsageError, match="variables of the pod template cannot be read"):
        load_template(str(broken), {})
    broken.write_text("variables:\n  - a\n")
    with pytest.raises(UsageError, match="are no table"):
        load_template(str(broken), {})
    named = tmp_path / "Big Pod.yaml"
    named.write_text("agents: []\n")
    with pytest.raises(UsageError, match="lower-case"):
        load_template(str(named), {})
