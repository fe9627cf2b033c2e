"""The integrity audit: finds what may be an attempt to be graded well without solving the task.

It reads the change of a tree, never runs anything and never changes a verdict. docs/grading.md lists what it
finds, what it cannot see, and where honest code is suspicious.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from proctor.core.verdict import Finding
from proctor.grading.audit.changes import ChangedFile, ChangeKind, changed_files
from proctor.grading.audit.line_patterns import line_findings
from proctor.grading.audit.paths import is_test, path_findings
from proctor.grading.audit.python_code import fragment_findings, python_findings
from proctor.grading.finding_codes import AuditCode
from proctor.grading.outcome import TamperEvent, TestRun
from proctor.workspaces import TreeChange

MAX_FILE_BYTES: Final = 2_000_000
MAX_FINDINGS_PER_FILE_AND_CODE: Final = 5
MAX_CHARACTERS: Final = 2_000_000  # characters: some seconds' work


def audit(changes: Iterable[ChangedFile], *, protected: Sequence[str] = ()) -> tuple[Finding, ...]:
    """Everything suspicious in these changes, file by file."""
    findings: list[Finding] = []
    left = MAX_CHARACTERS
    for change in changes:
        seen: dict[AuditCode, list[str]] = {}
        left -= sum(len(text) for _, text in change.added)
        for code, detail in _findings(change, protected, is_readable=left >= 0):
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


def tamper_event_findings(events: Iterable[TamperEvent]) -> tuple[Finding, ...]:
    """Findings about what the tested code did at run time, however it is written: `TestResults.tamper_events`."""
    return tuple(
        Finding(
            code=_TAMPER_EVENT_CODES.get(event.event, AuditCode.OBJECT_SCAN).value,
            path=event.path,
            detail=f"at run time: {event.event}",
        )
        for event in events
    )


def run_time_findings(before: TestRun, runs: Sequence[TestRun], touched: Sequence[str]) -> tuple[Finding, ...]:
    """What the reporter saw and the pristine tree does not do; an event counts where the submission caused it."""
    tampered = dict.fromkeys(name for run in runs for name in run.outcome.tampered)
    events = dict.fromkeys(event for run in runs for event in run.outcome.tamper_events)
    places = {*touched, "a thread"}
    return (
        *tampering_findings(name for name in tampered if name not in before.outcome.tampered),
        *tamper_event_findings(
            event for event in events if event not in before.outcome.tamper_events and event.path in places
        ),
    )


_TAMPER_EVENT_CODES: Final = {
    **dict.fromkeys(
        ("sys._getframe", "sys._current_frames", "sys._current_exceptions", "reads tb_frame", "reads gi_frame"),
        AuditCode.STACK_INSPECTION,
    ),
    **dict.fromkeys(("reads cr_frame", "reads ag_frame", "reads f_code"), AuditCode.STACK_INSPECTION),
    **dict.fromkeys(
        ("sets __code__", "sets __defaults__", "sets __kwdefaults__", "code.__new__"), AuditCode.CODE_PATCHED
    ),
    **dict.fromkeys(("sys.settrace", "sys.setprofile", "sys.addaudithook"), AuditCode.TRACE_HOOK),
    **dict.fromkeys(("exec", "compile", "marshal.loads", "marshal.load"), AuditCode.HIDDEN_CODE),
    **dict.fromkeys(("os.fork", "os.forkpty"), AuditCode.BACKGROUND_PROCESS),
    "ctypes": AuditCode.NATIVE_MEMORY,
    "opens /proc": AuditCode.PROCESS_INSPECTION,
    "opens a test": AuditCode.TEST_FILES,
    "has a test's code": AuditCode.TEST_MACHINERY,
}


def _findings(change: ChangedFile, protected: Sequence[str], *, is_readable: bool) -> Iterator[tuple[AuditCode, str]]:
    yield from path_findings(change, protected)
    if change.kind is ChangeKind.DELETED or change.binary:
        return
    if not is_readable:
        yield AuditCode.HIDDEN_CODE, "more is added than can be read"
        return
    in_test = is_test(change.path)
    found: list[tuple[int, AuditCode, str]] = []
    from_tree = _python_findings(change, in_test=in_test)
    found += from_tree or []
    found += line_findings(change, in_test=in_test, has_tree=from_tree is not None)
    for line, code, detail in sorted(found):
        yield code, f"line {line}: {detail}"


def _python_findings(change: ChangedFile, *, in_test: bool) -> list[tuple[int, AuditCode, str]] | None:
    """What the syntax tree shows; None when there is none."""
    if not change.path.endswith((".py", ".pyi", ".pyw")) and not _has_python_shebang(change):
        return None
    if change.content is not None and len(change.content) <= MAX_FILE_BYTES:
        numbers = frozenset(number for number, _ in change.added)
        old = None if change.before is None else change.before.decode("utf-8", "replace")
        findings = python_findings(change.content.decode("utf-8", "replace"), numbers, old, in_test=in_test)
        if findings is not None:
            return findings
    return fragment_findings(change.added, in_test=in_test)


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
    "tamper_event_findings",
    "tampering_findings",
]
