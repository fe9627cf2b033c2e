"""Going on with a session that was cut short: what the model has said already is said again, for nothing.

An attempt that was killed had paid for its answers. Made again, its agent asks the same questions until something
differs. A request holds the whole conversation, so what was answered is found by what was asked, in whatever order
the questions come this time and in whichever of several earlier attempts they came before.
"""

import hashlib
from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from proctor.core.errors import InvalidData
from proctor.gateway.backend import BackendReply, IncomingRequest, Responder, SequentialResponder
from proctor.gateway.model_call import ModelCall, Role
from proctor.gateway.prices import canonical_model
from proctor.gateway.recorder import digest
from proctor.gateway.recording import ExpandedExchange, is_complete, load_recording
from proctor.gateway.redact import Redactor
from proctor.gateway.replay_backend import ReplayResponder
from proctor.gateway.request_matching import normalize_message
from proctor.gateway.safe_json import decode_or_text


class EarlierResponses:
    """What the model has said in earlier takes of a session, by what it was asked.

    Each answer is given again once: an agent that asks the same twice got two answers then, and gets two now.
    """

    def __init__(self, redactor: Redactor, values: dict[str, str]) -> None:
        self._redactor = redactor
        self._values = values
        self._messages: dict[bytes, bytes] = {}
        self._responses: dict[bytes, deque[tuple[ReplayResponder, ExpandedExchange]]] = {}

    def add_recording(self, recording: Path) -> None:
        """Take in one recording; one that cannot be read holds nothing that was paid for."""
        try:
            take = load_recording(recording)
        except InvalidData:
            return  # killed before its first line was whole
        player = ReplayResponder(msgspec.structs.replace(take, exchanges=()), values=self._values)
        seen: dict[int, bytes] = {}
        for recorded in take.exchanges:
            exchange = recorded.exchange
            # What was said for nothing stands in the recording of an earlier take as well, where it was paid for.
            if exchange.paid or not is_complete(exchange):
                continue
            for message in recorded.messages:
                if id(message) not in seen:
                    seen[id(message)] = digest(msgspec.json.encode(normalize_message(message)))
            key = _call_key(exchange.role, exchange.request.model, (seen[id(message)] for message in recorded.messages))
            self._responses.setdefault(key, deque()).append((player, recorded))

    def pop_reply(self, call: ModelCall) -> BackendReply | None:
        """The answer that this request got before, if one is left."""
        waiting = self._responses.get(_call_key(call.role, call.model, map(self._message_digest, call.messages)))
        if not waiting:
            return None
        player, recorded = waiting.popleft()
        reply = player.reply(recorded, stream=call.stream)
        reply.paid = True
        return reply

    @property
    def is_empty(self) -> bool:
        """Whether nothing is left to be said again."""
        return not any(self._responses.values())

    def _message_digest(self, raw: msgspec.Raw) -> bytes:
        """Identifies a message as it would have been recorded."""
        seen = digest(raw)
        if seen not in self._messages:
            clean: Any = decode_or_text(self._redactor.redact_bytes(bytes(raw)))
            self._messages[seen] = digest(msgspec.json.encode(normalize_message(clean)))
        return self._messages[seen]


class ResumedResponder:
    """Answers from what was said before where that fits, otherwise from the backend."""

    def __init__(self, earlier: EarlierResponses, live: Responder) -> None:
        self._earlier = earlier
        self._live = live

    async def respond(self, call: ModelCall, conversation: str, incoming: IncomingRequest) -> BackendReply:
        """The recorded answer, marked as paid for; or the backend's."""
        reply = self._earlier.pop_reply(call)
        if reply is None:
            return await self._live.respond(call, conversation, incoming)
        if isinstance(self._live, SequentialResponder):
            self._live.skip(call, conversation, incoming)
        return reply

    async def respond_other(self, incoming: IncomingRequest) -> BackendReply:
        """Whatever else is asked costs nothing, and is the backend's to say."""
        return await self._live.respond_other(incoming)


def resumed_responder(
    recordings: Sequence[Path], live: Responder, *, values: dict[str, str], redactor: Redactor
) -> Responder:
    """A responder that says again what was said in the sessions recorded in `earlier`, and asks `live` for the rest.

    The redactor is the new session's: what a recording does not show is not compared either.
    """
    said = EarlierResponses(redactor, values)
    for cassette in recordings:
        said.add_recording(cassette)
    return live if said.is_empty else ResumedResponder(said, live)


def _call_key(role: Role, model: str, messages: Iterable[bytes]) -> bytes:
    identity = hashlib.sha256(f"{role} {canonical_model(model)} ".encode())
    for message in messages:
        identity.update(message)
    return identity.digest()
