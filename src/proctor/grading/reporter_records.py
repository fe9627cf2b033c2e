"""Reads the records of our own reporter and accepts a run only when every one of them adds up."""

import hashlib
import signal
from collections import Counter
from typing import Final

from proctor.core.verdict import TestStatus
from proctor.grading.outcome import InconclusiveKind, InconclusiveRun, TestResults, record_status

MAC_BYTES: Final = 16
_KILLED: Final = 128  # plus the signal's number, as in a shell
_STATUSES: Final = {status.value: status for status in TestStatus if status is not TestStatus.MISSING}


class _InvalidRecord(Exception):
    """A record that the reporter cannot have written."""


def parse_records(data: bytes, key: bytes) -> TestResults | InconclusiveRun:
    """Results from what the reporter wrote to its stdout, checked with the key that it was given."""
    state = _RecordState()
    try:
        for kind, fields in _verified(data, key):
            state.apply(kind, fields)
    except _InvalidRecord as refused:
        return InconclusiveRun(kind=InconclusiveKind.FORGED, reason=str(refused), partial=state.tests)
    except ValueError:
        return InconclusiveRun(
            kind=InconclusiveKind.FORGED, reason="the reporter's output is garbled", partial=state.tests
        )
    return state.outcome()


def parse_worker_records(data: bytes, token: bytes, exit_code: int) -> TestResults | InconclusiveRun:
    """Results from what a worker reported straight to us, and how it ended."""
    state = _RecordState()
    state.apply("hello", ["worker"])
    try:
        for kind, fields in _verified(data, token):
            if state.stage == "final":
                raise _InvalidRecord("something other than the reporter wrote into its channel")
            state.apply(f"worker {kind}", fields)
        status = exit_code - _KILLED if exit_code > _KILLED else exit_code << 8
        state.apply("end", [str(status), str(state.worker_records), "0"])
    except _InvalidRecord as refused:
        return InconclusiveRun(kind=InconclusiveKind.FORGED, reason=str(refused), partial=state.tests)
    except ValueError:
        return InconclusiveRun(
            kind=InconclusiveKind.FORGED, reason="the reporter's output is garbled", partial=state.tests
        )
    return state.outcome()


def _verified(data: bytes, key: bytes) -> list[tuple[str, list[str]]]:
    records = []
    last = b""
    *lines, _unfinished = data.split(b"\n")
    for line in lines:
        mac, _, payload = line.partition(b" ")
        last = hashlib.blake2b(last + payload, key=key, digest_size=MAC_BYTES).hexdigest().encode()
        if mac != last:
            raise _InvalidRecord("the reporter's output holds a line that the reporter did not write")
        speaker, *fields = payload.decode("ascii").split(" ")
        kind = f"worker {fields.pop(0)}" if speaker == "worker" and fields else speaker
        records.append((kind, [_text(field) for field in fields]))
    return records


def _text(field: str) -> str:
    """A field as text that every file can hold: lone surrogates, which a name may have, are escaped."""
    text = "" if field == "-" else bytes.fromhex(field).decode("utf-8", "surrogatepass")
    return text.encode("utf-8", "backslashreplace").decode()


class _RecordState:
    """What has been reported so far, in order: ready, the tests, each one's start and finish, final, end.

    `hello`, `forged` and `end` are the supervisor's own; the rest is what the worker reported to it.
    """

    def __init__(self) -> None:
        self.tests: dict[str, TestStatus] = {}
        self.broken: dict[str, str] = {}
        self.tampered: list[str] = []
        self.collected: Counter[str] = Counter()
        self.running: str | None = None
        self.stage = "not_started"
        self.aborted = ""
        self.status: int | None = None
        self.worker_records = 0

    def apply(self, kind: str, fields: list[str]) -> None:  # noqa: C901, PLR0912 - a grammar, which reads best in one piece
        self.worker_records += kind.startswith("worker ")
        match kind, fields:
            case _ if self.status is not None:
                raise _InvalidRecord("the reporter's records continue after their end")
            case "hello", [_version] if self.stage == "not_started":
                self.stage = "started"
            case "worker ready", [] if self.stage == "started":
                self.stage = "collecting"
            case "worker collect", [test] if self.stage == "collecting":
                self.collected[test] += 1
            case "worker collected", [count] if self.stage == "collecting" and count == str(self.collected.total()):
                self.stage = "running"
            case "worker start", [test] if (
                self.stage == "running" and self.running is None and self.collected[test] > 0
            ):
                self.running = test
            case "worker finish", [test, status] if self.running == test and status in _STATUSES:
                self.running = None
                self.collected[test] -= 1
                record_status(self.tests, test, _STATUSES[status])
            case "worker broken", [place, text] if self.stage in {"collecting", "running"}:
                self.broken[place] = text
            case "worker tampered", [name]:
                self.tampered.append(name)
            case "worker final", [_code] if self.stage == "running" and self.running is None:
                self.stage = "final"
            case "worker aborted", [error]:
                self.aborted = error
            case "forged", []:
                raise _InvalidRecord("something other than the reporter wrote into its channel")
            case "end", [status, forwarded, _strays] if forwarded == str(self.worker_records):
                self.status = int(status)
            case _:
                raise _InvalidRecord(f"the reporter's records are out of order: unexpected {kind!r}")

    def outcome(self) -> TestResults | InconclusiveRun:
        if self.stage in {"not_started", "started"}:
            why = f" ({self.aborted})" if self.aborted else ""
            what = "the test machinery could not be loaded" if self.stage == "started" else "the reporter did not start"
            return InconclusiveRun(kind=InconclusiveKind.NOT_STARTED, reason=what + why)
        if self.status is None:
            return self._cut_short("the run was cut off before its end")
        if self.stage != "final" or self.status != 0:
            return self._cut_short(f"the tests' process {self._exit_description()} before every test was accounted for")
        missing = self.collected.total()
        if missing:
            return self._cut_short(f"{missing} of the tests that were found never ran")
        return TestResults(
            tests=self.tests,
            broken=self.broken,
            tampered=tuple(dict.fromkeys(self.tampered)),
        )

    def _exit_description(self) -> str:
        number = (self.status or 0) & 0x7F
        if self.aborted:
            return f"ended ({self.aborted})"
        if number:
            return f"was killed by {signal.Signals(number).name if number in set(signal.Signals) else number}"
        return f"exited with code {(self.status or 0) >> 8}"

    def _cut_short(self, reason: str) -> InconclusiveRun:
        partial = dict(self.tests)
        if self.running is not None:
            record_status(partial, self.running, TestStatus.ERROR)
        return InconclusiveRun(
            kind=InconclusiveKind.CUT_SHORT,
            reason=reason,
            partial=partial,
            tampered=tuple(dict.fromkeys(self.tampered)),
        )
