"""What happens to an agent of a pod, in our own words; `adapter` reads it from what h2 writes."""

from enum import StrEnum

from proctor.core.record import Record


class Doing(StrEnum):
    """What an agent is at."""

    STARTING = "starting"
    WORKING = "working"
    COMPACTING = "compacting"
    ASKING = "asking for a permission"
    BLOCKED = "waiting for a person"
    IDLE = "idle"
    LIMITED = "limited"
    REFUSED = "refused"
    FAILING = "failing"
    LEFT = "out of its session"


class Kind(StrEnum):
    """What an event is about.

    PROMPT: a message was taken as a prompt. TURN: the model has answered. SAID: the text of an answer. ENDED: it left
    its session, for good or to begin another. TROUBLE: what is said about a limit, a login or the provider.
    """

    PROMPT = "prompt"
    STATE = "state"
    TOOL = "tool"
    TURN = "turn"
    SAID = "said"
    ENDED = "ended"
    TROUBLE = "trouble"
    OTHER = "other"


class Event(Record):
    """One thing that happened to an agent.

    Attributes:
        at: when, in seconds since 1970.
        doing: what it is at from now on, for a change of state.
    """

    at: float
    kind: Kind
    doing: Doing | None = None
    text: str = ""


class Sent(Record):
    """A message that one agent sent to another."""

    at: float
    sender: str
    to: str
