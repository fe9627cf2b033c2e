"""What is stored of one attempt, in the folder of its logs."""

from pathlib import Path
from typing import Final, Literal

from proctor.core.causes import Cause
from proctor.core.evaluation import TaskEvaluation
from proctor.core.machine import Machine
from proctor.core.record import Record
from proctor.core.result import AgentMetrics, AlteredRequests, ModelUsage, StepResult, WebUse
from proctor.core.submission import PatchKind
from proctor.core.verdict import Finding

ATTEMPT_FILE: Final = "attempt.json"
_VERSION_1_ATTEMPT_FILE: Final = "answer.json"
GRADING_FILE: Final = "graded.json"
RECORDING_FILE: Final = "cassette.jsonl"
SUBMISSION_FILES: Final = {
    PatchKind.UNIFIED_DIFF: "submission.diff",
    PatchKind.PATCH_SET: "submission.patchset.json",
    PatchKind.SHELL_SCRIPT: "submission.sh",
    PatchKind.STATE: "submission.state.json",
    PatchKind.ARTIFACTS: "submission.artifacts.tar",
}


class AttemptRecord(Record):
    """How one attempt at a trial ended, and its submission. On disk before anything is graded.

    Attributes:
        cause: why it ended, when the agent did not simply finish.
        submission: the file beside this one that holds the submission; None when there is none.
        collect_seconds: how long it took to collect the submission; for a state, its checks were run then.
        findings: what was found in the submission when it was stored; the grader's own are added later.
        web: None where there was no gateway.
        altered: None where all requests were sent as they were.
        steps: of a task that has several, as far as it came.
        node: the node of a cluster that it was made on, and its `machine`; empty on one machine.
    """

    number: int
    started_at: str
    ended_at: str
    cause: Cause | None
    detail: str
    seconds: float
    usage: tuple[ModelUsage, ...]
    metrics: AgentMetrics
    final_text: str = ""
    submission: str | None = None
    patch_kind: PatchKind = PatchKind.UNIFIED_DIFF
    collect_seconds: float = 0.0
    findings: tuple[Finding, ...] = ()
    web: WebUse | None = None
    altered: AlteredRequests | None = None
    steps: tuple[StepResult, ...] = ()
    node: str = ""
    machine: Machine | None = None
    schema_version: Literal["proctor.attempt@1"] = "proctor.attempt@1"


class GradingRecord(Record):
    """How an attempt's submission was graded, and the errors of earlier tries to grade it."""

    evaluation: TaskEvaluation
    seconds: float
    earlier_errors: tuple[str, ...] = ()
    schema_version: Literal["proctor.graded@2"] = "proctor.graded@2"


def attempt_file(logs: Path) -> Path:
    """The file of an attempt's record, in the folder of its logs; it may not exist yet."""
    file = logs / ATTEMPT_FILE
    former = logs / _VERSION_1_ATTEMPT_FILE
    return former if not file.exists() and former.exists() else file
