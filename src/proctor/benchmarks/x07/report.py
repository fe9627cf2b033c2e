"""Writes our evaluation report as x07's (`x07.bench.report@0.1.0`), and what `x07 bench list` and `validate` print.

x07's report has fewer outcomes than ours, and bounds the length of some texts: what is too long is cut. A submission
that does not apply is an `error` there; in our own report it is the agent's failure.
"""

import hashlib
import json
import math
import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, get_args

from proctor.benchmarks.suites.instance import Instance
from proctor.benchmarks.suites.load import Suite
from proctor.benchmarks.x07.bench_report import DIVERGED, GREEN_BASELINE, NO_PREDICTION, NONDETERMINISTIC, REPORT_SCHEMA
from proctor.benchmarks.x07.files import suite_jcs_sha256
from proctor.benchmarks.x07.test_command import X07Counts
from proctor.core.benchmark import TaskHealth
from proctor.core.causes import Cause, Status
from proctor.core.evaluation import EvaluationReport, Invocation, RepairSummary, TaskEvaluation, TestSummary
from proctor.core.request import RepairMode
from proctor.core.verdict import TestStatus

_ID, _PLATFORM, _MODEL, _NOTE, _ERROR = 128, 256, 256, 4096, 8192
_ERROR_CAUSES: Final = frozenset(
    {Cause.DOES_NOT_APPLY, Cause.UNSAFE_SUBMISSION, Cause.MALFORMED_SUBMISSION, Cause.TOO_LARGE},
)
_X07_STATUSES: Final = {
    TestStatus.PASSED: "pass",
    TestStatus.FAILED: "fail",
    TestStatus.SKIPPED: "skip",
    TestStatus.ERROR: "error",
    TestStatus.XFAILED: "xfail_fail",
    TestStatus.XPASSED: "xfail_pass",
}
_HEX: Final = re.compile(r"[0-9a-f]{64}")
_REPAIR_MODES: Final = frozenset(get_args(RepairMode))
_NO_TESTS: Final = TestSummary(ok=False, exit_code=None)

Document = dict[str, Any]


def x07_report(report: EvaluationReport, *, suite: Suite | None = None, x07_version: str | None = None) -> Document:
    """Project a report. It validates against x07's schema whatever the report holds.

    With the suite, the result has the suite's digest and x07's notes on labels. `tool.name` can only be "x07"; its
    version is that of the x07 that ran the tests, and without one ours, marked by `tool.build`.
    """
    instances = _instances(report, suite)
    repairs = [instance["repair"] for instance in instances if "repair" in instance]
    averages = {
        "avg_repair_iterations": _mean(repair["iterations"] for repair in repairs),
        "avg_repair_applied_ops": _mean(repair["applied_ops_count"] for repair in repairs),
    }
    own = {"name": "x07", "version": report.tool_version, "build": "proctor"}
    return {
        "schema_version": REPORT_SCHEMA,
        "tool": {"name": "x07", "version": x07_version} if x07_version else own,
        "invocation": _invocation(report),
        "suite": {
            "suite_id": _identifier(report.benchmark),
            "suite_path": report.source or "-",
            **_present(suite_jcs_sha256_hex=suite_jcs_sha256(suite.file) if suite else None),
        },
        "env": {
            "runner": _runner(report.invocation),
            "platform": _cut(report.platform or "-", _PLATFORM),
            **_present(docker_image=report.invocation.image),
        },
        "summary": {
            "instances_total": len(instances),
            **_status_counts(instances),
            "duration_ms": _milliseconds(report.summary.seconds),
            **_present(**averages),
        },
        "instances": instances,
    }


def x07_list_report(suite_path: str, suite_id: str, instances: Sequence[str]) -> Document:
    """What `x07 bench list` prints."""
    return {"ok": True, "suite_path": suite_path, "suite_id": suite_id, "instances": list(instances)}


def x07_validate_report(
    healths: Sequence[TaskHealth],
    *,
    suite_path: str,
    suite_id: str,
    seconds: float = 0.0,
    suite: Suite | None = None,
) -> Document:
    """What `x07 bench validate` prints. A baseline that never ran is not ok, unlike in x07's own report.

    With the suite, each instance has its notes, and x07's on its labels.
    """
    known = {one.id: one for one in suite.instances} if suite else {}
    instances = [
        {
            "instance_id": _identifier(health.task_id),
            "status": _oracle_status(health).value,
            "baseline_ok": health.pre_patch_ok,
            "oracle_ok": health.oracle_ok,
            "determinism_ok": health.determinism_ok,
            **_present(
                artifacts_dir=health.artifacts,
                error=_cut("; ".join(health.problems), _ERROR) or None,
                notes=[_cut(note, _NOTE) for note in _health_notes(health, known.get(health.task_id))] or None,
            ),
        }
        for health in healths
    ]
    valid = sum(health.healthy for health in healths)
    return {
        "ok": valid == len(instances),
        "suite_path": suite_path,
        "suite_id": suite_id,
        "summary": {
            "instances_total": len(instances),
            "valid": valid,
            "invalid": len(instances) - valid,
            "duration_ms": _milliseconds(seconds),
        },
        "instances": instances,
    }


def x07_json(document: Document) -> bytes:
    """Any of these documents as x07 writes it: keys sorted, two spaces, one final newline."""
    text = json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False)
    return text.encode(errors="replace") + b"\n"


def label_notes(
    fail_to_pass: Iterable[str], pass_to_pass: Iterable[str], outcomes: Mapping[str, tuple[str | None, str | None]]
) -> list[str]:
    """x07's notes on labelled tests, from each test's status (x07's names) before and after the patch."""
    notes = []
    for label, tests in (("fail_to_pass", fail_to_pass), ("pass_to_pass", pass_to_pass)):
        for test in tests:
            before, after = outcomes.get(test, (None, None))
            if before is None or after is None:
                notes.append(f"{label} test id missing in reports: {test}")
                continue
            if label == "fail_to_pass" and before == "pass":
                notes.append(f"fail_to_pass baseline is pass for {test} (expected failing baseline)")
            if label == "pass_to_pass" and before != "pass":
                notes.append(f"pass_to_pass baseline is not pass for {test} (status={before})")
            if after != "pass":
                notes.append(f"{label} not satisfied for {test} (after_patch status={after})")
    return notes


def _instances(report: EvaluationReport, suite: Suite | None) -> list[Document]:
    root = posixpath.join(report.invocation.cwd, report.invocation.artifact_dir)
    labels = (
        {one.id: (one.file.eval.fail_to_pass, one.file.eval.pass_to_pass) for one in suite.instances} if suite else {}
    )
    instances = [_instance(task, root, labels.get(task.task_id, ((), ()))) for task in report.tasks]
    return sorted(instances, key=lambda instance: str(instance["instance_id"]))


def _instance(task: TaskEvaluation, root: str, labels: tuple[Sequence[str], Sequence[str]]) -> Document:
    status = _instance_status(task)
    folder = posixpath.join(root, task.artifacts) if task.artifacts else None
    notes = [*task.notes, *_notes(task, labels)]
    identifier, model = _identifier(task.task_id), _cut(task.model, _MODEL) if task.model else None
    if identifier != task.task_id:
        notes.append(f"instance_id={task.task_id}")
    if model != task.model:
        notes.append(f"model_name_or_path={task.model}")
    digest = task.patch_sha256 if task.patch_sha256 and _HEX.fullmatch(task.patch_sha256) else None
    return {
        "instance_id": identifier,
        "status": status.value,
        "baseline": _tests(task.pre_patch or _NO_TESTS, folder),
        **_present(
            after_patch=_tests(task.post_patch, folder) if task.post_patch else None,
            repair=_repair(task.repair) if task.repair else None,
            artifacts_dir=folder,
            patch_kind=task.patch_kind,
            patch_sha256_hex=digest,
            model_name_or_path=model,
            error=(_cut(_error(task), _ERROR) or None) if status is Status.ERROR else None,
            notes=[_cut(note, _NOTE) for note in notes] or None,
        ),
    }


def _instance_status(task: TaskEvaluation) -> Status:
    """x07 calls a submission that cannot be graded an error."""
    return Status.ERROR if task.verdict.cause in _ERROR_CAUSES else task.verdict.status


def _error(task: TaskEvaluation) -> str:
    if task.verdict.cause is Cause.FLAKY:
        return NONDETERMINISTIC
    if task.verdict.cause is Cause.INVALID_TASK and task.pre_patch and task.pre_patch.ok:
        return GREEN_BASELINE
    return task.verdict.reason


def _notes(task: TaskEvaluation, labels: tuple[Sequence[str], Sequence[str]]) -> list[str]:
    if task.verdict.cause is Cause.NO_SUBMISSION:
        return [NO_PREDICTION]
    if task.verdict.status is Status.SKIPPED:
        return [task.verdict.reason] if task.verdict.reason else []
    if task.verdict.cause is Cause.FLAKY:
        flipped = [f"tests that flipped: {', '.join(task.verdict.flaky)}"] if task.verdict.flaky else []
        return [DIVERGED, *flipped]
    if task.post_patch is None:
        return []
    outcomes = {test.id: (_x07_status(test.before), _x07_status(test.after)) for test in task.verdict.tests}
    return label_notes(*labels, outcomes)


def _oracle_status(health: TaskHealth) -> Status:
    """The status of the oracle's evaluation, as x07 has it; an instance that cannot be tried is an error."""
    if health.skipped:
        return Status.SKIPPED
    return health.oracle_status or (Status.RESOLVED if health.healthy else Status.ERROR)


def _health_notes(health: TaskHealth, instance: Instance | None) -> list[str]:
    notes = [*(instance.notes if instance else ()), *([health.skipped] if health.skipped else ())]
    if not health.determinism_ok and health.oracle_status is Status.ERROR:
        notes.append(DIVERGED)
    elif instance is not None:
        outcomes = {test.id: (_x07_status(test.before), _x07_status(test.after)) for test in health.label_deviations}
        labels = instance.file.eval
        notes += label_notes(
            [test for test in labels.fail_to_pass if test in outcomes],
            [test for test in labels.pass_to_pass if test in outcomes],
            outcomes,
        )
    return [*notes, *(f"leak: {leak}" for leak in health.leaks)]


def _x07_status(status: TestStatus | None) -> str | None:
    return _X07_STATUSES.get(status) if status else None


def _tests(tests: TestSummary, folder: str | None) -> Document:
    return {
        "ok": tests.ok,
        "exit_code": tests.exit_code,
        "report_path": posixpath.join(folder or "", tests.report) if tests.report else None,
        "duration_ms": _milliseconds(tests.seconds),
        **{name: max(0, getattr(tests, name)) for name in X07Counts.__struct_fields__},
    }


def _repair(repair: RepairSummary) -> Document:
    return {
        "mode": repair.mode,
        "iterations": max(0, repair.iterations),
        "applied_ops_count": max(0, repair.applied_ops),
        "last_lint_ok": repair.last_lint_ok,
    }


def _invocation(report: EvaluationReport) -> Document:
    asked = report.invocation
    return {
        "argv": list(asked.argv),
        "cwd": asked.cwd,
        "started_at_unix_ms": _unix_milliseconds(asked.started_at),
        "suite_path": report.source or "-",
        "oracle": asked.oracle,
        "runner": _runner(asked),
        "repair_mode": asked.repair_mode if asked.repair_mode in _REPAIR_MODES else "off",
        "jobs": max(1, asked.jobs),
        "keep_artifacts": asked.keep_artifacts,
        "artifact_dir": asked.artifact_dir,
        "exact": asked.exact,
        **_present(
            predictions_path=asked.predictions,
            filter=asked.filter,
            limit=None if asked.limit is None else max(0, asked.limit),
        ),
    }


def _runner(invocation: Invocation) -> str:
    """x07 knows two; any other kind of environment is `local` in its report."""
    return "docker" if invocation.runner == "docker" else "local"


def _status_counts(instances: Sequence[Document]) -> Document:
    names = {"resolved": "resolved", "unresolved": "unresolved", "errors": "error", "skipped": "skipped"}
    return {name: sum(one["status"] == status for one in instances) for name, status in names.items()}


def _present(**fields: Any) -> Document:
    return {name: value for name, value in fields.items() if value is not None}


def _mean(numbers: Iterable[int]) -> float | None:
    values = list(numbers)
    return sum(values) / len(values) if values else None


def _milliseconds(seconds: float) -> int:
    return max(0, round(seconds * 1000)) if math.isfinite(seconds * 1000) else 0


def _unix_milliseconds(moment: str) -> int:
    try:
        return max(0, round(datetime.fromisoformat(moment).timestamp() * 1000))
    except (ValueError, OverflowError, OSError):
        return 0


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _identifier(text: str) -> str:
    """An id of at most 128 characters; a longer one ends in its digest, so that two of them stay two."""
    if not 0 < len(text) <= _ID:
        digest = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]
        return f"{text[: _ID - 17]}~{digest}"
    return text
