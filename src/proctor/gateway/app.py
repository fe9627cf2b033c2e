"""The gateway's HTTP application: finds the session of a request and relays the response as it arrives."""

import asyncio
from collections.abc import Coroutine, Mapping
from contextlib import aclosing
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final
from urllib.parse import quote, unquote

import msgspec

from proctor.core.causes import Cause
from proctor.gateway.backend import (
    JSON_HEADERS,
    NO_RETRY_HEADERS,
    BackendReply,
    IncomingRequest,
    RecordingLost,
    StreamBroken,
    error_body,
)
from proctor.gateway.events import GatewayFailure
from proctor.gateway.exchange import ExchangeTracker
from proctor.gateway.http import HttpRequest, HttpResponseWriter
from proctor.gateway.model_call import ModelCall, parse_model_call
from proctor.gateway.session import RECORDING_LOST, SESSION_CLOSED, GatewayRefusal, GatewaySession

_MESSAGES_PATH: Final = "/v1/messages"
_SESSION_PREFIX: Final = "/t/"
_AGENT_PREFIX: Final = "/a/"
# Parsed paths are cached; very long ones would fill the memory.
_MAX_PATH_LENGTH: Final = 4096


class GatewayApp:
    """Finds the session of each request and responds for it."""

    def __init__(self, sessions: Mapping[str, GatewaySession], closed: set[str], *, passes_login: bool) -> None:
        self._sessions = sessions
        self._closed = closed
        self._passes_login = passes_login

    async def handle(self, request: HttpRequest, response: HttpResponseWriter) -> None:
        """Respond to one HTTP request."""
        raw_path, _, query = request.target.partition("?")
        token, agent, path = split_path(raw_path) if len(raw_path) <= _MAX_PATH_LENGTH else ("", "", None)
        session = self._sessions.get(token)
        if session is None and token in self._closed:
            _send_refusal(response, SESSION_CLOSED)
        elif session is None:
            _send_error(response, 404, "not_found_error", "no such session")
        elif path is None:
            _send_error(response, 404, "not_found_error", "no such path")
        elif request.method == "HEAD" and path in {"", "/"}:
            response.send(200, {})
        else:
            # A stream can last for minutes and a request take megabytes, so no reference to it is kept here.
            incoming = IncomingRequest(
                request.method, f"{path}?{query}" if query else path, request.headers, request.body
            )
            serving = self._serve(response, session, agent, incoming)
            del request, incoming
            await _serve_safely(serving, response, session)

    async def _serve(
        self, response: HttpResponseWriter, session: GatewaySession, agent: str, incoming: IncomingRequest
    ) -> None:
        if self._passes_login:
            session.redact_login(incoming.headers)
        if incoming.method == "POST" and incoming.path.partition("?")[0] == _MESSAGES_PATH:
            call = parse_model_call(incoming.body, incoming.headers, agent=agent)
            if call is None:
                _send_error(response, 400, "invalid_request_error", "the body is not a request to the Messages API")
                return
            serving = self._serve_model_call(response, session, call, incoming)
            del call, incoming
            await serving
        elif (refusal := session.refusal()) is not None:
            _send_refusal(response, refusal)
        # With our key, the backend refuses such requests because of their cost.
        elif self._passes_login and (refusal := session.remote_work_refusal(incoming)) is not None:
            session.record_refusal(refusal, incoming.path.partition("?")[0])
            _send_refusal(response, refusal)
        else:
            await _relay(response, await session.responder.respond_other(incoming), None)

    async def _serve_model_call(
        self, response: HttpResponseWriter, session: GatewaySession, call: ModelCall, incoming: IncomingRequest
    ) -> None:
        conversation = session.conversation_name(call)
        refusal, paid = None if session.ended else session.web_refusal(call), None
        if refusal is None and not session.ended:
            paid = session.responder.paid_reply(call, conversation, incoming)
        if refusal is None and paid is None:
            refusal = session.refusal(call.model)
        if refusal is not None:
            session.record_refusal(refusal, conversation)
            _send_refusal(response, refusal)
            return
        exchange = ExchangeTracker(session, call, conversation)
        cut: str | None = "the client left"
        try:
            incoming = replace(incoming, sends=exchange)
            reply = paid or await session.responder.respond(call, conversation, incoming)
            del call, incoming, paid
            if reply.failure is not None:
                session.report_failure(reply.failure)
            if reply.divergence is not None:
                session.report_divergence(reply.divergence)
            await _relay(response, reply, exchange)
            cut = None
        except StreamBroken as broken:
            cut = str(broken)
            raise
        except RecordingLost:
            cut = "it was not sent: the recording cannot be written"
            _send_refusal(response, RECORDING_LOST)
        finally:
            exchange.finish(cut)


async def _serve_safely(
    serving: Coroutine[Any, Any, None], response: HttpResponseWriter, session: GatewaySession
) -> None:
    """Run a handler; when it fails, the client gets an error or is disconnected, and the runner is notified."""
    task = asyncio.current_task()
    if task is not None:
        session.tasks.add(task)
    try:
        await serving
    except StreamBroken as broken:
        response.abort(reset=broken.reset)
    except Exception as error:  # noqa: BLE001 - last resort: the agent gets an error, the runner the reason
        message = f"the gateway failed: {type(error).__name__}: {error}"
        session.report_failure(GatewayFailure(cause=Cause.ENVIRONMENT_FAILED, message=message))
        if response.started:
            response.abort(reset=False)
        else:
            _send_error(response, 500, "api_error", "the gateway failed")
    finally:
        if task is not None:
            session.tasks.discard(task)


async def _relay(response: HttpResponseWriter, reply: BackendReply, exchange: ExchangeTracker | None) -> None:
    try:
        if exchange is not None:
            exchange.start_response(reply.status, reply.headers, reply.errors, paid=reply.paid)
        response.start(reply.status, reply.headers)
        async with aclosing(reply.chunks) as chunks:
            async for chunk in chunks:
                try:
                    await response.write(chunk)
                finally:
                    # Counted also if the client disconnects before it has read this.
                    if exchange is not None:
                        exchange.feed_chunk(chunk)
        response.end()
    except asyncio.CancelledError:
        # The client left. What the provider had sent by then was generated, and is charged.
        if exchange is not None:
            async for chunk in reply.unread():
                exchange.feed_chunk(chunk)
        raise
    finally:
        reply.close()


@lru_cache(maxsize=1024)
def split_path(raw_path: str) -> tuple[str, str, str | None]:
    """A path's token, agent and rest; the rest is None when it is not a plain path.

    The rest is normalized, so that a metered path cannot be requested under another spelling.
    """
    if not raw_path.startswith(_SESSION_PREFIX):
        return "", "", None
    token, slash, rest = raw_path.removeprefix(_SESSION_PREFIX).partition("/")
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


def _send_refusal(response: HttpResponseWriter, refusal: GatewayRefusal) -> None:
    _send_error(response, refusal.status, refusal.kind, refusal.message, NO_RETRY_HEADERS)


def _send_error(
    response: HttpResponseWriter, status: int, kind: str, message: str, headers: Mapping[str, str] | None = None
) -> None:
    response.send(status, {**JSON_HEADERS, **(headers or {})}, msgspec.json.encode(error_body(kind, message)))
