"""Reads JUnit XML: the format that most test runners can write and none defines.

A test's id is ``classname::name``; without a class name, the name of the suite around it stands in. Documents with
a DTD are refused unread, so there are no entities to expand.
"""

from typing import Final
from xml.parsers import expat

from proctor.core.verdict import TestStatus
from proctor.grading.outcome import InconclusiveKind, InconclusiveRun, TestResults, record_status

MAX_BYTES: Final = 64_000_000
MAX_DEPTH: Final = 200
_FAILURE_STATUSES: Final = {"failure": TestStatus.FAILED, "error": TestStatus.ERROR}


class _InvalidJunit(Exception):
    """A document that is not read further."""


class _JunitSuite:
    def __init__(self, attributes: dict[str, str]) -> None:
        self.name = attributes.get("name", "")
        self.tests = _number(attributes.get("tests"))
        self.failing = _number(attributes.get("failures")) + _number(attributes.get("errors"))
        self.counted = 0
        self.counted_failing = 0


class _JunitReader:
    def __init__(self) -> None:
        self.tests: dict[str, TestStatus] = {}
        self.broken: dict[str, str] = {}
        self.suites: list[_JunitSuite] = []
        self.depth = 0
        self.case: str | None = None
        self.statuses: list[TestStatus] = []

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise _InvalidJunit(f"elements are nested more than {MAX_DEPTH} deep")
        if self.depth == 1 and tag not in {"testsuites", "testsuite"}:
            raise _InvalidJunit(f"the root element is <{tag}>, not <testsuites>")
        if tag == "testsuite":
            self.suites.append(_JunitSuite(attributes))
        elif tag == "testcase":
            self.case = self._id(attributes)
            self.statuses = [TestStatus.SKIPPED] if attributes.get("status") in {"notrun", "skipped"} else []
        elif self.case is not None and tag in _FAILURE_STATUSES:
            self.statuses.append(_FAILURE_STATUSES[tag])
        elif self.case is not None and tag == "skipped":
            is_xfail = attributes.get("type") == "pytest.xfail"
            self.statuses.append(TestStatus.XFAILED if is_xfail else TestStatus.SKIPPED)
        elif tag in _FAILURE_STATUSES and self.suites:
            self.broken[self.suites[-1].name] = attributes.get("message", "")

    def end(self, tag: str) -> None:
        self.depth -= 1
        if tag == "testcase" and self.case is not None:
            for status in self.statuses or [TestStatus.PASSED]:
                record_status(self.tests, self.case, status)
            is_failing = any(status in _FAILURE_STATUSES.values() for status in self.statuses)
            for suite in self.suites:
                suite.counted += 1
                suite.counted_failing += is_failing
            self.case = None
        elif tag == "testsuite" and self.suites:
            suite = self.suites.pop()
            if suite.failing and not suite.counted_failing:
                self.broken[suite.name] = f"reports {suite.failing} failed tests, and holds none"
            elif suite.tests > suite.counted:
                self.broken[suite.name] = f"reports {suite.tests} tests, and holds {suite.counted}"

    def _id(self, attributes: dict[str, str]) -> str:
        place = attributes.get("classname") or (self.suites[-1].name if self.suites else "")
        name = attributes.get("name", "")
        return f"{place}::{name}" if place else name


def _number(text: str | None) -> int:
    return int(text) if text and text.isascii() and text.isdecimal() and len(text) < 10 else 0  # noqa: PLR2004 - digits that int reads at once


def parse_junit(data: bytes) -> TestResults | InconclusiveRun:
    """Results from one JUnit XML document."""
    if len(data) > MAX_BYTES:
        return _malformed(f"the report has {len(data)} bytes, more than {MAX_BYTES}")
    reader = _JunitReader()
    parser = expat.ParserCreate()
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.StartDoctypeDeclHandler = _refuse_dtd
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        return _malformed(f"the report is not XML: {error}")
    except _InvalidJunit as error:
        return _malformed(f"the report is not JUnit XML: {error}")
    except (LookupError, ValueError) as error:  # an encoding that Python does not know, or only half knows
        return _malformed(f"the report cannot be decoded: {error}")
    return TestResults(tests=reader.tests, broken=reader.broken)


def _refuse_dtd(*_: object) -> None:
    raise _InvalidJunit("it has a DTD")


def _malformed(reason: str) -> InconclusiveRun:
    return InconclusiveRun(kind=InconclusiveKind.MALFORMED, reason=reason)
