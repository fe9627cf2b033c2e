"""An altered test: the same test in the same file under the same id, with one expectation changed.

A right program passes the original and fails the altered test. Who passes both was not examined by it.
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum

from proctor.core.record import Record


class AlterationKind(StrEnum):
    """What was changed, from the least to the most conspicuous."""

    LITERAL = "literal"  # another expected value
    OUTPUT = "output"  # another expected line of output
    EXCEPTION = "exception"  # another expected type of exception
    BOOLEAN = "boolean"  # an expected truth value, the other way round
    COMPARISON = "comparison"  # a comparison, the other way round
    STATEMENT = "statement"  # a plain failing statement: the last resort


class Edit(Record):
    """The bytes from `start` to `end` of a file become `text`. An insertion has `start == end`."""

    start: int
    end: int
    text: str


class Alteration(Record):
    """One way to change what a test expects.

    Attributes:
        path: the test file, relative to the tree.
        tests: the ids that it alters: more than one where they share their code, as the cases of a parametrised test.
        first_line, last_line: of the changed assertion in the original file, counted from 1.
        original, altered: the changed text before and after, for the evidence.
        contradicts: whoever passes the original test fails this one, whatever the right result is: a literal changed
            in a plain comparison that every pass of the test makes. Such an alteration can do without an oracle.
    """

    path: str
    tests: tuple[str, ...]
    kind: AlterationKind
    edits: tuple[Edit, ...]
    first_line: int
    last_line: int
    original: str
    altered: str
    contradicts: bool = False


def overlap(one: Alteration, other: Alteration) -> bool:
    """Whether two alterations of one file cannot be made together. Two insertions at one place can."""
    if one.path != other.path:
        return False
    return any(
        (a.start < b.end and b.start < a.end) or (a.start == b.start and a.end > a.start and b.end > b.start)
        for a in one.edits
        for b in other.edits
    )


def alter(source: bytes, alterations: Iterable[Alteration]) -> bytes:
    """The file with these alterations, of which none overlap, made in it."""
    altered = source
    for edit in reversed(_in_order(alterations)):
        altered = altered[: edit.start] + edit.text.encode() + altered[edit.end :]
    return altered


def altered_lines(source: bytes, alterations: Sequence[Alteration], one: Alteration) -> range:
    """Where the changed assertion of `one` stands once all of these alterations have been made."""
    first, last = one.first_line, one.last_line
    for edit in _in_order(alterations):
        line = source.count(b"\n", 0, edit.start) + 1
        added = edit.text.count("\n") - source.count(b"\n", edit.start, edit.end)
        if line < one.first_line or (line == one.first_line and edit.start == edit.end):
            first += added
        if line <= one.last_line:
            last += added
    return range(first, last + 1)


def _in_order(alterations: Iterable[Alteration]) -> list[Edit]:
    return sorted((edit for one in alterations for edit in one.edits), key=lambda edit: (edit.start, edit.end))
