"""The gateway's front: HTTP in, HTTP out, bytes passed on as they come."""

import asyncio
from collections.abc import Coroutine, Mapping
from contextlib import aclosing
from functools import lru_cache
from typing import Any, Final
from urllib.parse import quote, unquote

import msgspec

from proctor.core.causes import Cause
from proctor.gateway.backend import JSON, NO_RETRY, Incoming, Reply, StreamBroken, error_value
from proctor.gateway.classify import Call, read_call
from proctor.gateway.events import Trouble
from proctor.gateway.exchange import Exchange
from proctor.gateway.http import Answer, Request
from proctor.gateway.session import SESSION_CLOSED, Refusal, Session

_MESSAGES: Final = "/v1/messages"
_PREFIX: Final = "/t/"
_AGENT_PREFIX: Final = "/a/"
# Paths are remembered once they are read; longer ones than anybody needs would fill the memory.
_LONGEST_PATH: Final = 4096


class Front:
    """Finds the session of each request and answers for it."""

    def __init__(self, sessions: Mapping[str, Session], closed: set[str], *, passes_login: bool) -> None:
        self._sessions = sessions
        self._closed = closed
        self._passes_login = passes_login

    async def handle(self, request: Request, answer: Answer) -> None:
        """Answer one HTTP request."""
        raw_path, _, query = request.target.partition("?")
        token, agent, path = split_path(raw_path) if len(raw_path) <= _LONGEST_PATH else ("", "", None)
        session = self._sessions.get(token)
        if session is None and token in self._closed:
            _refuse(answer, SESSION_CLOSED)
        elif session is None:
            _error(answer, 404, "not_found_error", "no such session")
        elif path is None:
            _error(answer, 404, "not_found_error", "no such path")
        elif request.method == "HEAD" and path in {"", "/"}:
            answer.send(200, {})
        else:
            # A stream can last for minutes, and a request be of megabytes: whoever has handed it on lets go of it.
            incoming = Incoming(request.method, f"{path}?{query}" if query else path, request.headers, request.body)
            serving = self._serve(answer, session, agent, incoming)
            del request, incoming
            await _guarded(serving, answer, session)

    async def _serve(self, answer: Answer, session: Session, agent: str, incoming: Incoming) -> None:
        if self._passes_login:
            session.learn_login(incoming.headers)
        if incoming.method == "POST" and incoming.path.partition("?")[0] == _MESSAGES:
            call = read_call(incoming.body, incoming.headers, agent=agent)
            if call is None:
                _error(answer, 400, "invalid_request_error", "the body is not a request to the Messages API")
                return
            asking = self._model(answer, session, call, incoming)
            del call, incoming
            await asking
        elif (refusal := session.refusal()) is not None:
            _refuse(answer, refusal)
        else:
            await _relay(answer, await session.responder.other(incoming), None)

    async def _model(self, answer: Answer, session: Session, call: Call, incoming: Incoming) -> None:
        conversation = session.conversation(call)
        if (refusal := session.refusal(call.model)) is not None:
            session.refuse(refusal, conversation)
            _refuse(answer, refusal)
            return
        exchange = Exchange(session, call, conversation)
        cut: str | None = "the client left"
        try:
            reply = await session.responder.answer(call, conversation, incoming)
            del call, incoming
            if reply.trouble is not None:
                session.fail(reply.trouble)
            if reply.diverged is not None:
                session.diverge(reply.diverged)
            await _relay(answer, reply, exchange)
            cut = None
        except StreamBroken as broken:
            cut = str(broken)
            raise
        finally:
            exchange.end(cut)


async def _guarded(serving: Coroutine[Any, Any, None], answer: Answer, session: Session) -> None:
    """Whatever happens to an answer: the client is told or cut off, and the runner learns of it."""
    task = asyncio.current_task()
    if task is not None:
        session.tasks.add(task)
    try:
        await serving
    except StreamBroken as broken:
        answer.hang_up(reset=broken.reset)
    except Exception as error:  # noqa: BLE001 - the last fence: the agent gets an answer, the runner the reason
        message = f"the gateway failed: {type(error).__name__}: {error}"
        session.fail(Trouble(cause=Cause.ENVIRONMENT_FAILED, message=message))
        if answer.begun:
            answer.hang_up(reset=False)
        else:
            _error(answer, 500, "api_error", "the gateway failed")
    finally:
        if task is not None:
            session.tasks.discard(task)


async def _relay(answer: Answer, reply: Reply, exchange: Exchange | None) -> None:
    try:
        if exchange is not None:
            exchange.answered(reply.status, reply.headers, reply.errors, paid=reply.paid)
        answer.begin(reply.status, reply.headers)
        async with aclosing(reply.chunks) as chunks:
            async for chunk in chunks:
                try:
                    await answer.write(chunk)
                finally:
                    # A client that leaves before it has read this has used it all the same.
                    if exchange is not None:
                        exchange.passed(chunk)
        answer.end()
    finally:
        reply.close()


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


def _refuse(answer: Answer, refusal: Refusal) -> None:
    _error(answer, refusal.status, refusal.kind, refusal.message, NO_RETRY)


def _error(answer: Answer, status: int, kind: str, message: str, headers: Mapping[str, str] | None = None) -> None:
    answer.send(status, {**JSON, **(headers or {})}, msgspec.json.encode(error_value(kind, message)))
