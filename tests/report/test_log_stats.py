import json
from pathlib import Path
from typing import Any

from proctor.benchmarks.setupbench import SetupBenchEvidence
from proctor.core.record import to_json
from proctor.grading.state import QuarantinedEnvironment, ShellResult
from proctor.report.document import document_text
from proctor.report.log_stats import read_log_stats
from proctor.report.runs import log_stats_table, runs_document
from proctor.results import RunStore
from proctor.results.attempt_record import ATTEMPT_FILE
from random_runs import store_run

EVIDENCE = SetupBenchEvidence(
    task_id="task-1",
    token="t",
    official_run=ShellResult(exit_code=1, stdout="", stderr="/bin/sh: 1: tox: not found\n", seconds=1.0),
    quarantine_result=QuarantinedEnvironment(grader_dir="", search_path=""),
    environment="docker:x",
)


def stream_text(*calls: tuple[str, dict[str, Any]]) -> str:
    """The tool calls of a stream of Claude Code."""
    lines = [
        {
            "type": "assistant",
            "message": {"id": str(n), "content": [{"type": "tool_use", "id": f"c{n}", "name": name, "input": given}]},
        }
        for n, (name, given) in enumerate(calls)
    ]
    return "".join(json.dumps(line) + "\n" for line in lines)


def run_with_logs(folder: Path) -> RunStore:
    """Eight trials with logs: an agent that reads twice, gives up, and leaves a state without its tools."""
    store = store_run(folder, "run-001", tasks=8, seed=5, odds={"rate": 0.2}, benchmark="setupbench")
    read = ("Read", {"file_path": "/a.py"})
    stream = stream_text(
        *[("Bash", {"command": f"ls {n}"}) for n in range(3)], read, read, ("Bash", {"command": "sudo ls"})
    )
    for result in store.results():
        logs = store.folder / result.attempts[-1].logs
        logs.mkdir(parents=True)
        (logs / "stream.jsonl").write_text(stream)
        (logs / ATTEMPT_FILE).write_text(json.dumps({"final_text": "I give up."}))
        (logs / "submission.state.json").write_bytes(to_json(EVIDENCE))
    return store


def test_logs_show_wasted_calls_and_failed_set_ups(tmp_path: Path) -> None:
    store = run_with_logs(tmp_path)
    results = [result for result in store.results() if result.status.value in {"resolved", "unresolved"}]
    failed = sum(result.status.value == "unresolved" for result in results)
    log_stats = read_log_stats(store)
    assert (log_stats.trajectories_read, log_stats.trajectories_missing, log_stats.gave_up) == (len(results), 0, failed)
    assert (log_stats.tool_calls.calls, log_stats.tool_calls.reread) == (6 * len(results), len(results))
    failures, waste = log_stats.measures
    assert (failures.name, failures.counts) == ("failed set-ups", {"test_tools_missing": failed})
    assert (waste.name, waste.counts) == ("wasted steps", {"reread": len(results), "sudo": len(results)})
    text = document_text(runs_document("x", [], log_stats=[log_stats]))
    assert f"run-001, failed set-ups: test tools missing {failed}." in text


def test_missing_and_unreadable_trajectories_are_counted(tmp_path: Path) -> None:
    store = store_run(tmp_path, "run-001", tasks=5, seed=5)
    first = next(result for result in store.results() if result.status.value != "error")
    logs = store.folder / first.attempts[-1].logs
    logs.mkdir(parents=True)
    (logs / "trajectory.json").write_text("{")
    log_stats = read_log_stats(store)
    assert (log_stats.trajectories_read, log_stats.gave_up, log_stats.measures) == (0, 0, ())
    assert log_stats.trajectories_missing == sum(result.status.value != "error" for result in store.results())
    assert log_stats_table([log_stats]).notes == ()
