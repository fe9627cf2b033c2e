"""Runs the functions of test files whose names begin with ``test_``, as SymPy's own test program does.

A test's id is its name. What the functions raise says how they ended; a library that brings exceptions of its own for
tests that are skipped or fail as expected calls them as SymPy does.
"""

import inspect
import os
import sys
import traceback

MYPY = False
if MYPY:
    from collections.abc import Iterator
    from typing import Any

WATCHED_PACKAGES = ("unittest", "contextlib")
PATCHING_MODULES = ()
FUNCTION = type(lambda: None)
STATUSES = {"Skipped": "skipped", "XFail": "xfailed", "XPass": "xpassed"}


def find_tests(module: "Any", path: "str") -> "list[Any]":
    """The module's own test functions in their order; wrapped ones stand where what they wrap does."""
    found = []
    for name, value in vars(module).items():
        if name.startswith("test_") and isinstance(value, FUNCTION):
            code = inspect.unwrap(value).__code__
            if path in (code.co_filename, value.__code__.co_filename) or hasattr(value, "__wrapped__"):
                found.append((code.co_firstlineno, name, value))
    return [(name, value) for _, name, value in sorted(found, key=lambda one: one[:2])]


def call_all(function: "Any") -> "Iterator[Any]":
    """The calls that a test consists of: itself, or what it yields, each with its arguments."""
    if not inspect.isgeneratorfunction(function):
        yield function, ()
        return
    for made in function():
        yield (made[0], tuple(made[1:])) if isinstance(made, tuple) else (made, ())


def run_test(name: "str", function: "Any") -> "str":
    try:
        for call, arguments in call_all(function):
            call(*arguments)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        status = STATUSES.get(type(error).__name__)
        if status is None:
            status = "failed" if isinstance(error, AssertionError) else "error"
            text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
            sys.stderr.write(status.upper() + ": " + name + "\n" + text + "\n")
        return status
    return "passed"


def run(report: "Any", job: "dict[str, Any]", open_workspace: "Any") -> "int":
    work = job["workdir"]
    parts = job["exec_part"](job["unittest"])
    paths = [os.path.normpath(os.path.join(work, target)) for target in job["targets"]]
    codes = parts["read_codes"]([path for path in paths if os.path.isfile(path)], work)
    report.add_loaded_modules()
    report.begin(open_workspace)
    sys.argv[:] = ["test"] + job["targets"]
    tests = []
    for path in paths:
        try:
            module = parts["load_module"](path, work, codes)
        except BaseException as error:
            text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
            sys.stderr.write(text)
            report.broken(os.path.relpath(path, work), text)
            continue
        tests += [(name, function, module) for name, function in find_tests(module, path)]
    for name, _, module in tests:
        report.collect(name, module, name)
    report.collected()
    all_good = True
    for name, function, _ in tests:
        report.start(name)
        status = run_test(name, function)
        all_good = all_good and status not in {"failed", "error", "xpassed"}
        report.finish(name, status)
    return 0 if all_good and tests and not report.is_broken() else 1
