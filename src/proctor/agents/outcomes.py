"""Outcomes on disk, so that the outcome of an agent that was cancelled is known, too."""

from pathlib import Path
from typing import Final

from proctor.core.agent import AgentOutcome, AgentRequest
from proctor.core.causes import Cause
from proctor.core.record import read_record, to_json
from proctor.core.result import AgentMetrics

OUTCOME_FILE: Final = "outcome.json"
CauseAndDetail = tuple[Cause | None, str]
"""Why an agent ended (None: it finished), and one sentence on it."""


def write_outcome(request: AgentRequest, outcome: AgentOutcome) -> AgentOutcome:
    """Write the outcome into the request's logs, and return it."""
    file = Path(request.logs, OUTCOME_FILE)
    # Replaced as a whole, but not synced: this process reads it again and must not wait for the disk.
    half_written = file.with_name(f".{OUTCOME_FILE}.tmp")
    data = to_json(outcome)
    try:
        half_written.write_bytes(data)
    except FileNotFoundError:
        file.parent.mkdir(parents=True)
        half_written.write_bytes(data)
    half_written.replace(file)
    return outcome


def read_outcome(logs: Path) -> AgentOutcome | None:
    """The outcome in an agent's logs; None when it was not written.

    Raises:
        InvalidData: the file is not an outcome.
    """
    file = logs / OUTCOME_FILE
    return read_record(file, AgentOutcome) if file.exists() else None


def not_started_outcome(cause: Cause | None, detail: str) -> AgentOutcome:
    """The outcome of an agent that was not even started."""
    return AgentOutcome(cause=cause, detail=detail, seconds=0.0, metrics=AgentMetrics(agents=0))
