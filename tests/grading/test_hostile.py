"""Submissions that want to pass without solving the task. Each is run for real, and none may end both resolved and
clean: either the grader sees through it, or, where that cannot be from inside one process, the audit names it.
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
    AuditCode,
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
    """What is submitted, and what becomes of it: the cause of its failure, or None when only the audit can find it."""

    files: Mapping[str, str | bytes]
    cause: Cause | None
    codes: frozenset[AuditCode] = frozenset()
    forms: tuple[TestFormat, ...] = (TestFormat.UNITTEST, TestFormat.PYTEST)


def code(source: str, cause: Cause | None, *codes: AuditCode, forms: tuple[TestFormat, ...] | None = None) -> Attack:
    """An attack by the module under test, which still gives the wrong result by default."""
    body = f"def about():\n    return 'a thing'\ndef answer():\n    return 41\n{source}"
    return Attack({"thing.py": body}, cause, frozenset(codes), forms or tuple(PLANS))


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
    "exits 0 at import": code("import os\nos._exit(0)", Cause.TESTS_VANISHED, AuditCode.EARLY_EXIT),
    "exits 0 when called": code(
        "import os\ndef answer():\n    os._exit(0)", Cause.TESTS_VANISHED, AuditCode.EARLY_EXIT
    ),
    "raises SystemExit at import under unittest": code("import sys\nsys.exit(0)", Cause.TESTS_FAILED, forms=U),
    "raises SystemExit at import under pytest": code("import sys\nsys.exit(0)", Cause.TESTS_VANISHED, forms=P),
    "raises KeyboardInterrupt": code("def answer():\n    raise KeyboardInterrupt", Cause.TESTS_VANISHED),
    "kills its process": code("import os\nos.kill(os.getpid(), 9)", Cause.TESTS_VANISHED, AuditCode.EARLY_EXIT),
    "kills the reporter": code(
        "import os\nos.kill(os.getppid(), 9)", Cause.TESTS_VANISHED, AuditCode.EARLY_EXIT, AuditCode.PROCESS_INSPECTION
    ),
    "leaves at exit": code("import atexit, os\natexit.register(os._exit, 0)", Cause.TESTS_FAILED, AuditCode.EXIT_HOOK),
    # skipping
    "skips from the tested code": code(
        "import unittest\ndef answer():\n    raise unittest.SkipTest('n/a')", Cause.TESTS_FAILED, AuditCode.TEST_SKIPPED
    ),
    "expects its failure": code(
        "import pytest\ndef answer():\n    pytest.xfail('n/a')", Cause.TESTS_FAILED, AuditCode.TEST_SKIPPED, forms=P
    ),
    # the machinery
    "patches assertEqual": code(
        "import unittest\nunittest.TestCase.assertEqual = lambda *a: None", Cause.TAMPERED, AuditCode.TEST_MACHINERY
    ),
    "exchanges the code of assertEqual": code(
        "import unittest\n"
        "unittest.TestCase.assertEqual.__code__ = (lambda self, first, second, msg=None: None).__code__",
        Cause.TAMPERED,
        AuditCode.CODE_PATCHED,
    ),
    "patches TestCase.run": code(
        """
from unittest import TestCase as Case
def run(self, result=None):
    result.startTest(self); result.addSuccess(self); result.stopTest(self)
setattr(Case, "run", run)
""",
        Cause.TAMPERED,
        AuditCode.TEST_MACHINERY,
        forms=U,
    ),
    "patches TestResult": code(
        "import unittest.result as r\nr.TestResult.addFailure = r.TestResult.addSuccess",
        Cause.TAMPERED,
        AuditCode.TEST_MACHINERY,
    ),
    "adds a method to TestCase": code(
        """
import unittest
def find(self, name):
    return (lambda *a: None) if name == "assertEqual" else object.__getattribute__(self, name)
unittest.TestCase.__getattribute__ = find
""",
        Cause.TAMPERED,
        AuditCode.TEST_MACHINERY,
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
        AuditCode.MODULE_TABLE,
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
        AuditCode.TEST_MACHINERY,
    ),
    "patches pytest's runner": code(
        "import _pytest.python\n_pytest.python.Function.runtest = lambda self: None\n"
        "import _pytest.unittest\n_pytest.unittest.TestCaseFunction.runtest = lambda self: None",
        Cause.TAMPERED,
        AuditCode.TEST_MACHINERY,
        forms=P,
    ),
    "patches pytest's reports": code(
        "import _pytest.reports as r\nmake = r.TestReport.from_item_and_call.__func__\n"
        "def good(cls, item, call):\n    report = make(cls, item, call); report.outcome = 'passed'; return report\n"
        "r.TestReport.from_item_and_call = classmethod(good)",
        Cause.TAMPERED,
        AuditCode.TEST_MACHINERY,
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
        AuditCode.BUILTINS_PATCHED,
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
        AuditCode.IMPORT_HOOK,
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
        AuditCode.CODE_PATCHED,
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
        AuditCode.STACK_INSPECTION,
    ),
    "traces": code(
        """
import sys
def trace(frame, event, arg):
    if frame.f_code.co_name == "test_answer":
        def skip(frame, event, arg):
            if event == "line":
                try: frame.f_lineno = frame.f_code.co_firstlineno + 1
                except ValueError: pass
            return skip
        return skip
    return trace
sys.settrace(trace)
""",
        Cause.TAMPERED,
        AuditCode.TRACE_HOOK,
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
        AuditCode.PROCESS_INSPECTION,
    ),
    "forks a copy that continues": code(
        "import os\ndef answer():\n    return 42 if os.fork() == 0 else 41",
        Cause.TESTS_FAILED,
        AuditCode.BACKGROUND_PROCESS,
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
        AuditCode.BUILTINS_PATCHED,
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
        frozenset({AuditCode.BINARY}),
    ),
    "adds sitecustomize and usercustomize": Attack(
        dict.fromkeys(
            ("sitecustomize.py", "usercustomize.py", "tests/sitecustomize.py"),
            "import unittest\nunittest.TestCase.assertEqual = lambda *a: None\n",
        ),
        Cause.TESTS_FAILED,
        frozenset({AuditCode.STARTUP_HOOK, AuditCode.TEST_MACHINERY}),
    ),
    "hides unittest": Attack(
        {
            "unittest/__init__.py": "class TestCase: pass\n",
            "unittest.py": "",
            "pytest.py": "",
            "_pytest/__init__.py": "",
        },
        Cause.TESTS_FAILED,
        frozenset({AuditCode.SHADOWED_MODULE}),
    ),
    "hides what the machinery imports": Attack(
        {
            "traceback.py": "MINE = True\ndef format_exception(*a): raise SystemExit(0)\n",
            "json.py": "",
            "enum.py": "",
            "thing.py": "import traceback\nassert traceback.MINE\n" + BASE["thing.py"],
        },
        Cause.TESTS_FAILED,
        frozenset({AuditCode.SHADOWED_MODULE}),
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
        frozenset({AuditCode.TEST_CONFIG, AuditCode.TEST_MACHINERY}),
        P,
    ),
    "adds a conftest that nobody restored": Attack(
        {"conftest.py": REWRITES_REPORTS},
        Cause.TAMPERED,
        frozenset({AuditCode.CONFTEST, AuditCode.TEST_MACHINERY}),
        P,
    ),
    "deselects in a conftest": Attack(
        {"conftest.py": "def pytest_collection_modifyitems(items):\n    items[:] = []\n"},
        Cause.TESTS_VANISHED,
        frozenset({AuditCode.CONFTEST, AuditCode.TEST_MACHINERY}),
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
        AuditCode.STACK_INSPECTION,
        AuditCode.TEST_MACHINERY,
        forms=P,
    ),
    # what cannot be seen from inside one process, and is named
    "equals everything": code(
        """
class Everything:
    def __eq__(self, other):
        return True
def answer():
    return Everything()
""",
        None,
        AuditCode.ALWAYS_EQUAL,
    ),
    "overwrites what the tests compare with": Attack(
        {
            "tests/test_thing.py": BASE["tests/test_thing.py"].replace("42", 'int(open("tests/expected.txt").read())'),
            "tests/expected.txt": "42",
            "thing.py": BASE["thing.py"] + "open('tests/expected.txt', 'w').write('41')\n",
        },
        None,
        frozenset({AuditCode.TEST_FILES}),
    ),
    "patches what the tests compute with": Attack(
        {
            "tests/test_thing.py": BASE["tests/test_thing.py"].replace("42", '__import__("math").isqrt(1764)'),
            "thing.py": BASE["thing.py"] + "import math\nmath.isqrt = lambda n: 41\n",
        },
        None,
        frozenset({AuditCode.LIBRARY_PATCHED}),
    ),
    "searches memory for the reporter": code(
        """
import gc
def answer():
    for item in gc.get_objects():
        if type(item) is type(answer) and item.__qualname__ == "make_reporter.<locals>.finish":
            cell = dict(zip(item.__code__.co_freevars, item.__closure__))["emit"]
            emit = cell.cell_contents
            cell.cell_contents = lambda kind, *rest: emit(kind, *rest[:1], *["passed" for _ in rest[1:]])
            break
    return 41
""",
        None,
        AuditCode.OBJECT_SCAN,
    ),
    "changes the result from a caller's frame": code(
        """
import sys
def answer():
    frame = sys._getframe()
    while frame:
        result = frame.f_locals.get("result")
        if hasattr(result, "addFailure"):
            result.addFailure = lambda test, error, result=result: result.addSuccess(test)
        frame = frame.f_back
    return 41
""",
        None,
        AuditCode.STACK_INSPECTION,
        forms=U,
    ),
    "patches and restores": code(
        """
import unittest
original = unittest.TestCase._baseAssertEqual
def once(self, *a, **k):
    unittest.TestCase._baseAssertEqual = original
def answer():
    unittest.TestCase._baseAssertEqual = once
    return 41
""",
        None,
        AuditCode.TEST_MACHINERY,
        forms=U,
    ),
}


@pytest.fixture(scope="module")
def pre_patch_runs() -> dict[TestFormat, TestRun]:
    return {}


CASES = [(name, form) for name, attack in ATTACKS.items() for form in attack.forms]


@pytest.mark.parametrize(("name", "form"), CASES, ids=[f"{name} ({form.value})" for name, form in CASES])
async def test_no_submission_is_both_resolved_and_clean(
    name: str, form: TestFormat, pre_patch_runs: dict[TestFormat, TestRun], tmp_path: Path
) -> None:
    attack = ATTACKS[name]
    if form not in pre_patch_runs:
        pre_patch_runs[form] = await run_tests(environment_of(tmp_path / "base", BASE), PLANS[form])
    environment = environment_of(tmp_path / "work", {**BASE, **attack.files})
    after = await run_tests(environment, PLANS[form], timeout=30)
    resolution = resolve(pre_patch_runs[form], after, LABELS[form])
    codes = {finding.code for finding in audit_change(tree_change(BASE, {**BASE, **attack.files}))}
    evidence = (resolution, after.outcome, after.log.decode(errors="replace"))
    if attack.cause is None:
        assert resolution.status is Status.RESOLVED, evidence
        assert attack.codes, "a cheat that works must be named"
    else:
        assert (resolution.status, resolution.cause) == (Status.UNRESOLVED, attack.cause), evidence
    assert codes >= attack.codes, codes


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
