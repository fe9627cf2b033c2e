"""Outcomes on disk: what an agent came to is known even when whoever asked has been cancelled."""

from pathlib import Path
from typing import Final

from proctor.core.agent import AgentOutcome, AgentRequest
from proctor.core.causes import Cause
from proctor.core.files import write_atomic
from proctor.core.record import read_record, to_json
from proctor.core.result import AgentMetrics

FILE: Final = "outcome.json"


def keep_outcome(request: AgentRequest, outcome: AgentOutcome) -> AgentOutcome:
    """Write the outcome into the request's logs, and hand it on."""
    logs = Path(request.logs)
    logs.mkdir(parents=True, exist_ok=True)
    write_atomic(logs / FILE, to_json(outcome))
    return outcome


def kept_outcome(logs: Path) -> AgentOutcome | None:
    """The outcome that an agent left in its logs; None when it got no chance to.

    Raises:
        InvalidData: the file is not an outcome.
    """
    file = logs / FILE
    return read_record(file, AgentOutcome) if file.exists() else None


def nothing_done(cause: Cause | None, detail: str) -> AgentOutcome:
    """The outcome of an agent that was not even started."""
    return AgentOutcome(cause=cause, detail=detail, seconds=0.0, metrics=AgentMetrics(agents=0))
