"""Test steps that are commands: their results come from a fresh path or from stdout, and from nowhere else."""

import re
import shutil
import sys
from pathlib import Path

import pytest

from plain_environment import environment_of
from proctor.core.environment import EnvironmentSpec, ExecResult, Mount
from proctor.core.errors import InvalidData
from proctor.core.verdict import TestStatus
from proctor.environments.local import LocalProvider
from proctor.grading import (
    InconclusiveKind,
    InconclusiveRun,
    TestFormat,
    TestPlan,
    TestResults,
    TestRun,
    pytest_config,
    run_tests,
    run_tests_in_new_environment,
)
from proctor.grading.outcome_reader import EXIT_CODE_TEST, read_outcome
from proctor.grading.plan import build_test_command
from waiting import PATIENCE

JUNIT = '<testsuite><testcase name="a"/></testsuite>'


def shell(form: TestFormat, script: str) -> TestPlan:
    return TestPlan(format=form, command=("sh", "-c", script, "{report}"))


def kind_of(run: TestRun) -> InconclusiveKind:
    assert isinstance(run.outcome, InconclusiveRun), run.outcome
    return run.outcome.kind


async def test_a_report_is_read_from_the_path_that_the_command_was_given(tmp_path: Path) -> None:
    environment = environment_of(tmp_path, {"r.xml": JUNIT})
    run = await run_tests(environment, shell(TestFormat.JUNIT, 'cp r.xml "$0"; echo out; echo err >&2'))
    assert run.outcome == TestResults(tests={"a": TestStatus.PASSED})
    assert run.exit_code == 0
    assert run.log == b"out\nerr\n"
    report = Path(environment.ran[0][-1])
    assert re.fullmatch(r"/tmp/proctor-[0-9a-f]{32}", str(report.parent))
    assert not report.parent.exists()


async def test_a_directory_of_reports_is_read_whole(tmp_path: Path) -> None:
    other = JUNIT.replace('"a"', '"b"').replace("/></testsuite>", "><failure/></testcase></testsuite>")
    files = {"one.xml": JUNIT, "two.xml": other, "notes.txt": "not a report"}
    run = await run_tests(
        environment_of(tmp_path, files),
        shell(TestFormat.JUNIT, 'mkdir -p "$0/deep"; cp one.xml notes.txt "$0"; cp two.xml "$0/deep"'),
    )
    assert run.outcome == TestResults(tests={"a": TestStatus.PASSED, "b": TestStatus.FAILED})


async def test_a_report_file_left_in_the_workspace_is_never_read(tmp_path: Path) -> None:
    environment = environment_of(tmp_path, {"report": JUNIT, "junit.xml": JUNIT})
    assert kind_of(await run_tests(environment, shell(TestFormat.JUNIT, "true"))) is InconclusiveKind.NO_REPORT


@pytest.mark.parametrize("script", ['ln -s "$PWD/r.xml" "$0"', 'mkfifo "$0"', 'ln -s /nowhere "$0"'])
async def test_a_link_or_a_pipe_is_no_report(script: str, tmp_path: Path) -> None:
    environment = environment_of(tmp_path, {"r.xml": JUNIT})
    assert (
        kind_of(await run_tests(environment, shell(TestFormat.JUNIT, script), timeout=PATIENCE))
        is InconclusiveKind.NO_REPORT
    )


async def test_a_link_among_reports_is_passed_over(tmp_path: Path) -> None:
    environment = environment_of(tmp_path, {"r.xml": JUNIT})
    script = 'mkdir "$0"; ln -s "$PWD/r.xml" "$0/r.xml"'
    assert kind_of(await run_tests(environment, shell(TestFormat.JUNIT, script))) is InconclusiveKind.NO_REPORT


def test_every_run_has_a_path_and_a_key_of_its_own() -> None:
    plan = shell(TestFormat.JUNIT, "true")
    one, other = build_test_command(plan, workdir="/w"), build_test_command(plan, workdir="/w")
    assert one.report_path is not None
    assert re.fullmatch(r"/tmp/proctor-[0-9a-f]{32}/report", one.report_path)
    assert one.report_path != other.report_path
    reported = TestPlan(format=TestFormat.UNITTEST)
    assert build_test_command(reported, workdir="/w").key != build_test_command(reported, workdir="/w").key


async def test_without_a_report_path_results_are_read_from_stdout(tmp_path: Path) -> None:
    plan = TestPlan(format=TestFormat.TAP, command=("sh", "-c", "echo 1..1; echo ok 1 - a; echo noise >&2"))
    run = await run_tests(environment_of(tmp_path, {}), plan)
    assert run.outcome == TestResults(tests={"a": TestStatus.PASSED})


PASSING_REPORTS = {
    TestFormat.JUNIT: 'echo \'<testsuite><testcase name="a"/></testsuite>\' > "$0"',
    TestFormat.TAP: "echo 1..1; echo ok 1 - a",
    TestFormat.GO: """echo '{"Action":"run","Package":"p","Test":"T"}
{"Action":"pass","Package":"p","Test":"T"}
{"Action":"pass","Package":"p"}'""",
}


def report_plan(form: TestFormat, script: str) -> TestPlan:
    return TestPlan(format=form, command=("sh", "-c", script, *(("{report}",) if form is TestFormat.JUNIT else ())))


@pytest.mark.parametrize("form", PASSING_REPORTS)
@pytest.mark.parametrize(
    ("ending", "reason"),
    [
        ("exit 1", "ended with exit code 1, and its report has no failure"),
        ("kill -9 $$", "was killed by SIGKILL"),
        ("exec >&-; exit 3", "ended with exit code 3, and its report has no failure"),
    ],
)
async def test_a_command_that_ends_badly_has_not_passed_whatever_it_reported(
    form: TestFormat, ending: str, reason: str, tmp_path: Path
) -> None:
    script = PASSING_REPORTS[form]
    assert (await run_tests(environment_of(tmp_path, {}), report_plan(form, script))).complete
    run = await run_tests(environment_of(tmp_path, {}), report_plan(form, f"{script}; {ending}"))
    assert isinstance(run.outcome, InconclusiveRun)
    assert run.outcome.kind is InconclusiveKind.CUT_SHORT
    assert reason in run.outcome.reason
    assert list(run.outcome.partial.values()) == [TestStatus.PASSED]


async def test_a_failed_test_explains_a_bad_exit_code_and_not_a_signal(tmp_path: Path) -> None:
    script = "echo 1..2; echo ok 1 - a; echo not ok 2 - b"
    run = await run_tests(environment_of(tmp_path, {}), report_plan(TestFormat.TAP, f"{script}; exit 1"))
    assert run.outcome == TestResults(tests={"a": TestStatus.PASSED, "b": TestStatus.FAILED})
    killed = await run_tests(environment_of(tmp_path, {}), report_plan(TestFormat.TAP, f"{script}; kill -11 $$"))
    assert kind_of(killed) is InconclusiveKind.CUT_SHORT


@pytest.mark.parametrize(("script", "status"), [("true", TestStatus.PASSED), ("exit 7", TestStatus.FAILED)])
async def test_an_exit_code_is_one_test(script: str, status: TestStatus, tmp_path: Path) -> None:
    run = await run_tests(
        environment_of(tmp_path, {}), TestPlan(format=TestFormat.EXIT_CODE, command=("sh", "-c", script))
    )
    assert run.outcome == TestResults(tests={EXIT_CODE_TEST: status})


@pytest.mark.parametrize("form", [TestFormat.EXIT_CODE, TestFormat.TAP, TestFormat.JUNIT, TestFormat.GO])
async def test_a_missing_program_is_not_a_failed_test(form: TestFormat, tmp_path: Path) -> None:
    plan = TestPlan(format=form, command=("no-such-program", "{report}"))
    assert kind_of(await run_tests(environment_of(tmp_path, {}), plan)) is InconclusiveKind.NOT_STARTED


@pytest.mark.parametrize("form", [TestFormat.UNITTEST, TestFormat.TAP])
def test_truncated_output_is_malformed(form: TestFormat) -> None:
    prepared = build_test_command(TestPlan(format=form, command=("x",)), workdir="/w")
    ended = ExecResult(exit_code=0, stdout=b"head\ntail\n", stderr=b"", seconds=1.0, truncated=True)
    assert kind_of(read_outcome(prepared, ended, None)) is InconclusiveKind.MALFORMED


async def test_the_clock_ends_a_command(tmp_path: Path) -> None:
    plan = TestPlan(format=TestFormat.EXIT_CODE, command=("sleep", "30"))
    assert kind_of(await run_tests(environment_of(tmp_path, {}), plan, timeout=0.3)) is InconclusiveKind.TIMED_OUT


async def test_a_plan_without_a_command_is_invalid(tmp_path: Path) -> None:
    with pytest.raises(InvalidData, match="'tap' needs a command"):
        await run_tests(environment_of(tmp_path, {}), TestPlan(format=TestFormat.TAP))


async def test_variables_reach_the_command(tmp_path: Path) -> None:
    plan = TestPlan(
        format=TestFormat.EXIT_CODE, command=("sh", "-c", '[ "$COLOUR" = red ]'), variables={"COLOUR": "red"}
    )
    run = await run_tests(environment_of(tmp_path, {}), plan)
    assert run.tests == {EXIT_CODE_TEST: TestStatus.PASSED}


@pytest.mark.parametrize(
    ("form", "names"),
    [
        (TestFormat.TAP, {"adds": "passed", "subtracts": "failed", "sings": "xfailed", "flies": "skipped"}),
        (TestFormat.JUNIT, {"adds": "passed", "subtracts": "failed", "flies": "skipped"}),
    ],
)
async def test_what_node_writes_is_read(form: TestFormat, names: dict[str, str], tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    source = """
const test = require('node:test'), assert = require('node:assert');
test('adds', () => assert.equal(1 + 1, 2));
test('subtracts', () => assert.equal(1 - 1, 1));
test('sings', { todo: true }, () => { throw new Error('not yet'); });
test('flies', { skip: true }, () => {});
"""
    command = (node, "--test", f"--test-reporter={form.value}", "--test-reporter-destination={report}", "a.test.js")
    run = await run_tests(
        environment_of(tmp_path, {"a.test.js": source}), TestPlan(format=form, command=command), timeout=60
    )
    assert isinstance(run.outcome, TestResults), run.outcome
    found = {name.rpartition("::")[2].rpartition(" > ")[2]: status.value for name, status in run.outcome.tests.items()}
    assert names.items() <= found.items()
    assert run.exit_code == 1


async def test_what_pytest_writes_as_junit_is_read(tmp_path: Path) -> None:
    source = "import pytest\ndef test_a(): pass\ndef test_b(): assert 0\n@pytest.mark.xfail\ndef test_c(): assert 0\n"
    command = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--junit-xml={report}")
    run = await run_tests(
        environment_of(tmp_path, {"test_it.py": source}, {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}),
        TestPlan(format=TestFormat.JUNIT, command=command),
        timeout=60,
    )
    assert run.outcome == TestResults(
        tests={
            "test_it::test_a": TestStatus.PASSED,
            "test_it::test_b": TestStatus.FAILED,
            "test_it::test_c": TestStatus.XFAILED,
        }
    )


@pytest.mark.parametrize(
    ("files", "name"),
    [
        ({}, None),
        ({"setup.cfg": b"[metadata]\nname = x\n", "pyproject.toml": b"[project]\n", "tox.ini": b"[tox]\n"}, None),
        ({"setup.cfg": b"[tool:pytest]\naddopts = -q\n"}, "setup.cfg"),
        ({"setup.cfg": b"[tool:pytest]\n", "tox.ini": b"[pytest]\n"}, "tox.ini"),
        ({"tox.ini": b"[pytest]\n", "pyproject.toml": b"[tool.pytest.ini_options]\n"}, "pyproject.toml"),
        ({"pyproject.toml": b"[tool.pytest.ini_options]\n", "pytest.ini": b""}, "pytest.ini"),
        ({"pyproject.toml": b"not = = toml", "setup.cfg": b"[tool:pytest]\n"}, "setup.cfg"),
        ({"pyproject.toml": b"tool = 3"}, None),
    ],
)
def test_the_configuration_of_a_pristine_tree_is_the_one_that_pytest_would_take(
    files: dict[str, bytes], name: str | None
) -> None:
    found = pytest_config(files.get)
    assert (found.name if found else None) == name
    assert found is None or found.text.encode() == files[found.name]


PASSES = "import unittest\n\nclass T(unittest.TestCase):\n    def test_it(self) -> None: self.assertTrue(True)\n"


@pytest.mark.parametrize("isolation", [True, False])
@pytest.mark.parametrize("form", [TestFormat.UNITTEST, TestFormat.EXIT_CODE])
async def test_tests_run_in_a_environment_of_their_own_whatever_the_format_and_the_walls(
    tmp_path: Path, form: TestFormat, isolation: bool
) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "test_it.py").write_text(PASSES)
    plan = TestPlan(format=form, targets=("test_it.py",), command=("python3", "-m", "unittest", "test_it"))
    provider = LocalProvider(isolation=isolation, environments_dir=tmp_path / "environments")
    run = await run_tests_in_new_environment(provider, EnvironmentSpec(workspace=tree), plan, timeout=60)
    name = "test_it.T.test_it" if form is TestFormat.UNITTEST else EXIT_CODE_TEST
    assert run.outcome == TestResults(tests={name: TestStatus.PASSED})
    await provider.close()
    assert not list((tmp_path / "environments").iterdir())


# Imported by the first test module; the others are read later.
EDITS_TESTS = """
import os
from pathlib import Path

def try_to(do):
    try:
        do()
    except OSError:
        pass

here = Path(__file__).parent / "tests"
fake = "def test_b(): pass\\n"
try_to(lambda: (here / "test_b.py").write_text(fake))
try_to(lambda: (here / "run.sh").open("a").write("echo ok 2 - b\\nexit 0\\n"))
try_to(lambda: os.replace(here / "fake.py", here / "test_b.py"))
try_to(lambda: os.rename(here, here.with_name("away")))
here.mkdir(exist_ok=True)
try_to(lambda: (here / "test_b.py").write_text(fake))
(here / "snapshot.txt").write_text("written beside the tests")
"""
EDITED = {
    "thing.py": EDITS_TESTS,
    "tests/test_a.py": "import thing\ndef test_a(): pass\n",
    "tests/test_b.py": "def test_b(): assert 0\n",
    "tests/fake.py": "def test_b(): pass\n",
    "tests/run.sh": "echo 1..2; echo ok 1 - a\npython3 thing.py\nset -e\necho not ok 2 - b\nexit 1\n",
}
FIXED = ("tests/test_a.py", "tests/test_b.py", "tests/run.sh")
EDITED_PLANS = {
    TestFormat.PYTEST: TestPlan(format=TestFormat.PYTEST, targets=("tests",), python=sys.executable),
    TestFormat.TAP: TestPlan(format=TestFormat.TAP, command=("sh", "tests/run.sh")),
}


@pytest.mark.parametrize("form", EDITED_PLANS)
@pytest.mark.parametrize("isolation", [True, False])
async def test_an_edit_of_the_tests_while_they_run_has_no_effect_or_is_reported(
    tmp_path: Path, form: TestFormat, isolation: bool
) -> None:
    tree = tmp_path / "tree"
    (tree / "tests").mkdir(parents=True)
    for name, text in EDITED.items():
        (tree / name).write_text(text)
    provider = LocalProvider(isolation=isolation, environments_dir=tmp_path / "environments")
    places = {sys.prefix, str(Path(pytest.__file__).parents[1])} if isolation else set()
    spec = EnvironmentSpec(workspace=tree, mounts=tuple(Mount(source=place, target=place) for place in sorted(places)))
    run = await run_tests_in_new_environment(provider, spec, EDITED_PLANS[form], timeout=60, fixed=FIXED)
    await provider.close()
    outcome = run.outcome
    if isolation:
        assert isinstance(outcome, TestResults), run.log
        assert sorted(status.value for status in outcome.tests.values()) == ["failed", "passed"]
        assert not outcome.tampered
    else:
        assert set(outcome.tampered) >= {"tests/test_b.py"}


async def test_a_conftest_that_appears_while_the_tests_run_is_reported(tmp_path: Path) -> None:
    files = {
        "conftest.py": "",
        "tests/test_a.py": "def test_a(): open('tests/deep/conftest.py', 'w').close()\n",
        "tests/test_z.py": "import os\nopen('tests/zz/conftest.py', 'w').close()\ndef test_z(): pass\n",
        "tests/deep/test_b.py": "def test_b(): pass\n",
        "tests/zz/test_c.py": "def test_c(): pass\n",
    }
    environment = environment_of(tmp_path, files)
    plan = TestPlan(format=TestFormat.PYTEST, targets=("tests/test_a.py",), python=sys.executable)
    assert not (await run_tests(environment, plan, timeout=60)).outcome.tampered
    plan = TestPlan(format=TestFormat.PYTEST, targets=("tests",), python=sys.executable)
    run = await run_tests(environment, plan, timeout=60)
    assert [name.partition(",")[0] for name in run.outcome.tampered] == [f"{environment.workdir}/tests/zz/conftest.py"]


async def test_variables_reach_tests_that_have_a_environment_of_their_own(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "lib").mkdir(parents=True)
    (tree / "lib" / "other.py").write_text("")
    (tree / "test_it.py").write_text(
        "import os, sys, unittest, other\n\n"
        "class T(unittest.TestCase):\n"
        "    def test_it(self) -> None:\n"
        "        self.assertEqual((os.environ['A'], os.environ['B'], os.environ['PYTHONPATH']), ('1', '2', 'lib'))\n"
        "        self.assertEqual(sys.flags.hash_randomization, 0)\n"
        "        self.assertFalse([name for name in os.environ if name.startswith('PROCTOR')])\n"
    )
    variables = {"A": "1", "PYTHONPATH": "lib", "PYTHONHASHSEED": "0"}
    plan = TestPlan(format=TestFormat.UNITTEST, targets=("test_it.py",), variables=variables)
    spec = EnvironmentSpec(workspace=tree, variables={"A": "0", "B": "2"})
    run = await run_tests_in_new_environment(
        LocalProvider(environments_dir=tmp_path / "environments"), spec, plan, timeout=60
    )
    assert run.outcome == TestResults(tests={"test_it.T.test_it": TestStatus.PASSED}), run.log


async def test_an_interpreter_that_is_not_there_is_told(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    plan = TestPlan(format=TestFormat.UNITTEST, targets=("test_it.py",), python="python2.0")
    run = await run_tests_in_new_environment(
        LocalProvider(environments_dir=tmp_path / "environments"),
        EnvironmentSpec(workspace=tmp_path / "tree"),
        plan,
        timeout=60,
    )
    assert kind_of(run) is InconclusiveKind.NOT_STARTED
    assert run.exit_code == 127
