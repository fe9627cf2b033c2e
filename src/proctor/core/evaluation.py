"""The report of an evaluation: a verdict on each prediction, with its evidence."""

from typing import Literal

from proctor.core.record import Record
from proctor.core.submission import PatchKind
from proctor.core.verdict import Verdict


class Prediction(Record):
    """A submission for one task, from a file or of an attempt."""

    task_id: str
    patch_kind: PatchKind
    content: bytes
    model: str | None = None


class TestSummary(Record):
    """One run of a task's tests, in numbers. `exit_code` is None when the run never started.

    Attributes:
        compile_failures: tests that were not run because the code does not compile.
        run_failures: tests whose program broke while it ran.
        compiled: whether the code compiled; None where the test program does not say.
        report: the file with the per-test results, below the artifacts of the task.
    """

    __test__ = False

    ok: bool
    exit_code: int | None
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    errors: int = 0
    compile_failures: int = 0
    run_failures: int = 0
    compiled: bool | None = None
    seconds: float = 0.0
    report: str | None = None


class RepairSummary(Record):
    """What a linter repaired between the patch and its tests.

    Attributes:
        iterations: the most lint passes that any touched file took, the final clean one included.
        first_pass_ok: whether the patch compiled as it was submitted; None when that was not tried.
    """

    mode: Literal["memory", "write"]
    iterations: int
    applied_ops: int
    last_lint_ok: bool
    first_pass_ok: bool | None = None


class TaskEvaluation(Record):
    """One task of an evaluation. `healthy` is what `validate` found on this machine; None when nobody has tried."""

    task_id: str
    verdict: Verdict
    tags: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    model: str | None = None
    patch_kind: PatchKind | None = None
    patch_sha256: str | None = None
    pre_patch: TestSummary | None = None
    post_patch: TestSummary | None = None
    repair: RepairSummary | None = None
    healthy: bool | None = None
    artifacts: str | None = None


class EvaluationSummary(Record):
    """The statuses, counted; also among the tasks that are known to be healthy on this machine."""

    total: int
    resolved: int
    unresolved: int
    errors: int
    skipped: int
    seconds: float
    healthy: int = 0
    healthy_resolved: int = 0


class Invocation(Record):
    """How the evaluation was invoked."""

    argv: tuple[str, ...]
    cwd: str
    started_at: str
    predictions: str | None
    oracle: bool
    runner: str
    image: str | None
    filter: str | None
    exact: bool
    limit: int | None
    jobs: int
    repair_mode: str
    keep_artifacts: bool
    artifact_dir: str


class EvaluationReport(Record):
    """What `bench eval` reports."""

    benchmark: str
    source: str
    data_digest: str
    tool_version: str
    platform: str
    environment: str
    invocation: Invocation
    summary: EvaluationSummary
    tasks: tuple[TaskEvaluation, ...]
    schema_version: Literal["proctor.report@2"] = "proctor.report@2"
