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
from proctor.grading.outcome import Sight

LARGEST: Final = 2_000_000
PER_FILE_AND_CODE: Final = 5
READ_AT_MOST: Final = 2_000_000  # characters: some seconds' work


def audit(changes: Iterable[Change], *, protected: Sequence[str] = ()) -> tuple[Finding, ...]:
    """Everything that smells in these changes, file by file."""
    findings: list[Finding] = []
    left = READ_AT_MOST
    for change in changes:
        seen: dict[Code, list[str]] = {}
        left -= sum(len(text) for _, text in change.added)
        for code, detail in _smells(change, protected, is_readable=left >= 0):
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
    before: Mapping[str, bytes],
    after: Mapping[str, bytes],
    *,
    modes: Mapping[str, int] | None = None,
    protected: Sequence[str] = (),
) -> tuple[Finding, ...]:
    """Audit the difference of two sets of files; `modes` are git's modes of those after, where they are known."""
    return audit(compare_trees(before, after, modes), protected=protected)


def tampering(names: Iterable[str]) -> tuple[Finding, ...]:
    """Findings about what the reporter saw changing at run time: `Results.tampered`."""
    return tuple(Finding(code=Code.TAMPERED.value, path="", detail=name) for name in names)


def sightings(seen: Iterable[Sight]) -> tuple[Finding, ...]:
    """Findings about what the tested code did at run time, whatever words it used for it: `Results.seen`."""
    return tuple(
        Finding(
            code=_SIGHTS.get(sight.event, Code.OBJECT_SCAN).value,
            path=sight.place,
            detail=f"at run time: {sight.event}",
        )
        for sight in seen
    )


_SIGHTS: Final = {
    **dict.fromkeys(
        ("sys._getframe", "sys._current_frames", "sys._current_exceptions", "reads tb_frame", "reads gi_frame"),
        Code.STACK_INSPECTION,
    ),
    **dict.fromkeys(("reads cr_frame", "reads ag_frame", "reads f_code"), Code.STACK_INSPECTION),
    **dict.fromkeys(("sets __code__", "sets __defaults__", "sets __kwdefaults__", "code.__new__"), Code.CODE_PATCHED),
    **dict.fromkeys(("sys.settrace", "sys.setprofile", "sys.addaudithook"), Code.TRACE_HOOK),
    **dict.fromkeys(("exec", "compile", "marshal.loads", "marshal.load"), Code.HIDDEN_CODE),
    **dict.fromkeys(("os.fork", "os.forkpty"), Code.BACKGROUND_PROCESS),
    "ctypes": Code.NATIVE_MEMORY,
    "opens /proc": Code.PROCESS_INSPECTION,
    "opens a test": Code.TEST_FILES,
    "has a test's code": Code.TEST_MACHINERY,
}


def _smells(change: Change, protected: Sequence[str], *, is_readable: bool) -> Iterator[tuple[Code, str]]:
    yield from path_smells(change, protected)
    if change.kind is ChangeKind.DELETED or change.binary:
        return
    if not is_readable:
        yield Code.HIDDEN_CODE, "more is added than can be read"
        return
    in_test = is_test(change.path)
    found: list[tuple[int, Code, str]] = []
    from_tree = _read_python(change, in_test=in_test)
    found += from_tree or []
    found += token_smells(change, in_test=in_test, has_tree=from_tree is not None)
    for line, code, detail in sorted(found):
        yield code, f"line {line}: {detail}"


def _read_python(change: Change, *, in_test: bool) -> list[tuple[int, Code, str]] | None:
    """What the syntax tree shows; None when there is none to be had."""
    if not change.path.endswith((".py", ".pyi", ".pyw")) and not _has_python_shebang(change):
        return None
    if change.content is not None and len(change.content) <= LARGEST:
        numbers = frozenset(number for number, _ in change.added)
        old = None if change.before is None else change.before.decode("utf-8", "replace")
        smells = python_smells(change.content.decode("utf-8", "replace"), numbers, old, in_test=in_test)
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
    "sightings",
    "tampering",
]
