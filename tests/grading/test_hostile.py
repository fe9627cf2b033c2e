"""Submissions that want to pass without solving the task, and that the reporter stops by itself. Each is run for real.

What it cannot stop from inside one process is left to the control checks: tests/cheats.
"""

import marshal
import os
import shutil
import struct
import sys
import tempfile
from collections.abc import Mapping
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from typing import NamedTuple

import pytest

from grading.tree_changes import tree_change
from plain_environment import environment_at, environment_of
from proctor.core.causes import Cause, Status
from proctor.core.verdict import TestStatus
from proctor.grading import (
    Expectation,
    Resolution,
    TestFormat,
    TestPlan,
    TestRun,
    audit_change,
    resolve,
    run_tests,
)

BASE = {
    "thing.py": "def about():\n    return 'a thing'\ndef answer():\n    return 41\n",
    "tests/test_thing.py": """\
import unittest
import thing

class Thing(unittest.TestCase):
    def test_about(self):
        self.assertEqual(thing.about(), "a thing")
    def test_answer(self):
        self.assertEqual(thing.answer(), 42)
    def test_callable(self):
        self.assertTrue(callable(thing.answer))
""",
}
PLANS = {
    form: TestPlan(format=form, targets=("tests",), python=sys.executable)
    for form in (TestFormat.UNITTEST, TestFormat.PYTEST)
}
LABELS = {
    TestFormat.UNITTEST: Expectation(
        fail_to_pass=("tests.test_thing.Thing.test_answer",),
        pass_to_pass=("tests.test_thing.Thing.test_about", "tests.test_thing.Thing.test_callable"),
    ),
    TestFormat.PYTEST: Expectation(
        fail_to_pass=("tests/test_thing.py::Thing::test_answer",),
        pass_to_pass=("tests/test_thing.py::Thing::test_about", "tests/test_thing.py::Thing::test_callable"),
    ),
}


class Attack(NamedTuple):
    """What is submitted, and the cause of its failure."""

    files: Mapping[str, str | bytes]
    cause: Cause
    forms: tuple[TestFormat, ...] = (TestFormat.UNITTEST, TestFormat.PYTEST)


def code(source: str, cause: Cause, *, forms: tuple[TestFormat, ...] | None = None) -> Attack:
    """An attack by the module under test, which still gives the wrong result by default."""
    body = f"def about():\n    return 'a thing'\ndef answer():\n    return 41\n{source}"
    return Attack({"thing.py": body}, cause, forms or tuple(PLANS))


def lying_cache() -> bytes:
    """Bytecode of tests that always pass, marked so that Python does not compare it with its source."""
    source = BASE["tests/test_thing.py"].replace("self.assertEqual(thing.answer(), 42)", "pass")
    return MAGIC_NUMBER + struct.pack("<LQ", 0b01, 0) + marshal.dumps(compile(source, "test_thing.py", "exec"))


REWRITES_REPORTS = """\
import pytest
@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    outcome.get_result().outcome = 'passed'
"""
U, P = (TestFormat.UNITTEST,), (TestFormat.PYTEST,)

ATTACKS = {
    # printing and leaving
    "prints a summary": code(
        "import sys\nprint('OK\\n2 passed in 0.01s')\nprint('test_answer ... ok', file=sys.stderr)", Cause.TESTS_FAILED
    ),
    "exits 0 at import": code("import os\nos._exit(0)", Cause.TESTS_VANISHED),
    "exits 0 when called": code("import os\ndef answer():\n    os._exit(0)", Cause.TESTS_VANISHED),
    "raises SystemExit at import under unittest": code("import sys\nsys.exit(0)", Cause.TESTS_FAILED, forms=U),
    "raises SystemExit at import under pytest": code("import sys\nsys.exit(0)", Cause.TESTS_VANISHED, forms=P),
    "raises KeyboardInterrupt": code("def answer():\n    raise KeyboardInterrupt", Cause.TESTS_VANISHED),
    "kills its process": code("import os\nos.kill(os.getpid(), 9)", Cause.TESTS_VANISHED),
    "kills the reporter": code("import os\nos.kill(os.getppid(), 9)", Cause.TESTS_VANISHED),
    "leaves at exit": code("import atexit, os\natexit.register(os._exit, 0)", Cause.TESTS_FAILED),
    # skipping
    "skips from the tested code": code(
        "import unittest\ndef answer():\n    raise unittest.SkipTest('n/a')", Cause.TESTS_FAILED
    ),
    "expects its failure": code("import pytest\ndef answer():\n    pytest.xfail('n/a')", Cause.TESTS_FAILED, forms=P),
    # the machinery
    "patches assertEqual": code("import unittest\nunittest.TestCase.assertEqual = lambda *a: None", Cause.TAMPERED),
    "exchanges the code of assertEqual": code(
        "import unittest\n"
        "unittest.TestCase.assertEqual.__code__ = (lambda self, first, second, msg=None: None).__code__",
        Cause.TAMPERED,
    ),
    "patches TestCase.run": code(
        """
from unittest import TestCase as Case
def run(self, result=None):
    result.startTest(self); result.addSuccess(self); result.stopTest(self)
setattr(Case, "run", run)
""",
        Cause.TAMPERED,
        forms=U,
    ),
    "patches TestResult": code(
        "import unittest.result as r\nr.TestResult.addFailure = r.TestResult.addSuccess",
        Cause.TAMPERED,
    ),
    "adds a method to TestCase": code(
        """
import unittest
def find(self, name):
    return (lambda *a: None) if name == "assertEqual" else object.__getattribute__(self, name)
unittest.TestCase.__getattribute__ = find
""",
        Cause.TAMPERED,
    ),
    "replaces unittest": code(
        """
import sys, types, unittest
class Quiet(unittest.TestCase):
    def assertEqual(self, *a): pass
fake = types.ModuleType("unittest")
fake.__dict__.update(vars(unittest), TestCase=Quiet)
sys.modules["unittest"] = fake
import builtins
for module in list(sys.modules.values()):
    if getattr(module, "__name__", "") == "tests.test_thing":
        module.unittest = fake
""",
        Cause.TAMPERED,
    ),
    "swallows exceptions in contextlib": code(
        """
import contextlib
def leave(self, kind, error, trace):
    try: next(self.gen)
    except BaseException: pass
    return True
contextlib._GeneratorContextManager.__exit__ = leave
""",
        Cause.TAMPERED,
    ),
    "patches pytest's runner": code(
        "import _pytest.python\n_pytest.python.Function.runtest = lambda self: None\n"
        "import _pytest.unittest\n_pytest.unittest.TestCaseFunction.runtest = lambda self: None",
        Cause.TAMPERED,
        forms=P,
    ),
    "patches pytest's reports": code(
        "import _pytest.reports as r\nmake = r.TestReport.from_item_and_call.__func__\n"
        "def good(cls, item, call):\n    report = make(cls, item, call); report.outcome = 'passed'; return report\n"
        "r.TestReport.from_item_and_call = classmethod(good)",
        Cause.TAMPERED,
        forms=P,
    ),
    "patches the builtins": code(
        """
import builtins
build = builtins.__build_class__
def quiet(function, name, *bases, **options):
    made = build(function, name, *bases, **options)
    if name == "Thing":
        made.test_answer = lambda self: None
    return made
builtins.__build_class__ = quiet
""",
        Cause.TAMPERED,
    ),
    "patches what a test computes with": Attack(
        {
            "tests/test_thing.py": BASE["tests/test_thing.py"].replace("42", "sum([40, 2])"),
            "thing.py": BASE["thing.py"] + "import builtins\nbuiltins.sum = lambda numbers: 41\n",
        },
        Cause.TAMPERED,
    ),
    "hides what a test computes with": Attack(
        {
            "tests/test_thing.py": BASE["tests/test_thing.py"].replace("42", "sum([40, 2])"),
            "thing.py": "import sys\ndef about():\n    return 'a thing'\ndef answer():\n"
            "    sys._getframe(1).f_globals['sum'] = lambda numbers: 41\n    return 41\n",
        },
        Cause.TAMPERED,
    ),
    "patches the import system": code(
        """
import importlib.machinery
loader = importlib.machinery.SourceFileLoader
original = loader.source_to_code
def compiled(self, data, path, **options):
    return original(self, data.replace(b"thing.answer(), 42", b"42, 42"), path, **options)
loader.source_to_code = compiled
""",
        Cause.TAMPERED,
    ),
    "exchanges the code of a later test": code(
        """
import sys
def about():
    tests = sys.modules.get("tests.test_thing") or sys.modules["test_thing"]
    tests.Thing.test_answer.__code__ = (lambda self: None).__code__
    return "a thing"
def answer():
    return 41
""",
        Cause.TAMPERED,
    ),
    "exchanges a later test": code(
        """
import inspect
def about():
    frame = inspect.currentframe().f_back
    frame.f_globals["Thing"].test_answer = lambda self: None
    return "a thing"
def answer():
    return 41
""",
        Cause.TAMPERED,
    ),
    # the channel
    "writes into every descriptor": code(
        """
import os
for number in range(3, 64):
    try: os.write(number, b"0" * 32 + b" finish 00 00\\n")
    except OSError: pass
""",
        Cause.TAMPERED,
    ),
    "closes every descriptor": code("import os\nos.closerange(3, 64)", Cause.TESTS_VANISHED),
    "writes into the reporter's output": code(
        """
import os
try:
    with open(f"/proc/{os.getppid()}/fd/1", "wb") as file:
        file.write(b"0" * 32 + b" worker finish 00 00\\n")
except OSError:
    pass
""",
        # Root may open it and is found out; anybody else is refused, and only fails.
        Cause.TAMPERED if os.geteuid() == 0 else Cause.TESTS_FAILED,
    ),
    "forks a copy that continues": code(
        "import os\ndef answer():\n    return 42 if os.fork() == 0 else 41",
        Cause.TESTS_FAILED,
    ),
    "patches what a reporter would use": code(
        """
import builtins, hashlib, io, json, os, time
os.write = lambda descriptor, data: len(data)
os.getpid = lambda: 1
json.dumps = lambda *a, **k: "{}"
builtins.all = lambda *a: True
""",
        Cause.TAMPERED,
    ),
    # files that have a say before or beside the tests
    "adds a package in place of the test file": Attack(
        {
            "tests/__init__.py": "",
            "tests/test_thing/__init__.py": BASE["tests/test_thing.py"].replace("thing.answer(), 42", "42, 42"),
        },
        Cause.TESTS_FAILED,
        forms=U,
    ),
    "adds a package in place of the test file, under pytest": Attack(
        {
            "tests/__init__.py": "",
            "tests/test_thing/__init__.py": BASE["tests/test_thing.py"].replace("thing.answer(), 42", "42, 42"),
        },
        Cause.TESTS_FAILED,
        forms=P,
    ),
    "plants bytecode of the tests": Attack(
        {f"tests/__pycache__/test_thing.{sys.implementation.cache_tag}.pyc": lying_cache()},
        Cause.TESTS_FAILED,
    ),
    "adds sitecustomize and usercustomize": Attack(
        dict.fromkeys(
            ("sitecustomize.py", "usercustomize.py", "tests/sitecustomize.py"),
            "import unittest\nunittest.TestCase.assertEqual = lambda *a: None\n",
        ),
        Cause.TESTS_FAILED,
    ),
    "hides unittest": Attack(
        {
            "unittest/__init__.py": "class TestCase: pass\n",
            "unittest.py": "",
            "pytest.py": "",
            "_pytest/__init__.py": "",
        },
        Cause.TESTS_FAILED,
    ),
    "hides what the machinery imports": Attack(
        {
            "traceback.py": "MINE = True\ndef format_exception(*a): raise SystemExit(0)\n",
            "json.py": "",
            "enum.py": "",
            "thing.py": "import traceback\nassert traceback.MINE\n" + BASE["thing.py"],
        },
        Cause.TESTS_FAILED,
        U,
    ),
    "configures pytest": Attack(
        {
            "pytest.ini": "[pytest]\naddopts = -p quiet -k callable\n",
            "tox.ini": "[pytest]\naddopts = -p quiet\n",
            "pyproject.toml": '[tool.pytest.ini_options]\naddopts = "-p quiet"\n',
            "quiet.py": REWRITES_REPORTS,
        },
        Cause.TESTS_FAILED,
        P,
    ),
    "adds a conftest that nobody restored": Attack(
        {"conftest.py": REWRITES_REPORTS},
        Cause.TAMPERED,
        P,
    ),
    "deselects in a conftest": Attack(
        {"conftest.py": "def pytest_collection_modifyitems(items):\n    items[:] = []\n"},
        Cause.TESTS_VANISHED,
        P,
    ),
    "registers a plugin from the tested code": code(
        """
import sys
class Quiet:
    def pytest_runtest_logreport(self, report): report.outcome = "passed"
    def pytest_pyfunc_call(self, pyfuncitem): return True
def answer():
    frame = sys._getframe()
    while frame:
        config = getattr(frame.f_locals.get("item"), "config", None)
        if config:
            config.pluginmanager.register(Quiet())
            break
        frame = frame.f_back
    return 41
""",
        Cause.TAMPERED,
        forms=P,
    ),
}


@pytest.fixture(scope="module")
def pre_patch_runs() -> dict[TestFormat, TestRun]:
    return {}


# Each attack on one of its forms, in turns, in all test runs, and on the other in the long proof.
CASES = [
    pytest.param(
        name, form, id=f"{name} ({form.value})", marks=[] if form is attack.forms[turn] else [pytest.mark.long]
    )
    for number, (name, attack) in enumerate(ATTACKS.items())
    for turn in (number % len(attack.forms),)
    for form in attack.forms
]


@pytest.mark.parametrize(("name", "form"), CASES)
async def test_the_reporter_is_not_deceived(
    name: str, form: TestFormat, pre_patch_runs: dict[TestFormat, TestRun], tmp_path: Path
) -> None:
    attack = ATTACKS[name]
    if form not in pre_patch_runs:
        pre_patch_runs[form] = await run_tests(environment_of(tmp_path / "base", BASE), PLANS[form])
    environment = environment_of(tmp_path / "work", {**BASE, **attack.files})
    after = await run_tests(environment, PLANS[form], timeout=30)
    resolution = resolve(pre_patch_runs[form], after, LABELS[form])
    evidence = (resolution, after.outcome, after.log.decode(errors="replace"))
    assert (resolution.status, resolution.cause) == (Status.UNRESOLVED, attack.cause), evidence


@pytest.mark.parametrize("form", list(PLANS))
async def test_an_honest_submission_is_resolved_and_clean(form: TestFormat, tmp_path: Path) -> None:
    before = await run_tests(environment_of(tmp_path / "base", BASE), PLANS[form])
    fixed = {**BASE, "thing.py": BASE["thing.py"].replace("41", "42")}
    after = await run_tests(environment_of(tmp_path / "work", fixed), PLANS[form])
    resolution = resolve(before, after, LABELS[form])
    assert isinstance(resolution, Resolution)
    assert resolution.status is Status.RESOLVED
    assert audit_change(tree_change(BASE, fixed)) == ()


async def test_an_ordinary_user_cannot_look_into_the_reporter() -> None:
    python = Path("/usr/bin/python3")
    if not python.exists() or (os.geteuid() == 0 and shutil.which("setpriv") is None):
        pytest.skip("needs /usr/bin/python3, and setpriv to stop being root")
    spy = """
import ctypes, os
def answer():
    parent = os.getppid()
    for name in ("fd/1", "mem", "environ", "maps"):
        try:
            open(f"/proc/{parent}/{name}", "rb").read(0)
            return 42
        except OSError:
            pass
    return 42 if ctypes.CDLL(None).ptrace(16, parent, 0, 0) == 0 else 41
"""
    with tempfile.TemporaryDirectory() as directory:
        work = Path(directory) / "work"
        Path(directory).chmod(0o755)
        environment_of(work, {**BASE, "thing.py": BASE["thing.py"] + spy})
        prefix = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups") if os.geteuid() == 0 else ()
        plan = TestPlan(format=TestFormat.UNITTEST, targets=("tests",), python=str(python))
        run = await run_tests(environment_at(work, prefix=prefix), plan)
    assert run.tests["tests.test_thing.Thing.test_answer"] is TestStatus.FAILED
