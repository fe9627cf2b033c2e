"""Runs a program of the workspace that runs its tests with unittest, as Django's does, and reports each test.

The program finds the tests and sets them up; where it would hand them to unittest's own runner, they are run and
reported here. A test's id is what unittest prints of it: the first line of its documentation, or ``test (class)``.
"""

import builtins
import contextlib
import os
import sys
import types
import unittest

MYPY = False
if MYPY:
    from typing import Any

WATCHED_PACKAGES = ("unittest", "contextlib")
PATCHING_MODULES = ()


def printed_id(test: "Any") -> "str":
    return str(test.shortDescription() or test)


def make_run(report: "Any", parts: "dict[str, Any]", kind: "Any", ended: "list[bool]") -> "Any":
    """What takes the place of `TextTestRunner.run`; only the first call reports, and a second one ends the run."""
    flatten, run_tests, name_of = parts["flatten"], parts["run_tests"], printed_id

    def run(_: "Any", suite: "Any") -> "Any":
        if ended:
            report.stop("the test program ran its tests twice")
        tests = []
        for test in flatten(suite):
            if type(test).__name__ in {"_FailedTest", "ModuleSkipped"}:
                report.broken(str(test.id()), "could not be loaded")
            else:
                tests.append(test)
        for test in tests:
            report.collect(name_of(test), type(test), getattr(test, "_testMethodName", ""))
        report.collected()
        result = kind()
        ended.append(run_tests(report, tests, result, name_of) and bool(tests))
        return result

    return run


def run(report: "Any", job: "dict[str, Any]", open_workspace: "Any") -> "int":
    work = job["workdir"]
    program = os.path.normpath(os.path.join(work, job["targets"][0]))
    with open(program, "rb") as file:
        code = compile(file.read(), program, "exec", dont_inherit=True)
    kind = job["exec_part"](job["result"])["ReporterResult"]
    report.watch_class(kind, "the reporter's result")
    parts = job["exec_part"](job["unittest"])
    runner = unittest.TextTestRunner  # type: Any
    ended = []  # type: list[bool]
    runner.run = job["without_globals"](make_run(report, parts, kind, ended))
    report.add_loaded_modules()
    report.begin(open_workspace)
    sys.argv[:] = [program] + job["targets"][1:]
    sys.path.insert(0, os.path.dirname(program))
    main = types.ModuleType("__main__")
    vars(main).update({"__file__": program, "__builtins__": builtins})
    sys.modules["__main__"] = main
    with contextlib.suppress(SystemExit):
        exec(code, vars(main))
    if not ended:
        report.stop("the test program ran no tests")
    return 0 if ended == [True] and not report.is_broken() else 1
