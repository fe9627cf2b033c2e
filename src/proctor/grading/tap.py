r"""Reads the Test Anything Protocol, versions 12 to 14.

A test's id is its description, or its number where it has none. Subtests are indented and come before the test
point that sums them up; their ids are ``parent > child``. A stream counts only when its plan is there and kept.
"""

import re
from typing import Final

from proctor.core.verdict import TestStatus
from proctor.grading.outcome import InconclusiveKind, InconclusiveRun, TestResults, record_status

_POINT: Final = re.compile(r"(not )?ok(?![^ \t])[ \t]*([0-9]{1,9}\b)?[ \t]*(?:-[ \t])?(.*)")
_PLAN: Final = re.compile(r"1\.\.([0-9]{1,9})[ \t]*(?:#.*)?")
_DIRECTIVE: Final = re.compile(r"(?<!\\)(?:\\\\)*#[ \t]*(skip|todo)", re.IGNORECASE)
_ESCAPE: Final = re.compile(r"\\([\\#])")
_INDENT: Final = 4
_YAML_INDENT: Final = 2
_MAX_DEPTH: Final = 50


class _InvalidTap(Exception):
    def __init__(self, kind: InconclusiveKind, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason


class _TapStream:
    """One level of tests: the document, or the subtests of one test."""

    def __init__(self) -> None:
        self.tests: list[tuple[str, TestStatus]] = []
        self.numbers: set[int] = set()
        self.plan: int | None = None
        self.closed = False

    def add_plan(self, count: int) -> None:
        if self.plan is not None:
            raise _InvalidTap(InconclusiveKind.MALFORMED, "it has more than one plan")
        self.plan = count
        self.closed = bool(self.numbers)

    def add_test_point(self, match: re.Match[str], children: "_TapStream | None") -> None:
        negated, digits, rest = match.groups()
        number = int(digits) if digits else len(self.numbers) + 1
        if number in self.numbers or self.closed:
            raise _InvalidTap(
                InconclusiveKind.MALFORMED, f"test {number} comes twice, or after the plan that ends the tests"
            )
        self.numbers.add(number)
        name, status = _parse_test_point(negated is None, rest)
        name = name or str(number)
        if children is not None:
            children.close()
            self.tests += [(f"{name} > {child}", ended) for child, ended in children.tests]
        self.tests.append((name, status))

    def close(self) -> None:
        count = len(self.numbers)
        if self.plan is None:
            raise _InvalidTap(InconclusiveKind.CUT_SHORT, "it has no plan")
        if self.plan != count or self.numbers != set(range(1, count + 1)):
            raise _InvalidTap(InconclusiveKind.CUT_SHORT, f"{self.plan} tests were planned, {count} were reported")


def _parse_test_point(is_ok: bool, rest: str) -> tuple[str, TestStatus]:
    directive = _DIRECTIVE.search(rest)
    name = _ESCAPE.sub(r"\1", rest[: directive.start()] if directive else rest).strip()
    kind = directive.group(1).lower() if directive else ""
    if kind == "todo":
        return name, TestStatus.XPASSED if is_ok else TestStatus.XFAILED
    if kind == "skip" and is_ok:
        return name, TestStatus.SKIPPED
    return name, TestStatus.PASSED if is_ok else TestStatus.FAILED


class _TapDocument:
    """A stream as it is read line by line; `levels` are the subtests that are open, outermost first."""

    def __init__(self) -> None:
        self.levels = [_TapStream()]
        self.yaml: int | None = None

    def read_line(self, line: str) -> None:
        text = line.lstrip(" ")
        indent = len(line) - len(text)
        if self.yaml is not None:
            if indent == self.yaml and text.rstrip() == "...":
                self.yaml = None
            return
        depth, remainder = divmod(indent, _INDENT)
        if remainder == _YAML_INDENT and text.rstrip() == "---":
            self.yaml = indent
        elif text.startswith("Bail out!"):
            raise _InvalidTap(
                InconclusiveKind.CUT_SHORT, f"the tests bailed out: {text[9:].strip() or 'no reason given'}"
            )
        elif not remainder and (match := _PLAN.fullmatch(text)):
            self.level(depth).add_plan(int(match.group(1)))
        elif not remainder and (match := _POINT.fullmatch(text)):
            children = self.levels.pop() if len(self.levels) == depth + 2 else None
            self.level(depth).add_test_point(match, children)

    def level(self, depth: int) -> _TapStream:
        if depth > _MAX_DEPTH:
            raise _InvalidTap(InconclusiveKind.MALFORMED, f"subtests are nested more than {_MAX_DEPTH} deep")
        while len(self.levels) <= depth:
            self.levels.append(_TapStream())
        if len(self.levels) > depth + 1:
            raise _InvalidTap(InconclusiveKind.MALFORMED, "subtests are not followed by the test that sums them up")
        return self.levels[depth]

    def close(self) -> None:
        self.level(0).close()


def parse_tap(data: bytes) -> TestResults | InconclusiveRun:
    """Results from a TAP stream. Lines that are not TAP are passed over, as the protocol says."""
    document = _TapDocument()
    try:
        for line in data.decode("utf-8", "replace").split("\n"):
            document.read_line(line.rstrip("\r"))
        document.close()
    except _InvalidTap as refused:
        return InconclusiveRun(
            kind=refused.kind,
            reason=f"the TAP stream is not whole: {refused.reason}",
            partial=_merged(document.levels[0]),
        )
    return TestResults(tests=_merged(document.levels[0]))


def _merged(stream: _TapStream) -> dict[str, TestStatus]:
    tests: dict[str, TestStatus] = {}
    for name, status in stream.tests:
        record_status(tests, name, status)
    return tests
