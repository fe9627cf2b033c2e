"""The format `x07`: a run becomes one of x07's bench reports, and one of them becomes a run."""

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from proctor.benchmarks.suites.benchmark import SuiteBenchmark
from proctor.benchmarks.suites.load import Suite, load_suite
from proctor.benchmarks.x07.bench_report import (
    ENVELOPE_SCHEMA,
    REPORT_SCHEMA,
    X07BenchReport,
    read_bench_report,
    summarise_tasks,
)
from proctor.benchmarks.x07.files import PREDICTION_SCHEMA
from proctor.benchmarks.x07.report import x07_json, x07_list_report, x07_report, x07_validate_report
from proctor.benchmarks.x07.toolchain import x07_version
from proctor.core import VERSION
from proctor.core.benchmark import Benchmark, TaskHealth
from proctor.core.causes import Cause
from proctor.core.errors import InvalidData
from proctor.core.evaluation import EvaluationReport, Invocation, Prediction, TaskEvaluation
from proctor.core.record import read_record, to_json
from proctor.core.result import AgentMetrics, Attempt, TaskResult
from proctor.core.submission import PatchKind
from proctor.core.task import Task
from proctor.core.user_files import read_user_bytes
from proctor.core.verdict import Verdict
from proctor.results import RunStore
from proctor.results.attempt_record import GRADING_FILE, SUBMISSION_FILES, GradingRecord
from proctor.results.formats import (
    EvaluationDocument,
    ExportOptions,
    ExportResult,
    ExternalRun,
    ExternalTrial,
    Format,
    ImportOptions,
    external_config,
    unknown_usage,
)


class X07Format(Format):
    """A report file; or, with the suffix .jsonl, the predictions that `x07 bench eval` reads."""

    about = "a report as `x07 bench eval` prints it; into FILE.jsonl, the predictions that it reads"
    suffix = ".json"
    report_schemas = (REPORT_SCHEMA, ENVELOPE_SCHEMA)
    prints_documents = True

    def export(self, run: RunStore, target: Path, options: ExportOptions) -> ExportResult:
        """Write the first trial of each task; x07 has one."""
        config, results = run.config(), list(run.results())
        first = [result for result in results if result.trial == 1]
        name = options.name or (f"{config.agent} {config.model}" if config.model else config.agent)
        more = len(results) - len(first)
        left_out = [f"{more} further trial{'s' if more > 1 else ''} of the same tasks: x07 has one"] if more else []
        if target.suffix == ".jsonl":
            found = {result.task_id: _last_submission(run, result) for result in first}
            left_out += [f"{task}: no submission that can be graded again" for task in found if not found[task]]
            target.write_bytes(write_predictions([one for one in found.values() if one], name=name))
            return ExportResult(files=1, left_out=tuple(left_out))
        tasks = tuple(_task_evaluation(run, result, name) for result in first)
        report = EvaluationReport(
            benchmark=config.benchmark,
            source=config.source,
            data_digest=config.data_digest,
            tool_version=config.versions.get("proctor") or VERSION,
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
            summary=summarise_tasks(tasks, sum(result.grade_seconds for result in first)),
            tasks=tasks,
        )
        target.write_bytes(x07_json(x07_report(report, suite=_load_suite_if_present(config.source))))
        return ExportResult(files=1, left_out=tuple(left_out))

    def read(self, source: Path, options: ImportOptions) -> ExternalRun:
        """Read a report, or the envelope that `x07 --json` puts around one."""
        report = read_bench_report(read_user_bytes(source, "the report"), where=source)
        models = sorted({one.model_name_or_path for one in report.instances if one.model_name_or_path})
        config = external_config(
            benchmark=options.benchmark or report.suite.suite_id,
            origin=str(source),
            agent=options.agent or ("oracle" if report.is_oracle else "unknown"),
            model=options.model or (models[0] if len(models) == 1 else None),
            versions={"x07": report.tool.version},
            created_at=report.started_at,
            runner=report.env.runner,
        )
        return ExternalRun(config, _imported_trials(report, config.benchmark))

    def read_report(self, data: bytes) -> EvaluationReport:
        """A report, or the one in an envelope, as one of ours."""
        return read_bench_report(data).evaluation_report()

    def evaluation_document(self, benchmark: Benchmark, report: EvaluationReport) -> EvaluationDocument:
        """What `x07 bench eval` prints."""
        suite = benchmark.suite if isinstance(benchmark, SuiteBenchmark) else None
        document = x07_report(report, suite=suite, x07_version=x07_version())
        return EvaluationDocument(data=x07_json(document), errors=document["summary"]["errors"])

    def task_list_document(self, benchmark: Benchmark, tasks: Sequence[Task]) -> bytes:
        """What `x07 bench list` prints."""
        return x07_json(x07_list_report(benchmark.source, benchmark.name, [task.id for task in tasks]))

    def health_document(self, benchmark: Benchmark, healths: Sequence[TaskHealth], seconds: float) -> bytes:
        """What `x07 bench validate` prints."""
        suite = benchmark.suite if isinstance(benchmark, SuiteBenchmark) else None
        return x07_json(
            x07_validate_report(
                healths, suite_path=benchmark.source, suite_id=benchmark.name, seconds=seconds, suite=suite
            )
        )


def write_predictions(predictions: Iterable[Prediction], *, name: str) -> bytes:
    """Predictions as x07 reads them: each patch in its line, a patch set with the bytes that it had."""
    return b"".join(_line(prediction, name) for prediction in predictions)


def _line(prediction: Prediction, name: str) -> bytes:
    inline = (
        prediction.content.strip().replace(b"\n", b" ")  # between the tokens of JSON, and only there, lines may end
        if prediction.patch_kind is PatchKind.PATCH_SET
        else json.dumps(prediction.content.decode(errors="surrogateescape")).encode()
    )
    head = {
        "schema_version": PREDICTION_SCHEMA,
        "instance_id": prediction.task_id,
        "model_name_or_path": prediction.model or name,
        "patch_kind": prediction.patch_kind.value,
    }
    return json.dumps(head).encode().removesuffix(b"}") + b', "patch_inline": ' + inline + b"}\n"


def _imported_trials(report: X07BenchReport, benchmark: str) -> Iterator[ExternalTrial]:
    at = report.started_at
    for one in report.instances:
        evaluation = one.evaluation(report.tool.version)
        attempt = Attempt(number=1, started_at=at, ended_at=at, cause=Cause.ANSWERED, detail="graded by x07", logs="")
        result = TaskResult(
            run_id="",
            benchmark=benchmark,
            task_id=one.instance_id,
            trial=1,
            status=one.status,
            cause=evaluation.verdict.cause,
            verdict=evaluation.verdict,
            attempts=(attempt,),
            usage=() if report.is_oracle else unknown_usage(one.model_name_or_path),
            metrics=AgentMetrics(),
            agent_seconds=0.0,
            grade_seconds=one.seconds,
            categories={},
        )
        graded = GradingRecord(evaluation=evaluation, seconds=one.seconds)
        yield ExternalTrial(result, {GRADING_FILE: to_json(graded)})


def _last_submission(run: RunStore, result: TaskResult) -> Prediction | None:
    """The last submission; a state was graded where it was, and cannot be graded again."""
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
    """What grading recorded; for a trial that was not graded, what its result says."""
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
