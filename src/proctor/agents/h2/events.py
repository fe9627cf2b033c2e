"""Events of a pod's agents. `adapter` reads them from the files that h2 writes."""

from enum import StrEnum

from proctor.core.record import Record


class AgentActivity(StrEnum):
    """The states of an agent."""

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

    PROMPT: a message was taken as a prompt. TURN: the model has responded. MESSAGE: the text of a response.
    SESSION_ENDED: it left its session, for good or to begin another. ERROR: a limit, a refused login, or a provider
    error, in h2's words.
    """

    PROMPT = "prompt"
    STATE = "state"
    TOOL = "tool"
    TURN = "turn"
    MESSAGE = "message"
    SESSION_ENDED = "session_ended"
    ERROR = "error"
    OTHER = "other"


class PodEvent(Record):
    """One thing that happened to an agent.

    Attributes:
        at: when, in seconds since 1970.
        activity: the new one, for a change of state.
    """

    at: float
    kind: PodEventKind
    activity: AgentActivity | None = None
    text: str = ""


class SentMessage(Record):
    """A message that one agent sent to another. `at` is in seconds since 1970, in a timeline since its start."""

    at: float
    sender: str
    to: str
