"""Requests in every dialect, for tests that hold for all of them."""

from typing import Any

import msgspec
from aiohttp import ClientSession

from gateway_lab import MODEL, World, parse_call
from proctor.gateway.dialects import DIALECTS
from proctor.gateway.model_call import ModelCall

NAMES = tuple(DIALECTS)
PATHS = {
    "messages": "/v1/messages",
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "gemini": "/v1beta/models/{model}:{action}",
}


def request_path(name: str, *, stream: bool = False, model: str = MODEL) -> str:
    action = "streamGenerateContent?alt=sse" if stream else "generateContent"
    return PATHS[name].format(model=model, action=action)


def request_body(
    name: str,
    text: str = "hi",
    *,
    stream: bool = False,
    model: str = MODEL,
    offered: tuple[str, ...] = (),
    system: str = "",
    **extra: Any,
) -> dict[str, Any]:
    """A first request with this text."""
    user = {"role": "user", "content": text}
    asked: dict[str, Any] = {"model": model, **({"stream": True} if stream else {})}
    match name:
        case "messages":
            body = {**asked, "max_tokens": 9, "messages": [user], "tools": [{"name": tool} for tool in offered]}
            body |= {"system": system} if system else {}
        case "chat":
            messages = [*([{"role": "system", "content": system}] if system else []), user]
            functions = [{"type": "function", "function": {"name": tool}} for tool in offered]
            options = {"stream_options": {"include_usage": True}} if stream else {}
            body = {**asked, **options, "messages": messages, "tools": functions}
        case "responses":
            items = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}]
            body = {**asked, "store": False, "input": items}
            body["tools"] = [{"type": "function", "name": tool} for tool in offered]
            body |= {"instructions": system} if system else {}
        case _:
            body = {"contents": [{"role": "user", "parts": [{"text": text}]}]}
            body |= {"systemInstruction": {"parts": [{"text": system}]}} if system else {}
            if offered:
                body["tools"] = [{"functionDeclarations": [{"name": tool} for tool in offered]}]
    return {**body, **extra}


def parsed(name: str, text: str = "hi", *, headers: dict[str, str] | None = None, **options: Any) -> ModelCall:
    body = msgspec.json.encode(request_body(name, text, **options))
    path = request_path(name, stream=options.get("stream", False), model=options.get("model", MODEL))
    call = parse_call(body, headers or {}, path=path)
    assert call is not None
    return call


async def send(
    world: World, name: str, text: str = "hi", *, path: str | None = None, **options: Any
) -> tuple[int, bytes]:
    """Send a request to the session; its status and its body, as far as it comes."""
    http: ClientSession = world.agent.http
    where = path or request_path(name, stream=options.get("stream", False), model=options.get("model", MODEL))
    headers = options.pop("headers", {})
    data = msgspec.json.encode(request_body(name, text, **options))
    async with http.post(world.agent.base + where, data=data, headers=headers) as response:
        body = b""
        try:
            async for chunk in response.content.iter_any():
                body += chunk
        except Exception:  # noqa: BLE001 - a stream that is cut is a case of the tests
            return response.status, body
        return response.status, body
