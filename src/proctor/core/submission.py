"""The kinds of submissions."""

from enum import StrEnum

from proctor.core.record import Record


class PatchKind(StrEnum):
    """What a submission or a prediction is.

    SHELL_SCRIPT brings a machine into the state that the task asks for. STATE is what the grader observed of the
    environment in which an agent worked, while it was running: the evidence for its verdict. ARTIFACTS are files that
    were copied out of that environment, as a tar archive: the verifier sees them and nothing else of it.
    """

    UNIFIED_DIFF = "unified-diff"
    PATCH_SET = "x07-arch-patchset-json"
    SHELL_SCRIPT = "shell-script"
    STATE = "state"
    ARTIFACTS = "artifacts"


class ScoreLogEntry(Record):
    """One score that an agent asked for, of a task that is graded by its best, or last, score."""

    seconds: float
    score: float | None
    message: str = ""
