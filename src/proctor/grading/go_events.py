"""Reads the events of ``go test -json``.

A test's id is ``package::Test`` with subtests as Go names them, ``package::Test/case``. A package counts only when
its own result came; a test only when its start came before its end.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from proctor.core.record import Record
from proctor.core.verdict import TestStatus
from proctor.grading.outcome import Results, Trouble, Unreadable, note

_ENDINGS: Final = {"pass": TestStatus.PASSED, "fail": TestStatus.FAILED, "skip": TestStatus.SKIPPED}


class _Event(Record, rename="pascal"):
    action: str = ""
    package: str = ""
    test: str = ""


class _Package:
    def __init__(self, name: str) -> None:
        self.name = name
        self.tests: dict[str, TestStatus] = {}
        self.running: set[str] = set()
        self.ending: str | None = None

    def take(self, event: _Event) -> None:
        name = f"{self.name}::{event.test}"
        if not event.test:
            # A second result cannot make up for a first that was bad.
            if event.action in _ENDINGS and self.ending != "fail":
                self.ending = event.action
        elif event.action == "run":
            self.running.add(name)
        elif event.action in _ENDINGS:
            # An end without a start was printed, not run.
            note(self.tests, name, _ENDINGS[event.action] if name in self.running else TestStatus.ERROR)
            self.running.discard(name)

    def settle(self) -> str | None:
        """Account for tests that never ended; gives what is wrong with the package beyond its tests."""
        for name in self.running:
            note(self.tests, name, TestStatus.ERROR)
        failing = any(status in {TestStatus.FAILED, TestStatus.ERROR} for status in self.tests.values())
        if self.ending == "fail" and not failing:
            return (
                "the package failed, and none of its tests did" if self.tests else "the package does not build or run"
            )
        return None


def parse_go_events(data: bytes) -> Results | Unreadable:
    """Results from the output of ``go test -json``, of one package or many."""
    packages: dict[str, _Package] = {}
    broken: dict[str, str] = {}
    for event in _events(data):
        if event.action == "build-fail":
            continue  # the package's own result follows
        if event.package:
            packages.setdefault(event.package, _Package(event.package)).take(event)
    tests: dict[str, TestStatus] = {}
    unfinished = [package.name for package in packages.values() if package.ending is None]
    for package in packages.values():
        trouble = package.settle()
        if trouble:
            broken[package.name] = trouble
        tests |= package.tests
    if not packages:
        return Unreadable(trouble=Trouble.MALFORMED, reason="there are no events of `go test -json`")
    if unfinished:
        reason = f"the run was cut off before {unfinished[0]} had a result"
        return Unreadable(trouble=Trouble.CUT_SHORT, reason=reason, partial=tests)
    return Results(tests=tests, broken=broken)


def _events(data: bytes) -> Iterator[_Event]:
    """The events among the lines; compilers and older versions of Go write plain text between them."""
    decoder = msgspec.json.Decoder(_Event)
    for line in data.split(b"\n"):
        if line.startswith(b"{"):
            try:
                yield decoder.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue
