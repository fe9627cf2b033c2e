"""Going on with a session that was cut short: what the model has said already is said again, for nothing.

An attempt that was killed had paid for its answers. Made again, the agent asks the same questions until something
differs; so long the recording answers, and from then on the backend does.
"""

from pathlib import Path

import msgspec

from proctor.core.errors import InvalidData
from proctor.gateway.backend import Incoming, Reply, Responder
from proctor.gateway.cassette import Cassette, read_cassette
from proctor.gateway.classify import Call
from proctor.gateway.replay import ReplayPlayer

_OK = 200


class ContinuedResponder:
    """Answers from a recording as long as it fits, then from the backend; each conversation by itself."""

    def __init__(self, recording: Responder, live: Responder) -> None:
        self._recording = recording
        self._live = live
        self._left: set[str] = set()

    async def answer(self, call: Call, conversation: str, incoming: Incoming) -> Reply:
        """The recorded answer, marked as paid for; or the backend's."""
        if conversation not in self._left:
            reply = await self._recording.answer(call, conversation, incoming)
            if reply.diverged is None:
                reply.paid = True
                return reply
            await reply.chunks.aclose()
            self._left.add(conversation)
        return await self._live.answer(call, conversation, incoming)

    async def other(self, incoming: Incoming) -> Reply:
        """Whatever else is asked costs nothing, and is the backend's to say."""
        return await self._live.other(incoming)


def continued(earlier: Path, live: Responder, *, values: dict[str, str]) -> Responder:
    """A responder that goes on where the session recorded in `earlier` broke off; `live` if that is unreadable."""
    try:
        cassette = _complete(read_cassette(earlier))
    except InvalidData:
        return live  # killed before its first line was whole: nothing was paid for
    return ContinuedResponder(ReplayPlayer(cassette, values=values), live) if cassette.exchanges else live


def _complete(cassette: Cassette) -> Cassette:
    """The recording up to the first answer of each conversation that did not come whole."""
    kept, broken = [], set()
    for recorded in cassette.exchanges:
        exchange = recorded.exchange
        if exchange.response.status != _OK or exchange.response.cut is not None:
            broken.add(exchange.conversation)
        if exchange.conversation not in broken:
            kept.append(recorded)
    return msgspec.structs.replace(cassette, exchanges=tuple(kept))
