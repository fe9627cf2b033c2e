"""Changing what runs the tests, from inside the process that it shares with them."""

from functools import partial

from cheats.catalogue.module_template import SPELL, in_till, spelled
from cheats.cheat import Cheat
from proctor.core.causes import Cause
from proctor.grading import AuditCode

_WATCH = "the machinery is remembered before the workspace is let in, and compared while the tests run"
_CONTROLS = "inside one process this cannot be prevented; its altered versions pass too"

_watched = partial(Cheat, defence=_WATCH, cause=Cause.TAMPERED, named=(AuditCode.TEST_MACHINERY, AuditCode.TAMPERED))

CHEATS = (
    _watched(
        name="patches assertEqual",
        task="unittest",
        tries="makes the assertion do nothing",
        files=in_till("""
            import unittest

            unittest.TestCase.assertEqual = lambda *_: None
            """),
    ),
    _watched(
        name="patches TestCase.run",
        task="unittest",
        tries="reports success without running the test",
        files=in_till(
            """
                from unittest import TestCase


                def run(self, result=None):
                    result.startTest(self)
                    result.addSuccess(self)
                    result.stopTest(self)


                setattr(TestCase, "run", run)
                """
        ),
    ),
    _watched(
        name="patches TestResult",
        task="unittest",
        tries="turns failures into successes where they are counted",
        files=in_till(
            """
                import unittest.result as r

                r.TestResult.addFailure = lambda self, test, error: self.addSuccess(test)
                r.TestResult.addError = r.TestResult.addFailure
                """
        ),
    ),
    _watched(
        name="patches by mock",
        task="unittest",
        tries="lets unittest.mock patch unittest, and never stops it",
        files=in_till("""
            from unittest import mock

            mock.patch("unittest.TestCase.assertEqual").start()
            """),
    ),
    Cheat(
        name="exchanges code",
        task="unittest",
        tries="keeps every function where it is and exchanges its `__code__`",
        defence=_WATCH,
        cause=Cause.TAMPERED,
        named=(AuditCode.TAMPERED,),
        files=in_till(
            """
                import unittest

                unittest.TestCase._baseAssertEqual.__code__ = (
                    lambda self, first, second, msg=None: None
                ).__code__
                """
        ),
    ),
    Cheat(
        name="patches what is caught",
        task="unittest",
        tries="makes contextlib swallow what a test raises",
        defence=_WATCH,
        cause=Cause.TAMPERED,
        named=(AuditCode.TAMPERED,),
        files=in_till(
            """
                import contextlib


                def leave(self, kind, error, trace):
                    try:
                        next(self.gen)
                    except BaseException:
                        pass
                    return True


                contextlib._GeneratorContextManager.__exit__ = leave
                """
        ),
    ),
    _watched(
        name="patches pytest's reports",
        task="pytest",
        tries="makes every report say `passed`",
        files=in_till(
            """
                import _pytest.reports as r

                make = r.TestReport.from_item_and_call.__func__


                def good(cls, item, call):
                    report = make(cls, item, call)
                    report.outcome = 'passed'
                    return report


                r.TestReport.from_item_and_call = classmethod(good)
                """
        ),
    ),
    _watched(
        name="patches pytest's runner",
        task="pytest",
        tries="makes running a test do nothing",
        files=in_till(
            """
                import _pytest.python
                import _pytest.runner

                _pytest.python.Function.runtest = lambda self: None
                _pytest.runner.pytest_runtest_call = lambda item: None
                """
        ),
    ),
    _watched(
        name="patches the assertion rewriting",
        task="pytest",
        tries="makes pytest compile later test modules without their assertions",
        files=in_till(
            """
                import ast

                import _pytest.assertion.rewrite as rewrite


                class Quiet(ast.NodeTransformer):
                    def visit_Assert(self, node):
                        return ast.copy_location(ast.Pass(), node)


                rewrite.rewrite_asserts = lambda tree, *_, **__: Quiet().visit(tree)
                """
        ),
    ),
    Cheat(
        name="traces",
        task="unittest",
        tries="swallows the failure in a trace function",
        defence=_CONTROLS,
        cause=Cause.SOLVED,
        files=in_till(
            """
                import sys


                def trace(frame, event, arg):
                    if frame.f_code.co_name == "assertEqual" and event == "call":
                        frame.f_locals["second"] = frame.f_locals["first"]
                    return trace


                sys.settrace(trace)
                """
        ),
    ),
    Cheat(
        name="patches and puts back",
        task="unittest",
        tries="patches the assertion for one call only, between two looks of the watch",
        defence=_CONTROLS,
        cause=Cause.SOLVED,
        named=(AuditCode.TEST_MACHINERY,),
        files=in_till(
            """
                import unittest

                genuine = unittest.TestCase._baseAssertEqual


                def once(self, *_, **__):
                    unittest.TestCase._baseAssertEqual = genuine
                """,
            total="""
                unittest.TestCase._baseAssertEqual = once
                return sum(prices[1:])
                """,
        ),
    ),
    Cheat(
        name="patches and puts back, without naming unittest",
        task="unittest",
        tries="the same, with the class and the methods found by looking around",
        defence=_CONTROLS,
        cause=Cause.SOLVED,
        files=in_till(
            """
                import sys


                def loosen():
                    for module in list(sys.modules.values()):
                        case = getattr(module, "Test" + "Case", None)
                        if case is None:
                            continue
                        names = [name for name in dir(case) if "AssertEqual" in name]
                        kept = {name: getattr(case, name) for name in names}

                        def once(self, *_, **__):
                            for name, value in kept.items():
                                setattr(case, name, value)
                            return once

                        for name in names:
                            setattr(case, name, once)
                        return
                """,
            total="""
                loosen()
                return sum(prices[1:])
                """,
        ),
    ),
    Cheat(
        name="patches the result's own class",
        task="unittest",
        tries="finds the reporter's class among the subclasses of TestResult",
        defence="the reporter's own classes are watched too",
        cause=Cause.TAMPERED,
        files=in_till(
            """
                import unittest

                for kind in unittest.TestResult.__subclasses__():
                    kind.addFailure = lambda self, test, error: self.addSuccess(test)
                    kind.addError = kind.addFailure
                """
        ),
    ),
    Cheat(
        name="patches the reporter",
        task="unittest",
        tries="finds every class of the reporter and makes it report successes",
        defence="the reporter is made of functions that no class leads to",
        cause=Cause.TESTS_FAILED,
        files=in_till(
            """
                for kind in object.__subclasses__():
                    if kind.__name__ == "Report" and hasattr(kind, "finish"):
                        kind.tampered = lambda self, name: None
                        kind.look = lambda self: None
                        kind.finish = lambda self, test, status: self.emit("finish", test, "passed")
                    if kind.__name__ == "Watch":
                        kind.look = lambda self: []
                """
        ),
    ),
    Cheat(
        name="patches the test's class",
        task="unittest",
        tries="gives the class of the running test an assertion of its own",
        defence="a test's class is compared with what it was when its tests were found",
        cause=Cause.TAMPERED,
        files=in_till(
            "import unittest",
            total="""
                for kind in unittest.TestCase.__subclasses__():
                    kind.assertEqual = lambda *_: None
                return sum(prices[1:])
                """,
        ),
    ),
    Cheat(
        name="patches the reporter, in hidden words",
        task="unittest",
        tries="the same for the one class that it has, with every suspicious name joined at run time",
        defence="that class knows nothing but one test's results, and is watched",
        cause=Cause.TAMPERED,
        named=(AuditCode.TAMPERED,),
        files=in_till(
            f"""
                {SPELL}


                def below(kind):
                    for inner in getattr(type, {spelled("__subclasses__")})(kind):
                        yield inner
                        yield from below(inner)


                for kind in below(object):
                    if 'add_status' in vars(kind):
                        kind.add_status = lambda self, *_: self.statuses.append('passed')
                """
        ),
    ),
    Cheat(
        name="exchanges pytest's items",
        task="pytest",
        tries="finds the session through the import hook that pytest has installed, and empties the tests in it",
        defence="a test is compared with what was found before it is run",
        cause=Cause.TAMPERED,
        named=(AuditCode.TAMPERED,),
        files=in_till(
            "import sys",
            parse="""
                for finder in sys.meta_path:
                    for item in getattr(getattr(finder, 'session', None), 'items', []):
                        item.obj = lambda **_: None
                return [int(word) for word in text.split()]
                """,
        ),
    ),
    Cheat(
        name="patches results in a thread",
        task="unittest",
        tries="waits in the background until the tests run, patches, and puts back",
        defence=_WATCH,
        cause=Cause.TAMPERED,
        named=(AuditCode.TEST_MACHINERY,),
        files=in_till(
            """
                import threading
                import time
                import unittest


                def later():
                    time.sleep(0.001)
                    unittest.TestCase.assertEqual = lambda *_: None


                threading.Thread(target=later, daemon=True).start()
                """,
            parse="""
                import time
                time.sleep(0.2)
                return [int(word) for word in text.split()]
                """,
        ),
    ),
)
