"""The reporters, run for real: what a test did is what is said of it."""

import sys
import venv
from pathlib import Path

import msgspec
import pytest

from interpreters import interpreters
from plain_environment import environment_at, environment_of
from proctor.core.verdict import TestStatus
from proctor.grading import (
    ConfigFile,
    InconclusiveKind,
    InconclusiveRun,
    TestFormat,
    TestPlan,
    TestResults,
    TestRun,
    run_tests,
)
from waiting import limits

UNITTEST = TestPlan(format=TestFormat.UNITTEST, targets=("tests",), python=sys.executable)
PYTEST = TestPlan(format=TestFormat.PYTEST, targets=("tests",), python=sys.executable)
BOTH = pytest.mark.parametrize("plan", [UNITTEST, PYTEST], ids=["unittest", "pytest"])

EVERY_STATUS = """
import unittest

class Each(unittest.TestCase):
    def test_passes(self):
        pass
    def test_fails(self):
        self.assertEqual(1, 2)
    def test_breaks(self):
        raise ValueError
    def test_leaves(self):
        raise SystemExit(0)
    @unittest.skip("why not")
    def test_is_skipped(self):
        pass
    def test_skips_itself(self):
        self.skipTest("now")
    @unittest.expectedFailure
    def test_fails_as_expected(self):
        self.fail()
    @unittest.expectedFailure
    def test_passes_unexpectedly(self):
        pass
    def test_parts(self):
        for number in range(3):
            with self.subTest(number=number):
                self.assertNotEqual(number, 1)
    def test_good_parts(self):
        with self.subTest():
            pass

class NotSetUp(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        raise ValueError
    def test_never_runs(self):
        pass

class SkippedWhole(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        raise unittest.SkipTest("not here")
    def test_never_runs(self):
        pass

class NotTornDown(unittest.TestCase):
    @classmethod
    def tearDownClass(cls):
        raise ValueError
    def test_runs(self):
        pass
"""


def statuses(run: TestRun) -> dict[str, str]:
    assert isinstance(run.outcome, TestResults), (run.outcome, run.log.decode())
    return {name: status.value for name, status in run.outcome.tests.items()}


def kind_of(run: TestRun) -> InconclusiveKind:
    assert isinstance(run.outcome, InconclusiveRun), run.outcome
    return run.outcome.kind


@pytest.mark.parametrize("python", interpreters())
async def test_unittest_tells_every_way_in_which_a_test_can_end(python: str, tmp_path: Path) -> None:
    environment = environment_of(tmp_path / "work", {"tests/test_all.py": EVERY_STATUS})
    run = await run_tests(environment, TestPlan(format=TestFormat.UNITTEST, targets=("tests",), python=python))
    assert statuses(run) == {
        "tests.test_all.Each.test_passes": "passed",
        "tests.test_all.Each.test_fails": "failed",
        "tests.test_all.Each.test_breaks": "error",
        "tests.test_all.Each.test_leaves": "error",
        "tests.test_all.Each.test_is_skipped": "skipped",
        "tests.test_all.Each.test_skips_itself": "skipped",
        "tests.test_all.Each.test_fails_as_expected": "xfailed",
        "tests.test_all.Each.test_passes_unexpectedly": "xpassed",
        "tests.test_all.Each.test_parts": "failed",
        "tests.test_all.Each.test_good_parts": "passed",
        "tests.test_all.NotSetUp.test_never_runs": "error",
        "tests.test_all.SkippedWhole.test_never_runs": "skipped",
        "tests.test_all.NotTornDown.test_runs": "passed",
    }
    assert isinstance(run.outcome, TestResults)
    assert set(run.outcome.broken) == {
        "setUpClass (tests.test_all.NotSetUp)",
        "tearDownClass (tests.test_all.NotTornDown)",
    }
    assert run.outcome.tampered == ()
    assert run.exit_code == 1
    assert b"AssertionError: 1 != 2" in run.log


async def test_pytest_tells_every_way_in_which_a_test_can_end(tmp_path: Path) -> None:
    source = """
import pytest, unittest

def test_passes(): pass
def test_fails(): assert 1 == 2
def test_skips(): pytest.skip("now")
@pytest.mark.xfail
def test_fails_as_expected(): assert 0
@pytest.mark.xfail
def test_passes_unexpectedly(): pass
@pytest.mark.xfail(strict=True)
def test_passes_against_its_word(): pass
@pytest.mark.xfail(run=False)
def test_is_not_run(): pass
@pytest.fixture
def breaks(): raise ValueError
@pytest.fixture
def breaks_late():
    yield
    raise ValueError
def test_is_not_set_up(breaks): pass
def test_is_not_torn_down(breaks_late): pass
@pytest.mark.parametrize("value", ["a b", "a::b", "\\n", "\\u00fc", ""])
def test_values(value): pass
class TestOfUnittest(unittest.TestCase):
    def test_leaves(self): raise SystemExit(0)
    def test_parts(self):
        for number in range(3):
            with self.subTest(number=number):
                self.assertNotEqual(number, 1)
"""
    run = await run_tests(environment_of(tmp_path / "work", {"tests/test_all.py": source}), PYTEST)
    assert statuses(run) == {
        "tests/test_all.py::test_passes": "passed",
        "tests/test_all.py::test_fails": "failed",
        "tests/test_all.py::test_skips": "skipped",
        "tests/test_all.py::test_fails_as_expected": "xfailed",
        "tests/test_all.py::test_passes_unexpectedly": "xpassed",
        "tests/test_all.py::test_passes_against_its_word": "failed",
        "tests/test_all.py::test_is_not_run": "xfailed",
        "tests/test_all.py::test_is_not_set_up": "error",
        "tests/test_all.py::test_is_not_torn_down": "error",
        "tests/test_all.py::test_values[a b]": "passed",
        "tests/test_all.py::test_values[a::b]": "passed",
        "tests/test_all.py::test_values[\\n]": "passed",
        "tests/test_all.py::test_values[\\xfc]": "passed",
        "tests/test_all.py::test_values[]": "passed",
        "tests/test_all.py::TestOfUnittest::test_leaves": "failed",
        "tests/test_all.py::TestOfUnittest::test_parts": "failed",
    }
    assert isinstance(run.outcome, TestResults)
    assert run.outcome.tampered == ()


@BOTH
async def test_a_module_that_cannot_be_imported_is_broken_and_the_others_run(plan: TestPlan, tmp_path: Path) -> None:
    files = {
        "tests/test_a.py": "import no_such_module\n",
        "tests/test_c.py": "import unittest\nclass C(unittest.TestCase):\n    def test_c(self): pass\n",
    }
    run = await run_tests(environment_of(tmp_path / "work", files), plan)
    assert list(statuses(run).values()) == ["passed"]
    assert isinstance(run.outcome, TestResults)
    broken = {name.removeprefix("tests").strip("/.").removesuffix(".py") for name in run.outcome.broken}
    assert broken == {"test_a"}
    assert run.exit_code != 0


async def test_a_module_that_leaves_at_import_is_broken_under_unittest(tmp_path: Path) -> None:
    environment = environment_of(tmp_path / "work", {"tests/test_a.py": "import sys\nsys.exit(0)\n"})
    run = await run_tests(environment, UNITTEST)
    assert isinstance(run.outcome, TestResults)
    assert "SystemExit" in run.outcome.broken["tests.test_a"]


async def test_a_module_that_leaves_at_import_leaves_no_results_under_pytest(tmp_path: Path) -> None:
    files = {"tests/test_a.py": "import sys\nsys.exit(0)\n", "tests/test_b.py": "def test_b(): pass\n"}
    run = await run_tests(environment_of(tmp_path / "work", files), PYTEST)
    assert kind_of(run) is InconclusiveKind.CUT_SHORT


async def test_an_error_that_ends_pytest_has_its_place_in_the_log(tmp_path: Path) -> None:
    files = {"conftest.py": "def pytest_addoption():\n    raise ValueError\n", "test_a.py": "def test_a(): pass\n"}
    run = await run_tests(environment_of(tmp_path / "work", files), PYTEST)
    assert kind_of(run) is InconclusiveKind.CUT_SHORT
    assert "conftest.py:2, in pytest_addoption" in run.log.decode()


async def test_a_missing_target_leaves_no_results_under_pytest(tmp_path: Path) -> None:
    run = await run_tests(environment_of(tmp_path / "work", {}), PYTEST)
    assert isinstance(run.outcome, InconclusiveRun)
    assert "pytest refused its arguments" in run.outcome.reason


async def test_ids_with_any_characters_arrive_whole(tmp_path: Path) -> None:
    source = """
import unittest
class Odd(unittest.TestCase):
    pass
for name in ["test_a b", "test_\\n", "test_ü::é", "test_\\udc80", "test_" + "x" * 5000]:
    setattr(Odd, name, lambda self: None)
"""
    run = await run_tests(environment_of(tmp_path / "work", {"tests/test_odd.py": source}), UNITTEST)
    names = {name.removeprefix("tests.test_odd.Odd.") for name in statuses(run)}
    # A lone surrogate fits into no file: it is spelled out.
    assert names == {"test_a b", "test_\n", "test_ü::é", "test_\\udc80", "test_" + "x" * 5000}


async def test_the_worst_of_two_tests_with_one_id_counts(tmp_path: Path) -> None:
    source = """
import unittest
def make(fails):
    class Same(unittest.TestCase):
        def test_it(self):
            self.assertFalse(fails)
    Same.__qualname__ = "Same"
    return Same
def load_tests(loader, standard, pattern):
    suite = unittest.TestSuite()
    for fails in (False, True, False):
        suite.addTests(loader.loadTestsFromTestCase(make(fails)))
    return suite
"""
    run = await run_tests(environment_of(tmp_path / "work", {"tests/test_two.py": source}), UNITTEST)
    assert statuses(run) == {"tests.test_two.Same.test_it": "failed"}


@pytest.mark.parametrize(
    ("targets", "names"),
    [
        (("tests",), {"tests.test_a.A.test_one", "tests.test_a.A.test_two", "tests.deep.test_b.B.test_b"}),
        (("tests/test_a.py",), {"tests.test_a.A.test_one", "tests.test_a.A.test_two"}),
        (("tests.test_a",), {"tests.test_a.A.test_one", "tests.test_a.A.test_two"}),
        (("tests.test_a.A",), {"tests.test_a.A.test_one", "tests.test_a.A.test_two"}),
        (("tests.test_a.A.test_two",), {"tests.test_a.A.test_two"}),
        (("odd-name",), {"test_c.C.test_c"}),
    ],
)
async def test_unittest_targets_are_directories_files_and_dotted_names(
    targets: tuple[str, ...], names: set[str], tmp_path: Path
) -> None:
    one = "import unittest\nclass A(unittest.TestCase):\n    def test_one(self): pass\n    def test_two(self): pass\n"
    files = {
        "tests/test_a.py": one,
        "tests/deep/__init__.py": "",
        "tests/deep/test_b.py": "import unittest\nclass B(unittest.TestCase):\n    def test_b(self): pass\n",
        "tests/not_a_package/test_x.py": one,
        "odd-name/test_c.py": "import unittest\nclass C(unittest.TestCase):\n    def test_c(self): pass\n",
    }
    environment = environment_of(tmp_path / "work", files)
    run = await run_tests(environment, TestPlan(format=TestFormat.UNITTEST, targets=targets, python=sys.executable))
    assert set(statuses(run)) == names


async def test_a_target_that_is_not_there_is_broken(tmp_path: Path) -> None:
    run = await run_tests(environment_of(tmp_path / "work", {}), UNITTEST)
    assert isinstance(run.outcome, TestResults)
    assert run.outcome.broken == {"tests": "no such test file"}


@BOTH
async def test_the_workspace_wins_over_modules_of_the_library_as_in_a_plain_run(plan: TestPlan, tmp_path: Path) -> None:
    files = {
        "difflib.py": "MINE = True\n",
        "tests/test_it.py": """
import difflib, unittest
class T(unittest.TestCase):
    def test_it(self):
        self.assertTrue(difflib.MINE)
""",
    }
    run = await run_tests(environment_of(tmp_path / "work", files), plan)
    assert list(statuses(run).values()) == ["passed"]


@BOTH
async def test_import_paths_come_from_the_plan_and_from_the_environment(plan: TestPlan, tmp_path: Path) -> None:
    files = {
        "src/one.py": "",
        "more/two.py": "",
        "tests/test_it.py": """
import one, os, subprocess, sys, two, unittest
class T(unittest.TestCase):
    def test_children_see_the_variable(self):
        subprocess.run([sys.executable, "-c", "import two"], check=True)
""",
    }
    environment = environment_of(tmp_path / "work", files, {"PYTHONPATH": str(tmp_path / "work" / "more")})
    wider = TestPlan(format=plan.format, targets=plan.targets, python=plan.python, paths=("src",))
    assert list(statuses(await run_tests(environment, wider)).values()) == ["passed"]


async def test_a_module_that_skips_itself_is_neither_broken_nor_run(tmp_path: Path) -> None:
    environment = environment_of(
        tmp_path / "work", {"tests/test_a.py": "import unittest\nraise unittest.SkipTest('not here')\n"}
    )
    run = await run_tests(environment, UNITTEST)
    assert run.outcome == TestResults()


@BOTH
async def test_a_hanging_test_ends_by_the_clock_and_what_ended_before_is_remembered(
    plan: TestPlan, tmp_path: Path
) -> None:
    source = """
import time, unittest
class T(unittest.TestCase):
    def test_a(self): pass
    def test_b(self): time.sleep(600)
"""
    for seconds in limits(3):
        environment = environment_of(tmp_path / f"work-{seconds:g}", {"tests/test_it.py": source})
        run = await run_tests(environment, plan, timeout=seconds)
        assert kind_of(run) is InconclusiveKind.TIMED_OUT
        assert isinstance(run.outcome, InconclusiveRun)
        partial = run.outcome.partial
        if partial:
            break
    assert [status for name, status in partial.items() if name.endswith("test_a")] == [TestStatus.PASSED]
    assert run.tests == {}


async def test_a_missing_interpreter_is_a_run_that_did_not_start(tmp_path: Path) -> None:
    plan = TestPlan(format=TestFormat.UNITTEST, python="no-such-python")
    assert kind_of(await run_tests(environment_of(tmp_path / "work", {}), plan)) is InconclusiveKind.NOT_STARTED


async def test_a_environment_without_pytest_is_a_run_that_did_not_start_and_says_so(tmp_path: Path) -> None:
    venv.create(tmp_path / "bare", symlinks=True)
    plan = TestPlan(format=TestFormat.PYTEST, python=str(tmp_path / "bare" / "bin" / "python3"))
    run = await run_tests(environment_of(tmp_path / "work", {}), plan)
    assert isinstance(run.outcome, InconclusiveRun)
    assert run.outcome.kind is InconclusiveKind.NOT_STARTED
    assert "No module named 'pytest'" in run.outcome.reason


async def test_pytest_reads_the_configuration_of_the_plan_and_not_of_the_workspace(tmp_path: Path) -> None:
    files = {
        "pytest.ini": "[pytest]\naddopts = -k nothing\npython_files = none_*.py\n",
        "setup.cfg": "[tool:pytest]\naddopts = --no-such-option\n",
        "lib/helper.py": "",
        "tests/check_it.py": "import helper\ndef test_it(pytestconfig): assert pytestconfig.getini('xfail_strict')\n",
    }
    config = ConfigFile(
        name="pyproject.toml",
        text='[tool.pytest.ini_options]\npython_files = "check_*.py"\nxfail_strict = true\npythonpath = ["lib"]\n',
    )
    plan = TestPlan(format=TestFormat.PYTEST, python=sys.executable, config=config)
    run = await run_tests(environment_of(tmp_path / "work", files), plan)
    assert statuses(run) == {"tests/check_it.py::test_it": "passed"}


async def test_tests_may_run_a_pytest_of_their_own_without_a_configuration(tmp_path: Path) -> None:
    outer = (
        "import pytest\n"
        "def test_outer(tmp_path):\n"
        "    (tmp_path / 'test_inner.py').write_text('def test_a(): pass')\n"
        "    assert pytest.main([str(tmp_path), '--rootdir', str(tmp_path)]) == 0\n"
    )
    files = {"tests/test_it.py": outer}
    plan = TestPlan(format=TestFormat.PYTEST, python=sys.executable)
    run = await run_tests(environment_of(tmp_path / "work", files), plan)
    assert statuses(run) == {"tests/test_it.py::test_outer": "passed"}


@pytest.mark.parametrize("form", [TestFormat.PYTEST, TestFormat.EXIT_CODE])
async def test_services_are_started_in_the_workspace_before_the_tests(tmp_path: Path, form: TestFormat) -> None:
    files = {"tests/test_it.py": "import os\ndef test_it(): assert os.path.exists('started')\n", "here": ""}
    plan = TestPlan(
        format=form,
        python=sys.executable,
        command=("test", "-e", "started"),
        services=("test -e here && touch started",),
    )
    run = await run_tests(environment_of(tmp_path / "work", files), plan)
    assert set(statuses(run).values()) == {"passed"}
    broken = msgspec.structs.replace(plan, services=("echo no database; exit 3",))
    run = await run_tests(environment_of(tmp_path / "other", files), broken)
    assert "passed" not in run.tests.values()
    assert b"no database" in run.log


async def test_pytest_stops_at_no_failure_whatever_the_configuration_says(tmp_path: Path) -> None:
    files = {"tests/test_it.py": "def test_a(): assert 0\ndef test_b(): pass\n"}
    config = ConfigFile(name="pytest.ini", text="[pytest]\naddopts = -x\n")
    plan = TestPlan(format=TestFormat.PYTEST, python=sys.executable, config=config)
    run = await run_tests(environment_of(tmp_path / "work", files), plan)
    assert list(statuses(run).values()) == ["failed", "passed"]


async def test_plugins_are_loaded_when_the_plan_names_them_and_only_then(tmp_path: Path) -> None:
    files = {"tests/test_it.py": "async def test_it(): pass\n"}
    environment = environment_of(
        tmp_path / "work", files, {"PYTEST_ADDOPTS": "--no-such-option", "PYTEST_PLUGINS": "no_such_plugin"}
    )
    config = ConfigFile(name="pytest.ini", text="[pytest]\nasyncio_mode = auto\n")
    with_plugin = TestPlan(format=TestFormat.PYTEST, python=sys.executable, config=config, plugins=("asyncio",))
    assert list(statuses(await run_tests(environment, with_plugin)).values()) == ["passed"]
    assert list(statuses(await run_tests(environment, PYTEST)).values()) == ["failed"]


async def test_nothing_is_left_in_the_workspace_or_in_the_temporary_directory(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    files = {"thing.py": "", "tests/test_it.py": "import thing\ndef test_it(): pass\n"}
    environment = environment_of(tmp_path / "work", files, {"TMPDIR": str(scratch)})
    run = await run_tests(environment, PYTEST)
    assert run.complete
    assert sorted(str(path.relative_to(tmp_path / "work")) for path in (tmp_path / "work").rglob("*")) == [
        "tests",
        "tests/test_it.py",
        "thing.py",
    ]
    assert [path.name for path in scratch.iterdir() if path.name.startswith("proctor")] == []


async def test_background_processes_of_tests_are_killed(tmp_path: Path) -> None:
    mark = tmp_path / "still-here"
    source = f"""
import subprocess, unittest
class T(unittest.TestCase):
    def test_it(self):
        subprocess.Popen(["sh", "-c", "sleep 1; touch {mark}"], start_new_session=True)
"""
    run = await run_tests(environment_of(tmp_path / "work", {"tests/test_it.py": source}), UNITTEST)
    assert list(statuses(run).values()) == ["passed"]
    environment = environment_at(tmp_path)
    await environment.exec(["sleep", "1.5"])
    assert not mark.exists()


# In the manner of Django's: finds its tests, sets a database up, and has unittest run them.
PROGRAM = """
import os, sys, unittest
sys.path.insert(0, os.path.dirname(__file__))
os.environ["DATABASE"] = "made"
suite = unittest.TestSuite(unittest.defaultTestLoader.loadTestsFromName(name) for name in sys.argv[2:])
result = unittest.TextTestRunner(verbosity=2).run(suite)
os.environ.pop("DATABASE")
sys.exit(bool(result.failures))
"""
PROGRAM_TESTS = '''
import os, unittest

class Views(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.place = os.environ["DATABASE"]
    def test_made(self):
        self.assertEqual(self.place, "made")
    def test_documented(self):
        """What it is for.

        And more."""
    def test_fails(self):
        self.fail()
'''


async def test_a_program_that_runs_its_tests_with_unittest_is_reported_as_it_prints_them(tmp_path: Path) -> None:
    environment = environment_of(tmp_path, {"tests/run.py": PROGRAM, "tests/views/tests.py": PROGRAM_TESTS})
    plan = TestPlan(format=TestFormat.PROGRAM, targets=("./tests/run.py", "-v2", "views.tests"), python=sys.executable)
    suffix = ["", ".test_made", ".test_fails"] if sys.version_info >= (3, 11) else ["", "", ""]
    assert statuses(await run_tests(environment, plan)) == {
        f"test_made (views.tests.Views{suffix[1]})": "passed",
        "What it is for.": "passed",
        f"test_fails (views.tests.Views{suffix[2]})": "failed",
    }


@pytest.mark.parametrize(
    ("program", "kind"),
    [
        ("import sys; print('test_a (views.tests.Views) ... ok'); sys.exit(0)", InconclusiveKind.CUT_SHORT),
        ("import os; os._exit(0)", InconclusiveKind.CUT_SHORT),
    ],
)
async def test_a_program_that_hands_no_tests_to_unittest_gives_no_results(
    program: str, kind: InconclusiveKind, tmp_path: Path
) -> None:
    environment = environment_of(tmp_path, {"run.py": program})
    plan = TestPlan(format=TestFormat.PROGRAM, targets=("run.py",), python=sys.executable)
    assert kind_of(await run_tests(environment, plan)) is kind


FUNCTIONS = """
from pack.core import value
from functools import wraps

class Skipped(Exception): pass
class XFail(Exception): pass

def XFAIL(function):
    @wraps(function)
    def wrapper():
        try:
            function()
        except Exception:
            raise XFail
    return wrapper

def test_passes(): assert value == 1
def test_fails(): assert value == 2
def test_breaks(): raise ValueError
def test_skips(): raise Skipped("not here")
@XFAIL
def test_fails_as_expected(): assert 0
def test_yields():
    for number in range(3):
        yield check, number
def check(number): assert number < 2
def helper(): assert 0
"""


@pytest.mark.parametrize("python", interpreters())
async def test_functions_are_run_one_by_one(python: str, tmp_path: Path) -> None:
    files = {"pack/__init__.py": "", "pack/core.py": "value = 1\n", "pack/tests/test_core.py": FUNCTIONS}
    plan = TestPlan(format=TestFormat.FUNCTIONS, targets=("pack/tests/test_core.py",), python=python)
    assert statuses(await run_tests(environment_of(tmp_path, files), plan)) == {
        "test_passes": "passed",
        "test_fails": "failed",
        "test_breaks": "error",
        "test_skips": "skipped",
        "test_fails_as_expected": "xfailed",
        "test_yields": "failed",
    }


async def test_two_thousand_tests_and_a_flood_of_output_arrive(tmp_path: Path) -> None:
    source = """
import unittest
class Many(unittest.TestCase):
    pass
for number in range(2000):
    setattr(Many, f"test_{number}", lambda self: print("x" * 1000))
"""
    run = await run_tests(environment_of(tmp_path / "work", {"tests/test_many.py": source}), UNITTEST)
    assert len(statuses(run)) == 2000
    assert len(run.log) > 2_000_000
