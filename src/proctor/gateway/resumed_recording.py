"""Resuming an interrupted attempt: responses that were paid for are replayed from its recording, at no cost.

The agent of the new attempt sends the same requests until something differs. A request holds the whole conversation, so
its recorded response is found by the content of the request, whatever the order of the requests, and in whichever of
several earlier attempts it was recorded.
"""

import hashlib
from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from proctor.core.errors import InvalidData
from proctor.gateway.backend import BackendReply, IncomingRequest, Responder
from proctor.gateway.dialects.base import Dialect
from proctor.gateway.model_call import ModelCall, Role
from proctor.gateway.prices import canonical_model
from proctor.gateway.recorder import digest
from proctor.gateway.recording import ExpandedExchange, is_complete, load_recording
from proctor.gateway.redact import Redactor
from proctor.gateway.replay_backend import ReplayResponder
from proctor.gateway.request_matching import normalize_message
from proctor.gateway.safe_json import decode_or_text


class EarlierResponses:
    """The responses in recordings of earlier attempts, by the content of their requests.

    Each is replayed once: two equal requests had two responses, and get two again.
    """

    def __init__(self, redactor: Redactor, values: dict[str, str]) -> None:
        self._redactor = redactor
        self._values = values
        self._messages: dict[bytes, bytes] = {}
        self._responses: dict[bytes, deque[tuple[ReplayResponder, ExpandedExchange]]] = {}

    def add_recording(self, recording: Path) -> None:
        """Add one recording; one that cannot be read holds nothing that was paid for."""
        try:
            loaded = load_recording(recording)
        except InvalidData:
            return  # killed before its first line was whole
        responder = ReplayResponder(msgspec.structs.replace(loaded, exchanges=()), values=self._values)
        seen: dict[int, bytes] = {}
        for recorded in loaded.exchanges:
            exchange = recorded.exchange
            # A replayed response is also in the recording of the earlier attempt in which it was paid for.
            if exchange.paid or not is_complete(exchange):
                continue
            for message in recorded.messages:
                if id(message) not in seen:
                    seen[id(message)] = digest(msgspec.json.encode(normalize_message(message, recorded.dialect)))
            messages = (seen[id(message)] for message in recorded.messages)
            key = _call_key(recorded.dialect, exchange.role, exchange.request.model, messages)
            self._responses.setdefault(key, deque()).append((responder, recorded))

    def pop_reply(self, call: ModelCall) -> BackendReply | None:
        """The response that this request got before, if one is left."""
        recorded_responses = self._responses.get(
            _call_key(
                call.dialect, call.role, call.model, (self._message_digest(raw, call.dialect) for raw in call.messages)
            )
        )
        if not recorded_responses:
            return None
        responder, recorded = recorded_responses.popleft()
        reply = responder.reply(recorded, call)
        reply.paid = True
        return reply

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to replay."""
        return not any(self._responses.values())

    def _message_digest(self, raw: msgspec.Raw, dialect: Dialect) -> bytes:
        """The digest of a message as it would have been recorded."""
        seen = digest(raw)
        if seen not in self._messages:
            clean: Any = decode_or_text(self._redactor.redact_bytes(bytes(raw)))
            self._messages[seen] = digest(msgspec.json.encode(normalize_message(clean, dialect)))
        return self._messages[seen]


class ResumedResponder(Responder):
    """Responds from recordings of earlier attempts where possible, otherwise from the backend."""

    def __init__(self, earlier: EarlierResponses, live: Responder) -> None:
        self._earlier = earlier
        self._live = live

    def paid_reply(self, call: ModelCall, conversation: str, incoming: IncomingRequest) -> BackendReply | None:
        """The recorded response, marked as paid for."""
        reply = self._earlier.pop_reply(call)
        if reply is not None:
            self._live.skip(call, conversation, incoming)
        return reply

    async def respond(self, call: ModelCall, conversation: str, incoming: IncomingRequest) -> BackendReply:
        """The backend's response, where there is no recorded one."""
        return await self._live.respond(call, conversation, incoming)

    async def respond_other(self, incoming: IncomingRequest) -> BackendReply:
        """Other requests cost nothing and go to the backend."""
        return await self._live.respond_other(incoming)


def resumed_responder(
    recordings: Sequence[Path], live: Responder, *, values: dict[str, str], redactor: Redactor
) -> Responder:
    """A responder that replays the responses in `recordings`, and gets all others from `live`.

    The redactor is the new session's: secrets are not in recordings, so they are not compared either.
    """
    earlier = EarlierResponses(redactor, values)
    for recording in recordings:
        earlier.add_recording(recording)
    return live if earlier.is_empty else ResumedResponder(earlier, live)


def _call_key(dialect: Dialect, role: Role, model: str, messages: Iterable[bytes]) -> bytes:
    identity = hashlib.sha256(f"{dialect.name} {role} {canonical_model(model)} ".encode())
    for message in messages:
        identity.update(message)
    return identity.digest()
