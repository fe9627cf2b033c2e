"""x07's bench reports: a run becomes one, and one becomes a run."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec

import proctor
from proctor.benchmarks.suites.load import Suite, load_suite
from proctor.benchmarks.x07.report import (
    GREEN_BASELINE,
    NONDETERMINISTIC,
    SCHEMA_VERSION,
    x07_json,
    x07_report,
)
from proctor.core.causes import Cause, Status
from proctor.core.errors import InvalidData, UsageError
from proctor.core.evaluation import (
    EvaluationReport,
    EvaluationSummary,
    Invocation,
    Prediction,
    RepairSummary,
    TaskEvaluation,
    TestSummary,
)
from proctor.core.predictions import write_predictions
from proctor.core.record import Record, from_json, read_record, to_json
from proctor.core.result import AgentMetrics, Attempt, TaskResult
from proctor.core.submission import PatchKind
from proctor.core.verdict import Verdict
from proctor.results import RunStore
from proctor.results.attempt_record import GRADING_FILE, SUBMISSION_FILES, GradingRecord
from proctor.results.formats import (
    ExportOptions,
    ExportResult,
    ExternalRun,
    ExternalTrial,
    ImportOptions,
    external_config,
    unknown_usage,
)

_CAUSES: Final = {
    Status.RESOLVED: Cause.SOLVED,
    Status.UNRESOLVED: Cause.TESTS_FAILED,
    Status.ERROR: Cause.GRADER_FAILED,
    Status.SKIPPED: Cause.NO_SUBMISSION,
}
_ERRORS: Final = {GREEN_BASELINE: Cause.INVALID_TASK, NONDETERMINISTIC: Cause.FLAKY}


class X07Format:
    """A report file; or, called .jsonl, the predictions that `x07 bench eval` reads."""

    about = "a report as `x07 bench eval` prints it; into FILE.jsonl, the predictions that it reads"
    suffix = ".json"

    def export(self, run: RunStore, target: Path, options: ExportOptions) -> ExportResult:
        """Write the first answer to each task; x07 knows one."""
        config, results = run.config(), list(run.results())
        first = [result for result in results if result.trial == 1]
        name = options.name or (f"{config.agent} {config.model}" if config.model else config.agent)
        more = len(results) - len(first)
        left_out = [f"{more} further answer{'s' if more > 1 else ''} to the same tasks: x07 knows one"] if more else []
        if target.suffix == ".jsonl":
            found = {result.task_id: _last_submission(run, result) for result in first}
            left_out += [
                f"{task}: nothing was handed in that could be graded again" for task in found if not found[task]
            ]
            target.write_bytes(write_predictions([answer for answer in found.values() if answer], name=name))
            return ExportResult(files=1, left_out=tuple(left_out))
        tasks = tuple(_task_evaluation(run, result, name) for result in first)
        report = EvaluationReport(
            benchmark=config.benchmark,
            source=config.source,
            data_digest=config.data_digest,
            tool_version=config.versions.get("proctor") or proctor.__version__,
            platform=config.machine.platform,
            environment="",
            invocation=Invocation(
                argv=("proctor", "bench", "export", run.run_id),
                cwd=str(run.folder),
                started_at=config.created_at,
                predictions=None,
                oracle=config.agent == "oracle",
                runner=config.runner,
                image=config.image,
                filter=None,
                exact=False,
                limit=None,
                jobs=config.grade_concurrency,
                repair_mode="write" if any(task.repair for task in tasks) else "off",
                keep_artifacts=False,
                artifact_dir="logs",
            ),
            summary=EvaluationSummary(
                total=len(tasks),
                seconds=sum(result.grade_seconds for result in first),
                **{
                    key: sum(task.verdict.status is status for task in tasks)
                    for key, status in zip(("resolved", "unresolved", "errors", "skipped"), Status, strict=True)
                },
            ),
            tasks=tasks,
        )
        target.write_bytes(x07_json(x07_report(report, suite=_load_suite_if_present(config.source))))
        return ExportResult(files=1, left_out=tuple(left_out))

    def read(self, source: Path, options: ImportOptions) -> ExternalRun:
        """Read a report, or the envelope that `x07 --json` puts around one."""
        try:
            data = source.read_bytes()
        except OSError as error:
            raise UsageError(f"cannot read the report: {error.strerror}", where=source) from error
        report = _report(data, source)
        models = sorted({one.model_name_or_path for one in report.instances if one.model_name_or_path})
        config = external_config(
            benchmark=options.benchmark or report.suite.suite_id,
            origin=str(source),
            agent=options.agent or ("oracle" if report.invocation.get("oracle") is True else "unknown"),
            model=options.model or (models[0] if len(models) == 1 else None),
            versions={"x07": report.tool.version},
            created_at=_created(report.invocation.get("started_at_unix_ms")),
            runner=report.env.runner,
        )
        return ExternalRun(config, _imported_trials(report, config.benchmark))


class _X07BenchTests(Record):
    ok: bool
    exit_code: int | None
    report_path: str | None
    duration_ms: int
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    errors: int = 0
    compile_failures: int = 0
    run_failures: int = 0

    def summary(self, folder: str | None) -> TestSummary:
        report = self.report_path
        return TestSummary(
            ok=self.ok,
            exit_code=self.exit_code,
            **{name: getattr(self, name) for name in _COUNTS},
            seconds=self.duration_ms / 1000,
            report=report.removeprefix(f"{folder}/") if report and folder else report,
        )


_COUNTS: Final = ("passed", "failed", "skipped", "errors", "compile_failures", "run_failures")


class _X07BenchRepair(Record):
    mode: str
    iterations: int
    applied_ops_count: int
    last_lint_ok: bool


class _X07BenchInstance(Record):
    instance_id: str
    status: Status
    baseline: _X07BenchTests
    after_patch: _X07BenchTests | None = None
    repair: _X07BenchRepair | None = None
    artifacts_dir: str | None = None
    patch_kind: PatchKind | None = None
    patch_sha256_hex: str | None = None
    model_name_or_path: str | None = None
    error: str | None = None
    notes: tuple[str, ...] = ()


class _X07BenchTool(Record):
    version: str


class _X07BenchSuite(Record):
    suite_id: str


class _X07BenchEnv(Record):
    runner: str


class _X07BenchReport(Record):
    schema_version: str
    tool: _X07BenchTool
    suite: _X07BenchSuite
    env: _X07BenchEnv
    invocation: dict[str, Any]
    instances: tuple[_X07BenchInstance, ...]


class _X07CliResult(Record):
    stdout_json: msgspec.Raw


class _X07CliEnvelope(Record):
    result: _X07CliResult


def _report(data: bytes, source: Path) -> _X07BenchReport:
    if b'"stdout_json"' in data:
        data = bytes(from_json(data, _X07CliEnvelope, where=source).result.stdout_json)
    report = from_json(data, _X07BenchReport, where=source)
    if report.schema_version != SCHEMA_VERSION:
        raise InvalidData(f"this is a {report.schema_version!r}, not a {SCHEMA_VERSION!r}", where=source)
    return report


def _imported_trials(report: _X07BenchReport, benchmark: str) -> Iterator[ExternalTrial]:
    for one in report.instances:
        cause = _ERRORS.get(one.error or "", _CAUSES[one.status])
        verdict = Verdict(
            task_id=one.instance_id,
            status=one.status,
            cause=cause,
            reason=one.error or one.status.value,
            grader=f"x07 {report.tool.version}",
        )
        evaluated = TaskEvaluation(
            task_id=one.instance_id,
            verdict=verdict,
            notes=_original_notes(one),
            model=one.model_name_or_path,
            patch_kind=one.patch_kind,
            patch_sha256=one.patch_sha256_hex,
            pre_patch=one.baseline.summary(one.artifacts_dir) if one.baseline.exit_code is not None else None,
            post_patch=one.after_patch.summary(one.artifacts_dir) if one.after_patch else None,
            repair=_repair(one.repair),
            artifacts=one.artifacts_dir,
        )
        tests = [one.baseline, *([one.after_patch] if one.after_patch else [])]
        seconds = sum(test.duration_ms for test in tests) / 1000
        at = _created(report.invocation.get("started_at_unix_ms"))
        attempt = Attempt(number=1, started_at=at, ended_at=at, cause=Cause.ANSWERED, detail="graded by x07", logs="")
        result = TaskResult(
            run_id="",
            benchmark=benchmark,
            task_id=one.instance_id,
            trial=1,
            status=one.status,
            cause=cause,
            verdict=verdict,
            attempts=(attempt,),
            usage=() if report.invocation.get("oracle") is True else unknown_usage(one.model_name_or_path),
            metrics=AgentMetrics(),
            agent_seconds=0.0,
            grade_seconds=seconds,
            categories={},
        )
        yield ExternalTrial(result, {GRADING_FILE: to_json(GradingRecord(evaluation=evaluated, seconds=seconds))})


def _original_notes(one: _X07BenchInstance) -> tuple[str, ...]:
    """The notes but for those that follow from the verdict, which an export makes again."""
    made = {"no prediction for this instance", "nondeterministic after-patch run detected"}
    return tuple(note for note in one.notes if note not in made)


def _repair(repair: _X07BenchRepair | None) -> RepairSummary | None:
    if repair is None or repair.mode not in {"memory", "write"}:
        return None
    return RepairSummary(
        mode="memory" if repair.mode == "memory" else "write",
        iterations=repair.iterations,
        applied_ops=repair.applied_ops_count,
        last_lint_ok=repair.last_lint_ok,
    )


def _last_submission(run: RunStore, result: TaskResult) -> Prediction | None:
    """What was handed in last; a machine's state was graded where it stood, and is nobody's evidence."""
    logs = run.folder / result.attempts[-1].logs if result.attempts else None
    for kind, name in SUBMISSION_FILES.items():
        if kind is not PatchKind.STATE and logs is not None and (logs / name).is_file():
            content = (logs / name).read_bytes()
            whole = kind is not PatchKind.PATCH_SET or _is_object(content)
            return Prediction(task_id=result.task_id, patch_kind=kind, content=content, model=None) if whole else None
    return None


def _is_object(content: bytes) -> bool:
    try:
        return isinstance(msgspec.json.decode(content), dict)
    except (msgspec.DecodeError, RecursionError):
        return False


def _task_evaluation(run: RunStore, result: TaskResult, name: str) -> TaskEvaluation:
    """What the grader said; for an answer that never came to it, what the result says."""
    graded = run.folder / result.attempts[-1].logs / GRADING_FILE if result.attempts else None
    if graded is not None and graded.is_file():
        found = read_record(graded, GradingRecord).evaluation
        return found if found.model else msgspec.structs.replace(found, model=name)
    verdict = result.verdict or Verdict(
        task_id=result.task_id,
        status=result.status,
        cause=result.cause,
        reason=result.attempts[-1].detail if result.attempts else result.cause.value,
    )
    return TaskEvaluation(task_id=result.task_id, verdict=verdict, model=name)


def _load_suite_if_present(source: str) -> Suite | None:
    """The suite of the run, where it is still there; its report then has its digest, and notes on labels."""
    try:
        return load_suite(source)
    except InvalidData:
        return None


def _created(unix_ms: Any) -> str:
    known = unix_ms if isinstance(unix_ms, int) and 0 <= unix_ms < 1 << 45 else 0
    return datetime.fromtimestamp(known / 1000, UTC).isoformat(timespec="milliseconds")
