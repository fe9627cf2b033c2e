import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web

from gateway_lab import MODEL, message, parse_call, provider, respond_with, upstream, world
from proctor.core.result import Tokens
from proctor.gateway import GatewaySessionSpec, ReplayBackend, ScriptBackend, parse_script
from proctor.gateway.dialects import MESSAGES
from proctor.gateway.recording import load_recording
from proctor.gateway.request_matching import normalize_message
from proctor.gateway.safe_json import MAX_DEPTH, decode_or_text


def nested(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


def results(depth: int) -> bytes:
    content = b'"x"'
    for _ in range(depth):
        content = b'[{"type":"tool_result","content":' + content + b"}]"
    return content


def body(content: bytes = b'"hi"', more: bytes = b"") -> bytes:
    return b'{"model":"%b","messages":[{"role":"user","content":%b}]%b}' % (MODEL.encode(), content, more)


HOSTILE = {
    "a name that is no text": body(more=b',"\xff":1'),
    "a value that is no text": body(more=b',"system":"\xff"'),
    "half of a character": body(more=b',"system":"\\ud800"'),
    "results in results": body(results(400)),
    "lists in lists": body(nested(900)),
    "lists in lists beside the messages": body(more=b',"x":' + nested(900)),
    "a number of thousands of digits": body(b"1" * 5000),
    "messages that are none": b'{"model":"%b","messages":[1,null,"x",[],[1]]}' % MODEL.encode(),
    "content that is none": body(b'[1,[2],{"content":[3]},{"type":"tool_result"}]'),
    "one number in a list": body(b"[1]"),
    "one list in a list": body(b'[["type","text"]]'),
}


@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("seconds", [0, 0.05], ids=["at once", "after a while"])
async def test_nothing_an_agent_writes_makes_the_gateway_fail(hostile: bytes, seconds: float, tmp_path: Path) -> None:
    """Else an agent could end any attempt as a fault of its environment, which is not counted against it."""
    failed: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failed.append(context))

    async def think(request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(seconds)
        return await respond_with(message())(request)

    one, two = tmp_path / "one.jsonl", tmp_path / "two.jsonl"
    async with provider() as lab, world(upstream(lab), recording=one) as here:
        lab.responses = [think]
        async with here.agent.http.post(here.agent.base + "/v1/messages", data=hostile) as response:
            assert response.status == 200
        assert here.session.failure is None
        base = here.agent.base.partition("/t/")[0]
        assert len(load_recording(one).exchanges) == 1
        spec = GatewaySessionSpec(task_id="t", recording=two, earlier_recordings=(one,))
        async with here.gateway.session(spec) as again:
            async with here.agent.http.post(f"{base}{again.path}/v1/messages", data=hostile) as response:
                assert response.status == 200
            assert again.failure is None
    assert len(load_recording(two).exchanges) == 1
    script = parse_script({"default": [{"if": "x", "then": [{"text": "a"}], "else": [{"text": "b"}]}]})
    for backend in (ReplayBackend(lambda _: one), ScriptBackend(script)):
        async with world(backend, task_id="t") as here:
            async with here.agent.http.post(here.agent.base + "/v1/messages", data=hostile) as response:
                assert response.status in {200, 451}
            assert here.session.failure is None
    assert failed == []


@pytest.mark.parametrize("model", [b"\xff", b"\xc3\x28"])
async def test_a_model_whose_name_is_no_text_is_no_request(model: bytes) -> None:
    assert parse_call(b'{"model":"%b","messages":[]}' % model, {}) is None


@pytest.mark.parametrize("event", [b'"\xff"', b'{"type":"message_delta","x":"\xff"}', nested(100_000), b'{"error"'])
async def test_an_event_that_cannot_be_read_is_passed_on(event: bytes, tmp_path: Path) -> None:
    async def odd(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        start = {"type": "message_start", "message": message(tokens=Tokens(input=3, output=1))}
        await response.write(b"data: " + msgspec.json.encode(start) + b"\n\n")
        for data in (event, b'{"type":"content_block_delta","index":0,"delta":' + event + b"}"):
            await response.write(b"data: " + data + b"\n\n")
        await response.write(b'data: {"type":"message_stop"}\n\n')
        return response

    async with provider() as lab, world(upstream(lab), recording=tmp_path / "c.jsonl") as here:
        lab.responses = [odd]
        status, passed = await here.agent.ask(stream=True)
        assert (status, passed.count(event), here.session.failure) == (200, 2, None)
        assert here.session.usage.tokens.input == 3
    assert len(load_recording(tmp_path / "c.jsonl").exchanges) == 1


def test_a_value_is_read_as_deep_as_anybody_writes() -> None:
    assert decode_or_text(nested(MAX_DEPTH)) == msgspec.json.decode(nested(MAX_DEPTH))
    assert decode_or_text(nested(MAX_DEPTH + 1)) == nested(MAX_DEPTH + 1).decode()
    assert decode_or_text(b"\xff") == "\ufffd"


def test_a_list_of_one_is_compared_whatever_is_in_it() -> None:
    for one in (1, None, ["type", "text"], {"type": 1}):
        assert normalize_message({"content": [{"input": {"lines": [one]}}]}, MESSAGES) == {
            "content": [{"input": {"lines": [one]}}]
        }
