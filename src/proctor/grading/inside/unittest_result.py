"""What unittest tells its results to.

Hostile code can reach it, by its class or through a running test. So it knows nothing but what it heard about one
test, has a namespace of its own, and holds nothing that leads to the reporter.
"""

import sys
import traceback
import unittest

MYPY = False
if MYPY:
    from typing import Any

ERROR_HOLDER = vars(unittest.suite)["_ErrorHolder"]  # stands in for a test where a class or module cannot be set up


class Result(unittest.TestResult):
    """Collects what is said: of the test that is running, and of classes and modules.

    Attributes:
        heard: statuses of the running test, and of its parts.
        groups: statuses of what was set up or torn down around tests.
    """

    def __init__(self) -> "None":
        super().__init__()
        self._testRunEntered = True  # each test is run by itself, and all as one suite
        self.heard = []  # type: list[str]
        self.groups = []  # type: list[tuple[str, str]]

    def hear(self, test: "Any", status: "str", error: "Any" = None) -> "None":
        if isinstance(test, ERROR_HOLDER):
            self.groups.append((test.description, status))
        else:
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
