"""What is charged when a response breaks off or never comes, and the marks that requests leave on disk."""

import asyncio
import os
import random
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, web

from gateway_lab import (
    KEY,
    MODEL,
    Agent,
    fail_with,
    message,
    parse_call,
    provider,
    provider_body,
    respond_with,
    stream_bytes,
    upstream,
    world,
)
from proctor.core.causes import Cause
from proctor.core.result import Tokens
from proctor.gateway import (
    Gateway,
    GatewaySessionSpec,
    Prices,
    RetryPolicy,
    ScriptBackend,
    Secret,
    Upstream,
    load_recording,
    parse_script,
)
from proctor.gateway.estimates import ADDED_PROMPT_TOKENS, UNSEEN_BODY_TOKENS, UNSEEN_STREAM_TOKENS, unreported_usage
from proctor.gateway.meter import GatewayUsage
from proctor.gateway.prices import Usage
from proctor.runner.run_cost import recording_usage
from waiting import eventually

TEXT = "word " * 400


def test_the_input_of_a_request_has_no_more_tokens_than_bytes_and_the_price_that_it_asks_for() -> None:
    def estimate(body: bytes) -> Usage:
        call = parse_call(body, {})
        assert call is not None
        return unreported_usage(call)

    plain = b'{"model":"m","messages":[]}'
    used = Usage(
        model="m",
        tokens=Tokens(input=len(plain) + ADDED_PROMPT_TOKENS, output=UNSEEN_BODY_TOKENS),
        estimated=True,
    )
    assert estimate(plain) == used
    cached = estimate(b'{"model":"m","messages":[],"system":[{"text":"x","cache_control":{"type":"ephemeral"}}]}')
    assert (cached.tokens.input, cached.tokens.cache_write_5m) == (0, 88 + ADDED_PROMPT_TOKENS)
    long = estimate(b'{"model":"m","messages":[],"cache_control":{"type":"ephemeral","ttl":"1h"},"stream":true}')
    assert (long.tokens.cache_write_1h, long.tokens.output) == (89 + ADDED_PROMPT_TOKENS, UNSEEN_STREAM_TOKENS)
    fast = estimate(b'{"model":"m","messages":[],"speed":"fast","inference_geo":"us"}')
    assert (fast.speed, fast.geo) == ("fast", "us")


async def hang(request: web.Request) -> web.StreamResponse:
    await asyncio.Event().wait()
    return web.Response()


def streaming(events: int | None, *, tokens: Tokens) -> Any:
    """Sends so many events of a stream, one token each, and waits."""

    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        sent = stream_bytes(message(TEXT, tokens=tokens), piece=5).split(b"\n\n")[:events]
        await response.write(b"".join(event + b"\n\n" for event in sent))
        await asyncio.Event().wait()
        return response

    return handle


async def test_a_stream_that_the_agent_cuts_off_is_charged_by_what_was_delivered() -> None:
    async with provider() as lab, world(upstream(lab), cap_usd=0.004) as here:
        lab.responses = [streaming(202, tokens=Tokens(input=1000, output=400))]
        response = await here.agent.post(stream=True)
        await response.content.readany()
        response.close()
        await eventually(lambda: here.session.usage.cut, "the charge")
        usage = here.session.usage
        (model,) = usage.models
        # The provider said what the input was; of the output, 200 words have arrived.
        assert (usage.tokens.input, model.requests, model.estimated_requests) == (1000, 1, 1)
        assert 200 <= usage.tokens.output <= 5 * 200 + 50
        assert model.cost_usd == model.estimated_usd
        assert model.cost_usd is not None
        assert model.cost_usd >= (1000 * 3 + 200 * 15) / 1e6
        assert here.session.limit is not None, "what was cut off counts for the budget"
        assert (await here.agent.ask())[0] == 402


async def test_an_agent_that_does_not_read_is_charged_what_the_provider_has_sent() -> None:
    sent = 0
    start, _, event, *_ = (part + b"\n\n" for part in stream_bytes(message("x" * 10), piece=1).split(b"\n\n"))
    assert b'"text":"x"' in event, "a token of one byte"

    async def flood(request: web.Request) -> web.StreamResponse:
        nonlocal sent
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        await response.write(start)
        for _ in range(100):
            await response.write(event * 100)
            sent += 100
        await asyncio.Event().wait()
        return response

    async with provider() as lab, world(upstream(lab)) as here:
        lab.responses = [flood]
        reader, writer = await asyncio.open_connection("127.0.0.1", int(here.agent.base.split(":")[2].split("/")[0]))
        body = b'{"model":"%b","stream":true,"messages":[{"role":"user","content":"hi"}]}' % MODEL.encode()
        head = f"POST {here.session.path}/v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        await reader.readexactly(100)
        await eventually(lambda: sent == 10_000, "all that the provider sends")
        writer.transport.abort()
        await eventually(lambda: here.session.usage.cut, "the charge")
        assert here.session.usage.tokens.output >= sent


@pytest.mark.parametrize("stream", [False, True])
async def test_a_request_that_the_agent_gives_up_is_charged_by_its_input(stream: bool) -> None:
    async with provider() as lab, world(upstream(lab)) as here:
        lab.responses = [hang]
        asking = asyncio.create_task(here.agent.post("x" * 5000, stream=stream))
        await eventually(lambda: lab.requests, "the request")
        asking.cancel()
        await eventually(lambda: here.session.usage.requests, "the charge")
        (model,) = here.session.usage.models
        assert model.tokens.input == len(lab.bodies[0]) + ADDED_PROMPT_TOKENS
        assert model.estimated_usd == model.cost_usd == here.gateway.budget.spent_usd > 0


async def test_refused_and_unsent_requests_cost_nothing() -> None:
    async with provider() as lab, world(upstream(lab)) as here:
        lab.responses = [fail_with(400)]
        assert (await here.agent.ask())[0] == 400
        assert here.session.usage.models == ()
    nowhere = Upstream("http://127.0.0.1:1", key=Secret(KEY), retry=RetryPolicy(tries=2, base_seconds=0.001))
    async with world(nowhere) as here:
        assert (await here.agent.ask())[0] == 502
        assert (here.session.usage.models, here.session.usage.errors) == ((), {"0": 2})


async def test_every_try_that_may_have_arrived_is_charged_once() -> None:
    async def drop(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    async with provider() as lab, world(upstream(lab)) as here:
        lab.responses = [drop, fail_with(529), drop, respond_with(message(tokens=Tokens(input=10, output=5)))]
        assert (await here.agent.ask())[0] == 200
        (model,) = here.session.usage.models
        lost = len(lab.bodies[0]) + ADDED_PROMPT_TOKENS
        # Also where a connection was used before: it may have been closed before the request was sent, or after.
        assert (model.requests, model.estimated_requests) == (3, 2)
        assert (model.tokens.input, model.tokens.output) == (10 + 2 * lost, 5 + 2 * UNSEEN_BODY_TOKENS)


async def test_a_request_has_left_its_mark_when_it_arrives_and_its_response_takes_it_back(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    seen: list[Any] = []

    async def look(request: web.Request) -> web.StreamResponse:
        recording = load_recording(path)
        seen.extend(recording.unanswered)
        return await respond_with(message())(request)

    async with provider() as lab, world(upstream(lab), recording=path) as here:
        lab.responses = [look]
        for _ in range(2):
            assert (await here.agent.ask(stream=True))[0] == 200
            await eventually(lambda: load_recording(path).unanswered == (), "its end")
    assert [mark.number for mark in seen] == [1, 2]
    assert {mark.usage[0].tokens.input for mark in seen} == {len(lab.bodies[0]) + ADDED_PROMPT_TOKENS}
    assert all(mark.cost_usd == Prices.load().cost(mark.usage[0]) for mark in seen)


async def test_the_mark_of_a_stream_follows_what_has_arrived(tmp_path: Path) -> None:
    """The recording as a kill would leave it in the middle of a response."""
    path = tmp_path / "c.jsonl"
    words = "x " * 5000
    events = stream_bytes(message(words, tokens=Tokens(input=70, cache_read=9000, output=1)), piece=2).split(b"\n\n")

    async def stream(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        for event in events[:4002]:
            await response.write(event + b"\n\n")
        await asyncio.Event().wait()
        return response

    async with provider() as lab, world(upstream(lab), recording=path) as here:
        lab.responses = [stream]
        response = await here.agent.post(stream=True)
        received = b""
        while received.count(b"content_block_delta") < 2 * 4000:
            received += await response.content.readany()
        (usage,) = recording_usage(path)
        response.close()
    # The provider has reported the input, and 4000 words have arrived.
    assert (usage.tokens.input, usage.tokens.cache_read, usage.estimated_requests) == (70, 9000, 1)
    assert 4000 <= usage.tokens.output <= 2 * len("x ") * 5000 + UNSEEN_STREAM_TOKENS
    assert path.read_bytes().count(b'"kind":"mark"') < 12


async def test_replayed_and_scripted_requests_leave_no_mark(tmp_path: Path) -> None:
    async with world(ScriptBackend(parse_script({"default": [{"text": "x"}]})), recording=tmp_path / "0") as here:
        await here.agent.ask()
    async with provider() as lab:
        async with world(upstream(lab), recording=tmp_path / "1") as here:
            assert (await here.agent.ask())[0] == 200
        # The whole limit is spent: what is paid for is replayed, and nothing else is sent.
        spec = GatewaySessionSpec(
            task_id="t", cap_usd=0.1, spent_usd=0.1, recording=tmp_path / "2", earlier_recordings=(tmp_path / "1",)
        )
        async with Gateway(upstream(lab)) as gateway, ClientSession() as http:
            base = await gateway.listen()
            async with gateway.session(spec) as session:
                agent = Agent(http, base + session.path)
                assert (await agent.ask())[0] == 200
                assert not session.ended
                status, body = await agent.ask("something new")
                assert (status, b"($0.1 of $0.1)" in body) == (402, True)
                assert session.usage.refused == 1
        assert len(lab.requests) == 1
    marks = [(tmp_path / name).read_bytes().count(b'"kind":"mark"') for name in "012"]
    assert marks == [0, 1, 0]


async def test_a_request_that_cannot_leave_a_mark_is_not_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write

    def full(descriptor: int, data: bytes) -> int:
        if b'"kind":"mark"' in data:
            raise OSError(28, "No space left on device")
        return real(descriptor, data)

    async with provider() as lab, world(upstream(lab), recording=tmp_path / "c.jsonl") as here:
        monkeypatch.setattr(os, "write", full)
        for _ in range(2):
            status, body = await here.agent.ask()
            assert (status, b"recording_lost" in body) == (451, True)
        assert lab.requests == []
        assert here.session.failure is not None
        assert here.session.failure.cause is Cause.DISK_FULL
        assert here.session.usage.models == ()


PROCTOR = """
import asyncio, sys
from pathlib import Path
from aiohttp import ClientError, ClientSession
from gateway_lab import Agent, MODEL
from proctor.gateway import Gateway, GatewaySessionSpec, Secret, Upstream

async def ask(agent, number):
    for turn in range(1000):
        try:
            response = await agent.post("x" * (137 * number), stream=turn % 3 > 0)
            await response.read()
        except ClientError:
            pass

async def main():
    async with Gateway(Upstream(sys.argv[1], key=Secret("dummy-key"))) as gateway, ClientSession() as http:
        url = await gateway.listen()
        spec = GatewaySessionSpec(task_id="t", recording=Path(sys.argv[2]))
        async with gateway.session(spec) as session:
            await asyncio.gather(*(ask(Agent(http, url + session.path), number) for number in range(1, 5)))

asyncio.run(main())
"""


class Books:
    """A provider that charges the input when a request arrives, and each token of the output when it leaves."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.tokens = Tokens()
        self.requests = 0
        self.awaited = 0

    async def respond(self, request: web.Request) -> web.StreamResponse:
        body = provider_body(request)
        prompt, words = len(body) // 3, self.chance.randint(1, 200)
        whole = message("word " * words, tokens=Tokens(input=prompt, output=words))
        self.requests += 1
        self.tokens += Tokens(input=prompt)
        await asyncio.sleep(self.chance.uniform(0, 0.05))
        if b'"stream":true' not in body:
            self.tokens += Tokens(output=words)
            return web.json_response(whole)
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        for event in stream_bytes(whole, piece=5).split(b"\n\n")[:-1]:
            self.tokens += Tokens(output=b"content_block_delta" in event)
            await response.write(event + b"\n\n")
            await asyncio.sleep(0.0005)
        return response


@pytest.mark.slow
async def test_the_ledger_is_never_below_the_providers_books_however_often_it_is_killed(tmp_path: Path) -> None:
    """Killed at random moments with four requests under way, each of its recordings has at least what was charged."""
    chance = random.Random(20261117)
    ledger, estimated = GatewayUsage().tokens, 0
    async with provider() as lab:
        books = Books(chance)
        lab.responses = [books.respond]
        for number in range(10):
            books.awaited = books.requests + chance.randint(1, 30)
            recording = tmp_path / f"{number}.jsonl"
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-c", PROCTOR, lab.url, str(recording)),
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            )
            await eventually(lambda: books.requests >= books.awaited, "its requests")
            await asyncio.sleep(chance.uniform(0, 0.05))
            process.send_signal(signal.SIGKILL)
            await process.wait()
            (usage,) = recording_usage(recording)
            ledger += usage.tokens
            estimated += usage.estimated_requests
    assert 10 <= estimated <= 40
    assert ledger.input >= books.tokens.input
    assert ledger.output >= books.tokens.output
    prices = Prices.load()
    charged = prices.cost(Usage(model=MODEL, tokens=books.tokens))
    booked = prices.cost(Usage(model=MODEL, tokens=ledger))
    assert charged is not None
    assert booked is not None
    assert charged <= booked < 3 * charged
