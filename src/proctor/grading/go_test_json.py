"""Reads the events of ``go test -json``.

A test's id is ``package::Test`` with subtests as Go names them, ``package::Test/case``. A package counts only when
its own result came; a test only when its start came before its end.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from proctor.core.record import Record
from proctor.core.verdict import TestStatus
from proctor.grading.outcome import InconclusiveKind, InconclusiveRun, TestResults, record_status

_STATUS_OF_ACTION: Final = {"pass": TestStatus.PASSED, "fail": TestStatus.FAILED, "skip": TestStatus.SKIPPED}


class _GoEvent(Record, rename="pascal"):
    action: str = ""
    package: str = ""
    test: str = ""


class _GoPackage:
    def __init__(self, name: str) -> None:
        self.name = name
        self.tests: dict[str, TestStatus] = {}
        self.running: set[str] = set()
        self.result: str | None = None

    def add_event(self, event: _GoEvent) -> None:
        name = f"{self.name}::{event.test}"
        if not event.test:
            # A second result cannot make up for a first that was bad.
            if event.action in _STATUS_OF_ACTION and self.result != "fail":
                self.result = event.action
        elif event.action == "run":
            self.running.add(name)
        elif event.action in _STATUS_OF_ACTION:
            # An end without a start was printed, not run.
            record_status(
                self.tests, name, _STATUS_OF_ACTION[event.action] if name in self.running else TestStatus.ERROR
            )
            self.running.discard(name)

    def finish(self) -> str | None:
        """Account for tests that never ended; gives what is wrong with the package beyond its tests."""
        for name in self.running:
            record_status(self.tests, name, TestStatus.ERROR)
        failing = any(status in {TestStatus.FAILED, TestStatus.ERROR} for status in self.tests.values())
        if self.result == "fail" and not failing:
            return (
                "the package failed, and none of its tests did" if self.tests else "the package does not build or run"
            )
        return None


def parse_go_events(data: bytes) -> TestResults | InconclusiveRun:
    """Results from the output of ``go test -json``, of one package or many."""
    packages: dict[str, _GoPackage] = {}
    broken: dict[str, str] = {}
    for event in _events(data):
        if event.action == "build-fail":
            continue  # the package's own result follows
        if event.package:
            packages.setdefault(event.package, _GoPackage(event.package)).add_event(event)
    tests: dict[str, TestStatus] = {}
    unfinished = [package.name for package in packages.values() if package.result is None]
    for package in packages.values():
        problem = package.finish()
        if problem:
            broken[package.name] = problem
        tests |= package.tests
    if not packages:
        return InconclusiveRun(kind=InconclusiveKind.MALFORMED, reason="there are no events of `go test -json`")
    if unfinished:
        reason = f"the run was cut off before {unfinished[0]} had a result"
        return InconclusiveRun(kind=InconclusiveKind.CUT_SHORT, reason=reason, partial=tests)
    return TestResults(tests=tests, broken=broken)


def _events(data: bytes) -> Iterator[_GoEvent]:
    """The events among the lines; compilers and older versions of Go write plain text between them."""
    decoder = msgspec.json.Decoder(_GoEvent)
    for line in data.split(b"\n"):
        if line.startswith(b"{"):
            try:
                yield decoder.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue
