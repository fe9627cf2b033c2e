"""Reads x07's bench reports: `x07.bench.report@0.1.0`, or the envelope that `x07 --json` puts around one."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from proctor.benchmarks.x07.test_command import X07Counts
from proctor.core.causes import Cause, Status
from proctor.core.errors import InvalidData
from proctor.core.evaluation import (
    EvaluationReport,
    EvaluationSummary,
    Invocation,
    RepairSummary,
    TaskEvaluation,
    TestSummary,
)
from proctor.core.record import Record, from_json
from proctor.core.submission import PatchKind
from proctor.core.verdict import Verdict

REPORT_SCHEMA: Final = "x07.bench.report@0.1.0"
ENVELOPE_SCHEMA: Final = "x07.tool.bench.eval.report@0.1.0"
GREEN_BASELINE: Final = "baseline run is already green; instance is invalid"
NONDETERMINISTIC: Final = "nondeterministic instance: repeated post-patch run diverged"
NO_PREDICTION: Final = "no prediction for this instance"
DIVERGED: Final = "nondeterministic after-patch run detected"

_SUITE_FAILED: Final = "<suite>"  # the id of the only instance in the report of a suite that x07 could not load
_CAUSES: Final = {
    Status.RESOLVED: Cause.SOLVED,
    Status.UNRESOLVED: Cause.TESTS_FAILED,
    Status.ERROR: Cause.GRADER_FAILED,
    Status.SKIPPED: Cause.NO_SUBMISSION,
}
_ERRORS: Final = {GREEN_BASELINE: Cause.INVALID_TASK, NONDETERMINISTIC: Cause.FLAKY}


class X07BenchTests(X07Counts, kw_only=True):
    """One test run of an instance."""

    ok: bool
    exit_code: int | None
    report_path: str | None = None
    duration_ms: int = 0


class X07BenchRepair(Record):
    """What x07's linter did to an instance; `first_pass_ok` is ours."""

    mode: str
    iterations: int
    applied_ops_count: int
    last_lint_ok: bool
    first_pass_ok: bool | None = None


class X07BenchInstance(Record):
    """One instance of a report."""

    instance_id: str
    status: Status
    baseline: X07BenchTests | None = None
    after_patch: X07BenchTests | None = None
    repair: X07BenchRepair | None = None
    artifacts_dir: str | None = None
    patch_kind: PatchKind | None = None
    patch_sha256_hex: str | None = None
    model_name_or_path: str | None = None
    error: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        """How long its tests took."""
        return sum(tests.duration_ms for tests in (self.baseline, self.after_patch) if tests) / 1000

    def evaluation(self, x07_version: str) -> TaskEvaluation:
        """The instance as one of our reports has it."""
        ran_before = self.baseline is not None and self.baseline.exit_code is not None
        verdict = Verdict(
            task_id=self.instance_id,
            status=self.status,
            cause=_ERRORS.get(self.error or "", _CAUSES[self.status]),
            reason=self.error or self.status.value,
            # x07 has errors beside a status that is none; such a patch was not applied as it is.
            applied_with=self.error if self.status is Status.RESOLVED else None,
            grader=f"x07 {x07_version}",
        )
        return TaskEvaluation(
            task_id=self.instance_id,
            verdict=verdict,
            tags=_tags(self.notes),
            # An export makes the notes again that follow from the verdict.
            notes=tuple(note for note in self.notes if note not in {NO_PREDICTION, DIVERGED}),
            model=self.model_name_or_path,
            patch_kind=self.patch_kind,
            patch_sha256=self.patch_sha256_hex,
            pre_patch=_summary(self.baseline, self.artifacts_dir) if ran_before else None,
            post_patch=_summary(self.after_patch, self.artifacts_dir),
            repair=_repair(self.repair),
            artifacts=self.artifacts_dir,
        )


class X07BenchTool(Record):
    version: str


class X07BenchSuite(Record):
    suite_id: str
    suite_path: str = ""


class X07BenchEnv(Record):
    runner: str = "local"
    platform: str = ""


class X07BenchSummary(Record):
    duration_ms: int = 0


class X07BenchReport(Record):
    """A report."""

    schema_version: str
    tool: X07BenchTool
    suite: X07BenchSuite
    summary: X07BenchSummary
    instances: tuple[X07BenchInstance, ...]
    env: X07BenchEnv = X07BenchEnv()
    invocation: dict[str, Any] = msgspec.field(default_factory=dict)

    @property
    def is_oracle(self) -> bool:
        """Whether the suite's own oracles were graded."""
        return self.invocation.get("oracle") is True

    @property
    def started_at(self) -> str:
        """When x07 was started; the epoch where the report does not have it."""
        unix_ms = self.invocation.get("started_at_unix_ms")
        known = unix_ms if isinstance(unix_ms, int) and 0 <= unix_ms < 1 << 45 else 0
        return datetime.fromtimestamp(known / 1000, UTC).isoformat(timespec="milliseconds")

    def evaluation_report(self) -> EvaluationReport:
        """The report as one of ours."""
        tasks = tuple(one.evaluation(self.tool.version) for one in self.instances)
        return EvaluationReport(
            benchmark=self.suite.suite_id,
            source=self.suite.suite_path,
            data_digest="",
            tool_version=self.tool.version,
            platform=self.env.platform,
            environment="",
            invocation=Invocation(
                argv=(),
                cwd="",
                started_at=self.started_at,
                predictions=None,
                oracle=self.is_oracle,
                runner=self.env.runner,
                image=None,
                filter=None,
                exact=False,
                limit=None,
                jobs=1,
                repair_mode="write" if any(task.repair for task in tasks) else "off",
                keep_artifacts=False,
                artifact_dir="",
            ),
            summary=summarise_tasks(tasks, self.summary.duration_ms / 1000),
            tasks=tasks,
        )


class _X07Header(Record):
    schema_version: str = ""


class _X07EnvelopeResult(Record):
    stdout_json: msgspec.Raw = msgspec.Raw(b"null")


class _X07Envelope(Record):
    schema_version: str = ""
    result: _X07EnvelopeResult = _X07EnvelopeResult()
    exit_code: int | None = None


def read_bench_report(data: bytes, *, where: object = None) -> X07BenchReport:
    """Read a report, or the one in an envelope.

    Raises:
        InvalidData: it is neither, or says only that the suite could not be loaded.
    """
    schema = from_json(data, _X07Header, where=where).schema_version
    if schema == ENVELOPE_SCHEMA:
        envelope = from_json(data, _X07Envelope, where=where)
        data = bytes(envelope.result.stdout_json)
        schema = "" if data == b"null" else from_json(data, _X07Header, where=where).schema_version
        if schema != REPORT_SCHEMA:
            what = f"x07's envelope holds no bench report (its exit code was {envelope.exit_code})"
            raise InvalidData(what, where=where)
    if schema != REPORT_SCHEMA:
        raise InvalidData(f"this is a {schema!r}, not a {REPORT_SCHEMA!r}", where=where)
    report = from_json(data, X07BenchReport, where=where)
    if [one.instance_id for one in report.instances] == [_SUITE_FAILED]:
        raise InvalidData(f"it only says that its suite could not be loaded: {report.instances[0].error}", where=where)
    return report


def summarise_tasks(tasks: Sequence[TaskEvaluation], seconds: float) -> EvaluationSummary:
    """The statuses of these tasks, counted."""
    names = ("resolved", "unresolved", "errors", "skipped")
    counts = {
        name: sum(task.verdict.status is status for task in tasks) for name, status in zip(names, Status, strict=True)
    }
    return EvaluationSummary(total=len(tasks), seconds=seconds, **counts)


def _summary(tests: X07BenchTests | None, folder: str | None) -> TestSummary | None:
    if tests is None:
        return None
    report = tests.report_path
    return TestSummary(
        ok=tests.ok,
        exit_code=tests.exit_code,
        **{name: getattr(tests, name) for name in X07Counts.__struct_fields__},
        compiled=tests.compiled(tests.exit_code),
        seconds=tests.duration_ms / 1000,
        report=report.removeprefix(f"{folder}/") if report and folder else report,
    )


def _repair(repair: X07BenchRepair | None) -> RepairSummary | None:
    if repair is None or repair.mode not in {"memory", "write"}:
        return None
    return RepairSummary(
        mode="memory" if repair.mode == "memory" else "write",
        iterations=repair.iterations,
        applied_ops=repair.applied_ops_count,
        last_lint_ok=repair.last_lint_ok,
        first_pass_ok=repair.first_pass_ok,
    )


def _tags(notes: Iterable[str]) -> tuple[str, ...]:
    """The tags of an instance, which x07's report has in its notes."""
    listed = [note.removeprefix("tags=").split(",") for note in notes if note.startswith("tags=")]
    return tuple(dict.fromkeys(tag for tags in listed for tag in tags if tag))
