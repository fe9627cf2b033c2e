"""What stands behind the gateway: a provider, a recording or a script. All look the same from the front."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, Protocol, runtime_checkable

import msgspec

from proctor.core.record import Record
from proctor.gateway.events import GatewayFailure, ReplayDivergence
from proctor.gateway.model_call import ModelCall

JSON_HEADERS: Final = {"content-type": "application/json"}
EVENT_STREAM_HEADERS: Final = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}
# Claude Code gives up at once on this status, as on 402 and 403, and nothing else answers with it.
FINAL_STATUS: Final = HTTPStatus.UNAVAILABLE_FOR_LEGAL_REASONS

Sleep = Callable[[float], Awaitable[None]]


class GatewaySessionSpec(Record):
    """A session to be opened: one attempt at one task.

    Attributes:
        label: what the session is called in messages and in its cassette.
        cap_usd: what this attempt may spend; None for no limit of its own.
        cassette: where the session is recorded; None for nowhere.
        earlier: recordings of the same session, cut short before: they answer first, and for nothing.
        values: what a script may refer to, for instance where the workspace is.
    """

    task_id: str
    label: str = ""
    cap_usd: float | None = None
    recording: Path | None = None
    earlier_recordings: tuple[Path, ...] = ()
    values: dict[str, str] = msgspec.field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class IncomingRequest:
    """A request as the client sent it; `path` begins after the session's own part and holds the query.

    Header names are in lower case.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


class StreamBroken(Exception):
    """The connection behind an answer ended before the answer did; `reset` tells how to end the client's."""

    def __init__(self, reason: str, *, reset: bool = False) -> None:
        super().__init__(reason)
        self.reset = reset


@dataclass(slots=True)
class BackendReply:
    """An answer on its way: what comes first, and the body as it arrives.

    Attributes:
        chunks: the body; raises `StreamBroken` where it breaks off.
        errors: the statuses of failed tries that came before it.
        paid: it was paid for when it came the first time.
        trouble: why the run may have to stop; `diverged`: why a replay or a script cannot go on.
    """

    status: int
    headers: Mapping[str, str]
    chunks: AsyncGenerator[bytes, None]
    errors: tuple[int, ...] = ()
    paid: bool = False
    failure: GatewayFailure | None = None
    divergence: ReplayDivergence | None = None
    close: Callable[[], None] = field(default=lambda: None)


class Responder(Protocol):
    """Answers the requests of one session."""

    async def respond(self, call: ModelCall, conversation: str, incoming: IncomingRequest) -> BackendReply:
        """Answer a model request; raises `StreamBroken` when the connection shall end without an answer."""
        ...

    async def respond_other(self, incoming: IncomingRequest) -> BackendReply:
        """Answer whatever else is asked: token counts, the list of models, paths unknown to the gateway."""
        ...


@runtime_checkable
class SequentialResponder(Protocol):
    """A responder whose answers come in an order of their own, as those of a script do."""

    def skip(self, call: ModelCall, conversation: str, incoming: IncomingRequest) -> None:
        """This request was answered from elsewhere, as it was before: what stands for it here is done with."""
        ...


class Backend(Protocol):
    """Makes responders, and holds what they share."""

    @property
    def name(self) -> str:
        """What it is called in a cassette."""
        ...

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must never be written down."""
        ...

    @property
    def passes_login(self) -> bool:
        """Whether it uses the agent's own login, which then is a secret as well."""
        ...

    async def start(self) -> None:
        """Get ready to answer."""
        ...

    async def close(self) -> None:
        """Let go of all connections."""
        ...

    def responder(self, spec: GatewaySessionSpec) -> Responder:
        """The one that will answer this session."""
        ...


class TimedChunk(NamedTuple):
    """Some bytes of an answer, and how long to wait before they are sent."""

    delay: float
    data: bytes


StreamEnd = Literal["done", "close", "reset", "hang"]


async def _send_chunks(chunks: Iterable[TimedChunk], ending: StreamEnd, sleep: Sleep) -> AsyncGenerator[bytes, None]:
    for beat in chunks:
        if beat.delay > 0:
            await sleep(beat.delay)
        if beat.data:
            yield beat.data
    if ending == "hang":
        await asyncio.Event().wait()
    if ending != "done":
        raise StreamBroken("cut on purpose", reset=ending == "reset")


def synthetic_reply(
    status: int,
    headers: Mapping[str, str],
    chunks: Iterable[TimedChunk],
    *,
    ending: StreamEnd = "done",
    sleep: Sleep = asyncio.sleep,
    divergence: ReplayDivergence | None = None,
) -> BackendReply:
    """An answer that is made here."""
    return BackendReply(
        status=status, headers=headers, chunks=_send_chunks(chunks, ending, sleep), divergence=divergence
    )


def json_reply(status: int, value: Any, *, headers: Mapping[str, str] | None = None) -> BackendReply:
    """A whole JSON answer."""
    return synthetic_reply(status, {**JSON_HEADERS, **(headers or {})}, [TimedChunk(0, msgspec.json.encode(value))])


def divergence_reply(divergence: ReplayDivergence) -> BackendReply:
    """The final answer to a request that nothing was recorded or written for."""
    body = msgspec.json.encode(error_body("invalid_request_error", divergence.message))
    return synthetic_reply(
        FINAL_STATUS, {**JSON_HEADERS, **NO_RETRY_HEADERS}, [TimedChunk(0, body)], divergence=divergence
    )


NO_RETRY_HEADERS: Final = {"x-should-retry": "false"}


def error_body(kind: str, message: str) -> dict[str, Any]:
    """An error as the Messages API writes it."""
    return {"type": "error", "error": {"type": kind, "message": message}}


def estimated_tokens(data: bytes | str) -> int:
    """A rough count where no tokenizer is at hand: four characters to a token."""
    return max(1, len(data) // 4)


async def offline_reply(incoming: IncomingRequest, models: Iterable[str]) -> BackendReply:
    """What a backend without a provider says to everything that is no model request."""
    path = incoming.path.partition("?")[0]
    if incoming.method == "POST" and path == "/v1/messages/count_tokens":
        return json_reply(200, {"input_tokens": estimated_tokens(incoming.body)})
    if incoming.method == "GET" and path == "/v1/models":
        listed = [
            {"type": "model", "id": name, "display_name": name, "created_at": "1970-01-01T00:00:00Z"} for name in models
        ]
        first, last = (listed[0]["id"], listed[-1]["id"]) if listed else (None, None)
        return json_reply(200, {"data": listed, "has_more": False, "first_id": first, "last_id": last})
    return json_reply(404, error_body("not_found_error", f"{incoming.method} {path} is not served here"))
