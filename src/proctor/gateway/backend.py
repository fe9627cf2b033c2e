"""The interface of the gateway's backends (a provider, a recording, a script), and helpers to make replies."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import msgspec

from proctor.core.record import Record
from proctor.gateway.dialects import MESSAGES
from proctor.gateway.dialects.base import FINAL_STATUS, Dialect
from proctor.gateway.events import GatewayFailure, ReplayDivergence
from proctor.gateway.model_call import ModelCall

JSON_HEADERS: Final = {"content-type": "application/json"}
EVENT_STREAM_HEADERS: Final = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}
NO_RETRY_HEADERS: Final = {"x-should-retry": "false"}

Sleep = Callable[[float], Awaitable[None]]


class GatewaySessionSpec(Record):
    """A session to be opened: one attempt at one task.

    Attributes:
        label: the session's name in messages and in its recording.
        cap_usd: what the trial may spend, all its attempts together; None for no limit of its own.
        spent_usd: what earlier attempts at the trial have spent of it.
        model: that of the run; requests to others are sent to it instead. None: any model may be asked.
        max_turns: how many responses the main threads may get; None for any number.
        refusal_status: of refusals, for a program that takes no other as final; None for the dialect's own.
        web: tools that the provider executes are allowed.
        recording: where the session is recorded; None for nowhere.
        earlier_recordings: of interrupted attempts at the same trial; their responses are replayed first, at no cost.
        values: what a script may refer to, for instance the path of the workspace.
    """

    task_id: str
    label: str = ""
    cap_usd: float | None = None
    spent_usd: float = 0.0
    model: str | None = None
    max_turns: int | None = None
    refusal_status: int | None = None
    web: bool = False
    recording: Path | None = None
    earlier_recordings: tuple[Path, ...] = ()
    values: dict[str, str] = msgspec.field(default_factory=dict)


class SendObserver:
    """Is notified by a backend when a request leaves this machine, and what became of it there; ignores it."""

    async def before_send(self) -> None:
        """The request is about to leave; may be called again, for another try.

        Raises:
            RecordingLost: it must not.
            RequestRefused: likewise.
        """

    async def before_resend(self) -> None:
        """The connection ended as the request was sent, which may have arrived; it is about to be sent again.

        Raises:
            RecordingLost: it must not.
        """

    def request_failed(self, *, sent: bool) -> None:
        """There is no response to the last try; `sent`: it may have arrived."""

    def response_received(self, *, error: bool) -> None:
        """The head of a response has arrived; `error`: it is one, and costs nothing."""


class RecordingLost(Exception):
    """A request would leave no mark, so it may not be sent: the recording cannot be written."""


class RequestRefused(Exception):
    """A request may not be sent after all: meanwhile its session was closed, or a budget was spent elsewhere."""


class RecordingGate(ABC):
    """Where a session's recording is copied to, for sessions whose requests must wait for the copy."""

    @abstractmethod
    def written(self, size: int) -> None:
        """The recording has so many bytes now, all of them whole lines."""

    @abstractmethod
    async def wait_for_copy(self, size: int) -> None:
        """Return when the copy has so many bytes and would survive a power cut.

        Raises:
            RecordingLost: it never will.
        """


class IncomingRequest(msgspec.Struct, frozen=True):
    """A request as the client sent it; `path` begins after the session's own part and includes the query.

    Header names are in lower case.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    sends: SendObserver = msgspec.field(default_factory=SendObserver)


class StreamBroken(Exception):
    """The backend's connection ended before the response did; `reset` says how to end the client's."""

    def __init__(self, reason: str, *, reset: bool = False) -> None:
        super().__init__(reason)
        self.reset = reset


async def _nothing() -> AsyncGenerator[bytes, None]:
    for chunk in list[bytes]():
        yield chunk


@dataclass(slots=True)
class BackendReply:
    """A response in progress: status, headers, and the body as it arrives.

    Attributes:
        chunks: the body; raises `StreamBroken` where it breaks off.
        errors: the statuses of failed tries before it.
        provider_status: the provider's, where the client gets another one that is final for it.
        unread: what had arrived of the body, and was not taken from `chunks` when the client left.
        paid: it is replayed from an interrupted attempt, where it was paid for.
        failure: why the run may have to stop; `divergence`: why a replay or a script cannot continue.
    """

    status: int
    headers: Mapping[str, str]
    chunks: AsyncGenerator[bytes, None]
    errors: tuple[int, ...] = ()
    provider_status: int | None = None
    paid: bool = False
    failure: GatewayFailure | None = None
    divergence: ReplayDivergence | None = None
    unread: Callable[[], AsyncGenerator[bytes, None]] = _nothing
    close: Callable[[], None] = field(default=lambda: None)


class Responder(ABC):
    """Responds to the requests of one session."""

    @abstractmethod
    async def respond(self, call: ModelCall, conversation: str, incoming: IncomingRequest) -> BackendReply:
        """Respond to a model request; raises `StreamBroken` to end the connection without a response."""

    def paid_reply(self, call: ModelCall, conversation: str, incoming: IncomingRequest) -> BackendReply | None:
        """The response to a request that an earlier attempt has paid for, which no budget forbids, if there is one."""
        return None

    @abstractmethod
    async def respond_other(self, incoming: IncomingRequest) -> BackendReply:
        """Respond to any other request: token counts, the list of models, paths unknown to the gateway."""

    def skip(self, call: ModelCall, conversation: str, incoming: IncomingRequest) -> None:  # noqa: B027 - optional
        """Pass over the response to this request, which was replayed from a recording of the same session.

        For responders whose responses come in a fixed order, such as a script's; others ignore it.
        """


class Backend(ABC):
    """Makes responders, and holds what they share.

    Attributes:
        name: what it is called in a recording.
        secrets: what must never be written down.
        passes_login: whether it uses the agent's own login, which then is a secret as well.
    """

    name: str
    secrets: tuple[str, ...] = ()
    passes_login: bool = False

    @abstractmethod
    def responder(self, spec: GatewaySessionSpec) -> Responder:
        """The responder for one session."""

    async def close(self) -> None:  # noqa: B027 - optional
        """Close all connections."""


class TimedChunk(NamedTuple):
    """Some bytes of a response, and how long to wait before they are sent."""

    delay: float
    data: bytes


StreamEnd = Literal["done", "close", "reset", "hang"]


async def _send_chunks(chunks: Iterable[TimedChunk], ending: StreamEnd, sleep: Sleep) -> AsyncGenerator[bytes, None]:
    for chunk in chunks:
        if chunk.delay > 0:
            await sleep(chunk.delay)
        if chunk.data:
            yield chunk.data
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
    """A response that is made here."""
    return BackendReply(
        status=status, headers=headers, chunks=_send_chunks(chunks, ending, sleep), divergence=divergence
    )


def json_reply(status: int, value: Any, *, headers: Mapping[str, str] | None = None) -> BackendReply:
    """A JSON response."""
    return synthetic_reply(status, {**JSON_HEADERS, **(headers or {})}, [TimedChunk(0, msgspec.json.encode(value))])


def divergence_reply(divergence: ReplayDivergence, dialect: Dialect) -> BackendReply:
    """The final error for a request that a recording or a script has no response to."""
    status = dialect.refusal_status(FINAL_STATUS)
    body = msgspec.json.encode(dialect.error_body(status, divergence.message, kind="invalid_request_error"))
    return synthetic_reply(status, {**JSON_HEADERS, **NO_RETRY_HEADERS}, [TimedChunk(0, body)], divergence=divergence)


def estimated_tokens(data: bytes | str) -> int:
    """A rough count without a tokenizer: four characters to a token."""
    return max(1, len(data) // 4)


def is_token_count(path: str) -> bool:
    """Whether a request to this path counts tokens, which costs nothing."""
    return path.endswith(("/messages/count_tokens", ":countTokens", "/responses/input_tokens"))


def is_model_list(method: str, path: str) -> bool:
    """Whether a request asks which models there are, or what one of them is."""
    return method in {"GET", "HEAD"} and (path.endswith("/models") or "/models/" in path)


def _model_list(names: list[str]) -> dict[str, Any]:
    """A list of models that clients of all dialects can read."""
    listed = [
        {
            "type": "model",
            "object": "model",
            "id": name,
            "display_name": name,
            "created_at": "1970-01-01T00:00:00Z",
            "created": 0,
            "owned_by": "proctor",
        }
        for name in names
    ]
    ends = (names[0], names[-1]) if names else (None, None)
    return {
        "object": "list",
        "data": listed,
        "has_more": False,
        "first_id": ends[0],
        "last_id": ends[1],
        "models": [{"name": f"models/{name}", "displayName": name} for name in names],
    }


async def offline_reply(incoming: IncomingRequest, models: Iterable[str]) -> BackendReply:
    """How a backend without a provider responds to everything but model requests."""
    path = incoming.path.partition("?")[0]
    if incoming.method == "POST" and is_token_count(path):
        count = estimated_tokens(incoming.body)
        return json_reply(200, {"totalTokens": count} if path.endswith(":countTokens") else {"input_tokens": count})
    if incoming.method == "GET" and path.endswith("/models"):
        return json_reply(200, _model_list(list(models)))
    return json_reply(404, MESSAGES.error_body(404, f"{incoming.method} {path} is not served here"))
