"""Finds tests as unittest does, runs them with unittest, and reports each.

A test's id is ``module.Class.test``; a module's name is its path below the workspace. Test modules are made from the
very files that were asked for, as they were before anything of the workspace ran: neither a package of the same name
nor a changed loader can stand in.
"""

import builtins
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

WATCHED_PACKAGES = ("unittest", "contextlib")
PATCHING_MODULES = ()
FUNCTION = type(lambda: None)
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


def read_codes(paths: "list[str]", work: "str") -> "dict[str, types.CodeType]":
    """The code of test files and of the packages around them; what does not compile is left to be complained of."""
    codes = {}  # type: dict[str, types.CodeType]
    for path in paths:
        name, top = module_name(path, work)
        parts = name.split(".")
        above = [os.path.join(top, *parts[:depth], "__init__.py") for depth in range(1, len(parts))]
        for file in [path] + above:
            if file not in codes and os.path.isfile(file):
                try:
                    with open(file, "rb") as source:
                        codes[file] = compile(source.read(), file, "exec", dont_inherit=True)
                except (SyntaxError, ValueError, OSError):
                    continue
    return codes


def load_package(name: "str", directory: "str", codes: "dict[str, types.CodeType]") -> "None":
    """Make sure that ``name`` means this directory, with or without an ``__init__.py``."""
    known = sys.modules.get(name)
    if known is not None and directory in list(getattr(known, "__path__", [])):
        return
    init = os.path.join(directory, "__init__.py")
    if os.path.isfile(init):
        load_file(name, init, codes, [directory])
        return
    package = types.ModuleType(name)
    package.__path__ = [directory]
    sys.modules[name] = package
    bind_to_parent(name, package)


def load_file(
    name: "str", path: "str", codes: "dict[str, types.CodeType]", locations: "list[str] | None" = None
) -> "types.ModuleType":
    spec = importlib.util.spec_from_file_location(name, path, submodule_search_locations=locations)
    if spec is None or spec.loader is None:
        raise ImportError("cannot load " + path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        if path in codes:
            vars(module)["__builtins__"] = vars(builtins)  # not ours, which `exec` would give it
            exec(codes[path], vars(module))
        else:
            spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    bind_to_parent(name, module)
    return module


def bind_to_parent(name: "str", module: "types.ModuleType") -> "None":
    parent, _, child = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], child, module)


def load_module(path: "str", work: "str", codes: "dict[str, types.CodeType]") -> "types.ModuleType":
    name, top = module_name(path, work)
    if top not in sys.path:
        sys.path.insert(0, top)
    parts = name.split(".")
    for depth in range(1, len(parts)):
        load_package(".".join(parts[:depth]), os.path.join(top, *parts[:depth]), codes)
    known = sys.modules.get(name)
    if known is not None and getattr(known, "__file__", None) == path:
        return known
    return load_file(name, path, codes)


def find_files(target: "str", work: "str", pattern: "str") -> "tuple[list[str], str]":
    """The test files that a target names, and the rest of a dotted name: a class, or a class and a test."""
    path = os.path.normpath(os.path.join(work, target))
    if os.path.isfile(path):
        return [path], ""
    if os.path.isdir(path):
        return find_test_files(path, pattern), ""
    parts = target.split(".")
    for depth in range(len(parts), 0, -1):
        stem = os.path.join(work, *parts[:depth])
        if os.path.isfile(stem + ".py"):
            return [stem + ".py"], ".".join(parts[depth:])
        if os.path.isdir(stem) and depth == len(parts):
            return find_test_files(stem, pattern), ""
    return [], ""


def find_test_files(directory: "str", pattern: "str") -> "list[str]":
    """Test files below a directory; as in unittest, only packages are descended into."""
    found = []
    for entry in sorted(os.listdir(directory)):
        path = os.path.join(directory, entry)
        if os.path.isfile(path) and fnmatch.fnmatch(entry, pattern) and entry[:-3].isidentifier():
            found.append(path)
        elif os.path.isfile(os.path.join(path, "__init__.py")) and entry.isidentifier():
            found += find_test_files(path, pattern)
    return found


def flatten(suite: "unittest.TestSuite") -> "list[unittest.TestCase]":
    found = []
    for item in suite:
        if isinstance(item, unittest.TestSuite):
            found += flatten(item)
        else:
            found.append(item)
    return found


def load(
    report: "Any", wanted: "list[tuple[str, list[str], str]]", work: "str", codes: "dict[str, types.CodeType]"
) -> "list[unittest.TestCase]":
    """The tests of every target: its files, and the part of them that is meant."""
    loader = unittest.TestLoader()
    tests = []
    for target, paths, rest in wanted:
        if not paths:
            report.broken(target, "no such test file")
        for path in paths:
            try:
                module = load_module(path, work, codes)
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


def overrides(test: "unittest.TestCase", own: "frozenset[str]") -> "dict[str, Any]":
    """What a test has in place of methods of TestCase, in itself and in its classes."""
    found = {}  # type: dict[str, Any]
    for holder in [test] + list(type(test).__mro__):  # type: list[Any]
        if holder is unittest.TestCase:
            break
        found.update((f"{type(test).__qualname__}.{name}", vars(holder)[name]) for name in own & set(vars(holder)))
    return found


def run_tests(report: "Any", tests: "list[unittest.TestCase]", result: "Any", name_of: "Any" = test_id) -> "bool":
    """Run each test by itself; unittest sets classes and modules up when the first of their tests comes."""
    own = frozenset(name for name, value in vars(unittest.TestCase).items() if isinstance(value, FUNCTION))
    known = {kind: overrides(test, own) for kind, test in [(type(test), test) for test in tests]}
    fixture_statuses = {}  # type: dict[str, str]
    all_good = True
    for test in tests:
        name, kind = name_of(test), type(test)
        statuses = []  # type: list[str]
        result.statuses = statuses
        report.start(name)
        unittest.TestSuite([test]).run(result)
        report_fixture_failures(report, result, fixture_statuses)
        now = overrides(test, own)
        for place in now:
            if now[place] is not known[kind].get(place):
                report.tampered(place)
        around = [
            "setUpModule (" + kind.__module__ + ")",
            "setUpClass (" + kind.__module__ + "." + kind.__qualname__ + ")",
        ]
        statuses = statuses or [fixture_statuses[place] for place in around if place in fixture_statuses]
        status = max(statuses, key=RANK.index) if statuses else "error"
        all_good = all_good and status not in {"failed", "error", "xpassed"}
        report.finish(name, status)
    last = unittest.TestSuite()  # type: Any
    last._tearDownPreviousClass(None, result)
    last._handleModuleTearDown(result)
    report_fixture_failures(report, result, fixture_statuses)
    return all_good


def report_fixture_failures(report: "Any", result: "Any", fixture_statuses: "dict[str, str]") -> "None":
    """What became of classes and modules: their tests, which never start, share it."""
    while result.fixture_statuses:
        place, status = result.fixture_statuses.pop(0)
        fixture_statuses[place] = status
        if status != "skipped":
            report.broken(place, "could not be set up or torn down")


def run(report: "Any", job: "dict[str, Any]", open_workspace: "Any") -> "int":
    sys.argv[:] = [os.path.join(os.path.dirname(unittest.__file__), "__main__.py")]
    work = job["workdir"]
    wanted = [(target,) + find_files(target, work, job["pattern"]) for target in job["targets"] or ["."]]
    codes = read_codes([path for _, paths, _ in wanted for path in paths], work)
    kind = job["exec_part"](job["result"])["ReporterResult"]
    report.watch_class(kind, "the reporter's result")
    report.add_loaded_modules()
    report.begin(open_workspace)
    tests = load(report, wanted, work, codes)
    for test in tests:
        report.collect(test_id(test), type(test), getattr(test, "_testMethodName", ""))
    report.collected()
    all_good = run_tests(report, tests, kind())
    return 0 if all_good and tests and not report.is_broken() else 1
