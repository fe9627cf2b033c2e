"""`bench eval` and `bench validate` on small suites, through the command line, in real environments."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from documents import checked
from proctor.schema import json_schema
from suite_world import (
    BUGGY,
    FIXED,
    HIDDEN,
    SOLUTION,
    diff,
    evaluate,
    make_instance,
    make_suite,
    predict,
    proctor,
    verdict,
)
from waiting import PATIENCE, limits


def test_the_oracle_resolves_and_the_report_fits_its_schema(tmp_path: Path) -> None:
    make_instance(tmp_path)
    code, report = evaluate(tmp_path, make_suite(tmp_path), "--oracle")
    assert code == 0
    assert verdict(report) == ("resolved", "solved")
    jsonschema.validate(report, json_schema("report"))
    task = report["tasks"][0]
    assert (task["pre_patch"]["failed"], task["post_patch"]["passed"]) == (1, 2)
    assert task["verdict"]["findings"] == []
    folder = Path(task["artifacts"])
    assert (folder / "patch" / "submission.diff").read_text() == SOLUTION
    assert json.loads((folder / "post_patch.tests.json").read_text())["exit_code"] == 0
    assert not (folder / "repo").exists()


@pytest.mark.parametrize(
    ("patch", "cause"),
    [
        ("", "empty"),
        (diff("calc.py", BUGGY, "def add(a, b):\n    return 5\n"), "regression"),
        (diff("calc.py", BUGGY, "def add(a, b):\n    return a * b\n"), "tests_failed"),
        (diff("calc.py", BUGGY, "def add(a, b):\n    return (\n"), "tests_failed"),
        (diff("calc.py", "def other():\n    pass\n", FIXED), "does_not_apply"),
        ("this is no patch", "malformed_submission"),
        (diff("../out.py", "", "x = 1\n"), "unsafe_submission"),
        (diff(".git/hooks/post-checkout", "", "x\n"), "unsafe_submission"),
        (diff("calc.py", BUGGY, "import os\nos._exit(0)\n"), "tests_vanished"),
        (diff("calc.py", BUGGY, "import time\ntime.sleep(999)\n"), "test_timeout"),
    ],
)
def test_a_submission_that_does_not_solve_the_task_is_unresolved_and_says_why(
    tmp_path: Path, patch: str, cause: str
) -> None:
    make_instance(tmp_path)
    suite = make_suite(tmp_path)
    for seconds in limits(2 if cause == "test_timeout" else PATIENCE):
        code, report = evaluate(
            tmp_path, suite, "--predictions", predict(tmp_path, one=patch), "--timeout", f"{seconds:g}"
        )
        if verdict(report)[0] != "error":  # the tests had enough time before there was an answer
            break
    assert code == 0, "an answer's failure is a result"
    assert verdict(report) == ("unresolved", cause)
    assert report["tasks"][0]["verdict"]["reason"]


def test_a_patch_that_edits_the_tests_is_graded_by_the_real_ones(tmp_path: Path) -> None:
    make_instance(tmp_path)
    gutted = diff("tests/test_calc.py", "", "import unittest\n")
    code, report = evaluate(tmp_path, make_suite(tmp_path), "--predictions", predict(tmp_path, one=gutted))
    assert code == 0
    assert verdict(report) == ("unresolved", "tests_failed")


def test_a_task_without_a_prediction_is_skipped(tmp_path: Path) -> None:
    make_instance(tmp_path)
    make_instance(tmp_path, "two")
    suite = make_suite(tmp_path, "one", "two")
    code, report = evaluate(tmp_path, suite, "--predictions", predict(tmp_path, two=SOLUTION, other=SOLUTION))
    assert code == 0
    assert verdict(report) == ("skipped", "no_submission")
    assert verdict(report, "two") == ("resolved", "solved")


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"eval": {"fail_to_pass": ["tests.test_calc.AddTest.test_zero"], "pass_to_pass": []}}, "invalid_task"),
        ({"eval": {"pass_to_pass": ["tests.test_calc.AddTest.test_gone"]}}, "invalid_task"),
        ({"eval": {"setup": [["false"]]}}, "missing_program"),
    ],
)
def test_a_task_that_is_wrong_itself_is_an_error_and_exit_12(
    tmp_path: Path, changes: dict[str, Any], cause: str
) -> None:
    make_instance(tmp_path, **changes)
    code, report = evaluate(tmp_path, make_suite(tmp_path), "--oracle")
    assert code == 12
    assert verdict(report) == ("error", cause)


def test_a_broken_instance_is_an_error_of_its_own_and_the_others_are_graded(tmp_path: Path) -> None:
    make_instance(tmp_path, "good")
    make_instance(tmp_path, "bad", repo_path="nowhere")
    code, report = evaluate(tmp_path, make_suite(tmp_path, "good", "bad"), "--oracle")
    assert code == 12
    assert (verdict(report, "good"), verdict(report, "bad")) == (("resolved", "solved"), ("error", "invalid_task"))


def test_a_flaky_instance_is_reported_as_flaky_with_the_tests_that_flipped(tmp_path: Path) -> None:
    # An environment is always the same inside; only the clock differs between two runs.
    hidden = HIDDEN.replace("self.assertEqual(add(0, 0), 0)", "self.assertEqual(time.monotonic_ns() // 1000 % 2, 0)")
    make_instance(tmp_path, hidden="import time\n" + hidden, eval={"pass_to_pass": []})
    suite = make_suite(tmp_path)
    for _ in range(6):
        code, report = evaluate(tmp_path, suite, "--oracle", "--determinism-runs", "6", "--no-cache")
        if report["tasks"][0]["verdict"]["flaky"]:
            break
    assert report["tasks"][0]["verdict"]["flaky"] == ["tests.test_calc.AddTest.test_zero"]
    assert code == 0
    assert verdict(report) == ("resolved", "solved"), "the labelled test did not flip"


def test_two_evaluations_give_the_same_report_but_for_times(tmp_path: Path) -> None:
    def timeless(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: timeless(item) for key, item in value.items() if key not in {"seconds", "started_at"}}
        return [timeless(item) for item in value] if isinstance(value, list) else value

    for name in ("a", "b"):
        make_instance(tmp_path, name)
    suite = make_suite(tmp_path, "a", "b")
    reports = [evaluate(tmp_path, suite, "--oracle", "--no-cache", "--jobs", str(jobs))[1] for jobs in (1, 2)]
    for report in reports:
        report["invocation"] = {}
    assert timeless(reports[0]) == timeless(reports[1])


def test_a_cached_verdict_is_reused_until_its_inputs_change(tmp_path: Path) -> None:
    make_instance(tmp_path)
    suite = make_suite(tmp_path)
    artifacts = tmp_path / "target" / "proctor"

    def grade(*arguments: str) -> bool:
        """Whether tests were run."""
        if artifacts.exists():
            subprocess.run(["rm", "-rf", str(artifacts)], check=True)
        _, report = evaluate(tmp_path, suite, "--oracle", *arguments)
        assert verdict(report)[0] == "resolved"
        return artifacts.exists()

    assert grade()
    assert not grade()
    assert grade("--no-cache")
    (tmp_path / "instances" / "one" / "repo" / "new.py").touch()
    assert grade()


def test_an_interrupted_evaluation_resumes_where_it_stopped(tmp_path: Path) -> None:
    names = [f"i{number}" for number in range(3)]
    for name in names:
        slow = "" if name == names[0] else "\nimport time\ntime.sleep(0.5)\n"
        make_instance(tmp_path, name, hidden=HIDDEN + slow)
    suite = make_suite(tmp_path, *names)
    options = ("--oracle", "--controls", "0")
    command = [sys.executable, "-m", "proctor", "bench", "eval", "--suite", str(suite), *options]
    clean = {name: os.environ[name] for name in ("PATH", "HOME")}
    running = subprocess.Popen(
        command,
        cwd=tmp_path,
        env={**clean, "PROCTOR_CACHE": str(tmp_path / "cache")},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert running.stderr is not None
    running.stderr.readline()
    running.send_signal(signal.SIGINT)
    said = running.communicate(timeout=60)[1]
    assert running.returncode == 130
    assert "the same command continues from there" in said
    kept = {file: file.stat().st_mtime_ns for file in (tmp_path / "cache" / "evaluations").rglob("*.json")}
    assert 0 < len(kept) < 3
    code, report = evaluate(tmp_path, suite, *options)
    assert (code, report["summary"]["resolved"]) == (0, 3)
    assert {file: file.stat().st_mtime_ns for file in kept} == kept, "what was graded was graded again"


def test_tasks_are_chosen_by_text_id_tag_limit_and_exclusion(tmp_path: Path) -> None:
    make_instance(tmp_path, "alpha", tags=["easy"])
    make_instance(tmp_path, "beta", tags=["easy", "math"])
    make_instance(tmp_path, "beta-2", tags=["math"])
    suite = make_suite(tmp_path, "alpha", "beta", "beta-2")
    (tmp_path / "without").write_text("alpha  # not today\n# a remark\n")

    def chosen(*arguments: str) -> list[str]:
        done = proctor(tmp_path, "bench", "list", "--suite", suite, "--json", *arguments)
        assert done.code == 0, done.stderr
        return [task["id"] for task in checked(done.stdout)["tasks"]]

    assert chosen() == ["alpha", "beta", "beta-2"]
    assert chosen("--filter", "beta") == ["beta", "beta-2"]
    assert chosen("--filter", "beta", "--exact") == ["beta"]
    assert chosen("--task-tag", "easy", "--tag", "math") == ["beta"]
    assert chosen("--limit", "1") == ["alpha"]
    assert chosen("--limit", "0") == []
    assert chosen("--exclude", "without") == ["beta", "beta-2"]
    assert chosen("--task", "beta-2") == ["beta-2"]
    refused = proctor(tmp_path, "bench", "list", "--suite", suite, "--task", "gamma")
    assert (refused.code, refused.stderr.count("\n")) == (2, 1)
    code, report = evaluate(tmp_path, suite, "--oracle", "--limit", "0")
    assert (code, report["summary"]["total"]) == (0, 0)


def test_validate_proves_a_suite_and_eval_knows_it_afterwards(tmp_path: Path) -> None:
    make_instance(tmp_path, "good")
    make_instance(tmp_path, "wrong-oracle", oracle=diff("calc.py", BUGGY, "def add(a, b):\n    return a * b\n"))
    make_instance(tmp_path, "green", eval={"fail_to_pass": ["tests.test_calc.AddTest.test_zero"], "pass_to_pass": []})
    suite = make_suite(tmp_path, "good", "wrong-oracle", "green")
    done = proctor(
        tmp_path, "bench", "validate", "--suite", suite, "--json", "--quiet", "--write-exclusions", tmp_path / "sick"
    )
    assert done.code == 20
    healths = {health["task_id"]: health for health in checked(done.stdout)["tasks"]}
    assert healths["good"]["healthy"]
    assert not healths["wrong-oracle"]["oracle_ok"]
    assert not healths["green"]["pre_patch_ok"]
    assert [line.split()[0] for line in (tmp_path / "sick").read_text().splitlines()] == ["green", "wrong-oracle"]
    code, report = evaluate(tmp_path, suite, "--oracle")
    assert {task["task_id"]: task["healthy"] for task in report["tasks"]} == {
        "good": True,
        "wrong-oracle": False,
        "green": False,
    }
    assert (report["summary"]["healthy"], report["summary"]["healthy_resolved"]) == (1, 1)
    code, report = evaluate(tmp_path, suite, "--oracle", "--exclude", tmp_path / "sick")
    assert (code, report["summary"]["total"], report["summary"]["resolved"]) == (0, 1, 1)


def test_validate_finds_an_oracle_that_is_in_the_repository(tmp_path: Path) -> None:
    make_instance(tmp_path)
    fix = "".join(f"    total_of_both_numbers_{number} = a + b + {number} - {number}\n" for number in range(8))
    solution = f"def add(a, b):\n{fix}    return total_of_both_numbers_7\n"
    place = tmp_path / "instances" / "one"
    for file in (place / "oracle.diff", place / "repo" / "notes.txt"):
        file.write_text(diff("calc.py", BUGGY, solution))
    done = proctor(tmp_path, "bench", "validate", "--suite", make_suite(tmp_path), "--json", "--quiet")
    assert done.code == 20
    assert "notes.txt" in checked(done.stdout)["tasks"][0]["leaks"][0]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--suite", "nowhere", "--oracle"], 20, "there is no such suite"),
        (["--oracle"], 2, "say which benchmark"),
        (["--suite", "suite.json"], 2, "say what to grade"),
        (["--suite", "suite.json", "--oracle", "--predictions", "x"], 2, "say what to grade"),
        (["--suite", "suite.json", "--predictions", "nowhere"], 2, "cannot read predictions"),
        (["--suite", "suite.json", "--predictions", "empty"], 2, "empty: it has no predictions"),
        (["--suite", "suite.json", "--predictions", "other"], 2, "no prediction is for a task of mine; did you mean"),
        (["--suite", "suite.json", "--oracle", "--artifact-dir", "empty"], 2, "cannot be stored here"),
        (["--suite", "suite.json", "--oracle", "--jobs", "0"], 2, "--jobs"),
        (["--suite", "suite.json", "--oracle", "--exclude", "nowhere"], 2, "cannot read the exclusion list"),
        (["--suite", "suite.json", "--oracle", "--out", "/proc/nowhere/x"], 2, "cannot write the report"),
        (["nothing-of-this-name", "--oracle"], 2, "there is no benchmark"),
    ],
)
def test_wrong_input_is_one_sentence_and_the_documented_exit_code(
    tmp_path: Path, arguments: list[str], code: int, said: str
) -> None:
    make_instance(tmp_path)
    make_suite(tmp_path)
    (tmp_path / "empty").touch()
    (tmp_path / "other").write_text('{"instance_id": "onne", "patch_kind": "unified-diff", "patch_inline": ""}')
    before = {path.name for path in tmp_path.iterdir()}
    done = proctor(tmp_path, "bench", "eval", "--quiet", *arguments)
    assert {path.name for path in tmp_path.iterdir()} - before <= {".streams"}
    assert done.code == code, done.stderr
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr


def test_the_table_for_people_has_rate_interval_and_reasons(tmp_path: Path) -> None:
    make_instance(tmp_path)
    done = proctor(tmp_path, "bench", "eval", "--suite", make_suite(tmp_path), "--oracle", "--out", tmp_path / "r.json")
    assert "one    resolved   solved   all 2 labelled tests pass" in done.stdout
    assert "1 of 1 graded tasks resolved (100.0%, 95 % interval 20.7% to 100.0%)" in done.stdout
    assert done.stderr == "[1/1] resolved    one\n"
    scored = proctor(tmp_path, "bench", "score", tmp_path / "r.json", "--json")
    assert json.loads(scored.stdout)["resolved"]["count"] == 1


def test_other_result_formats(tmp_path: Path) -> None:
    tap = "import sys, calc\nprint('1..1')\nprint('ok 1 - sums' if calc.add(2, 3) == 5 else 'not ok 1 - sums')\n"
    common: dict[str, Any] = {"arguments": [], "fail_to_pass": ["sums"], "pass_to_pass": []}
    make_instance(tmp_path, "tap", eval={**common, "format": "tap", "command": ["python3", "tests/test_calc.py"]})
    run = ["python3", "-c", "import calc; assert calc.add(2, 3) == 5"]
    make_instance(tmp_path, "code", eval={**common, "format": "exit-code", "command": run, "fail_to_pass": []})
    hidden = tmp_path / "instances" / "tap" / "hidden" / "tests" / "test_calc.py"
    hidden.write_text("import os, sys\nsys.path.insert(0, os.getcwd())\n" + tap)
    code, report = evaluate(tmp_path, make_suite(tmp_path, "tap", "code"), "--oracle")
    assert code == 0, report
    assert {verdict(report, name) for name in ("tap", "code")} == {("resolved", "solved")}


def test_a_reason_that_many_tasks_share_is_said_once_with_a_count_and_where_the_list_is(tmp_path: Path) -> None:
    names = [f"bad{number}" for number in range(6)]
    make_instance(tmp_path, "good")
    for name in names:
        make_instance(tmp_path, name, repo_path="nowhere")
    suite = make_suite(tmp_path, "good", *names)
    for command in (("eval", "--oracle", "--controls", "0"), ("validate",), ("list",)):
        done = proctor(tmp_path, "bench", *command, "--suite", suite)
        for output in (done.stdout, done.stderr) if command[0] != "list" else (done.stderr,):
            assert output.count("nowhere") == 1, output
            assert "6 tasks (bad0, …)" in output
        assert "--json lists every task" in done.stdout + done.stderr
    alone = proctor(tmp_path, "bench", "run", "--suite", suite, "--agent", "nop", "--filter", "bad")
    assert alone.code == 20, alone
    assert "no task of those chosen can be used" in alone.stderr
    done = proctor(tmp_path, "bench", "run", "--suite", suite, "--agent", "nop", "--controls", "0")
    assert "left out, invalid: 6 tasks (bad0, …): " in done.stderr
    assert "(1 graded" in done.stdout or "0 of 1 graded" in done.stdout


def test_validate_names_a_problem_with_the_task_that_has_it_before_the_next_is_done(tmp_path: Path) -> None:
    make_instance(tmp_path, "a_wrong", oracle=diff("calc.py", BUGGY, BUGGY + "# the same\n"))
    make_instance(tmp_path, "b_right")
    done = proctor(tmp_path, "bench", "validate", "--suite", make_suite(tmp_path, "a_wrong", "b_right"))
    assert done.code == 20, done.stderr
    first, second = done.stderr.splitlines()
    assert first.startswith("[1/2] NOT healthy a_wrong: "), done.stderr
    assert "oracle" in first
    assert second == "[2/2] healthy     b_right"


def test_an_instance_that_needs_a_program_which_is_not_here_is_skipped_with_that_reason(tmp_path: Path) -> None:
    make_instance(tmp_path, requires=["no-such-program"])
    suite = make_suite(tmp_path)
    code, report = evaluate(tmp_path, suite, "--oracle")
    assert code == 0
    assert verdict(report) == ("skipped", "not_runnable_here")
    assert "no-such-program" in report["tasks"][0]["verdict"]["reason"]
    done = proctor(tmp_path, "bench", "validate", "--suite", suite, "--quiet")
    assert done.code == 0
    assert "1 could not be tried" in done.stdout
