"""What a cheat is: a submission, what it tries, and what must become of it."""

from collections.abc import Mapping
from typing import NamedTuple

from proctor.core.causes import Cause
from proctor.grading import AuditCode


class Link(NamedTuple):
    """A symbolic link among the files of a cheat."""

    target: str


class Program(NamedTuple):
    """An executable file among the files of a cheat."""

    text: str


Content = str | bytes | Link | Program | None


class Cheat(NamedTuple):
    """One hostile submission.

    In texts, ``@OUTSIDE@`` is a folder of the host with files that must stay as they are, ``@PORT@`` a port on which
    the host listens, ``@SUITE@`` and ``@CACHE@`` the host's folders of the suite and of verdicts.

    Attributes:
        task: which task of the arena it is submitted for.
        tries: how it hopes to pass.
        defence: what stops it, or gives it away.
        files: what it changes in the repository; None deletes.
        patch: the submission itself, where its form is the trick.
        cause: how it is graded without control checks. `Cause.SOLVED` marks what cannot be distinguished from a
            solution by a run of the tests as they are: only control checks stop it.
        named: audit findings that must be among those of its verdict.
        seconds: how long grading it may take, on a busy machine.
        slow: it takes seconds on a quiet one, too.
    """

    name: str
    task: str
    tries: str
    defence: str
    cause: Cause
    named: tuple[AuditCode, ...] = ()
    files: Mapping[str, Content] = {}
    patch: bytes | None = None
    seconds: float = 60.0
    slow: bool = False
