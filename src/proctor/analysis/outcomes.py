"""What scores are made of: one outcome for each task, read from our report or from one of x07's."""

from collections.abc import Iterable
from typing import Final

import msgspec

from proctor.core.causes import Status
from proctor.core.errors import InvalidData, UsageError
from proctor.core.evaluation import EvaluationReport, RepairSummary, TestSummary
from proctor.core.record import Record, from_json

PROCTOR_REPORT: Final = "proctor.report@2"
X07_REPORT: Final = "x07.bench.report@0.1.0"
X07_ENVELOPE: Final = "x07.tool.bench.eval.report@0.1.0"
_X07_TESTS_SUFFIX: Final = ".x07test.report.json"


class TaskOutcome(Record):
    """What a score needs to know of one task.

    Attributes:
        without_errors: nothing had to be put right on the way; says nothing of whether it is resolved.
        has_first_pass: x07 came to compile its tests.
        first_pass: they compiled as it was handed in; None where that is not known.
        repair: lint passes and applied operations; None where nothing went through repair.
    """

    status: Status
    tags: tuple[str, ...]
    without_errors: bool
    has_first_pass: bool
    first_pass: bool | None
    repair: tuple[int, int] | None


class EvaluationOutcomes(Record):
    """The outcomes of one report; `source` is its schema."""

    benchmark: str
    source: str
    tool_version: str
    seconds: float
    tasks: tuple[TaskOutcome, ...]


class _X07ReportRepair(Record):
    mode: str
    iterations: int
    applied_ops: int = msgspec.field(name="applied_ops_count")
    last_lint_ok: bool
    first_pass_ok: bool | None = None


class _X07ReportInstance(Record):
    instance_id: str
    status: Status
    after_patch: TestSummary | None = None
    repair: _X07ReportRepair | None = None
    error: str | None = None
    notes: tuple[str, ...] = ()


class _X07ReportTool(Record):
    version: str


class _X07ReportSuite(Record):
    suite_id: str


class _X07ReportSummary(Record):
    duration_ms: int


class X07Report(Record):
    tool: _X07ReportTool
    suite: _X07ReportSuite
    summary: _X07ReportSummary
    instances: tuple[_X07ReportInstance, ...]


class _X07EnvelopeResult(Record):
    stdout_json: msgspec.Raw = msgspec.Raw(b"null")


class X07Envelope(Record):
    result: _X07EnvelopeResult = _X07EnvelopeResult()
    exit_code: int | None = None


class ReportHeader(Record):
    schema_version: str = ""


def read_outcomes(data: bytes, *, where: str) -> EvaluationOutcomes:
    """Read a report, or the envelope that `x07 --json` puts around one.

    Raises:
        UsageError: it is no report, or not one of these; says why in one sentence.
    """
    try:
        kind = from_json(data, ReportHeader).schema_version
        if kind == X07_ENVELOPE:
            envelope = from_json(data, X07Envelope)
            data = bytes(envelope.result.stdout_json)
            kind = "" if data == b"null" else from_json(data, ReportHeader).schema_version
            if kind != X07_REPORT:
                raise InvalidData(f"x07's envelope holds no bench report (its exit code was {envelope.exit_code})")
        if kind == X07_REPORT:
            return _from_x07(from_json(data, X07Report))
        if kind.startswith("proctor.report@"):
            return _from_proctor(from_json(data, EvaluationReport))
    except InvalidData as error:
        raise UsageError(f"cannot be scored: {error.what}", where=where) from error
    what = f"a report of kind {kind!r} cannot be scored" if kind else "this is no report: it has no schema_version"
    raise UsageError(what, where=where, fix=f"give a report of kind {PROCTOR_REPORT} or {X07_REPORT}")


def _from_proctor(report: EvaluationReport) -> EvaluationOutcomes:
    return EvaluationOutcomes(
        benchmark=report.benchmark,
        source=PROCTOR_REPORT,
        tool_version=report.tool_version,
        seconds=report.summary.seconds,
        tasks=tuple(
            _outcome(
                task.verdict.status,
                task.tags,
                task.post_patch,
                task.repair,
                # Only x07 compiles; other tests' results have no such thing as a first pass.
                by_x07=task.repair is not None or _is_x07_report(task.post_patch),
                clean=task.verdict.applied_with is None,
            )
            for task in report.tasks
        ),
    )


def _from_x07(report: X07Report) -> EvaluationOutcomes:
    if [one.instance_id for one in report.instances] == ["<suite>"]:
        raise InvalidData(f"it only says that its suite could not be loaded: {report.instances[0].error}")
    return EvaluationOutcomes(
        benchmark=report.suite.suite_id,
        source=X07_REPORT,
        tool_version=report.tool.version,
        seconds=report.summary.duration_ms / 1000,
        tasks=tuple(
            _outcome(one.status, _tags(one.notes), one.after_patch, one.repair, by_x07=True, clean=not one.error)
            for one in report.instances
        ),
    )


def _outcome(
    status: Status,
    tags: tuple[str, ...],
    after: TestSummary | None,
    repair: RepairSummary | _X07ReportRepair | None,
    *,
    by_x07: bool,
    clean: bool,
) -> TaskOutcome:
    as_handed_in = repair is None or repair.applied_ops == 0 or repair.mode == "memory"
    first_pass = repair.first_pass_ok if repair else None
    if first_pass is None and after is not None and as_handed_in:
        first_pass = after.compiled
    lint_clean = repair is None or (repair.applied_ops == 0 and repair.last_lint_ok)
    tests_clean = after is None or not (after.errors or after.compile_failures or after.run_failures)
    return TaskOutcome(
        status=status,
        tags=tags,
        without_errors=clean and lint_clean and tests_clean,
        has_first_pass=by_x07 and after is not None,
        first_pass=first_pass,
        repair=(repair.iterations, repair.applied_ops) if repair else None,
    )


def _is_x07_report(tests: TestSummary | None) -> bool:
    return tests is not None and (tests.report or "").endswith(_X07_TESTS_SUFFIX)


def _tags(notes: Iterable[str]) -> tuple[str, ...]:
    """x07's report keeps an instance's tags in its notes."""
    listed = [note.removeprefix("tags=").split(",") for note in notes if note.startswith("tags=")]
    return tuple(dict.fromkeys(tag for tags in listed for tag in tags if tag))
