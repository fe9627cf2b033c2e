"""The integrity audit: names what in a submission is aimed at its tests instead of its task.

It is advice. It reads the change of a tree, never runs anything and never changes a verdict; what honest code does too
is not named. docs/grading.md lists what it finds.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from proctor.core.verdict import Finding
from proctor.grading.audit.changes import ChangedFile, ChangeKind, changed_files
from proctor.grading.audit.line_patterns import line_findings
from proctor.grading.audit.paths import is_test, is_test_support, path_findings
from proctor.grading.audit.python_code import fragment_findings, python_findings, uses_test_library
from proctor.grading.finding_codes import AuditCode
from proctor.grading.outcome import TestRun
from proctor.workspaces import TreeChange

MAX_FILE_BYTES: Final = 2_000_000
MAX_FINDINGS_PER_FILE_AND_CODE: Final = 5
MAX_CHARACTERS: Final = 2_000_000  # characters: some seconds' work


def audit(changes: Iterable[ChangedFile], *, protected: Sequence[str] = ()) -> tuple[Finding, ...]:
    """Everything that is aimed at the tests in these changes, file by file."""
    changes = tuple(changes)
    # A plugin of a test runner, and a library of helpers for tests, use the test library in the open.
    is_for_tests = any(
        uses_test_library(change.before) for change in changes if change.before and not is_test(change.path)
    )
    findings: list[Finding] = []
    left = MAX_CHARACTERS
    for change in changes:
        seen: dict[AuditCode, list[str]] = {}
        left -= sum(len(text) for _, text in change.added)
        for code, detail in _findings(change, protected, is_for_tests=is_for_tests, is_readable=left >= 0):
            details = seen.setdefault(code, [])
            if detail not in details and len(details) < MAX_FINDINGS_PER_FILE_AND_CODE:
                details.append(detail)
        findings += [
            Finding(code=code.value, path=change.path, detail=detail)
            for code, details in seen.items()
            for detail in details
        ]
    return tuple(findings)


def audit_change(change: TreeChange, *, protected: Sequence[str] = ()) -> tuple[Finding, ...]:
    """Audit what a submission did to a tree."""
    return audit(changed_files(change), protected=protected)


def tampering_findings(names: Iterable[str]) -> tuple[Finding, ...]:
    """Findings about what changed in the test machinery at run time: `TestResults.tampered`."""
    return tuple(Finding(code=AuditCode.TAMPERED.value, path="", detail=name) for name in names)


def run_time_findings(before: TestRun, runs: Sequence[TestRun]) -> tuple[Finding, ...]:
    """What the reporter saw change, and the pristine tree does not change."""
    tampered = dict.fromkeys(name for run in runs for name in run.outcome.tampered)
    return tampering_findings(name for name in tampered if name not in before.outcome.tampered)


def _findings(
    change: ChangedFile, protected: Sequence[str], *, is_for_tests: bool, is_readable: bool
) -> Iterator[tuple[AuditCode, str]]:
    yield from path_findings(change, protected)
    if change.kind is ChangeKind.DELETED or change.binary or not is_readable:
        return
    if is_test(change.path) and not change.path.endswith("conftest.py"):
        return
    from_tree = _python_findings(change)
    found = [*(from_tree or ()), *line_findings(change, has_tree=from_tree is not None)]
    is_conftest = change.path.endswith("conftest.py")
    may_use_library = is_for_tests or is_test_support(change.path)
    for line, code, detail in sorted(found):
        is_hook = is_conftest and detail.startswith("defines the hook")
        if not may_use_library or is_hook or code not in _USES_OF_TESTS:
            yield code, f"line {line}: {detail}"


# What helpers for tests and plugins of test runners do all the time.
_USES_OF_TESTS: Final = frozenset({AuditCode.TEST_MACHINERY, AuditCode.TEST_SNIFFING, AuditCode.TEST_FILES})


def _python_findings(change: ChangedFile) -> list[tuple[int, AuditCode, str]] | None:
    """What the syntax tree shows; None when there is none."""
    if not change.path.endswith((".py", ".pyi", ".pyw")) and not _has_python_shebang(change):
        return None
    if change.content is not None and len(change.content) <= MAX_FILE_BYTES:
        numbers = frozenset(number for number, _ in change.added)
        old = None if change.before is None else change.before.decode("utf-8", "replace")
        findings = python_findings(change.content.decode("utf-8", "replace"), numbers, old)
        if findings is not None:
            return findings
    return fragment_findings(change.added)


def _has_python_shebang(change: ChangedFile) -> bool:
    first = (change.content or b"").split(b"\n", 1)[0]
    return first.startswith(b"#!") and b"python" in first


__all__ = [
    "AuditCode",
    "ChangeKind",
    "ChangedFile",
    "audit",
    "audit_change",
    "changed_files",
    "run_time_findings",
    "tampering_findings",
]
