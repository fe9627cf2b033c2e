import asyncio
import logging
from pathlib import Path

import pytest
from aiohttp import ClientError, ClientSession, UnixConnector, web

from gateway_lab import KEY, MODEL, Agent, fail_with, message, provider, respond_with, stream_bytes, upstream, world
from proctor.core.errors import InfrastructureError
from proctor.core.result import Tokens
from proctor.gateway import ExchangeFinished, Gateway, GatewaySessionSpec, ScriptBackend, parse_script
from proctor.gateway.app import split_path
from proctor.gateway.recording import load_recording
from waiting import PATIENCE, eventually, rounds, steady

SCRIPT = ScriptBackend(parse_script({"default": [{"text": "Done.", "repeat": "forever"}], "models": [MODEL]}))
TOKENS = Tokens(input=11, output=22, cache_read=33, cache_write_5m=44, cache_write_1h=55)


async def test_a_response_comes_through_whole_and_is_metered() -> None:
    async with provider() as lab, world(upstream(lab)) as here:
        lab.responses = [respond_with(message("Hi.", tokens=TOKENS))]
        response = await here.agent.post()
        assert await response.json() == message("Hi.", tokens=TOKENS)
        usage = here.session.usage
        assert usage.tokens == TOKENS
        assert [(entry.model, entry.requests) for entry in usage.models] == [(MODEL, 1)]


@pytest.mark.parametrize("piece", [0, 1, 5])
async def test_a_stream_comes_through_byte_for_byte_and_is_metered(piece: int) -> None:
    text = "Grüße, 世界 \U0001f600 " * 20
    async with provider() as lab, world(upstream(lab)) as here:
        lab.responses = [respond_with(message(text, tokens=TOKENS), piece=piece)]
        status, body = await here.agent.ask(stream=True)
        assert (status, body) == (200, stream_bytes(message(text, tokens=TOKENS), piece=piece))
        await eventually(lambda: here.events_of(ExchangeFinished), "the meter's word")
        assert here.session.usage.tokens == TOKENS
        (finished,) = here.events_of(ExchangeFinished)
        assert (finished.tokens, finished.cut) == (TOKENS, None)


async def test_every_event_is_passed_on_before_the_next_one_exists() -> None:
    """The provider sends an event only when the client has had the one before: any buffering would hang here."""
    got_it = asyncio.Queue[None]()

    async def step_by_step(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        for part in stream_bytes(message("abc"), piece=1).split(b"\n\n")[:-1]:
            await response.write(part + b"\n\n")
            await got_it.get()
        return response

    async with provider() as lab, world(upstream(lab)) as here:
        lab.responses = [step_by_step]
        response = await here.agent.post(stream=True)
        received = b""
        async with asyncio.timeout(PATIENCE):
            async for chunk in response.content.iter_any():
                received += chunk
                got_it.put_nowait(None)
        assert received == stream_bytes(message("abc"), piece=1)


async def test_tcp_addresses_and_a_unix_socket_all_work_at_once(tmp_path: Path) -> None:
    async with Gateway(SCRIPT) as gateway:
        one, two = await gateway.listen(), await gateway.listen("127.0.0.2")
        socket = await gateway.listen_unix(tmp_path / "model.sock")
        assert socket.stat().st_mode & 0o777 == 0o600
        async with gateway.session(GatewaySessionSpec(task_id="t")) as session:
            async with ClientSession() as tcp, ClientSession(connector=UnixConnector(str(socket))) as unix:
                for http, base in ((tcp, one), (tcp, two), (unix, "http://model")):
                    status, _ = await Agent(http, base + session.path).ask()
                    assert status == 200
            assert session.usage.requests == 3


async def test_an_address_that_cannot_be_had_is_one_sentence(tmp_path: Path) -> None:
    async with Gateway(SCRIPT) as gateway:
        url = await gateway.listen()
        with pytest.raises(InfrastructureError, match="cannot listen on"):
            await gateway.listen(port=int(url.rpartition(":")[2]))
        with pytest.raises(InfrastructureError, match="socket"):
            await gateway.listen_unix(tmp_path / ("x" * 120))


async def test_an_unknown_token_is_refused_at_once_and_costs_nothing() -> None:
    async with provider() as lab, world(upstream(lab)) as here:
        stranger = Agent(here.agent.http, here.agent.base[:-1] + "x")
        assert (await stranger.ask())[0] == 404
        assert (await Agent(here.agent.http, here.agent.base.partition("/t/")[0]).ask())[0] == 404
        assert lab.requests == []
        assert here.session.usage.requests == 0


async def test_a_closed_session_refuses_everything() -> None:
    async with provider() as lab, Gateway(upstream(lab)) as gateway, ClientSession() as http:
        url = await gateway.listen()
        async with gateway.session(GatewaySessionSpec(task_id="t")) as session:
            agent = Agent(http, url + session.path)
            assert (await agent.ask())[0] == 200
        response = await agent.post()
        assert (response.status, response.headers["x-should-retry"]) == (403, "false")
        assert len(lab.requests) == 1


async def test_two_sessions_are_metered_apart() -> None:
    async with Gateway(SCRIPT) as gateway, ClientSession() as http:
        url = await gateway.listen()
        async with (
            gateway.session(GatewaySessionSpec(task_id="a")) as one,
            gateway.session(GatewaySessionSpec(task_id="b")) as two,
        ):
            assert one.token != two.token
            await Agent(http, url + one.path).ask()
            await Agent(http, url + two.path).ask()
            await Agent(http, url + two.path).ask()
            assert (one.usage.requests, two.usage.requests) == (1, 2)


async def test_the_agents_of_a_pod_are_told_apart_by_their_path() -> None:
    async with world(SCRIPT) as here:
        base = here.agent.base.removesuffix(here.session.path)
        for name in ("coder", "reviewer", "coder"):
            assert (await Agent(here.agent.http, f"{base}{here.session.path}/a/{name}").ask())[0] == 200
        found = {(entry.agent, entry.conversation): entry.requests for entry in here.session.usage.conversations}
        assert found == {("coder", "coder/main"): 2, ("reviewer", "reviewer/main"): 1}


async def test_other_paths_are_served_and_not_charged() -> None:
    async with provider() as lab, world(upstream(lab)) as here:
        http, base = here.agent.http, here.agent.base
        assert (await http.head(base)).status == 200
        assert lab.requests == [], "a preconnect needs no provider"
        lab.responses = [fail_with(418, text="teapot")]
        for path in ("/v1/models", "/v1/models/x?y=1"):
            response = await http.get(base + path, headers={"x-api-key": "placeholder"})
            assert response.status == 418
            assert str(lab.requests[-1].rel_url) == path
            assert lab.requests[-1].headers["x-api-key"] == KEY
        assert (await here.agent.ask(path="/v1/messages/count_tokens?beta=true"))[0] == 418
        assert here.session.usage.requests == 0


async def test_a_backend_without_a_provider_counts_by_a_guess_and_lists_its_models() -> None:
    async with world(SCRIPT) as here:
        response = await here.agent.post("x" * 4000, path="/v1/messages/count_tokens")
        assert 1000 <= (await response.json())["input_tokens"] <= 1200
        listed = await (await here.agent.http.get(here.agent.base + "/v1/models")).json()
        assert [entry["id"] for entry in listed["data"]] == [MODEL]
        assert (await here.agent.http.get(here.agent.base + "/v1/files")).status == 404


@pytest.mark.parametrize(
    "path",
    ["/v1/messages/batches", "/v1/complete", "/v1//messages/batches", "/v1/messages%2Fbatches", "/v1/files"],
)
async def test_our_key_pays_for_nothing_that_cannot_be_metered(path: str) -> None:
    async with provider() as lab, world(upstream(lab)) as here:
        response = await here.agent.post(path=path)
        assert response.status == 403
        assert lab.requests == []


@pytest.mark.parametrize("path", ["//v1/messages", "/v1//messages", "/v1/messages/", "/v1%2Fmessages"])
async def test_a_model_request_is_metered_however_its_path_is_spelled(path: str) -> None:
    async with provider() as lab, world(upstream(lab)) as here:
        assert (await here.agent.ask(path=path))[0] == 200
        assert here.session.usage.requests == 1
        assert lab.requests[0].path == "/v1/messages"


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("/t/abc", ("abc", "", "")),
        ("/t/abc/", ("abc", "", "")),
        ("/t/abc/v1/messages", ("abc", "", "/v1/messages")),
        ("/t/abc/a/coder-1/v1/messages", ("abc", "coder-1", "/v1/messages")),
        ("/t/abc/a/co%20der/v1", ("abc", "co der", "/v1")),
        ("/t/abc/v1/../x", ("abc", "", None)),
        ("/t/abc/v1/%2e%2e/x", ("abc", "", None)),
        ("/t/abc/v1/%252e", ("abc", "", None)),
        ("/t/abc/v1/a%0d%0ab", ("abc", "", None)),
        ("/other", ("", "", None)),
        ("/", ("", "", None)),
    ],
)
def test_a_path_has_one_spelling(raw: str, expected: tuple[str, str, str | None]) -> None:
    assert split_path(raw) == expected


async def test_a_path_of_any_length_is_refused_and_not_remembered() -> None:
    async with provider() as lab, world(upstream(lab)) as here:
        before = split_path.cache_info().currsize
        assert (await here.agent.ask(path="/" + "x" * 7000))[0] == 404
        assert split_path.cache_info().currsize == before
        assert lab.requests == []


async def test_a_body_that_is_no_request_goes_no_further() -> None:
    async with provider() as lab, world(upstream(lab)) as here:
        response = await here.agent.http.post(here.agent.base + "/v1/messages", data=b"<html>")
        assert response.status == 400
        assert lab.requests == []


@pytest.mark.parametrize("content", [b'"\xff\xfe"', b"1e999999"])
async def test_a_message_that_cannot_be_read_is_the_agents_own_affair(content: bytes, tmp_path: Path) -> None:
    """It is passed on and taken down all the same: an agent must not be able to make its run fail."""
    async with provider() as lab, world(upstream(lab), recording=tmp_path / "c.jsonl") as here:
        body = b'{"model":"m","messages":[{"role":"user","content":' + content + b"}]}"
        response = await here.agent.http.post(here.agent.base + "/v1/messages", data=body)
        assert response.status == 200
        assert lab.bodies == [body]
        assert here.session.failure is None
    assert len(load_recording(tmp_path / "c.jsonl").exchanges) == 1


async def test_a_client_that_leaves_ends_the_request_at_the_provider() -> None:
    ended = asyncio.Event()

    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        try:
            await response.write(stream_bytes(message(tokens=TOKENS)).partition(b"event: content_block_start")[0])
            while True:
                await asyncio.sleep(0.01)
                await response.write(b"event: ping\ndata: {}\n\n")
        finally:
            ended.set()

    async with provider() as lab, world(upstream(lab)) as here:
        lab.responses = [endless]
        response = await here.agent.post(stream=True)
        await response.content.readany()
        response.close()
        await asyncio.wait_for(ended.wait(), PATIENCE)
        await eventually(lambda: here.events_of(ExchangeFinished), "the meter's word")
        (finished,) = here.events_of(ExchangeFinished)
        assert finished.cut == "the client left"
        assert here.session.usage.cut == 1
        assert here.session.usage.tokens.input == TOKENS.input


async def test_closing_a_session_ends_what_is_under_way_and_counts_it() -> None:
    silent = ScriptBackend(parse_script({"default": [{"text": "x", "silence": {"after": 3}}]}))
    async with Gateway(silent) as gateway, ClientSession() as http:
        url = await gateway.listen()
        async with gateway.session(GatewaySessionSpec(task_id="t")) as session:
            response = await Agent(http, url + session.path).post(stream=True)
            assert await response.content.readany()
        response.close()
        assert (session.usage.requests, session.usage.cut) == (1, 1)
        assert session.tasks == set()


async def test_garbage_and_broken_connections_are_not_worth_a_word(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    steps = [{"text": "long " * 100, "cut": 3, "repeat": 2}, {"drop": True}, {"text": "x", "silence": {"after": 2}}]
    async with world(ScriptBackend(parse_script({"default": steps}))) as here:
        port = int(here.agent.base.split(":")[2].partition("/")[0])
        for garbage in (f"GE T {here.session.path} nonsense\r\n\r\n".encode(), b"\x16\x03\x01\x02", b""):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(garbage)
            writer.write_eof()
            await reader.read()
            writer.close()
        for stream in (True, False, True):
            with pytest.raises(ClientError):
                await here.agent.ask(stream=stream)
        (await here.agent.post(stream=True)).close()
        await rounds()
        assert here.session.failure is None
    captured = capfd.readouterr()
    assert "Traceback" not in caplog.text
    assert here.session.token not in caplog.text + captured.out + captured.err
    assert captured.err == ""


async def test_a_slow_client_holds_the_provider_back() -> None:
    """What the client does not read is not piled up here: the provider has to wait."""
    sent = 0

    async def flood(request: web.Request) -> web.StreamResponse:
        nonlocal sent
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        event = b"event: ping\ndata: " + b"x" * 100_000 + b"\n\n"
        for _ in range(1000):
            await response.write(event)
            sent += len(event)
        return response

    async with provider() as lab, world(upstream(lab)) as here:
        lab.responses = [flood]
        response = await here.agent.post(stream=True)
        assert 0 < await steady(lambda: sent) < 40_000_000
        response.close()


async def test_bytes_sent_but_not_read_are_charged() -> None:
    """One that leaves before the last bytes of a long response must not have it for nothing."""
    body = f"data: {'x' * 100_000}\n\n" * 200 + stream_bytes(message(tokens=TOKENS)).decode()
    long = ScriptBackend(parse_script({"default": [{"raw": {"body": body, "content_type": "text/event-stream"}}]}))
    async with world(long) as here:
        response = await here.agent.post(stream=True)
        await response.content.readany()
        await asyncio.sleep(0.1)
        response.close()
        while not here.events_of(ExchangeFinished):
            await asyncio.sleep(0.01)
        assert here.session.usage.tokens == TOKENS
