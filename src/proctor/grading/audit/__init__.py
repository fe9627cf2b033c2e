"""The integrity audit: reads a submission for what smells of an attempt to be graded well without solving the task.

It never runs anything and never changes a verdict. What it cannot see, and what it takes for suspicious in all
innocence, is in docs/grading.md.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from proctor.core.verdict import Finding
from proctor.grading.audit.changes import Change, ChangeKind, compare_trees, read_diff
from proctor.grading.audit.codes import Code
from proctor.grading.audit.paths import is_test, path_smells
from proctor.grading.audit.python import fragment_smells, python_smells
from proctor.grading.audit.tokens import token_smells

LARGEST: Final = 2_000_000
PER_FILE_AND_CODE: Final = 5


def audit(changes: Iterable[Change], *, protected: Sequence[str] = ()) -> tuple[Finding, ...]:
    """Everything that smells in these changes, file by file."""
    findings: list[Finding] = []
    for change in changes:
        seen: dict[Code, list[str]] = {}
        for code, detail in _smells(change, protected):
            details = seen.setdefault(code, [])
            if detail not in details and len(details) < PER_FILE_AND_CODE:
                details.append(detail)
        findings += [
            Finding(code=code.value, path=change.path, detail=detail)
            for code, details in seen.items()
            for detail in details
        ]
    return tuple(findings)


def audit_diff(
    patch: bytes, *, after: Mapping[str, bytes] | None = None, protected: Sequence[str] = ()
) -> tuple[Finding, ...]:
    """Audit a unified diff. With `after`, the touched files as the submission leaves them, it sees more."""
    return audit(read_diff(patch, after), protected=protected)


def audit_trees(
    before: Mapping[str, bytes], after: Mapping[str, bytes], *, protected: Sequence[str] = ()
) -> tuple[Finding, ...]:
    """Audit the difference of two sets of files, for submissions that are no diff."""
    return audit(compare_trees(before, after), protected=protected)


def tampering(names: Iterable[str]) -> tuple[Finding, ...]:
    """Findings about what the reporter saw changing at run time: `Results.tampered`."""
    return tuple(Finding(code=Code.TAMPERED.value, path="", detail=name) for name in names)


def _smells(change: Change, protected: Sequence[str]) -> Iterator[tuple[Code, str]]:
    yield from path_smells(change, protected)
    if change.kind is ChangeKind.DELETED or change.binary:
        return
    in_test = is_test(change.path)
    found: list[tuple[int, Code, str]] = []
    from_tree = _read_python(change, in_test=in_test)
    found += from_tree or []
    found += token_smells(change.path, change.added, has_tree=from_tree is not None, in_test=in_test)
    for line, code, detail in sorted(found):
        yield code, f"line {line}: {detail}"


def _read_python(change: Change, *, in_test: bool) -> list[tuple[int, Code, str]] | None:
    """What the syntax tree shows; None when there is none to be had."""
    if not change.path.endswith((".py", ".pyi", ".pyw")) and not _has_python_shebang(change):
        return None
    if change.content is not None and len(change.content) <= LARGEST:
        numbers = frozenset(number for number, _ in change.added)
        smells = python_smells(change.content.decode("utf-8", "replace"), numbers, in_test=in_test)
        if smells is not None:
            return smells
    return fragment_smells(change.added, in_test=in_test)


def _has_python_shebang(change: Change) -> bool:
    first = (change.content or b"").split(b"\n", 1)[0]
    return first.startswith(b"#!") and b"python" in first


__all__ = [
    "Change",
    "ChangeKind",
    "Code",
    "audit",
    "audit_diff",
    "audit_trees",
    "compare_trees",
    "read_diff",
    "tampering",
]
