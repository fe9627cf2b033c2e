import asyncio
import json
from typing import Any

import pytest
from aiohttp import ClientPayloadError, web

from dialect_lab import NAMES, send
from gateway_lab import KEY, MODEL, QUICK, fail_with, message, provider, respond_with, stream_bytes, upstream, world
from proctor.core.causes import Cause
from proctor.core.errors import UsageError
from proctor.core.result import Tokens
from proctor.gateway import GatewayFailure, ProviderAuth, RetryPolicy, Secret, Upstream
from proctor.gateway.dialects import DIALECTS
from proctor.gateway.dialects.base import ScriptedMessage
from proctor.gateway.events import ExchangeFinished
from proctor.gateway.upstream import _retry_after_seconds
from waiting import eventually


async def test_the_placeholder_is_replaced_by_the_key() -> None:
    async with provider() as lab, world(upstream(lab)) as here:
        headers = {
            "Authorization": "Bearer placeholder-login",
            "Cookie": "a=b",
            "anthropic-beta": "x,y",
            "X-App": "cli",
        }
        await here.agent.ask(headers=headers)
        (request,) = lab.requests
        assert request.headers["x-api-key"] == KEY
        assert request.headers["anthropic-beta"] == "x,y"
        assert request.headers["x-app"] == "cli"
        assert request.headers["accept-encoding"] == "identity"
        assert "authorization" not in request.headers
        assert "cookie" not in request.headers
        assert str(request.rel_url) == "/v1/messages?beta=true"
        assert json.loads(lab.bodies[0])["messages"] == [{"role": "user", "content": "hi"}]


async def test_a_key_may_be_a_bearer_token() -> None:
    async with provider() as lab, world(upstream(lab, auth=ProviderAuth.BEARER)) as here:
        await here.agent.ask()
        assert lab.requests[0].headers["authorization"] == f"Bearer {KEY}"
        assert "x-api-key" not in lab.requests[0].headers


async def test_the_agents_own_login_passes_through() -> None:
    async with provider() as lab, world(Upstream(lab.url, auth=ProviderAuth.PASS_THROUGH, retry=QUICK)) as here:
        await here.agent.ask(headers={"Authorization": "Bearer dummy-own-login-123456"})
        assert lab.requests[0].headers["authorization"] == "Bearer dummy-own-login-123456"
        lab.responses = [fail_with(401, "authentication_error")]
        response = await here.agent.post()
        assert response.status == 401
        assert "x-should-retry" not in response.headers, "the agent may renew its login and ask again"
        assert here.session.failure is None


def test_without_a_key_there_is_one_sentence() -> None:
    with pytest.raises(UsageError, match="no key"):
        Upstream("http://x")


@pytest.mark.parametrize("key", ["dummy\n", "dummy\r\nx: y", "düm-my"])
def test_a_key_that_cannot_be_one_is_one_sentence(key: str) -> None:
    with pytest.raises(UsageError, match="no key has") as raised:
        Upstream("http://x", key=Secret(key))
    assert key not in str(raised.value)


def test_an_address_that_is_none_is_one_sentence() -> None:
    with pytest.raises(UsageError, match=r"'api.example.com' does not begin with http"):
        Upstream("api.example.com", key=Secret("dummy"))
    with pytest.raises(UsageError, match=r"the proxy's address does not begin with http"):
        Upstream("http://x", key=Secret("dummy"), proxies={"all_proxy": "socks5://y"})


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 529])
async def test_provider_errors_are_retried_and_the_client_sees_none_of_them(status: int) -> None:
    async with provider() as lab, world(upstream(lab)) as here:
        lab.responses = [fail_with(status), fail_with(status), respond_with(message())]
        status_now, body = await here.agent.ask(stream=True)
        assert (status_now, body) == (200, stream_bytes(message()))
        usage = here.session.usage
        assert (usage.requests, usage.retries, usage.errors) == (1, 2, {str(status): 2})
        assert here.session.failure is None
        assert lab.bodies[0] == lab.bodies[2] != b""


async def test_a_connection_that_fails_is_tried_again() -> None:
    async def slam(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    async with provider() as lab, world(upstream(lab)) as here:
        lab.responses = [slam, slam, respond_with(message())]
        assert (await here.agent.ask())[0] == 200
        assert here.session.usage.errors == {"0": 2}


@pytest.mark.parametrize(
    ("status", "cause"),
    [(429, Cause.RATE_LIMITED), (500, Cause.PROVIDER_ERROR), (503, Cause.PROVIDER_ERROR), (529, Cause.PROVIDER_ERROR)],
)
async def test_errors_that_persist_are_relayed_as_final(status: int, cause: Cause) -> None:
    async with provider() as lab, world(upstream(lab)) as here:
        lab.responses = [fail_with(status, text="still no")]
        response = await here.agent.post()
        assert response.status == status
        assert response.headers["x-should-retry"] == "false"
        assert (await response.json())["error"]["message"] == "still no"
        assert len(lab.requests) == QUICK.tries
        assert here.session.failure is not None
        assert (here.session.failure.cause, here.session.failure.status) == (cause, status)
        assert "still no" in here.session.failure.message
        await asyncio.sleep(0)
        assert here.events_of(GatewayFailure) == [here.session.failure]
        # Claude Code 2.1.197 retries a 529 whatever the other header says.
        assert response.headers.get("retry-after") == ("3600" if status == 529 else None)


async def test_a_provider_that_is_not_there_is_reported_without_the_key() -> None:
    async with provider() as lab:
        gone = lab.url
    async with world(Upstream(gone, key=Secret(KEY), retry=QUICK)) as here:
        response = await here.agent.post()
        assert response.status == 502
        assert response.headers["x-should-retry"] == "false"
        text = (await response.json())["error"]["message"]
        assert "cannot be reached" in text
        assert here.session.failure is not None
        assert here.session.failure.cause is Cause.PROVIDER_ERROR
        assert KEY not in text + here.session.failure.message


@pytest.mark.parametrize(
    ("status", "text"), [(401, "invalid x-api-key"), (403, "no"), (402, "pay"), (400, "Your credit balance is too low")]
)
async def test_a_refused_login_is_told_at_once_and_not_retried(status: int, text: str) -> None:
    async with provider() as lab, world(upstream(lab)) as here:
        lab.responses = [fail_with(status, text=text)]
        response = await here.agent.post()
        assert response.status == status
        assert response.headers.get("x-should-retry") == (None if status == 400 else "false")
        assert len(lab.requests) == 1
        assert here.session.failure is not None
        assert here.session.failure.cause is Cause.BAD_LOGIN


@pytest.mark.parametrize(
    "text", ["model: Your credit balance is too low", 'x","message":"Your credit balance is too low']
)
async def test_an_agent_cannot_have_the_login_refused_by_what_it_has_the_provider_repeat(text: str) -> None:
    async with provider() as lab, world(upstream(lab)) as here:
        lab.responses = [fail_with(422, text=text)]
        assert (await here.agent.ask())[0] == 422
        assert here.session.failure is None


@pytest.mark.parametrize("status", [400, 413, 422])
async def test_the_agents_own_mistakes_pass_through_untouched(status: int) -> None:
    async with provider() as lab, world(upstream(lab)) as here:
        lab.responses = [fail_with(status, text="prompt is too long")]
        response = await here.agent.post()
        assert response.status == status
        assert "x-should-retry" not in response.headers
        assert len(lab.requests) == 1
        assert here.session.failure is None
        assert here.session.usage.errors == {str(status): 1}


async def test_the_provider_may_say_itself_whether_to_try_again() -> None:
    async with provider() as lab, world(upstream(lab)) as here:
        lab.responses = [fail_with(500, x_should_retry="false"), respond_with(message())]
        assert (await here.agent.ask())[0] == 500
        lab.responses = [fail_with(400, x_should_retry="true"), respond_with(message())]
        assert (await here.agent.ask())[0] == 200


async def test_without_retries_errors_pass_through_as_they_are() -> None:
    async with provider() as lab, world(upstream(lab, retry=RetryPolicy(tries=1))) as here:
        lab.responses = [fail_with(529, retry_after="7")]
        response = await here.agent.post()
        assert (response.status, response.headers["retry-after"]) == (529, "7")
        assert "x-should-retry" not in response.headers
        assert len(lab.requests) == 1


async def test_the_provider_is_given_the_time_that_it_asks_for() -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    policy = RetryPolicy(tries=5, base_seconds=0.5, max_seconds=2, total_seconds=100)
    async with provider() as lab, world(upstream(lab, retry=policy, sleep=sleep, jitter=lambda: 0.0)) as here:
        lab.responses = [
            fail_with(429, retry_after="30"),
            fail_with(529),
            fail_with(529, retry_after="Wed, 21 Oct"),
            fail_with(529, retry_after="0"),
            respond_with(message()),
        ]
        assert (await here.agent.ask())[0] == 200
        assert waits == [30, 1, 2, 2]


@pytest.mark.parametrize(
    ("failed", "waited", "retry_after", "expected"),
    [
        (1, 0, None, 0.5),
        (2, 0, None, 1.0),
        (7, 0, None, 32.0),
        (8, 0, None, None),
        (1, 0, 59.0, 59.0),
        (1, 0, 241.0, None),
        (3, 239, None, None),
        (3, 238, None, 2.0),
    ],
)
def test_retries_wait_within_the_limits_of_the_policy(
    failed: int, waited: float, retry_after: float | None, expected: float | None
) -> None:
    assert RetryPolicy().wait(failed, waited, retry_after, 0.0) == expected


def test_waits_differ_by_chance_by_a_quarter_at_most() -> None:
    assert RetryPolicy().wait(1, 0, None, 1.0) == 0.625


async def test_a_stream_that_breaks_off_breaks_off_for_the_client_too_and_is_counted() -> None:
    tokens = Tokens(input=100, output=50)
    sent = stream_bytes(message("long " * 50, tokens=tokens), piece=5)[:2000]

    async def cut(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        await response.write(sent)
        await asyncio.sleep(0.05)
        assert request.transport is not None
        request.transport.abort()
        return response

    async with provider() as lab, world(upstream(lab)) as here:
        lab.responses = [cut]
        response = await here.agent.post(stream=True)
        received = b""
        try:
            async for chunk in response.content.iter_any():
                received += chunk
            pytest.fail("the client took a broken response for a whole one")
        except ClientPayloadError:
            assert received == sent
        response.close()
        await eventually(lambda: here.session.usage.cut, "the meter's word")
        usage = here.session.usage
        # The input as reported; of the output, no more tokens than bytes of text have arrived.
        assert (usage.cut, usage.tokens.input, usage.models[0].estimated_requests) == (1, 100, 1)
        assert len("long " * (sent.count(b'"text":"long ') - 1)) <= usage.tokens.output < 200
        assert len(lab.requests) == 1, "a stream that has begun is not asked for again"


async def test_a_compressed_response_is_passed_on_readable() -> None:
    async def compressed(request: web.Request) -> web.StreamResponse:
        response = web.json_response(message(tokens=Tokens(input=5, output=6)))
        response.enable_compression(web.ContentCoding.gzip)
        request.headers  # noqa: B018 - compressed although nobody asked for it
        return response

    async with provider() as lab, world(upstream(lab)) as here:
        lab.responses = [compressed]
        response = await here.agent.post()
        assert "content-encoding" not in response.headers
        assert (await response.json())["id"] == "msg_1"
        assert here.session.usage.tokens == Tokens(input=5, output=6)


async def test_a_long_conversation_is_sent_without_a_warning() -> None:
    async with provider() as lab, world(upstream(lab)) as here:
        assert (await here.agent.ask("x" * 3_000_000))[0] == 200
        assert len(lab.bodies[0]) > 3_000_000


async def test_an_error_that_echoes_the_key_reaches_nobody(tmp_path: Any) -> None:
    async with provider() as lab, world(upstream(lab), recording=tmp_path / "c.jsonl") as here:
        lab.responses = [fail_with(400, text=f"bad key {KEY}")]
        response = await here.agent.post()
        assert KEY not in await response.text()
        lab.responses = [fail_with(500, text=f"bad key {KEY}")]
        assert KEY not in await (await here.agent.post()).text()
        assert here.session.failure is not None
        assert KEY not in here.session.failure.message
        assert KEY not in (tmp_path / "c.jsonl").read_text()
        assert MODEL in (tmp_path / "c.jsonl").read_text()


async def test_hop_by_hop_headers_are_not_forwarded() -> None:
    async def neighbourly(request: web.Request) -> web.StreamResponse:
        response = await respond_with(message())(request)
        response.headers.update({"Connection": "X-Hop", "X-Hop": "a", "X-End": "b", "Trailer": "X"})
        return response

    async with provider() as lab, world(upstream(lab)) as here:
        lab.responses = [neighbourly]
        headers = {
            "Connection": "keep-alive, X-Mine,  ANTHROPIC-beta",
            "X-Mine": "a",
            "anthropic-beta": "b",
            "X-App": "c",
        }
        response = await here.agent.post(headers=headers)
        sent = lab.requests[0].headers
        assert ("x-mine" in sent, "anthropic-beta" in sent, sent["x-app"]) == (False, False, "c")
        assert sent["x-api-key"] == KEY
        assert ("x-hop" in response.headers, "trailer" in response.headers) == (False, False)
        assert response.headers["x-end"] == "b"


async def test_a_connection_that_the_provider_ends_as_it_is_asked_is_no_error() -> None:
    """The request went unheard, so even without retries the client must not learn of it."""
    heard = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal heard
        for _ in range(2):
            head = await reader.readuntil(b"\r\n\r\n")
            if heard == 1:
                heard += 1
                break
            heard += 1
            await reader.readexactly(int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]))
            body = json.dumps(message()).encode()
            writer.write(
                b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body
            )
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with world(Upstream(address, key=Secret(KEY), retry=RetryPolicy(tries=1))) as here:
        assert [(await here.agent.ask())[0] for _ in range(2)] == [200, 200]
        assert (heard, here.session.usage.errors, here.session.failure) == (3, {}, None)
    server.close()


FAULTS: dict[str, tuple[int, bytes, dict[str, str]]] = {
    "429": (429, b'{"error":{"message":"slow down"}}', {"retry-after": "0"}),
    "500": (500, b'{"error":{"message":"oops"}}', {}),
    "502 html": (502, b"<html><body>Bad gateway</body></html>", {"content-type": "text/html"}),
    "503 empty": (503, b"", {}),
    "529": (529, b'{"error":{"type":"overloaded_error"}}', {"x-should-retry": "true"}),
    "dropped": (0, b"", {}),
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("fault", FAULTS)
async def test_in_every_dialect_an_error_that_persists_ends_with_a_final_status_and_an_error_that_can_be_read(
    name: str, fault: str
) -> None:
    status, body, headers = FAULTS[fault]

    async def fail(request: web.Request) -> web.StreamResponse:
        if not status:
            assert request.transport is not None
            request.transport.abort()
        return web.Response(status=status or 200, body=body, headers=headers)

    async with provider() as lab, world(upstream(lab, auth=ProviderAuth.BEARER)) as here:
        lab.responses = [fail]
        got, text = await send(here, name, stream=True)
        error = json.loads(text)["error"]
        assert (got, len(lab.requests)) == (400, QUICK.tries)
        assert isinstance(error["message"], str)
        assert here.session.failure is not None
        assert here.session.usage.errors == {str(status): QUICK.tries}
        assert here.session.usage.turns == 0


@pytest.mark.parametrize("name", NAMES)
async def test_a_malformed_event_passes_and_the_rest_is_metered(name: str) -> None:
    dialect = DIALECTS[name]
    said = ScriptedMessage(number=1, model=MODEL, text="Hello.", tokens=Tokens(input=100, output=50))
    events = [dialect.encode_event(event) for event in dialect.events_from_message(dialect.render(said))]
    events.insert(1, dialect.encode_event(dialect.malformed_event))

    async def respond(request: web.Request) -> web.StreamResponse:
        return web.Response(body=b"".join(events), headers={"content-type": "text/event-stream"})

    async with provider() as lab, world(upstream(lab, auth=ProviderAuth.BEARER)) as here:
        lab.responses = [respond]
        status, body = await send(here, name, stream=True)
        assert (status, body) == (200, b"".join(events))
        assert here.session.usage.tokens == Tokens(input=100, output=50)
        assert here.session.usage.cut == 0
        assert [event.malformed for event in here.events_of(ExchangeFinished)] == [1]


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("body", [b"<html>busy</html>", b"", b"{}", b'["x"]', b'{"choices": 3}', b"\xff\xfe{"])
@pytest.mark.parametrize("name", NAMES)
async def test_a_document_that_is_no_message_is_relayed_and_counts_as_a_failed_response(
    name: str, body: bytes, stream: bool
) -> None:
    async def respond(request: web.Request) -> web.StreamResponse:
        return web.Response(body=body, headers={"content-type": "application/json"})

    async with provider() as lab, world(upstream(lab, auth=ProviderAuth.BEARER)) as here:
        lab.responses = [respond]
        assert await send(here, name, stream=stream) == (200, body)
        assert [event.cut for event in here.events_of(ExchangeFinished)] == ["it was no message of a model"]
        assert (here.session.usage.cut, here.session.meter.whole_turns) == (1, 0)
        assert here.session.usage.models[0].estimated_requests == 1, "it may have been charged for"


@pytest.mark.parametrize("name", NAMES)
async def test_a_provider_that_says_nothing_is_given_up_in_time(name: str) -> None:
    """Tries that take long are not repeated as often as those that fail at once."""
    silent = asyncio.Event()

    async def wait(request: web.Request) -> web.StreamResponse:
        await silent.wait()
        return web.Response()

    patience = RetryPolicy(tries=8, base_seconds=0.001, max_seconds=0.01, total_seconds=0.3)
    async with provider() as lab:
        backend = upstream(lab, auth=ProviderAuth.BEARER, idle_seconds=0.2, retry=patience)
        async with world(backend) as here:
            lab.responses = [wait]
            status, body = await send(here, name)
            assert (status, b"nothing was received" in body) == (400, True)
            assert 1 <= len(lab.requests) <= 2
            assert here.session.usage.models[0].estimated_requests == len(lab.requests), (
                "each may have been charged for"
            )
        silent.set()


@pytest.mark.parametrize(
    ("headers", "least", "most"),
    [
        ({"retry-after": "7"}, 7, 7),
        ({"retry-after-ms": "1500"}, 1.5, 1.5),
        ({"retry-after": "1", "retry-after-ms": "2500"}, 2.5, 2.5),
        ({"retry-after": "-4"}, 0, 0),
        ({"retry-after": "Tue, 01 Jan 2999 00:00:00 GMT"}, 10**9, 10**11),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0, 0),
    ],
)
def test_a_provider_says_in_several_ways_how_long_to_wait(headers: dict[str, str], least: float, most: float) -> None:
    wait = _retry_after_seconds(headers)
    assert wait is not None
    assert least <= wait <= most


@pytest.mark.parametrize("value", ["", "soon", "1e999x", "Wed, 99 Oct 2015"])
def test_a_wait_that_cannot_be_read_is_our_own(value: str) -> None:
    assert _retry_after_seconds({"retry-after": value}) is None
    assert _retry_after_seconds({}) is None


async def test_a_tier_without_a_price_ends_a_session_that_has_a_budget_and_says_which() -> None:
    async def respond(request: web.Request) -> web.StreamResponse:
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        return web.json_response({"model": "gpt-5.5", "choices": [], "usage": usage, "service_tier": "scale"})

    async with provider() as lab, world(upstream(lab, auth=ProviderAuth.BEARER), cap_usd=1.0) as here:
        lab.responses = [respond]
        assert (await send(here, "chat", model="gpt-5.5"))[0] == 200
        assert here.session.usage.cost_usd is None
        assert here.session.limit is not None
        assert "gpt-5.5 in the mode 'scale'" in here.session.limit.message
