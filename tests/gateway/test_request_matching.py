from typing import Any

import msgspec
import pytest

from proctor.gateway import request_matching
from proctor.gateway.dialects import MESSAGES, Dialect
from proctor.gateway.request_matching import RequestMatcher, normalize_message


def difference(recorded: list[Any], now: list[Any]) -> str | None:
    return RequestMatcher(MESSAGES).difference(recorded, [msgspec.Raw(msgspec.json.encode(message)) for message in now])


def said(text: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "text", "text": text}]}


@pytest.mark.parametrize(
    ("recorded", "now"),
    [
        ("Today is 2026-01-02.", "Today is 2027-11-30."),
        ("at 2026-01-02T03:04:05.678Z", "at 2026-05-06T07:08:09Z"),
        ("Sun Nov 15 19:39:36", "Mon Jan 2 03:04:05"),
        ("cwd: /tmp/a-1/ws, home /root", "cwd: /workspace/x, home /home/me"),
        ("1 passed in 0.03s", "1 passed in 12.5s"),
        ("HEAD is now at 3f9c2ab fix", "HEAD is now at 0a1b2c3d4 fix"),
        ("session 0a1b2c3d-0000-4000-8000-aabbccddeeff", "session ffffffff-1111-4111-9111-001122334455"),
        ("use toolu_01AbC then", "use toolu_script_000001 then"),
        ("as call_Ab3dEf6hIj says", "as call_script_000001 says"),
        ("from resp_0a1b2c3d4e5f and chatcmpl-9xYz", "from resp_script_000001 and chatcmpl-script-000001"),
        ("Chunk ID: f91d6b\nOutput: ok", "Chunk ID: a81f53\nOutput: ok"),
        ("ok\nProcess Group PGID: 30655\n", "ok\nProcess Group PGID: 7\n"),
        ("hi <system-reminder>\nas of now\n</system-reminder>there", "hi there"),
    ],
)
def test_ids_dates_times_hashes_paths_and_reminders_make_no_difference(recorded: str, now: str) -> None:
    assert difference([said(recorded)], [said(now)]) is None


@pytest.mark.parametrize(
    ("recorded", "now"),
    [
        ("3 passed", "2 passed, 1 failed"),
        ("write a/b.txt", "write a/c.txt"),
        ("exit code 1", "exit code 2"),
        ("version 1.2.3", "version 1.2.4"),
        ("the cat", "the dog"),
        ("def call_parent():", "def call_child():"),
    ],
)
def test_another_message_text_is_a_difference(recorded: str, now: str) -> None:
    reason = difference([said("same"), said(recorded)], [said("same"), said(now)])
    assert reason is not None
    assert reason.startswith("message 2 of 2 differs: recorded ")


def test_cache_marks_signatures_and_the_form_of_a_text_make_no_difference() -> None:
    marked = {"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}
    thinking = {"type": "thinking", "thinking": "x", "signature": "a"}
    other = {"type": "thinking", "thinking": "x", "signature": "b"}
    plain = {"role": "user", "content": "hi"}
    assert difference([plain], [{"role": "user", "content": [marked]}]) is None
    assert normalize_message({"role": "a", "content": [thinking, marked]}, MESSAGES) == normalize_message(
        {"role": "a", "content": [other, {"type": "text", "text": "hi"}]}, MESSAGES
    )


def test_a_longer_conversation_is_another_one() -> None:
    reason = difference([said("a")], [said("a"), said("b")])
    assert reason == "it has 2 messages where 1 were recorded"


def test_the_difference_is_shown_where_it_is() -> None:
    before, after = "x" * 500 + " the cat sat " + "y" * 500, "x" * 500 + " the dog sat " + "y" * 500
    reason = difference([said(before)], [said(after)])
    assert reason is not None
    assert "the cat sat" in reason
    assert "the dog sat" in reason
    assert len(reason) < 250


def test_a_message_that_is_sent_again_and_again_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Any] = []
    real = request_matching.normalize_message

    def counted(message: Any, dialect: Dialect) -> Any:
        read.append(message)
        return real(message, dialect)

    monkeypatch.setattr(request_matching, "normalize_message", counted)
    talk = [said(f"message {number}") for number in range(50)]
    matcher = RequestMatcher(MESSAGES)
    for end in range(1, 51):
        now = [msgspec.Raw(msgspec.json.encode(message)) for message in talk[:end]]
        assert matcher.difference(talk[:end], now) is None
    assert len(read) == 100
