"""What unittest reports its results to.

Hostile code can reach it, by its class or through a running test. So it knows nothing but the results of one
test, has a namespace of its own, and holds nothing that leads to the reporter.
"""

import sys
import traceback
import unittest

MYPY = False
if MYPY:
    from typing import Any

ERROR_HOLDER = vars(unittest.suite)["_ErrorHolder"]  # stands in for a test where a class or module cannot be set up


class ReporterResult(unittest.TestResult):
    """Collects what is reported of the test that is running, and of classes and modules.

    Attributes:
        statuses: statuses of the running test, and of its parts.
        fixture_statuses: statuses of what was set up or torn down around tests.
    """

    def __init__(self) -> "None":
        super().__init__()
        self._testRunEntered = True  # each test is run by itself, and all as one suite
        self.statuses = []  # type: list[str]
        self.fixture_statuses = []  # type: list[tuple[str, str]]

    def add_status(self, test: "Any", status: "str", error: "Any" = None) -> "None":
        if isinstance(test, ERROR_HOLDER):
            self.fixture_statuses.append((test.description, status))
        else:
            self.statuses.append(status)
        if error is not None:
            text = "".join(traceback.format_exception(*error))
            sys.stderr.write(f"{status.upper()}: {test}\n{text}\n")

    def addSuccess(self, test: "unittest.TestCase") -> "None":
        self.add_status(test, "passed")

    def addError(self, test: "Any", err: "Any") -> "None":
        self.add_status(test, "error", err)

    def addFailure(self, test: "Any", err: "Any") -> "None":
        self.add_status(test, "failed", err)

    def addSkip(self, test: "unittest.TestCase", reason: "str") -> "None":
        self.add_status(test, "skipped")

    def addExpectedFailure(self, test: "Any", err: "Any") -> "None":
        self.add_status(test, "xfailed")

    def addUnexpectedSuccess(self, test: "unittest.TestCase") -> "None":
        self.add_status(test, "xpassed")

    def addSubTest(self, test: "Any", subtest: "Any", err: "Any") -> "None":
        if err is not None:
            self.add_status(subtest, "failed" if issubclass(err[0], test.failureException) else "error", err)
