"""A small world for the gateway's tests: a provider on loopback, clients, sessions."""

import asyncio
import io
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import ClientResponse, ClientSession, web

from proctor.core.result import Tokens
from proctor.gateway import Gateway, GatewayEvent, GatewaySession, GatewaySessionSpec, RetryPolicy, Secret, Upstream
from proctor.gateway.backend import Backend
from proctor.gateway.dialects import route
from proctor.gateway.dialects.messages_events import events_from_message
from proctor.gateway.model_call import ModelCall
from proctor.gateway.sse import encode_named_event

KEY = "sk-ant-dummy-recognisable-0123456789"
MODEL = "claude-sonnet-4-5"
QUICK = RetryPolicy(tries=4, base_seconds=0.001, max_seconds=0.01, total_seconds=5)


def parse_call(
    body: bytes, headers: dict[str, str] | None = None, *, path: str = "/v1/messages", agent: str = ""
) -> ModelCall | None:
    """A model request as the gateway parses it."""
    found = route("POST", *path.partition("?")[::2])
    assert found is not None
    return found.dialect.parse_call(found, body, headers or {}, agent=agent)


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def message(text: str = "Hello.", *, tokens: Tokens | None = None, model: str = MODEL) -> dict[str, Any]:
    used = tokens or Tokens(input=10, output=5)
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [{"type": "text", "text": text}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": used.input,
            "output_tokens": used.output,
            "cache_read_input_tokens": used.cache_read,
            "cache_creation_input_tokens": used.cache_write_5m + used.cache_write_1h,
            "cache_creation": {
                "ephemeral_5m_input_tokens": used.cache_write_5m,
                "ephemeral_1h_input_tokens": used.cache_write_1h,
            },
        },
    }


def stream_bytes(value: dict[str, Any], *, piece: int = 0) -> bytes:
    return b"".join(encode_named_event(event) for event in events_from_message(value, piece_length=piece))


class Provider:
    """Responds with what a test puts in `responses`, one per request, the last one for ever."""

    def __init__(self) -> None:
        self.responses: list[Handler] = [respond_with(message())]
        self.requests: list[web.BaseRequest] = []
        self.bodies: list[bytes] = []
        self.url = ""

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.requests.append(request)
        self.bodies.append(provider_body(request))
        handler = self.responses.pop(0) if len(self.responses) > 1 else self.responses[0]
        return await handler(request)  # type: ignore[arg-type]


def respond_with(value: dict[str, Any], *, piece: int = 0) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        if b'"stream":true' not in provider_body(request):
            return web.json_response(value)
        response = web.StreamResponse(headers={"content-type": "text/event-stream", "request-id": "req_1"})
        await response.prepare(request)
        for event in events_from_message(value, piece_length=piece):
            await response.write(encode_named_event(event))
        return response

    return handle


def provider_body(request: web.BaseRequest) -> bytes:
    return bytes(request._read_bytes or b"")


def fail_with(status: int, kind: str = "api_error", text: str = "no", **headers: str) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        body = msgspec.json.encode({"type": "error", "error": {"type": kind, "message": text}})
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return web.Response(status=status, body=body, headers={"content-type": "application/json", **named})

    return handle


@asynccontextmanager
async def provider() -> AsyncIterator[Provider]:
    lab = Provider()

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        await request.read()
        return await lab.handle(request)

    def factory(message: Any, payload: Any, protocol: Any, writer: Any, task: Any) -> web.BaseRequest:
        loop = asyncio.get_running_loop()
        return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=2**26)

    runner = web.ServerRunner(web.Server(handle, request_factory=factory), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    lab.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield lab
    finally:
        await runner.cleanup()


class Agent:
    """A client of one session."""

    def __init__(self, http: ClientSession, base: str) -> None:
        self.http = http
        self.base = base

    async def post(
        self, text: str = "hi", *, stream: bool = False, path: str = "/v1/messages?beta=true", **extra: Any
    ) -> ClientResponse:
        headers = {"x-api-key": "placeholder", "anthropic-version": "2023-06-01", "user-agent": "claude-cli/2.1.0"}
        headers |= extra.pop("headers", {})
        body = {"model": MODEL, "max_tokens": 10, "messages": [{"role": "user", "content": text}], **extra}
        if stream:
            body["stream"] = True
        data = io.BytesIO(msgspec.json.encode(body))
        response = await self.http.post(self.base + path, data=data, headers=headers)
        if not stream:
            await response.read()
        return response

    async def ask(self, text: str = "hi", **extra: Any) -> tuple[int, bytes]:
        response = await self.post(text, **extra)
        return response.status, await response.read()


class World:
    """An open session, an agent in it, and the events that it sent."""

    def __init__(self, gateway: Gateway, session: GatewaySession, agent: Agent, events: list[GatewayEvent]) -> None:
        self.gateway = gateway
        self.session = session
        self.agent = agent
        self.events = events

    def events_of(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


@asynccontextmanager
async def world(
    backend: Backend,
    *,
    cap_usd: float | None = None,
    recording: Path | None = None,
    task_id: str = "task-1",
    values: dict[str, str] | None = None,
    web: bool = False,
    earlier_recordings: tuple[Path, ...] = (),
    **options: Any,
) -> AsyncIterator[World]:
    events: list[GatewayEvent] = []
    spec = GatewaySessionSpec(
        task_id=task_id,
        cap_usd=cap_usd,
        recording=recording,
        earlier_recordings=earlier_recordings,
        values=values or {},
        web=web,
    )
    async with Gateway(backend, **options) as gateway, ClientSession() as http:
        url = await gateway.listen()
        async with gateway.session(spec, on_event=events.append) as session:
            yield World(gateway, session, Agent(http, url + session.path), events)


def upstream(lab: Provider, **options: Any) -> Upstream:
    options.setdefault("retry", QUICK)
    return Upstream(lab.url, key=Secret(KEY), **options)
