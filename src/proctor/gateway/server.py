"""The gateway's front: HTTP in, HTTP out, bytes passed on as they come."""

import asyncio
import logging
import socket
import struct
from collections.abc import Mapping
from contextlib import aclosing, suppress
from functools import lru_cache
from typing import Final
from urllib.parse import quote, unquote

import msgspec
from aiohttp import web

from proctor.core.causes import Cause
from proctor.gateway.backend import NO_RETRY, Incoming, Reply, StreamBroken, error_value
from proctor.gateway.classify import Call, read_call
from proctor.gateway.events import Trouble
from proctor.gateway.exchange import Exchange
from proctor.gateway.session import SESSION_CLOSED, Refusal, Session

LONGEST_BODY: Final = 64 * 1024 * 1024
_MESSAGES: Final = "/v1/messages"
_PREFIX: Final = "/t/"
_AGENT_PREFIX: Final = "/a/"


class Front:
    """Finds the session of each request and answers for it."""

    def __init__(self, sessions: Mapping[str, Session], closed: set[str], *, passes_login: bool) -> None:
        self._sessions = sessions
        self._closed = closed
        self._passes_login = passes_login

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one HTTP request."""
        token, agent, path = split_path(request.rel_url.raw_path)
        session = self._sessions.get(token)
        if session is None and token in self._closed:
            return _refuse(SESSION_CLOSED)
        if session is None:
            return _error(404, "not_found_error", "no such session")
        if request.method == "HEAD" and path in {"", "/"}:
            return web.Response()
        task = asyncio.current_task()
        if task is not None:
            session.tasks.add(task)
        try:
            return await self._serve(request, session, agent, path)
        except StreamBroken as broken:
            return _hang_up(request, reset=broken.reset)
        except ConnectionError:
            return _hang_up(request, reset=False)
        except Exception as error:  # noqa: BLE001 - the last fence: the agent gets an answer, the runner the reason
            message = f"the gateway failed: {type(error).__name__}: {error}"
            session.fail(Trouble(cause=Cause.ENVIRONMENT_FAILED, message=message))
            return _error(500, "api_error", "the gateway failed")
        finally:
            if task is not None:
                session.tasks.discard(task)

    async def _serve(
        self, request: web.BaseRequest, session: Session, agent: str, path: str | None
    ) -> web.StreamResponse:
        if path is None:
            return _error(404, "not_found_error", "no such path")
        if self._passes_login:
            session.learn_login(request.headers)
        body = await _body(request)
        if body is None:
            return _error(413, "request_too_large", f"the body is longer than {LONGEST_BODY} bytes")
        query = request.rel_url.raw_query_string
        incoming = Incoming(request.method, f"{path}?{query}" if query else path, request.headers, body)
        if request.method == "POST" and path == _MESSAGES:
            call = read_call(body, request.headers, agent=agent)
            if call is None:
                return _error(400, "invalid_request_error", "the body is not a request to the Messages API")
            return await self._model(request, session, call, incoming)
        if (refusal := session.refusal()) is not None:
            return _refuse(refusal)
        reply = await session.responder.other(incoming)
        return await _relay(request, reply, None)

    async def _model(
        self, request: web.BaseRequest, session: Session, call: Call, incoming: Incoming
    ) -> web.StreamResponse:
        conversation = session.conversation(call)
        if (refusal := session.refusal(call.model)) is not None:
            session.refuse(refusal, conversation)
            return _refuse(refusal)
        exchange = Exchange(session, call, conversation)
        cut: str | None = "the client left"
        try:
            reply = await _ask(session, exchange, call, conversation, incoming)
            # A stream can last for minutes; what was asked is not needed any more.
            del call, incoming
            if reply.trouble is not None:
                session.fail(reply.trouble)
            if reply.diverged is not None:
                session.diverge(reply.diverged)
            response = await _relay(request, reply, exchange)
            cut = None
        except StreamBroken as broken:
            cut = str(broken)
            raise
        finally:
            exchange.end(cut)
        return response


async def _ask(session: Session, exchange: Exchange, call: Call, conversation: str, incoming: Incoming) -> Reply:
    """Send a request on its way, and take it down meanwhile."""
    if session.recorder is None:
        return await session.responder.answer(call, conversation, incoming)
    asking = asyncio.ensure_future(session.responder.answer(call, conversation, incoming))
    try:
        # One turn of the loop to start asking, one for the client's own writer to send what it has.
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        exchange.prepare(call)
        return await asking
    except BaseException:
        if not asking.cancel() and not asking.cancelled() and asking.exception() is None:
            asking.result().close()
        raise


async def _relay(request: web.BaseRequest, reply: Reply, exchange: Exchange | None) -> web.StreamResponse:
    try:
        response = web.StreamResponse(status=reply.status, headers=reply.headers)
        if exchange is not None:
            exchange.answered(reply.status, reply.headers, reply.errors, paid=reply.paid)
        await response.prepare(request)
        async with aclosing(reply.chunks) as chunks:
            async for chunk in chunks:
                await response.write(chunk)
                if exchange is not None:
                    exchange.passed(chunk)
        await response.write_eof()
    finally:
        reply.close()
    return response


async def _body(request: web.BaseRequest) -> bytes | None:
    """The request's body; None when it is too long."""
    if (request.content_length or 0) > LONGEST_BODY:
        return None
    chunks: list[bytes] = []
    length = 0
    async for chunk in request.content.iter_any():
        chunks.append(chunk)
        length += len(chunk)
        if length > LONGEST_BODY:
            return None
    return b"".join(chunks)


@lru_cache(maxsize=1024)
def split_path(raw_path: str) -> tuple[str, str, str | None]:
    """A path's token, agent and rest; the rest is None when it is not a plain path.

    The rest is spelled in one way only, so that what is metered cannot be asked for by another name.
    """
    if not raw_path.startswith(_PREFIX):
        return "", "", None
    token, slash, rest = raw_path.removeprefix(_PREFIX).partition("/")
    rest = slash + rest
    agent = ""
    if rest.startswith(_AGENT_PREFIX):
        agent, slash, rest = rest.removeprefix(_AGENT_PREFIX).partition("/")
        agent, rest = unquote(agent), slash + rest
    plain = unquote(rest)
    steps = [step for step in plain.split("/") if step]
    if "%" in plain or "\\" in plain or not plain.isprintable() or ".." in steps or "." in steps:
        return token, agent, None
    return token, agent, quote("".join(f"/{step}" for step in steps))


def _refuse(refusal: Refusal) -> web.Response:
    return _error(refusal.status, refusal.kind, refusal.message, NO_RETRY)


def _error(status: int, kind: str, message: str, headers: Mapping[str, str] | None = None) -> web.Response:
    body = msgspec.json.encode(error_value(kind, message))
    return web.Response(status=status, body=body, content_type="application/json", headers=headers)


def _hang_up(request: web.BaseRequest, *, reset: bool) -> web.StreamResponse:
    """End the connection as the other side ended: without the rest of the answer. What is returned goes nowhere."""
    transport = request.transport
    if transport is not None:
        if reset and (raw := transport.get_extra_info("socket")) is not None:
            with suppress(OSError):  # a unix socket has no reset; it just ends
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            transport.abort()
        else:
            transport.close()
    return web.Response()


def make_runner(front: Front) -> web.ServerRunner:
    """The HTTP server, ready to listen anywhere."""
    # What aiohttp logs quotes requests, tokens and all. What goes wrong here is told to the runner instead.
    silent = logging.getLogger("proctor.gateway.http")
    silent.disabled = True
    server = web.Server(
        front.handle, handler_cancellation=True, access_log=None, logger=silent, keepalive_timeout=3600.0
    )
    return web.ServerRunner(server, handle_signals=False, shutdown_timeout=1.0)
