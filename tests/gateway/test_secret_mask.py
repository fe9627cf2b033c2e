import gzip
import json
import re
from pathlib import Path

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from gateway_lab import KEY, message, provider, stream_bytes, upstream, world
from proctor.gateway.dialects import DIALECTS, MESSAGES
from proctor.gateway.dialects.base import ScriptedMessage, ScriptedTool
from proctor.gateway.dialects.messages_events import message_from_events
from proctor.gateway.redact import REDACTED
from proctor.gateway.secret_mask import SecretMask, mask_text, secret_spellings
from proctor.gateway.sse import EventSplitter

SPELLINGS = secret_spellings([KEY])
MASK = REDACTED + "*" * (len(KEY) - len(REDACTED))
TEXTS = st.lists(
    st.sampled_from([KEY, KEY + KEY, KEY[:7], KEY[:12], KEY[:-1], KEY[3:], " and ", "s", 'say "hi"\n', "ünïcode"]),
    min_size=1,
    max_size=6,
).map("".join)
LENGTHS = st.lists(st.integers(1, 400), max_size=40)


def cut(data: bytes, lengths: list[int]) -> list[bytes]:
    chunks = []
    for length in lengths:
        chunks.append(data[:length])
        data = data[length:]
    return [*chunks, data]


def passed(data: bytes, lengths: list[int], *, events: bool) -> bytes:
    mask = SecretMask(SPELLINGS, MESSAGES.text_members if events else None)
    return b"".join([*(mask.feed(chunk) for chunk in cut(data, lengths)), mask.finish()])


def said(stream: bytes) -> str:
    whole = message_from_events(json.loads(payload) for payload in EventSplitter().feed(stream))
    return str(whole["content"][0]["text"])


@given(TEXTS, LENGTHS)
def test_a_key_in_a_body_is_masked_however_it_is_cut(text: str, lengths: list[int]) -> None:
    body = json.dumps({"text": text}).encode()
    got = passed(body, lengths, events=False)
    assert KEY.encode() not in got
    assert len(got) == len(body)
    assert len(json.loads(got)["text"]) == len(text)


@given(TEXTS, LENGTHS, st.integers(1, 50))
def test_a_key_in_a_stream_is_masked_however_chunks_and_events_split_it(
    text: str, lengths: list[int], piece: int
) -> None:
    got = passed(stream_bytes(message(text), piece=piece), lengths, events=True)
    assert KEY.encode() not in got
    assert KEY not in said(got)
    assert len(said(got)) == len(text)


@pytest.mark.parametrize("name", DIALECTS)
@given(text=TEXTS, lengths=LENGTHS, piece=st.integers(1, 50))
def test_in_every_dialect_a_key_is_masked_in_texts_thoughts_and_calls(
    name: str, text: str, lengths: list[int], piece: int
) -> None:
    dialect = DIALECTS[name]
    call = ScriptedTool(1, "bash", {"command": text})
    said = ScriptedMessage(number=1, model="m", thinking=text, text=text, tools=(call,))
    events = dialect.events_from_message(dialect.render(said), piece_length=piece)
    stream = b"".join(dialect.encode_event(event) for event in events)
    mask = SecretMask(SPELLINGS, dialect.text_members)
    got = b"".join([*(mask.feed(chunk) for chunk in cut(stream, lengths)), mask.finish()])
    payloads = [payload for payload in EventSplitter().feed(got) if payload != b"[DONE]"]
    whole = json.dumps(dialect.message_from_events(json.loads(payload) for payload in payloads))
    assert KEY not in whole
    assert len(got) == len(stream)


@pytest.mark.parametrize("name", DIALECTS)
def test_events_of_every_dialect_pass_without_being_searched_for_texts(name: str) -> None:
    dialect = DIALECTS[name]
    mask = SecretMask(SPELLINGS, dialect.text_members)
    for event in dialect.events_from_message(dialect.render(ScriptedMessage(number=1, model="m", text="Hello."))):
        encoded = dialect.encode_event(event)
        # Most events of a stream are pieces of text: what makes the mask look closer slows all of them down.
        if isinstance(event, dict) and dialect.text_path(event) is not None:
            assert mask._sign.search(encoded) is None
        assert mask.feed(encoded) == encoded


@given(st.text(), LENGTHS, st.integers(1, 50))
def test_what_holds_no_key_passes_unchanged(text: str, lengths: list[int], piece: int) -> None:
    stream = stream_bytes(message(text), piece=piece)
    assert passed(stream, lengths, events=True) == stream
    assert passed(stream, lengths, events=False) == stream


def test_a_whole_event_is_not_held_back() -> None:
    mask = SecretMask(SPELLINGS, MESSAGES.text_members)
    for event in stream_bytes(message("it is as it is, sk-ant-something else"), piece=3).split(b"\n\n")[:-1]:
        assert mask.feed(event + b"\n\n") == event + b"\n\n"


def test_a_stream_that_ends_within_a_key_does_not_give_its_beginning_away() -> None:
    stream = stream_bytes(message(f"it is {KEY}"), piece=10)
    mask = SecretMask(SPELLINGS, MESSAGES.text_members)
    end = stream.index(b"\n\n", stream.index(b"ecognisabl")) + 2
    got = mask.feed(stream[:end]) + mask.finish()
    assert b'"it is ' in got
    assert b"nt-dummy-r" not in got
    assert b"ecognisabl" not in got


@pytest.mark.parametrize(("secret", "most"), [(KEY, 7), ("local-key-1", 1), ("four", 0)])
@pytest.mark.parametrize("split", ["chunks", "events"])
def test_only_where_a_key_is_split_in_its_first_characters_have_these_passed(
    secret: str, most: int, split: str
) -> None:
    """Wherever a chunk or an event ends: the network decides, and a busy machine decides otherwise."""
    spellings = secret_spellings([secret])
    masked = mask_text(secret, spellings)
    for end in range(len(secret) + 1):
        first, second = f"it is {secret[:end]}", f"{secret[end:]}."
        if split == "chunks":
            mask, chunks = SecretMask(spellings, None), [f'{{"text": "{first}', f'{second}"}}']
        else:
            mask = SecretMask(spellings, MESSAGES.text_members)
            chunks = [f'data: {{"delta":{{"type":"text_delta","text":"{text}"}}}}\n\n' for text in (first, second)]
        got = b"".join([*(mask.feed(chunk.encode()) for chunk in chunks), mask.finish()]).decode()
        assert len(got) == len("".join(chunks))
        text = re.sub(r'"\}\}\n\ndata: [^:]*:[^:]*:[^:]*:"', "", got)
        passed = end if end <= most else 0
        assert f'it is {secret[:passed]}{masked[passed:]}."' in text


@pytest.mark.parametrize("secret", ["a/b+c=d&e-f_g.h", 'we"ird\\key', "plain-key"])
def test_a_key_is_found_as_json_may_escape_it(secret: str) -> None:
    spellings = secret_spellings([secret])
    forms = [secret, json.dumps(secret)[1:-1], secret.replace("/", "\\/")]
    forms += ["".join(c if c.isalnum() or c in "-_." else f"\\u{ord(c):04{x}}" for c in secret) for x in "xX"]
    for form in forms:
        assert form not in mask_text(f"<{form}>", spellings)
        assert len(mask_text(form, spellings)) == len(form)


def test_short_secrets_are_ordinary_text() -> None:
    assert secret_spellings(["abc", ""]) == ()


async def test_a_provider_that_echoes_our_key_does_not_get_it_to_the_agent_nor_to_disk(tmp_path: Path) -> None:
    """In the text of a stream, over events and chunks, in bodies, compressed or not, in errors, and in headers."""

    def headers(request: web.Request) -> dict[str, str]:
        return {"x-echo": f"you sent {request.headers['x-api-key']}", f"x-{KEY}": "name", "request-id": KEY}

    async def stream(request: web.Request) -> web.StreamResponse:
        key = request.headers["x-api-key"]
        response = web.StreamResponse(headers={"content-type": "text/event-stream", **headers(request)})
        await response.prepare(request)
        data = stream_bytes(message(f"key: {key} {key}"), piece=5)
        for start in range(0, len(data), 11):
            await response.write(data[start : start + 11])
        return response

    def whole(status: int, *, compressed: bool) -> web.StreamResponse:
        kind = "message" if status == 200 else "error"
        body = json.dumps({**message(f"key: {KEY}"), "type": kind, "key": KEY}).encode()
        sent = {"content-type": "application/json", **({"content-encoding": "gzip"} if compressed else {})}
        return web.Response(status=status, body=gzip.compress(body) if compressed else body, headers=sent)

    seen: list[str] = []
    async with provider() as lab, world(upstream(lab), recording=tmp_path / "c.jsonl") as here:

        async def receive(answer: web.StreamResponse | None, *, streamed: bool = False) -> bytes:
            async def respond(request: web.Request) -> web.StreamResponse:
                if answer is None:
                    return await stream(request)
                answer.headers.update(headers(request))
                return answer

            lab.responses = [respond]
            response = await here.agent.post(stream=streamed)
            body = await response.read()
            seen.extend([body.decode(), str(response.headers), str(response.raw_headers)])
            return body

        masked_keys = said(await receive(None, streamed=True)).removeprefix("key: ").split(" ")
        assert len(masked_keys) == 2
        for one in masked_keys:
            # Where a chunk of the network ends in its first characters, they have passed: the name of the provider.
            assert one in [KEY[:passed] + MASK[passed:] for passed in range(8)]
        for status in (200, 400):
            for compressed in (False, True):
                body = await receive(whole(status, compressed=compressed))
                assert b"key: " in body
        assert "you sent" in seen[1]
    assert lab.requests[0].headers["x-api-key"] == KEY, "the provider has it"
    assert not [text for text in seen if KEY.lower() in text.lower()]
    assert KEY not in (tmp_path / "c.jsonl").read_text()
