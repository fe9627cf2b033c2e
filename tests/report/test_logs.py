import json
from pathlib import Path
from typing import Any

from drawn_runs import store_run
from proctor.benchmarks.setupbench import SetupBenchEvidence
from proctor.core.record import to_json
from proctor.grading.state import QuarantinedEnvironment, ShellResult
from proctor.report.document import document_text
from proctor.report.log_stats import read_log_stats
from proctor.report.runs import log_stats_table, runs_document
from proctor.results import RunStore

EVIDENCE = SetupBenchEvidence(
    task_id="task-1",
    token="t",
    official_run=ShellResult(exit_code=1, stdout="", stderr="/bin/sh: 1: tox: not found\n", seconds=1.0),
    quarantine_result=QuarantinedEnvironment(grader_dir="", search_path=""),
    environment="docker:x",
)


def said(*calls: tuple[str, dict[str, Any]]) -> str:
    """Claude Code's stream, as far as it tells of calls."""
    lines = [
        {
            "type": "assistant",
            "message": {"id": str(n), "content": [{"type": "tool_use", "id": f"c{n}", "name": name, "input": given}]},
        }
        for n, (name, given) in enumerate(calls)
    ]
    return "".join(json.dumps(line) + "\n" for line in lines)


def run_with_logs(folder: Path) -> RunStore:
    """Eight answers with logs: an agent that reads twice, gives up in words, and leaves a machine without its tools."""
    store = store_run(folder, "run-001", tasks=8, seed=5, odds={"rate": 0.2}, benchmark="setupbench")
    read = ("Read", {"file_path": "/a.py"})
    stream = said(*[("Bash", {"command": f"ls {n}"}) for n in range(3)], read, read, ("Bash", {"command": "sudo ls"}))
    for result in store.results():
        logs = store.folder / result.attempts[-1].logs
        logs.mkdir(parents=True)
        (logs / "stream.jsonl").write_text(stream)
        (logs / "answer.json").write_text(json.dumps({"final_text": "I give up."}))
        (logs / "submission.state.json").write_bytes(to_json(EVIDENCE))
    return store


def test_logs_tell_what_steps_were_spent_on_and_why_machines_were_not_set_up(tmp_path: Path) -> None:
    store = run_with_logs(tmp_path)
    results = [result for result in store.results() if result.status.value in {"resolved", "unresolved"}]
    failed = sum(result.status.value == "unresolved" for result in results)
    figures = read_log_stats(store)
    assert (figures.trajectories_read, figures.trajectories_missing, figures.gave_up) == (len(results), 0, failed)
    assert (figures.tool_calls.calls, figures.tool_calls.reread) == (6 * len(results), len(results))
    failures, waste = figures.measures
    assert (failures.name, failures.counts) == ("failed set-ups", {"test_tools_missing": failed})
    assert (waste.name, waste.counts) == ("wasted steps", {"reread": len(results), "sudo": len(results)})
    text = document_text(runs_document("x", [], log_stats=[figures]))
    assert f"run-001, failed set-ups: test tools missing {failed}." in text


def test_logs_that_are_not_there_or_cannot_be_read_are_counted(tmp_path: Path) -> None:
    store = store_run(tmp_path, "run-001", tasks=5, seed=5)
    first = next(result for result in store.results() if result.status.value != "error")
    logs = store.folder / first.attempts[-1].logs
    logs.mkdir(parents=True)
    (logs / "trajectory.json").write_text("{")
    figures = read_log_stats(store)
    assert (figures.trajectories_read, figures.gave_up, figures.measures) == (0, 0, ())
    assert figures.trajectories_missing == sum(result.status.value != "error" for result in store.results())
    assert log_stats_table([figures]).notes == ()
