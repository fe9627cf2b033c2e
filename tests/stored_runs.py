"""Runs on disk, as the runner stores them, for tests of what reads them."""

from pathlib import Path
from typing import Any

import msgspec

import observations
from proctor.core.causes import Cause, Status
from proctor.core.evaluation import TaskEvaluation
from proctor.core.record import to_json
from proctor.core.result import AgentMetrics, Attempt, ModelUsage, TaskResult, Tokens
from proctor.core.run import JournalEntry, RunConfig
from proctor.core.verdict import Finding, TestOutcome, TestStatus, Verdict
from proctor.results import RunStore, new_run, summarise
from proctor.results.attempt_record import ATTEMPT_FILE, GRADING_FILE, AttemptRecord, GradingRecord

DIFF = """\
diff --git a/a.py b/a.py
index 1111111..2222222 100644
--- a/a.py
+++ b/a.py
@@ -1,3 +1,3 @@
 def add(a, b):
-    return a - b
+    return a + b

"""


def config(**changes: Any) -> RunConfig:
    own: dict[str, Any] = {
        "benchmark": "toy",
        "source": "toy",
        "model": "claude-sonnet-4-5",
        "tasks": (),
        "versions": {"proctor": "0.1", "claude": "2.1"},
        "created_at": "2026-01-02T03:04:05.000+00:00",
    }
    return observations.config(**{**own, **changes})


def verdict(task_id: str, cause: Cause, **changes: Any) -> Verdict:
    solved = cause is Cause.SOLVED
    made = Verdict(
        task_id=task_id,
        status=Status.RESOLVED if solved else Status.UNRESOLVED,
        cause=cause,
        reason="every test passes" if solved else "a test fails",
        tests=(
            TestOutcome(id="t::a", before=TestStatus.FAILED, after=TestStatus.PASSED if solved else TestStatus.FAILED),
            TestOutcome(id="t::b", before=TestStatus.PASSED, after=TestStatus.PASSED),
        ),
        grader="toy@1",
    )
    return msgspec.structs.replace(made, **changes)


def store_trial(
    store: RunStore,
    task_id: str,
    cause: Cause = Cause.SOLVED,
    *,
    trial: int = 1,
    diff: str = DIFF,
    findings: tuple[Finding, ...] = (),
    categories: dict[str, str] | None = None,
    logs: bool = True,
    **changes: Any,
) -> TaskResult:
    """Store one trial, as the runner does."""
    errored = cause in {Cause.PROVIDER_ERROR, Cause.ENVIRONMENT_FAILED}
    judged = None if errored else verdict(task_id, cause, findings=findings)
    folder = store.logs(task_id, trial, 1)
    usage = (
        ModelUsage(
            model="claude-sonnet-4-5", requests=3, tokens=Tokens(input=115, output=13, cache_read=310), cost_usd=0.25
        ),
    )
    attempt = Attempt(
        number=1,
        started_at="2026-01-02T03:04:06.000+00:00",
        ended_at="2026-01-02T03:05:06.000+00:00",
        cause=cause if errored else Cause.ANSWERED,
        detail="the provider failed" if errored else "it finished",
        logs=folder.relative_to(store.folder).as_posix(),
        usage=usage,
    )
    result = TaskResult(
        run_id=store.run_id,
        benchmark="toy",
        task_id=task_id,
        trial=trial,
        status=Status.ERROR if errored else judged.status if judged else Status.ERROR,
        cause=cause,
        verdict=judged,
        attempts=(attempt,),
        usage=usage,
        metrics=AgentMetrics(turns=3, steps=2),
        agent_seconds=60.0,
        grade_seconds=1.5,
        categories=categories or {"language": "python"},
    )
    result = msgspec.structs.replace(result, **changes)
    store.write_result(result)
    if logs:
        folder.mkdir(parents=True, exist_ok=True)
        kept = AttemptRecord(
            number=1,
            started_at=attempt.started_at,
            ended_at=attempt.ended_at,
            cause=None,
            detail="it finished",
            seconds=60.0,
            usage=usage,
            metrics=result.metrics,
            submission="submission.diff",
        )
        (folder / ATTEMPT_FILE).write_bytes(to_json(kept))
        (folder / "submission.diff").write_text(diff)
        if judged is not None:
            graded = GradingRecord(evaluation=TaskEvaluation(task_id=task_id, verdict=judged), seconds=1.5)
            (folder / GRADING_FILE).write_bytes(to_json(graded))
    return result


def finish(store: RunStore, *, tasks: tuple[str, ...] | None = None, **changes: Any) -> RunConfig:
    """Write a run's configuration, journal and summary, from its stored trials."""
    results = list(store.results())
    made = config(
        run_id=store.run_id,
        tasks=tasks or tuple(sorted({result.task_id for result in results})),
        trials=max((result.trial for result in results), default=1),
        **changes,
    )
    entries = [
        JournalEntry(
            at=f"2026-01-02T03:05:{number % 60:02}.000+00:00",
            task_id=result.task_id,
            trial=result.trial,
            attempt=1,
            stage="recorded",
            cause=result.cause,
        )
        for number, result in enumerate(results)
    ]
    store.journal.write_bytes(b"".join(msgspec.json.encode(entry) + b"\n" for entry in entries))
    store.write_summary(summarise(made, results))
    store.write_config(made)
    return made


def small_run(root: Path, **changes: Any) -> RunStore:
    """One solved, one failed, one error, and a second trial of the first."""
    store = new_run("toy", root=root)
    store_trial(store, "org/one", Cause.SOLVED)
    store_trial(store, "org/one", Cause.TESTS_FAILED, trial=2)
    store_trial(
        store, "two", Cause.TESTS_FAILED, findings=(Finding(code="touched_tests", path="t.py", detail="it did"),)
    )
    store_trial(store, "three", Cause.PROVIDER_ERROR)
    finish(store, **changes)
    return store
