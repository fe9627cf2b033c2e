"""`bench list --runnable`."""

import json
from pathlib import Path

from documents import checked
from suite_world import make_instance, make_suite, proctor


def test_a_suite_s_tasks_run_here(tmp_path: Path) -> None:
    make_instance(tmp_path)
    done = proctor(tmp_path, "bench", "list", "--suite", str(make_suite(tmp_path)), "--runnable", "--json")
    assert done.code == 0, done.stderr
    listed = checked(done.stdout)
    assert listed["runner"] == "local"
    assert [(task["runnable"], task["reason"]) for task in listed["tasks"]] == [(True, None)]


def test_tasks_that_cannot_be_run_here_are_listed_with_the_reason(tmp_path: Path) -> None:
    row = {
        "instance_id": "acme__blue-1",
        "repo": "acme/blue",
        "base_commit": "1" * 40,
        "patch": "x",
        "problem_statement": "x",
        "FAIL_TO_PASS": ["t"],
        "eval_script": "x",
        "log_parser": "parse_log_flask",
    }
    (tmp_path / "rows.jsonl").write_text(json.dumps(row))
    fetched = proctor(tmp_path, "bench", "fetch", "swe_bench_verified", "--from", str(tmp_path / "rows.jsonl"))
    assert fetched.code == 0, fetched.stderr
    done = proctor(tmp_path, "bench", "list", "swe_bench_verified", "--runnable")
    assert done.code == 0, done.stderr
    assert "its pins are not in the data" in done.stdout
    assert "0 of 1 tasks can be run on this machine with --runner local" in done.stdout
