"""What an attempt hands in. The bytes lie in a file beside the record, which names it and holds its digest."""

from enum import StrEnum
from typing import Literal

from proctor.core.record import Record


class PatchKind(StrEnum):
    """The forms in which an answer can be handed in.

    SHELL_SCRIPT brings a machine into the state that is asked for. STATE is what the grader saw of a machine that an
    agent has worked on: it is graded where it stands, while it stands, and this is the evidence.
    """

    UNIFIED_DIFF = "unified-diff"
    PATCH_SET = "x07-arch-patchset-json"
    SHELL_SCRIPT = "shell-script"
    STATE = "state"


class PatchSubmission(Record, tag="patch"):
    """A change against the task's starting tree."""

    patch_kind: PatchKind
    file: str
    sha256: str
    size: int
    schema_version: Literal["proctor.submission@1"] = "proctor.submission@1"


class StateSubmission(Record, tag="state"):
    """The environment as the agent left it."""

    environment: str
    schema_version: Literal["proctor.submission@1"] = "proctor.submission@1"


class ScoreLogEntry(Record):
    """One scored try at a task that is graded by its best, or last, score."""

    seconds: float
    score: float | None
    message: str = ""


class ScoreLogSubmission(Record, tag="score_log"):
    """Scores over time, as the protected scorer wrote them."""

    scores: tuple[ScoreLogEntry, ...]
    schema_version: Literal["proctor.submission@1"] = "proctor.submission@1"


Submission = PatchSubmission | StateSubmission | ScoreLogSubmission
