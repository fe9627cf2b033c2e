"""Suites as tasks of Harbor's format."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from docker_image import own_base
from proctor.benchmarks.harbor import read_task
from proctor.benchmarks.harbor.inside import check
from proctor.benchmarks.harbor.task_export import HarborTasksFormat
from proctor.benchmarks.suites.format import ENVIRONMENT_FILE
from proctor.core.verdict import TestStatus
from proctor.grading import TestResults
from proctor.grading.go_test_json import parse_go_events
from proctor.grading.junit import parse_junit
from proctor.grading.outcome_reader import EXIT_CODE_TEST
from proctor.grading.tap import parse_tap
from proctor.results.formats import ExportOptions, export_suite
from suite_world import BUGGY, make_instance, make_suite


def export(target: Path) -> Path:
    exported = export_suite("core-mini", HarborTasksFormat(), target, ExportOptions(image="an-image"))
    assert exported.left_out == ()
    return target


def test_a_shipped_suite_becomes_tasks_that_can_be_read(tmp_path: Path) -> None:
    folder = export(tmp_path / "out")
    tasks = [read_task(place) for place in sorted(folder.iterdir())]
    assert len(tasks) == 4
    for task in tasks:
        (step,) = task.steps
        assert task.has_solution
        assert task.unsupported == ()
        assert step.verifier.environment is not None
        assert [one.source for one in task.artifacts_of(step)] == ["/logs/artifacts", "/workspace"]
        assert "FROM an-image" in (task.path / "environment" / "Dockerfile").read_text()
        assert step.instruction.strip()


def test_its_check_gives_one_with_the_oracle_and_nothing_without(tmp_path: Path) -> None:
    folder = next(place for place in sorted(export(tmp_path / "out").iterdir()) if place.name.startswith("py_"))
    check = (folder / "tests" / "check.py").read_text()
    logs = tmp_path / "logs"
    logs.mkdir()
    (folder / "tests" / "check.py").write_text(check.replace('"/logs/verifier"', repr(str(logs))))
    for solved, reward in ((False, "0\n"), (True, "1\n")):
        tree = tmp_path / f"tree-{solved}"
        shutil.copytree(folder / "environment" / "repo", tree)
        if solved:
            subprocess.run(["git", "apply", folder / "solution" / "oracle.diff"], cwd=tree, check=True)
        subprocess.run([sys.executable, folder / "tests" / "check.py"], cwd=tree, check=True, capture_output=True)
        assert (logs / "reward.txt").read_text() == reward
    summary = json.loads((logs / "ctrf.json").read_text())["results"]["summary"]
    assert summary["failed"] == 0
    assert summary["passed"] == summary["tests"] > 0


@pytest.mark.parametrize("is_package", [False, True])
@pytest.mark.parametrize(
    "target",
    ["tests/test_calc.py", "tests", "tests.test_calc", "tests.test_calc.CalcTest", "tests/odd-place/test_x.py"],
)
def test_its_check_takes_what_our_reporter_takes_for_unittest(
    target: str, is_package: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = "import unittest\n\n\nclass CalcTest(unittest.TestCase):\n    def test_sums(self):\n        pass\n"
    for file in (tmp_path / "tests" / "test_calc.py", tmp_path / "tests" / "odd-place" / "test_x.py"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(source)
    if is_package:
        (tmp_path / "tests" / "__init__.py").touch()
    monkeypatch.chdir(tmp_path)
    fields = {"python": sys.executable, "format": "unittest", "arguments": [target], "paths": ["."], "timeout": 60}
    ended = check.run({"variables": {}, "setup": [], "services": [], **fields})
    name = "test_x" if "odd" in target else "tests.test_calc"
    assert ended == {f"{name}.CalcTest.test_sums": "passed"}


REPORT = """import os, sys
from calc import add

cases = {
    "sums": add(2, 3) == 5 and open("/tmp/service").read() == "up\\n",
    "zero": add(0, 0) == 0 and not os.access("/root-reads", os.R_OK),
}
for name, passed in cases.items():
    with open(f"{sys.argv[1]}/{name}.xml", "w") as file:
        result = "" if passed else "<failure/>"
        file.write(f'<testsuite name="calc"><testcase name="{name}">{result}</testcase></testsuite>')
sys.exit(not all(cases.values()))
"""
CHECK = """test -e /described && test "$TOOL" = '$5 "a"' && mkdir -p "$1" && run-tests "$1" """


def mined_suite(folder: Path, image: str) -> Path:
    """A suite as mining makes them: what the tests need is installed, in an image that the suite describes."""
    environment = folder / "environments" / "here"
    files = {
        "files/calc.py": "the solved tree's\n",
        "image/Dockerfile": f"FROM {image}\nCOPY install.sh /described\nRUN install -m 0 /dev/null /root-reads\n"
        'USER nobody\nENTRYPOINT ["false"]\n',
        "image/install.sh": "the repository's own\n",
        ENVIRONMENT_FILE: json.dumps(
            {
                "schema_version": "proctor.suite_environment@1",
                "install": "cp -r /environment/files/. .\nmkdir -p /deps/bin /deps/tree\necho x >/deps/tree/lock\n"
                "printf '#!/bin/sh\\nexec python3 check_calc.py $1\\n' >/deps/bin/run-tests\n"
                "chmod +x /deps/bin/run-tests",
                "runtimes": {"python": "*"},
                "variables": {"PATH": "/shown", "TOOL": '$5 "a"'},
                "shown": {"bin": "/shown"},
            }
        ),
    }
    for name, text in files.items():
        (environment / name).parent.mkdir(parents=True, exist_ok=True)
        (environment / name).write_text(text)
    evaluation = {
        "format": "junit",
        "arguments": [],
        "command": ["sh", "-c", CHECK, "sh", "{report}"],
        "setup": [["cp", "hidden_check.py", "check_calc.py"]],
        "services": ["echo up >/tmp/service"],
        "protected": ["hidden_check.py"],
        "fail_to_pass": ["calc::sums"],
        "pass_to_pass": ["calc::zero"],
    }
    make_instance(folder, eval=evaluation, environment_path="environments/here")
    (folder / "instances" / "one" / "hidden" / "hidden_check.py").write_text(REPORT)
    return make_suite(folder)


def test_what_a_mined_task_needs_is_in_the_image_and_nothing_of_the_solution(tmp_path: Path) -> None:
    exported = tmp_path / "out"
    with own_base() as image:
        suite = mined_suite(tmp_path, image)
        export_suite(str(suite), HarborTasksFormat(), exported, ExportOptions())
        built = tmp_path / "image-id"
        context = exported / "one" / "environment"
        subprocess.run(["docker", "build", "-q", "--iidfile", built, context], check=True, capture_output=True)
        seen = "cat calc.py lock; ls -d /environment /install.sh; command -v run-tests; id -u"
        run = ["docker", "run", "--rm", "--network", "none"]
        run += [f"--volume={exported}/one/{name}:/{name}:ro" for name in ("tests", "solution")]
        run += [built.read_text().strip(), "sh", "-c"]
        done = subprocess.run([*run, seen], capture_output=True, text=True, check=False)
        assert done.stdout == f"{BUGGY}x\n/shown/run-tests\n0\n", done.stderr
        for solve, reward in (("true", "0\n"), ("/solution/solve.sh", "1\n")):
            graded = f"mkdir -p /logs/verifier; {solve}; /tests/test.sh >&2; cat /logs/verifier/reward.txt"
            done = subprocess.run([*run, graded], capture_output=True, text=True, check=False)
            assert done.stdout == reward, done.stderr


TAP = b"""TAP version 13
# Subtest: sums
    ok 1 - of two # comment
    not ok 2 - of three
      ---
      error: 'x'
      ...
    1..2
not ok 1 - sums
ok 2 - later # SKIP not here
ok 3 - a \\\\# sign
ok
1..4
"""
GO = b"""{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"run","Package":"p","Test":"TestB/x"}
{"Action":"fail","Package":"p","Test":"TestB/x"}
{"Action":"fail","Package":"p"}
"""
JUNIT = b"""<testsuites><testsuite name="s"><testcase classname="a.B" name="one"/>
<testcase name="two"><failure/></testcase></testsuite></testsuites>"""


@pytest.mark.parametrize(("form", "printed"), [("tap", TAP), ("go-test-json", GO), ("junit", JUNIT)])
def test_its_check_names_tests_as_grading_does(form: str, printed: bytes) -> None:
    parse = {"tap": parse_tap, "go-test-json": parse_go_events, "junit": parse_junit}[form]
    done = subprocess.CompletedProcess((), 0, stdout=printed)
    outcome = parse(printed)
    assert isinstance(outcome, TestResults)
    passed = {name: status is TestStatus.PASSED for name, status in outcome.tests.items()}
    assert {name: status == "passed" for name, status in check.READERS[form](done, [printed]).items()} == passed
    assert True in passed.values()
    assert False in passed.values()


def test_its_check_names_an_exit_code_as_grading_does() -> None:
    assert check.read_exit_code(subprocess.CompletedProcess((), 0), []) == {EXIT_CODE_TEST: "passed"}
