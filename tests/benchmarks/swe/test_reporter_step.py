"""How our reporter runs the tests of an instance is read from its official script."""

import pytest

from proctor.benchmarks.swe.reporter_step import ReporterStep, reporter_step
from proctor.benchmarks.swe.rows import swe_bench_row
from proctor.benchmarks.swe.swe_bench_grader import SweBenchGrader
from proctor.benchmarks.swe.tasks import task_of
from proctor.grading import TestFormat, is_protected

TESTS = "diff --git a/{0} b/{0}\n--- a/{0}\n+++ b/{0}\n@@ -1 +1 @@\n-a\n+b\n"
SCRIPT = """\
source /opt/miniconda3/bin/activate
cd /testbed
git apply -v - <<'EOF'
patch
EOF
: '>>>>> Start Test Output'
{command}
: '>>>>> End Test Output'
"""


def step_of(command: str, tests: str, patch: str = "") -> tuple[ReporterStep | None, tuple[str, ...]]:
    row = swe_bench_row(
        {
            "instance_id": "org__repo-1",
            "repo": "org/repo",
            "base_commit": "0" * 40,
            "patch": patch or TESTS.format("src/a.py"),
            "test_patch": TESTS.format(tests),
            "problem_statement": "It is broken.",
            "FAIL_TO_PASS": ["x"],
            "PASS_TO_PASS": [],
            "eval_script": SCRIPT.format(command=command),
            "log_parser": "parse_log_pytest",
        }
    )
    return reporter_step(row), task_of("swe_bench_verified", row, SweBenchGrader()).private.protected


@pytest.mark.parametrize(
    ("command", "tests", "form", "targets"),
    [
        ("pytest -rA tests/test_a.py", "tests/test_a.py", TestFormat.PYTEST, ("tests/test_a.py",)),
        ("python -m pytest --tb=no tests/test_a.py", "tests/test_a.py", TestFormat.PYTEST, ("tests/test_a.py",)),
        ("tox --current-env -epy39 -v -- tests/test_a.py", "tests/test_a.py", TestFormat.PYTEST, ("tests/test_a.py",)),
        (
            "./tests/runtests.py --verbosity 2 --settings=test_sqlite --parallel 1 views.tests",
            "tests/views/tests.py",
            TestFormat.PROGRAM,
            ("./tests/runtests.py", "--verbosity", "2", "--settings=test_sqlite", "--parallel", "1", "views.tests"),
        ),
        ("A=1 bin/test -C --verbose pack/tests/test_a.py", "pack/tests/test_a.py", TestFormat.FUNCTIONS, None),
    ],
)
def test_the_test_program_decides_the_reporter_step(
    command: str, tests: str, form: TestFormat, targets: tuple[str, ...] | None
) -> None:
    step, _ = step_of(command, tests)
    assert step is not None
    assert (step.format, step.targets) == (form, targets or (tests,))
    assert step.setup_script.splitlines()[-1] == "EOF"


@pytest.mark.parametrize("command", ["", "npm test", "go test -v ./...", "pytest -rA", "make 'test"])
def test_a_command_that_the_reporter_cannot_run_has_no_step(command: str) -> None:
    assert step_of(command, "tests/test_a.py")[0] is None


def test_variables_of_the_command_are_kept() -> None:
    step, _ = step_of("PYTHONWARNINGS='ignore::UserWarning' bin/test -C --verbose tests/test_a.py", "tests/test_a.py")
    assert step is not None
    assert step.variables == {"PYTHONWARNINGS": "ignore::UserWarning", "SYMPY_USE_CACHE": "no"}


def test_the_test_program_and_its_settings_are_protected_unless_the_oracle_changes_them() -> None:
    command, tests = "./tests/runtests.py --settings=test_sqlite views.tests", "tests/views/tests.py"
    _, protected = step_of(command, tests)
    assert [is_protected(path, protected) for path in ("tests/runtests.py", "tests/test_sqlite.py", "src/a.py")] == [
        True,
        True,
        False,
    ]
    _, protected = step_of(command, tests, patch=TESTS.format("tests/runtests.py"))
    assert not is_protected("tests/runtests.py", protected)
