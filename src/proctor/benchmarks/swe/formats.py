"""The official formats as this package registers them: a stored run becomes their files, and theirs become a run."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from proctor.benchmarks.swe.harness_reports import (
    SweOutcome,
    read_outcomes,
    to_evo_report,
    to_feature_report,
    to_pro_report,
    to_swebench_report,
)
from proctor.benchmarks.swe.predictions import (
    SwePrediction,
    has_invalid_utf8,
    read_swe_predictions,
    to_evo,
    to_featurebench,
    to_pro,
    to_swebench,
)
from proctor.core.causes import Cause, Status
from proctor.core.errors import UsageError
from proctor.core.result import AgentMetrics, Attempt, TaskResult
from proctor.core.submission import PatchKind
from proctor.core.verdict import TestOutcome, TestStatus, Verdict
from proctor.results import RunStore
from proctor.results.attempt_record import SUBMISSION_FILES
from proctor.results.formats import (
    ExportOptions,
    ExportResult,
    ExternalRun,
    ExternalTrial,
    Format,
    ImportOptions,
    external_config,
    unknown_usage,
)

_PATCH_FILE = SUBMISSION_FILES[PatchKind.UNIFIED_DIFF]


class SweFormat(Format):
    """Predictions and the report of a run, in one harness's words: a folder with two files, or predictions alone.

    Attributes:
        benchmark: of the tasks, where an import does not name another.
        write_predictions: makes the file of predictions; its second argument is the name of their author.
        write_report: makes the report from the outcomes and the ids of all tasks.
    """

    benchmark: str
    predictions_file: str
    report_file: str
    write_predictions: Callable[[Sequence[SwePrediction], str], bytes]
    write_report: Callable[[Sequence[SweOutcome], Sequence[str]], bytes]

    def export(self, run: RunStore, target: Path, options: ExportOptions) -> ExportResult:
        """Write the first trial of each task, and the official verdict on it.

        Into a file called .json or .jsonl, which is what a harness is given, go the predictions alone.
        """
        config = run.config()
        name = options.name or "__".join(part for part in (config.agent, config.model or "") if part)
        results = [result for result in run.results() if result.trial == 1]
        predictions = [prediction for result in results if (prediction := _stored_prediction(run, result)) is not None]
        written = self.write_predictions(predictions, name)
        left_out = list(map(_encoding_note, filter(has_invalid_utf8, predictions)))
        if config.trials > 1:
            left_out.append(f"of {config.trials} trials of each task, the first")
        if target.suffix in {".json", ".jsonl"}:
            target.write_bytes(written)
            return ExportResult(files=1, left_out=tuple(left_out))
        target.mkdir()
        (target / self.predictions_file).write_bytes(written)
        outcomes = [_outcome(result) for result in results if result.status in {Status.RESOLVED, Status.UNRESOLVED}]
        report = self.report_file.format(name=name.replace("/", "__"), run=run.run_id)
        (target / report).write_bytes(self.write_report(outcomes, config.tasks))
        left_out += [
            f"{result.task_id}: {result.cause.value}, so that there is no verdict"
            for result in results
            if result.status not in {Status.RESOLVED, Status.UNRESOLVED}
        ]
        return ExportResult(files=2, left_out=tuple(left_out))

    def read(self, source: Path, options: ImportOptions) -> ExternalRun:
        """Read a report, or a folder with one, and the predictions beside it."""
        report, predictions = self._find_files(source)
        outcomes = read_outcomes(report)
        models = {prediction.model for prediction in predictions.values() if prediction.model}
        config = external_config(
            benchmark=options.benchmark or self.benchmark,
            origin=str(source),
            agent=options.agent or "elsewhere",
            model=options.model or (models.pop() if len(models) == 1 else None),
        )
        return ExternalRun(config, _imported_results(config.benchmark, outcomes, predictions))

    def _find_files(self, source: Path) -> tuple[Path, dict[str, SwePrediction]]:
        folder = source if source.is_dir() else source.parent
        files = [
            file for file in (folder / self.predictions_file, *sorted(folder.glob("*pred*.json*"))) if file.is_file()
        ]
        predictions = (
            {prediction.instance_id: prediction for prediction in read_swe_predictions(files[0])} if files else {}
        )
        if source.is_file():
            return source, predictions
        reports = [file for file in sorted(source.glob("*.json")) if file not in files]
        if len(reports) > 1:
            raise UsageError("several files here may be the report", where=source, fix="name the one that is meant")
        return (reports[0] if reports else source), predictions


class SweBenchFormat(SweFormat):
    """SWE-bench."""

    about = "predictions and report of the SWE-bench harness"
    benchmark = "swe_bench_verified"
    predictions_file = "predictions.jsonl"
    report_file = "{name}.{run}.json"
    write_predictions = staticmethod(to_swebench)
    write_report = staticmethod(to_swebench_report)


class ProFormat(SweFormat):
    """SWE-bench Pro."""

    about = "patches and eval_results.json of SWE-bench Pro"
    benchmark = "swe_bench_pro"
    predictions_file = "predictions.json"
    report_file = "eval_results.json"
    write_predictions = staticmethod(to_pro)
    write_report = staticmethod(to_pro_report)


class EvoFormat(SweFormat):
    """SWE-EVO."""

    about = "preds.json and rates of SWE-EVO"
    benchmark = "swe_evo"
    predictions_file = "preds.json"
    report_file = "report.json"
    write_predictions = staticmethod(to_evo)
    write_report = staticmethod(to_evo_report)


class FeatureFormat(SweFormat):
    """FeatureBench."""

    about = "output.jsonl and report.json of FeatureBench (ACE-Bench)"
    benchmark = "ace_bench"
    predictions_file = "output.jsonl"
    report_file = "report.json"
    write_predictions = staticmethod(to_featurebench)
    write_report = staticmethod(to_feature_report)


def _stored_prediction(run: RunStore, result: TaskResult) -> SwePrediction | None:
    """The last submission; None where there is none."""
    if not result.attempts:
        return None
    try:
        patch = (run.folder / result.attempts[-1].logs / _PATCH_FILE).read_bytes()
    except OSError:
        return SwePrediction(instance_id=result.task_id, model_patch=None)
    return SwePrediction(instance_id=result.task_id, model_patch=patch.decode("utf-8", "surrogateescape"))


def _encoding_note(prediction: SwePrediction) -> str:
    problem = "bytes of its patch that are not UTF-8; JSON has them escaped, and it may not apply"
    return f"{prediction.instance_id}: {problem}"


def _outcome(result: TaskResult) -> SweOutcome:
    """What the official rule says, which the verdict names where it is not ours."""
    verdict = result.verdict
    official = (verdict.official if verdict else None) or result.status
    resolved = official is Status.RESOLVED
    return SweOutcome(
        instance_id=result.task_id,
        resolved=resolved,
        cause=Cause.SOLVED if resolved else result.cause,
        score=verdict.score if verdict else None,
    )


def _imported_results(
    benchmark: str, outcomes: Sequence[SweOutcome], predictions: dict[str, SwePrediction]
) -> Iterator[ExternalTrial]:
    for outcome in outcomes:
        tests, prediction = outcome.tests or {}, predictions.get(outcome.instance_id)
        verdict = Verdict(
            task_id=outcome.instance_id,
            status=outcome.status,
            cause=outcome.cause,
            reason=f"as the official harness reports it: {outcome.cause.value}",
            score=outcome.score,
            tests=tuple(
                TestOutcome(id=test, before=None, after=TestStatus.PASSED if good else TestStatus.FAILED)
                for test, good in tests.items()
            ),
            grader="elsewhere",
        )
        attempt = Attempt(number=1, started_at="", ended_at="", cause=Cause.ANSWERED, detail="", logs="")
        result = TaskResult(
            run_id="",
            benchmark=benchmark,
            task_id=outcome.instance_id,
            trial=1,
            status=outcome.status,
            cause=outcome.cause,
            verdict=verdict,
            attempts=(attempt,),
            usage=unknown_usage(prediction.model if prediction else None),
            metrics=AgentMetrics(),
            agent_seconds=0.0,
            grade_seconds=0.0,
            categories={},
        )
        patch = prediction.model_patch if prediction else None
        yield ExternalTrial(result, {_PATCH_FILE: patch.encode("utf-8", "surrogateescape")} if patch else {})
