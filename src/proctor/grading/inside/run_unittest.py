"""Finds tests as unittest does, runs them with unittest, and reports each.

A test's id is ``module.Class.test``; a module's name is its path below the workspace. Test modules are loaded from
the very file that was asked for: a package of the same name beside it cannot stand in.
"""

import fnmatch
import importlib.util
import os
import sys
import traceback
import types
import unittest

MYPY = False
if MYPY:
    from typing import Any

FAMILIES = ("unittest", "contextlib", "importlib", "_frozen_importlib", "_frozen_importlib_external")
PATCHERS = ()
ERROR_HOLDER = vars(unittest.suite)["_ErrorHolder"]  # stands in for a test where a class or module cannot be set up
RANK = ("passed", "xfailed", "xpassed", "skipped", "failed", "error")


def test_id(test: "unittest.TestCase") -> "str":
    kind = type(test)
    name = getattr(test, "_testMethodName", None)
    if isinstance(test, unittest.FunctionTestCase) or not isinstance(name, str) or hasattr(test, "_dt_test"):
        return str(test.id())
    return kind.__module__ + "." + kind.__qualname__ + "." + name


def module_name(path: "str", work: "str") -> "tuple[str, str]":
    """A file's dotted name, and the directory that the name starts from."""
    parts = os.path.relpath(path[:-3], work).split(os.sep)
    names = []  # type: list[str]
    while parts and parts[-1].isidentifier():
        names.insert(0, parts.pop())
    if not names:
        names = [os.path.basename(path)[:-3]]
        parts = parts[:-1]
    return ".".join(names), os.path.join(work, *parts)


def load_package(name: "str", directory: "str") -> "None":
    """Make sure that ``name`` means this directory, with or without an ``__init__.py``."""
    known = sys.modules.get(name)
    if known is not None and directory in list(getattr(known, "__path__", [])):
        return
    init = os.path.join(directory, "__init__.py")
    if os.path.isfile(init):
        load_file(name, init, [directory])
        return
    package = types.ModuleType(name)
    package.__path__ = [directory]
    sys.modules[name] = package
    bind(name, package)


def load_file(name: "str", path: "str", locations: "list[str] | None" = None) -> "types.ModuleType":
    spec = importlib.util.spec_from_file_location(name, path, submodule_search_locations=locations)
    if spec is None or spec.loader is None:
        raise ImportError("cannot load " + path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    bind(name, module)
    return module


def bind(name: "str", module: "types.ModuleType") -> "None":
    parent, _, child = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], child, module)


def load_module(path: "str", work: "str") -> "types.ModuleType":
    name, top = module_name(path, work)
    if top not in sys.path:
        sys.path.insert(0, top)
    parts = name.split(".")
    for depth in range(1, len(parts)):
        load_package(".".join(parts[:depth]), os.path.join(top, *parts[:depth]))
    known = sys.modules.get(name)
    if known is not None and getattr(known, "__file__", None) == path:
        return known
    return load_file(name, path)


def find_files(target: "str", work: "str", pattern: "str") -> "tuple[list[str], str]":
    """The test files that a target names, and the rest of a dotted name: a class, or a class and a test."""
    path = os.path.normpath(os.path.join(work, target))
    if os.path.isfile(path):
        return [path], ""
    if os.path.isdir(path):
        return walk(path, pattern), ""
    parts = target.split(".")
    for depth in range(len(parts), 0, -1):
        stem = os.path.join(work, *parts[:depth])
        if os.path.isfile(stem + ".py"):
            return [stem + ".py"], ".".join(parts[depth:])
        if os.path.isdir(stem) and depth == len(parts):
            return walk(stem, pattern), ""
    return [], ""


def walk(directory: "str", pattern: "str") -> "list[str]":
    """Test files below a directory; as in unittest, only packages are descended into."""
    found = []
    for entry in sorted(os.listdir(directory)):
        path = os.path.join(directory, entry)
        if os.path.isfile(path) and fnmatch.fnmatch(entry, pattern) and entry[:-3].isidentifier():
            found.append(path)
        elif os.path.isfile(os.path.join(path, "__init__.py")) and entry.isidentifier():
            found += walk(path, pattern)
    return found


def flatten(suite: "unittest.TestSuite") -> "list[unittest.TestCase]":
    found = []
    for item in suite:
        if isinstance(item, unittest.TestSuite):
            found += flatten(item)
        else:
            found.append(item)
    return found


class Result(unittest.TestResult):
    """Hears unittest out and passes the worst that it says of a test on to the report."""

    def __init__(self, report: "Any") -> "None":
        super().__init__()
        self.report = report
        self.current = None  # type: unittest.TestCase | None
        self.heard = []  # type: list[str]
        self.started = set()  # type: set[int]
        self.groups = {}  # type: dict[str, str]
        self.failed = False

    def startTest(self, test: "unittest.TestCase") -> "None":
        self.open(test)
        super().startTest(test)

    def stopTest(self, test: "unittest.TestCase") -> "None":
        super().stopTest(test)
        self.open(test)
        self.close()

    def open(self, test: "unittest.TestCase") -> "None":
        """Python 3.12.1 starts no skipped test and some stop none, so a test opens with whatever comes first."""
        if self.current is test:
            return
        self.close()
        self.current = test
        self.heard = []
        self.started.add(id(test))
        self.report.start(test_id(test))

    def close(self) -> "None":
        if self.current is not None:
            test, self.current = self.current, None
            self.settle(test, max(self.heard, key=RANK.index) if self.heard else "error")

    def settle(self, test: "unittest.TestCase", status: "str") -> "None":
        self.failed = self.failed or status in {"failed", "error", "xpassed"}
        self.report.finish(test_id(test), status)

    def hear(self, test: "unittest.TestCase", status: "str", error: "Any" = None) -> "None":
        if isinstance(test, ERROR_HOLDER):
            self.groups[test.description] = status
            if status != "skipped":
                self.report.broken(test.description, "could not be set up or torn down")
        else:
            self.open(getattr(test, "test_case", test))
            self.heard.append(status)
        if error is not None:
            text = "".join(traceback.format_exception(*error))
            sys.stderr.write(f"{status.upper()}: {test}\n{text}\n")

    def addSuccess(self, test: "unittest.TestCase") -> "None":
        self.hear(test, "passed")

    def addError(self, test: "Any", err: "Any") -> "None":
        self.hear(test, "error", err)

    def addFailure(self, test: "Any", err: "Any") -> "None":
        self.hear(test, "failed", err)

    def addSkip(self, test: "unittest.TestCase", reason: "str") -> "None":
        self.hear(test, "skipped")

    def addExpectedFailure(self, test: "Any", err: "Any") -> "None":
        self.hear(test, "xfailed")

    def addUnexpectedSuccess(self, test: "unittest.TestCase") -> "None":
        self.hear(test, "xpassed")

    def addSubTest(self, test: "Any", subtest: "Any", err: "Any") -> "None":
        if err is not None:
            self.hear(subtest, "failed" if issubclass(err[0], test.failureException) else "error", err)

    def settle_unstarted(self, tests: "list[unittest.TestCase]") -> "None":
        """Tests that never started because their class or module could not be set up share its fate."""
        for test in tests:
            if id(test) in self.started:
                continue
            kind = type(test)
            fates = [
                self.groups.get("setUpModule (" + kind.__module__ + ")"),
                self.groups.get("setUpClass (" + kind.__module__ + "." + kind.__qualname__ + ")"),
            ]
            status = next((fate for fate in fates if fate), None)
            if status:
                self.report.start(test_id(test))
                self.settle(test, status)


def load(report: "Any", job: "dict[str, Any]") -> "list[unittest.TestCase]":
    work, pattern = job["workdir"], job["pattern"]
    loader = unittest.TestLoader()
    tests = []
    for target in job["targets"] or ["."]:
        paths, rest = find_files(target, work, pattern)
        if not paths:
            report.broken(target, "no such test file")
        for path in paths:
            try:
                module = load_module(path, work)
                suite = loader.loadTestsFromName(rest, module) if rest else loader.loadTestsFromModule(module)
            except unittest.SkipTest:
                continue
            except BaseException as error:  # SystemExit at import is a broken module too
                text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
                sys.stderr.write(text)
                report.broken(module_name(path, work)[0], text)
                continue
            for test in flatten(suite):
                if type(test).__name__ in {"_FailedTest", "ModuleSkipped"}:
                    report.broken(str(test.id()), "could not be loaded")
                else:
                    tests.append(test)
    return tests


def run(report: "Any", job: "dict[str, Any]") -> "int":
    sys.argv[:] = [os.path.join(os.path.dirname(unittest.__file__), "__main__.py")]
    report.begin()
    report.watch.learn()
    tests = load(report, job)
    for test in tests:
        report.collect(test_id(test), type(test), getattr(test, "_testMethodName", ""))
    report.collected()
    result = Result(report)
    unittest.TestSuite(tests).run(result)
    result.close()
    result.settle_unstarted(tests)
    return 1 if result.failed or report.has_broken or not tests else 0
