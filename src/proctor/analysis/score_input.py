"""What scores are made of: one outcome for each task, read from an evaluation report."""

from typing import Final

from proctor.core.causes import Status
from proctor.core.errors import InvalidData, UsageError
from proctor.core.evaluation import EvaluationReport, TaskEvaluation
from proctor.core.record import Record, from_json
from proctor.results.formats import format_of_report

PROCTOR_REPORT: Final = "proctor.report@2"


class TaskOutcome(Record):
    """What a score needs to know of one task.

    Attributes:
        without_errors: nothing had to be put right on the way; says nothing of whether it is resolved.
        has_first_pass: its tests were compiled.
        first_pass: they compiled with the patch as it was submitted; None where that is not known.
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


class ReportHeader(Record):
    schema_version: str = ""


def read_outcomes(data: bytes, *, where: str) -> EvaluationOutcomes:
    """Read a report: one of ours, or one of a registered format.

    Raises:
        UsageError: it is no report that is known; says why in one sentence.
    """
    try:
        schema = from_json(data, ReportHeader).schema_version
        if schema.startswith("proctor.report@"):
            return _outcomes(from_json(data, EvaluationReport), PROCTOR_REPORT)
        found = format_of_report(schema) if schema else None
        if found is not None:
            return _outcomes(found.read_report(data), found.report_schemas[0])
    except InvalidData as error:
        raise UsageError(f"cannot be scored: {error.what}", where=where) from error
    what = (
        f"a report of kind {schema!r} cannot be scored" if schema else "this is not a report: it has no schema_version"
    )
    raise UsageError(what, where=where, fix=f"give a report of kind {PROCTOR_REPORT}, or of a registered format")


def _outcomes(report: EvaluationReport, schema: str) -> EvaluationOutcomes:
    return EvaluationOutcomes(
        benchmark=report.benchmark,
        source=schema,
        tool_version=report.tool_version,
        seconds=report.summary.seconds,
        tasks=tuple(map(_outcome, report.tasks)),
    )


def _outcome(task: TaskEvaluation) -> TaskOutcome:
    after, repair = task.post_patch, task.repair
    unrepaired = repair is None or repair.applied_ops == 0 or repair.mode == "memory"
    first_pass = repair.first_pass_ok if repair else None
    if first_pass is None and after is not None and unrepaired:
        first_pass = after.compiled
    lint_clean = repair is None or (repair.applied_ops == 0 and repair.last_lint_ok)
    tests_clean = after is None or not (after.errors or after.compile_failures or after.run_failures)
    return TaskOutcome(
        status=task.verdict.status,
        tags=task.tags,
        without_errors=task.verdict.applied_with is None and lint_clean and tests_clean,
        has_first_pass=after is not None and (after.compiled is not None or repair is not None),
        first_pass=first_pass,
        repair=(repair.iterations, repair.applied_ops) if repair else None,
    )
