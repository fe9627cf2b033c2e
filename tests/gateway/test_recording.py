import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway_lab import message, parse_call, stream_bytes
from proctor.core.errors import InvalidData
from proctor.gateway import recorder as recorder_module
from proctor.gateway.dialects import MESSAGES
from proctor.gateway.dialects.messages_events import message_from_events
from proctor.gateway.model_call import ModelCall, Role
from proctor.gateway.recorder import (
    HARD_DELTA_LIMIT,
    MAX_IN_MEMORY_BYTES,
    MAX_RECENT_BYTES,
    EventBuffer,
    Recorder,
    format_timestamp,
)
from proctor.gateway.recording import (
    ExpandedExchange,
    PathTranslator,
    RecordedExchange,
    RecordingHeader,
    load_recording,
)
from proctor.gateway.redact import REDACTED, Redactor
from proctor.gateway.sse import EventSplitter

HEADER = RecordingHeader(task_id="t", label="t#1", backend="script", created_at="2026-01-01T00:00:00.000+00:00")
SECRET = "path-token-5ecret"


def call(messages: list[Any], **fields: Any) -> ModelCall:
    found = parse_call(msgspec.json.encode({"model": "m", "messages": messages, **fields}), {})
    assert found is not None
    return found


def user(text: str, *, marked: bool = False) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "text", "text": text}
    if marked:
        block["cache_control"] = {"type": "ephemeral"}
    return {"role": "user", "content": [block]}


def record(
    recorder: Recorder,
    asked: ModelCall,
    *,
    body: bytes = b"{}",
    conversation: str = "main",
    tape: EventBuffer | None = None,
) -> None:
    prepared = recorder.prepare_request(recorder.start_exchange(), asked, conversation)
    exchange = RecordedExchange(
        number=prepared.start.number,
        conversation=conversation,
        role=Role.MAIN,
        agent="",
        at=format_timestamp(prepared.start.at),
        request=prepared.request,
        response=recorder.make_response(200, {"request-id": "r"}, 5, b"" if tape else body, None),
    )
    recorder.write_exchange(exchange, prepared, tape)


def open_recorder(path: Path, secrets: tuple[str, ...] = (SECRET,)) -> Recorder:
    return Recorder(path, HEADER, Redactor(secrets))


def conversation(turns: int) -> list[dict[str, Any]]:
    said: list[dict[str, Any]] = [user("start")]
    for turn in range(turns):
        said.append({"role": "assistant", "content": f"response {turn} " + "x" * 500})
        said.append(user(f"result {turn} " + "y" * 500))
    return said


def test_requests_come_back_whole(tmp_path: Path) -> None:
    said = conversation(5)
    with open_recorder(tmp_path / "c.jsonl") as recorder:
        for end in range(1, len(said) + 1, 2):
            marked = [*said[: end - 1], user(said[end - 1]["content"][0]["text"], marked=True)]
            record(recorder, call(marked, system="sys", tools=[{"name": "Bash"}], max_tokens=end % 2))
    recording = load_recording(tmp_path / "c.jsonl")
    assert [recorded.messages for recorded in recording.exchanges] == [said[:end] for end in range(1, 12, 2)]
    assert all(recorded.system == "sys" for recorded in recording.exchanges)
    assert all(recorded.tools == [{"name": "Bash"}] for recorded in recording.exchanges)
    assert recording.exchanges[0].params == {"max_tokens": 1}


def test_a_recording_grows_with_what_is_said_and_not_with_its_square(tmp_path: Path) -> None:
    sizes = []
    for turns in (50, 200):
        said = conversation(turns)
        path = tmp_path / f"{turns}.jsonl"
        with open_recorder(path) as recorder:
            for end in range(1, len(said) + 1, 2):
                record(recorder, call(said[:end], system="s" * 20_000))
        sizes.append(path.stat().st_size - 20_000)
    assert sizes[1] < 4.2 * sizes[0]
    assert sizes[1] < 1.7 * len(msgspec.json.encode(conversation(200)))


SAID = st.lists(st.builds(user, st.sampled_from(["a", "b", "c"]), marked=st.booleans()), min_size=1, max_size=5)
ASKED = st.tuples(SAID, st.sampled_from(["main", "side"]), st.sampled_from(["s", "t"]), st.integers(1, 2))


@given(st.lists(ASKED, max_size=8))
def test_a_recording_is_the_same_whether_the_last_requests_are_held_or_not(
    tmp_path_factory: pytest.TempPathFactory, asked: list[tuple[list[Any], str, str, int]]
) -> None:
    written = []
    for limit in (MAX_RECENT_BYTES, 0):
        path = tmp_path_factory.mktemp("recording") / "c.jsonl"
        with pytest.MonkeyPatch.context() as patch, open_recorder(path) as recorder:
            patch.setattr(recorder_module, "MAX_RECENT_BYTES", limit)
            recorder._clock = lambda: datetime.fromtimestamp(0, UTC)
            for messages, name, system, tokens in asked:
                record(recorder, call(messages, system=system, max_tokens=tokens), conversation=name)
            assert bool(recorder._recent) == bool(limit and asked)
        written.append(path.read_bytes())
    assert written[0] == written[1]


def test_requests_that_are_held_for_the_next_ones_take_no_more_than_their_share(tmp_path: Path) -> None:
    with open_recorder(tmp_path / "c.jsonl") as recorder:
        for number in range(12):
            record(recorder, call([user("x" * (MAX_RECENT_BYTES // 4))]), conversation=f"subagent-{number}")
        assert [name for _, name in recorder._recent] == [f"subagent-{number}" for number in (9, 10, 11)]


def test_a_conversation_that_was_compacted_starts_anew(tmp_path: Path) -> None:
    with open_recorder(tmp_path / "c.jsonl") as recorder:
        record(recorder, call(conversation(3)))
        record(recorder, call([user("summary"), user("continue")]))
        record(recorder, call([user("summary"), user("continue"), user("more")]))
    recording = load_recording(tmp_path / "c.jsonl")
    assert recording.exchanges[1].messages == [user("summary"), user("continue")]
    assert recording.exchanges[1].exchange.request.base is None
    assert (recording.exchanges[2].exchange.request.base, recording.exchanges[2].exchange.request.keep) == (2, 2)


def test_only_what_is_already_written_is_referred_to(tmp_path: Path) -> None:
    """Two requests under way at once: if the process dies now, the second must not hang in the air."""
    with open_recorder(tmp_path / "c.jsonl") as recorder:
        recorder.prepare_request(recorder.start_exchange(), call([user("a")]), "main")
        record(recorder, call([user("a"), user("b")]))
    (recorded,) = load_recording(tmp_path / "c.jsonl").exchanges
    assert recorded.messages == [user("a"), user("b")]


def test_secrets_are_in_no_line(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    with open_recorder(path) as recorder:
        tape = recorder.new_event_buffer(MESSAGES)
        for payload in EventSplitter().feed(stream_bytes(message(f"it is {SECRET}!"), piece=3)):
            tape.add(payload, 0)
        record(recorder, call([user(f"env: {SECRET} sk-ant-api03-dummydummy")], system=f"base {SECRET}"), tape=tape)
        tape.close()
        record(recorder, call([user("x")]), body=f'{{"error":"{SECRET}"}}'.encode())
        recorder.write_refusal("main", 402, f"no more of {SECRET}")
    text = path.read_text()
    assert SECRET not in text
    assert "sk-ant-" not in text
    streamed = load_recording(path).exchanges[0]
    events = [event for _, event in streamed.timeline() if isinstance(event, dict)]
    assert message_from_events(events)["content"] == [{"type": "text", "text": f"it is {REDACTED}!"}]


@pytest.mark.parametrize("torn", [b'{"kind":"excha', b'{"kind":"exchange","number":9}'])
def test_an_unfinished_last_line_is_ignored_and_then_replaced(tmp_path: Path, torn: bytes) -> None:
    path = tmp_path / "c.jsonl"
    with open_recorder(path) as recorder:
        record(recorder, call([user("a")]))
    with path.open("ab") as file:
        file.write(torn)
    assert len(load_recording(path).exchanges) == 1
    with open_recorder(path) as recorder:
        record(recorder, call([user("b")]))
    (recorded,) = load_recording(path).exchanges
    assert recorded.messages == [user("b")], "the last take counts"


def test_a_broken_line_in_the_middle_is_named(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    with open_recorder(path):
        pass
    with path.open("ab") as file:
        file.write(b"what\n")
    with pytest.raises(InvalidData, match="line 2 is not part of a recording"):
        load_recording(path)


def test_a_recording_that_is_missing_or_empty_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidData, match="cannot read the recording"):
        load_recording(tmp_path / "none.jsonl")
    (tmp_path / "empty.jsonl").touch()
    with pytest.raises(InvalidData, match="empty"):
        load_recording(tmp_path / "empty.jsonl")


def test_a_full_disk_leaves_whole_lines_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "c.jsonl"
    recorder = open_recorder(path)
    record(recorder, call([user("a")]))
    before = path.read_bytes()
    written: list[bytes] = []

    def full(descriptor: int, data: bytes) -> int:
        if written:
            raise OSError(28, "No space left on device")
        written.append(data)
        return real(descriptor, data[:10])

    real = os.write
    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space"):
        recorder.write_refusal("main", 402, "x")
    monkeypatch.undo()
    recorder.close()
    assert path.read_bytes() == before


def tape_entries(payloads: list[bytes], tmp_path: Path, secrets: tuple[str, ...] = ()) -> list[Any]:
    tape = EventBuffer(MESSAGES, Redactor(secrets), tmp_path)
    for at, payload in enumerate(payloads):
        tape.add(payload, at)
    entries: list[Any] = msgspec.json.decode(b"[" + b"".join(tape.blocks()) + b"]")
    tape.close()
    return entries


def timeline(entries: list[Any]) -> list[tuple[int, Any]]:
    request = {"model": "m", "stream": True, "system": None, "tools": None, "params": None}
    line = {
        "kind": "exchange",
        "number": 1,
        "conversation": "main",
        "role": "main",
        "agent": "",
        "at": "",
        "request": {**request, "base": None, "keep": 0, "add": []},
        "response": {"status": 200, "headers": {}, "ms": 0},
        "events": entries,
    }
    exchange = msgspec.convert(line, RecordedExchange)
    return list(ExpandedExchange(exchange=exchange, system=None, tools=None, params=None, messages=[]).timeline())


@given(text=st.text(max_size=200), piece=st.integers(1, 9))
def test_a_tape_gives_back_every_event_in_its_piece_and_at_its_time(
    tmp_path_factory: pytest.TempPathFactory, text: str, piece: int
) -> None:
    payloads = EventSplitter().feed(stream_bytes(message(text), piece=piece))
    entries = tape_entries(payloads, tmp_path_factory.getbasetemp())
    assert timeline(entries) == [(at, msgspec.json.decode(payload)) for at, payload in enumerate(payloads)]
    assert len(entries) == 6, "the deltas of a block are one entry"


def test_a_tape_keeps_what_is_not_json_and_what_it_does_not_know(tmp_path: Path) -> None:
    odd = b'{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"a","estimated":1}}'
    assert timeline(tape_entries([b'{"broken', b'{"a":\n1}', odd], tmp_path)) == [
        (0, '{"broken'),
        (1, {"a": 1}),
        (2, msgspec.json.decode(odd)),
    ]


def test_a_long_tape_does_not_stay_in_memory(tmp_path: Path) -> None:
    tape = EventBuffer(MESSAGES, Redactor(), tmp_path)
    payload = stream_bytes(message("word " * 20)).split(b"data: ")[3].split(b"\n")[0]
    for at in range(20 * MAX_IN_MEMORY_BYTES // 100):
        tape.add(payload, at)
        assert tape._length <= HARD_DELTA_LIMIT + 200
        assert len(tape._written) <= MAX_IN_MEMORY_BYTES
    assert sum(map(len, tape.blocks())) > MAX_IN_MEMORY_BYTES
    tape.close()


def test_moved_paths_are_translated_everywhere() -> None:
    moved = PathTranslator(
        {"workspace": "/old/ws", "name": "x", "root": "/"}, {"workspace": "/new", "name": "y", "root": "/r"}
    )
    value = {"command": "cd /old/ws && ls", "list": ["/old/ws/a", 1, None], "x": "x"}
    assert moved.translate(value) == {"command": "cd /new && ls", "list": ["/new/a", 1, None], "x": "x"}
