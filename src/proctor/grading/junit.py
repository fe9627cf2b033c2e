"""Reads JUnit XML: the format that most test runners can write and none defines.

A test's id is ``classname::name``; without a class name, the name of the suite around it stands in. Documents with
a DTD are refused unread, so there are no entities to expand.
"""

from typing import Final
from xml.parsers import expat

from proctor.core.verdict import TestStatus
from proctor.grading.outcome import Results, Trouble, Unreadable, note

LARGEST: Final = 64_000_000
DEEPEST: Final = 200
_ENDINGS: Final = {"failure": TestStatus.FAILED, "error": TestStatus.ERROR}


class _Refused(Exception):
    """A document that is not read further."""


class _Suite:
    def __init__(self, attributes: dict[str, str]) -> None:
        self.name = attributes.get("name", "")
        self.tests = _number(attributes.get("tests"))
        self.failing = _number(attributes.get("failures")) + _number(attributes.get("errors"))
        self.seen = 0
        self.seen_failing = 0


class _Reader:
    def __init__(self) -> None:
        self.tests: dict[str, TestStatus] = {}
        self.broken: dict[str, str] = {}
        self.suites: list[_Suite] = []
        self.depth = 0
        self.case: str | None = None
        self.statuses: list[TestStatus] = []

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self.depth += 1
        if self.depth > DEEPEST:
            raise _Refused(f"elements are nested more than {DEEPEST} deep")
        if self.depth == 1 and tag not in {"testsuites", "testsuite"}:
            raise _Refused(f"the root element is <{tag}>, not <testsuites>")
        if tag == "testsuite":
            self.suites.append(_Suite(attributes))
        elif tag == "testcase":
            self.case = self._id(attributes)
            self.statuses = [TestStatus.SKIPPED] if attributes.get("status") in {"notrun", "skipped"} else []
        elif self.case is not None and tag in _ENDINGS:
            self.statuses.append(_ENDINGS[tag])
        elif self.case is not None and tag == "skipped":
            is_xfail = attributes.get("type") == "pytest.xfail"
            self.statuses.append(TestStatus.XFAILED if is_xfail else TestStatus.SKIPPED)
        elif tag in _ENDINGS and self.suites:
            self.broken[self.suites[-1].name] = attributes.get("message", "")

    def end(self, tag: str) -> None:
        self.depth -= 1
        if tag == "testcase" and self.case is not None:
            for status in self.statuses or [TestStatus.PASSED]:
                note(self.tests, self.case, status)
            is_failing = any(status in _ENDINGS.values() for status in self.statuses)
            for suite in self.suites:
                suite.seen += 1
                suite.seen_failing += is_failing
            self.case = None
        elif tag == "testsuite" and self.suites:
            suite = self.suites.pop()
            if suite.failing and not suite.seen_failing:
                self.broken[suite.name] = f"says that {suite.failing} tests failed, and holds none that did"
            elif suite.tests > suite.seen:
                self.broken[suite.name] = f"says that it has {suite.tests} tests, and holds {suite.seen}"

    def _id(self, attributes: dict[str, str]) -> str:
        place = attributes.get("classname") or (self.suites[-1].name if self.suites else "")
        name = attributes.get("name", "")
        return f"{place}::{name}" if place else name


def _number(text: str | None) -> int:
    return int(text) if text and text.isascii() and text.isdecimal() and len(text) < 10 else 0  # noqa: PLR2004 - digits that int reads at once


def parse_junit(data: bytes) -> Results | Unreadable:
    """Results from one JUnit XML document."""
    if len(data) > LARGEST:
        return _malformed(f"the report has {len(data)} bytes, more than {LARGEST}")
    reader = _Reader()
    parser = expat.ParserCreate()
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.StartDoctypeDeclHandler = _refuse_dtd
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        return _malformed(f"the report is not XML: {error}")
    except _Refused as error:
        return _malformed(f"the report is not JUnit XML: {error}")
    except (LookupError, ValueError) as error:  # an encoding that Python does not know, or only half knows
        return _malformed(f"the report cannot be decoded: {error}")
    return Results(tests=reader.tests, broken=reader.broken)


def _refuse_dtd(*_: object) -> None:
    raise _Refused("it has a DTD")


def _malformed(reason: str) -> Unreadable:
    return Unreadable(trouble=Trouble.MALFORMED, reason=reason)
