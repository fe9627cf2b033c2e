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
from proctor.gateway.backend import Incoming, Ordered, Reply, Responder
from proctor.gateway.cassette import Recorded, is_whole, read_cassette
from proctor.gateway.classify import Call, Role
from proctor.gateway.match import comparable
from proctor.gateway.prices import canonical_model
from proctor.gateway.readable import readable
from proctor.gateway.recorder import digest
from proctor.gateway.redact import Redactor
from proctor.gateway.replay import ReplayPlayer


class Said:
    """What the model has said in earlier takes of a session, by what it was asked.

    Each answer is given again once: an agent that asks the same twice got two answers then, and gets two now.
    """

    def __init__(self, redactor: Redactor, values: dict[str, str]) -> None:
        self._redactor = redactor
        self._values = values
        self._messages: dict[bytes, bytes] = {}
        self._answers: dict[bytes, deque[tuple[ReplayPlayer, Recorded]]] = {}

    def learn(self, cassette: Path) -> None:
        """Take in one recording; one that cannot be read holds nothing that was paid for."""
        try:
            take = read_cassette(cassette)
        except InvalidData:
            return  # killed before its first line was whole
        player = ReplayPlayer(msgspec.structs.replace(take, exchanges=()), values=self._values)
        seen: dict[int, bytes] = {}
        for recorded in take.exchanges:
            exchange = recorded.exchange
            # What was said for nothing stands in the recording of an earlier take as well, where it was paid for.
            if exchange.paid or not is_whole(exchange):
                continue
            for message in recorded.messages:
                if id(message) not in seen:
                    seen[id(message)] = digest(msgspec.json.encode(comparable(message)))
            key = _key(exchange.role, exchange.request.model, (seen[id(message)] for message in recorded.messages))
            self._answers.setdefault(key, deque()).append((player, recorded))

    def take(self, call: Call) -> Reply | None:
        """The answer that this request got before, if one is left."""
        waiting = self._answers.get(_key(call.role, call.model, map(self._sent, call.messages)))
        if not waiting:
            return None
        player, recorded = waiting.popleft()
        reply = player.reply(recorded, stream=call.stream)
        reply.paid = True
        return reply

    @property
    def empty(self) -> bool:
        """Whether nothing is left to be said again."""
        return not any(self._answers.values())

    def _sent(self, raw: msgspec.Raw) -> bytes:
        """Identifies a message as it would have been recorded."""
        seen = digest(raw)
        if seen not in self._messages:
            clean: Any = readable(self._redactor.data(bytes(raw)))
            self._messages[seen] = digest(msgspec.json.encode(comparable(clean)))
        return self._messages[seen]


class ContinuedResponder:
    """Answers from what was said before where that fits, otherwise from the backend."""

    def __init__(self, said: Said, live: Responder) -> None:
        self._said = said
        self._live = live

    async def answer(self, call: Call, conversation: str, incoming: Incoming) -> Reply:
        """The recorded answer, marked as paid for; or the backend's."""
        reply = self._said.take(call)
        if reply is None:
            return await self._live.answer(call, conversation, incoming)
        if isinstance(self._live, Ordered):
            self._live.passed(call, conversation, incoming)
        return reply

    async def other(self, incoming: Incoming) -> Reply:
        """Whatever else is asked costs nothing, and is the backend's to say."""
        return await self._live.other(incoming)


def continued(earlier: Sequence[Path], live: Responder, *, values: dict[str, str], redactor: Redactor) -> Responder:
    """A responder that says again what was said in the sessions recorded in `earlier`, and asks `live` for the rest.

    The redactor is the new session's: what a recording does not show is not compared either.
    """
    said = Said(redactor, values)
    for cassette in earlier:
        said.learn(cassette)
    return live if said.empty else ContinuedResponder(said, live)


def _key(role: Role, model: str, messages: Iterable[bytes]) -> bytes:
    identity = hashlib.sha256(f"{role} {canonical_model(model)} ".encode())
    for message in messages:
        identity.update(message)
    return identity.digest()
