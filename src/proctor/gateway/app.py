"""The gateway's HTTP application: finds the session of a request and relays the response as it arrives."""

import asyncio
from collections.abc import Coroutine, Mapping
from contextlib import aclosing
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
    RequestRefused,
    StreamBroken,
)
from proctor.gateway.content_encoding import ENCODINGS, unpack
from proctor.gateway.dialects import MESSAGES, Route, route
from proctor.gateway.dialects.base import ClientFilter, Dialect
from proctor.gateway.events import GatewayFailure
from proctor.gateway.exchange import ExchangeTracker
from proctor.gateway.http import HttpRequest, HttpResponseWriter
from proctor.gateway.model_call import ModelCall
from proctor.gateway.session import RECORDING_LOST, SESSION_CLOSED, GatewayRefusal, GatewaySession

_SESSION_PREFIX: Final = "/t/"
_AGENT_PREFIX: Final = "/a/"
# Parsed paths are cached; very long ones would fill the memory.
_MAX_PATH_LENGTH: Final = 4096


class GatewayApp:
    """Finds the session of each request and responds for it."""

    def __init__(
        self,
        sessions: Mapping[str, GatewaySession],
        closed: set[str],
        *,
        passes_login: bool,
        max_body_bytes: int,
    ) -> None:
        self._sessions = sessions
        self._closed = closed
        self._passes_login = passes_login
        self._max_body_bytes = max_body_bytes

    async def handle(self, request: HttpRequest, response: HttpResponseWriter) -> None:
        """Respond to one HTTP request."""
        raw_path, _, query = request.target.partition("?")
        token, agent, path = split_path(raw_path) if len(raw_path) <= _MAX_PATH_LENGTH else ("", "", None)
        session = self._sessions.get(token)
        found = None if path is None else route(request.method, path, query)
        dialect = MESSAGES if found is None else found.dialect
        if session is None and token in self._closed:
            _send_refusal(response, SESSION_CLOSED, dialect)
        elif session is None:
            _send_error(response, dialect, 404, "no such session")
        elif path is None:
            _send_error(response, dialect, 404, "no such path")
        elif request.method == "HEAD" and path in {"", "/"}:
            response.send(200, {})
        else:
            # A stream can last for minutes and a request take megabytes, so no reference to it is kept here.
            incoming = IncomingRequest(
                request.method, f"{path}?{query}" if query else path, request.headers, request.body
            )
            serving = self._serve(response, session, agent, incoming, found)
            del request, incoming
            await _serve_safely(serving, response, session, dialect)

    async def _serve(
        self,
        response: HttpResponseWriter,
        session: GatewaySession,
        agent: str,
        incoming: IncomingRequest,
        found: Route | None,
    ) -> None:
        if self._passes_login:
            session.redact_login(incoming.headers)
        if (encoding := incoming.headers.get("content-encoding")) is not None:
            body = unpack(incoming.body, encoding.strip().lower(), limit=self._max_body_bytes)
            if body is None:
                message = (
                    f"Content-Encoding {encoding[:20]!r} cannot be decoded: the body is broken or too large, or the "
                    f"encoding is not supported; send it without one, or with {ENCODINGS}"
                )
                _send_error(response, MESSAGES if found is None else found.dialect, 400, message)
                return
            incoming = msgspec.structs.replace(incoming, body=body)
            del body
        if found is not None:
            call = found.dialect.parse_call(found, incoming.body, incoming.headers, agent=agent)
            if call is None:
                message = f"the body is not a request in the dialect {found.dialect.name}"
                _send_error(response, found.dialect, 400, message)
                return
            call = session.pin_model(call)
            sent = msgspec.structs.replace(incoming, path=call.path, body=call.body if call.altered else incoming.body)
            serving = self._serve_model_call(response, session, call, sent)
            del sent
            del call, incoming
            await serving
        elif (refusal := session.refusal()) is not None:
            _send_refusal(response, refusal, MESSAGES)
        # With our key, the backend refuses such requests because of their cost.
        elif self._passes_login and (refusal := session.remote_work_refusal(incoming)) is not None:
            session.record_refusal(refusal, incoming.path.partition("?")[0], MESSAGES)
            _send_refusal(response, refusal, MESSAGES)
        else:
            await _relay(response, await session.responder.respond_other(incoming), None)

    async def _serve_model_call(
        self, response: HttpResponseWriter, session: GatewaySession, call: ModelCall, incoming: IncomingRequest
    ) -> None:
        conversation, dialect = session.conversation_name(call), call.dialect
        refusal, paid = None if session.ended else session.request_refusal(call), None
        if refusal is None and not session.ended:
            paid = session.responder.paid_reply(call, conversation, incoming)
        if refusal is None and paid is None:
            refusal = session.refusal(call)
        if refusal is not None:
            session.record_refusal(refusal, conversation, dialect)
            _send_refusal(response, refusal, dialect, session)
            return
        if call.dropped:
            session.meter.add_dropped(call.dropped)
        exchange, client_filter = ExchangeTracker(session, call, conversation), dialect.client_filter(call)
        cut: str | None = "the client left"
        try:
            incoming = msgspec.structs.replace(incoming, sends=exchange)
            reply = paid or await session.responder.respond(call, conversation, incoming)
            del call, incoming, paid
            if reply.failure is not None:
                session.report_failure(reply.failure)
            if reply.divergence is not None:
                session.report_divergence(reply.divergence)
            await _relay(response, reply, exchange, client_filter)
            cut = None
        except StreamBroken as broken:
            cut = str(broken)
            raise
        except RecordingLost:
            cut = "it was not sent: the recording cannot be written"
            _send_refusal(response, RECORDING_LOST, dialect, session)
        except RequestRefused:
            cut = "it was not sent: the session has ended"
            _send_refusal(response, session.refusal() or SESSION_CLOSED, dialect, session)
        finally:
            exchange.finish(cut)


async def _serve_safely(
    serving: Coroutine[Any, Any, None], response: HttpResponseWriter, session: GatewaySession, dialect: Dialect
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
            _send_error(response, dialect, 500, "the gateway failed")
    finally:
        if task is not None:
            session.tasks.discard(task)


async def _relay(
    response: HttpResponseWriter,
    reply: BackendReply,
    exchange: ExchangeTracker | None,
    client_filter: ClientFilter | None = None,
) -> None:
    try:
        if exchange is not None:
            exchange.start_response(reply)
        headers = reply.headers
        if not headers.get("content-type", "").lower().startswith("text/event-stream"):
            client_filter = None
        if client_filter is not None:
            headers = {name: value for name, value in headers.items() if name != "content-length"}
        response.start(reply.status, headers)
        async with aclosing(reply.chunks) as chunks:
            async for chunk in chunks:
                try:
                    await response.write(chunk if client_filter is None else client_filter.feed(chunk))
                finally:
                    # Counted also if the client disconnects before it has read this.
                    if exchange is not None:
                        exchange.feed_chunk(chunk)
        if client_filter is not None:
            await response.write(client_filter.finish())
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
    return token, agent, quote("".join(f"/{step}" for step in steps), safe="/:")


def _send_refusal(
    response: HttpResponseWriter, refusal: GatewayRefusal, dialect: Dialect, session: GatewaySession | None = None
) -> None:
    status = dialect.refusal_status(refusal.status) if session is None else session.refusal_status(refusal, dialect)
    own_status = None if session is None else session.spec.refusal_status
    body = dialect.error_body(status, refusal.message, kind=refusal.kind if own_status is None else None)
    response.send(status, {**JSON_HEADERS, **NO_RETRY_HEADERS}, msgspec.json.encode(body))


def _send_error(response: HttpResponseWriter, dialect: Dialect, status: int, message: str) -> None:
    response.send(status, JSON_HEADERS, msgspec.json.encode(dialect.error_body(status, message)))
