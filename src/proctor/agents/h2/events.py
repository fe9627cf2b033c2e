"""What happens to an agent of a pod, in our own words; `adapter` reads it from what h2 writes."""

from enum import StrEnum

from proctor.core.record import Record


class AgentActivity(StrEnum):
    """What an agent is at."""

    STARTING = "starting"
    WORKING = "working"
    COMPACTING = "compacting"
    AWAITING_PERMISSION = "awaiting_permission"
    AWAITING_USER = "awaiting_user"
    IDLE = "idle"
    RATE_LIMITED = "rate_limited"
    AUTH_ERROR = "auth_error"
    PROVIDER_ERROR = "provider_error"
    EXITED = "exited"


class PodEventKind(StrEnum):
    """What an event is about.

    PROMPT: a message was taken as a prompt. TURN: the model has answered. SAID: the text of an answer. ENDED: it left
    its session, for good or to begin another. TROUBLE: what is said about a limit, a login or the provider.
    """

    PROMPT = "prompt"
    STATE = "state"
    TOOL = "tool"
    TURN = "turn"
    MESSAGE = "said"
    SESSION_ENDED = "ended"
    ERROR = "trouble"
    OTHER = "other"


class PodEvent(Record):
    """One thing that happened to an agent.

    Attributes:
        at: when, in seconds since 1970.
        doing: what it is at from now on, for a change of state.
    """

    at: float
    kind: PodEventKind
    activity: AgentActivity | None = None
    text: str = ""


class SentMessage(Record):
    """A message that one agent sent to another."""

    at: float
    sender: str
    to: str
