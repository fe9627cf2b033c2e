"""Reads the records of our own reporter and believes a run only when every one of them adds up."""

import hashlib
import signal
from collections import Counter
from typing import Final

from proctor.core.verdict import TestStatus
from proctor.grading.outcome import Results, Sight, Trouble, Unreadable, note

MAC_BYTES: Final = 16
_KILLED: Final = 128  # and the signal's number, as a shell says it
_STATUSES: Final = {status.value: status for status in TestStatus if status is not TestStatus.MISSING}


class _Refused(Exception):
    """A record that the reporter cannot have written."""


def parse_records(data: bytes, key: bytes) -> Results | Unreadable:
    """Results from what the reporter wrote to its stdout, checked with the key that it was given."""
    story = _Story()
    try:
        for kind, fields in _verified(data, key):
            story.take(kind, fields)
    except _Refused as refused:
        return Unreadable(trouble=Trouble.FORGED, reason=str(refused), partial=story.tests)
    except ValueError:
        return Unreadable(trouble=Trouble.FORGED, reason="the reporter's output is garbled", partial=story.tests)
    return story.outcome()


def parse_worker_records(data: bytes, token: bytes, exit_code: int) -> Results | Unreadable:
    """Results from what a worker reported straight to us, and how it ended."""
    story = _Story()
    story.take("hello", ["worker"])
    try:
        for kind, fields in _verified(data, token):
            if story.stage == "final":
                raise _Refused("something other than the reporter wrote into its channel")
            story.take(f"said {kind}", fields)
        status = exit_code - _KILLED if exit_code > _KILLED else exit_code << 8
        story.take("end", [str(status), str(story.heard), "0"])
    except _Refused as refused:
        return Unreadable(trouble=Trouble.FORGED, reason=str(refused), partial=story.tests)
    except ValueError:
        return Unreadable(trouble=Trouble.FORGED, reason="the reporter's output is garbled", partial=story.tests)
    return story.outcome()


def _verified(data: bytes, key: bytes) -> list[tuple[str, list[str]]]:
    records = []
    last = b""
    *lines, _unfinished = data.split(b"\n")
    for line in lines:
        mac, _, payload = line.partition(b" ")
        last = hashlib.blake2b(last + payload, key=key, digest_size=MAC_BYTES).hexdigest().encode()
        if mac != last:
            raise _Refused("the reporter's output holds a line that the reporter did not write")
        speaker, *fields = payload.decode("ascii").split(" ")
        kind = f"said {fields.pop(0)}" if speaker == "said" and fields else speaker
        records.append((kind, [_text(field) for field in fields]))
    return records


def _text(field: str) -> str:
    """What a field says, as text that every file can hold: lone surrogates, which a name may have, are spelled out."""
    text = "" if field == "-" else bytes.fromhex(field).decode("utf-8", "surrogatepass")
    return text.encode("utf-8", "backslashreplace").decode()


class _Story:
    """What has been told so far, in order: ready, the tests, each one's start and finish, final, end.

    The supervisor speaks for itself in `hello`, `forged` and `end`; the rest is what it heard the worker say.
    """

    def __init__(self) -> None:
        self.tests: dict[str, TestStatus] = {}
        self.broken: dict[str, str] = {}
        self.tampered: list[str] = []
        self.seen: list[Sight] = []
        self.collected: Counter[str] = Counter()
        self.running: str | None = None
        self.stage = "silent"
        self.aborted = ""
        self.status: int | None = None
        self.heard = 0

    def take(self, kind: str, fields: list[str]) -> None:  # noqa: C901, PLR0912 - a grammar, which reads best in one piece
        self.heard += kind.startswith("said ")
        match kind, fields:
            case _ if self.status is not None:
                raise _Refused("the reporter's records go on after their end")
            case "hello", [_version] if self.stage == "silent":
                self.stage = "greeted"
            case "said ready", [] if self.stage == "greeted":
                self.stage = "collecting"
            case "said collect", [test] if self.stage == "collecting":
                self.collected[test] += 1
            case "said collected", [count] if self.stage == "collecting" and count == str(self.collected.total()):
                self.stage = "running"
            case "said start", [test] if self.stage == "running" and self.running is None and self.collected[test] > 0:
                self.running = test
            case "said finish", [test, status] if self.running == test and status in _STATUSES:
                self.running = None
                self.collected[test] -= 1
                note(self.tests, test, _STATUSES[status])
            case "said broken", [place, text] if self.stage in {"collecting", "running"}:
                self.broken[place] = text
            case "said tampered", [name]:
                self.tampered.append(name)
            case "said saw", [event, place] if self.stage in {"collecting", "running"}:
                self.seen.append(Sight(event=event, place=place))
            case "said final", [_code] if self.stage == "running" and self.running is None:
                self.stage = "final"
            case "said aborted", [error]:
                self.aborted = error
            case "forged", []:
                raise _Refused("something other than the reporter wrote into its channel")
            case "end", [status, heard, _strays] if heard == str(self.heard):
                self.status = int(status)
            case _:
                raise _Refused(f"the reporter's records are out of order: unexpected {kind!r}")

    def outcome(self) -> Results | Unreadable:
        if self.stage in {"silent", "greeted"}:
            why = f" ({self.aborted})" if self.aborted else ""
            what = "the test machinery could not be loaded" if self.stage == "greeted" else "the reporter did not start"
            return Unreadable(trouble=Trouble.NOT_STARTED, reason=what + why)
        if self.status is None:
            return self._cut_short("the run was cut off before its end")
        if self.stage != "final" or self.status != 0:
            return self._cut_short(f"the tests' process {self._manner()} before every test was accounted for")
        missing = self.collected.total()
        if missing:
            return self._cut_short(f"{missing} of the tests that were found never ran")
        return Results(
            tests=self.tests,
            broken=self.broken,
            tampered=tuple(dict.fromkeys(self.tampered)),
            seen=tuple(dict.fromkeys(self.seen)),
        )

    def _manner(self) -> str:
        number = (self.status or 0) & 0x7F
        if self.aborted:
            return f"ended ({self.aborted})"
        if number:
            return f"was killed by {signal.Signals(number).name if number in set(signal.Signals) else number}"
        return f"exited with code {(self.status or 0) >> 8}"

    def _cut_short(self, reason: str) -> Unreadable:
        partial = dict(self.tests)
        if self.running is not None:
            note(partial, self.running, TestStatus.ERROR)
        return Unreadable(
            trouble=Trouble.CUT_SHORT,
            reason=reason,
            partial=partial,
            tampered=tuple(dict.fromkeys(self.tampered)),
            seen=tuple(dict.fromkeys(self.seen)),
        )
