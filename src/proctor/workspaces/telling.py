"""The telling lines of a gold answer: what would give it away if it were found anywhere.

An added line tells something when it has at least ten letters or digits and is not already in the files that the
answer changes, nor among the lines that it takes away. Lines are compared without the white space around them. Each
is looked for as it is, as a patch writes it (after a ``+``), and as JSON writes both inside a string.
"""

import json
from collections.abc import Iterable, Mapping
from enum import Enum, auto
from typing import Final, NamedTuple

from proctor.core.submission import PatchKind
from proctor.workspaces.diffs import read_diff
from proctor.workspaces.documents import pretty
from proctor.workspaces.patch_sets import read_patch_set

_TELLING_CHARACTERS: Final = 10
_ENOUGH: Final = 3
_SHORTEST_ANSWER: Final = 40


class Form(Enum):
    """How a line was found: as code, or as an answer (in a patch, or inside a JSON string)."""

    CODE = auto()
    ANSWER = auto()


class Hit(NamedTuple):
    """A telling line that was found; `part` is the changed file that the answer adds it to."""

    part: int
    line: bytes


class Part(NamedTuple):
    """What a gold answer says about one file: its paths, the lines it adds, the lines it knows to be there."""

    paths: frozenset[bytes]
    added: tuple[bytes, ...]
    known: tuple[bytes, ...]


def parts_of(gold: bytes, kind: PatchKind) -> list[Part]:
    """A gold answer, file by file.

    Raises:
        UnfitSubmission: it is not an answer of this kind.
    """
    if kind is PatchKind.UNIFIED_DIFF:
        return [
            Part(frozenset(file.written | file.removed), tuple(file.added), tuple(file.known))
            for file in read_diff(gold)
        ]
    return [
        Part(
            frozenset({patch.path.encode()}),
            tuple(line for step in patch.operations for line in pretty(step.value).split(b"\n")),
            (),
        )
        for patch in read_patch_set(gold)
    ]


class TellingLines:
    """The lines to look for, and the rule that says when enough of them are in one place."""

    def __init__(self, gold: bytes, parts: Iterable[Part], there: Mapping[bytes, bytes]) -> None:
        """Args: the gold answer; its parts; the starting tree's content of the files that they name."""
        self.gold = gold.strip()
        self.forms: dict[bytes, tuple[Form, Hit]] = {}
        self.sizes: list[int] = []
        for number, part in enumerate(parts):
            known = {line.strip() for line in part.known}
            known.update(line.strip() for path in part.paths for line in there.get(path, b"").split(b"\n"))
            telling = {line for line in part.added if _tells(line) and line.strip() not in known}
            self.sizes.append(len({line.strip() for line in telling}))
            for line in telling:
                self._add(line, Hit(number, line.strip()))
        self._all = frozenset(self.forms)

    def __len__(self) -> int:
        return sum(self.sizes)

    def _add(self, line: bytes, hit: Hit) -> None:
        for form, text in ((Form.CODE, line), (Form.ANSWER, b"+" + line)):
            self.forms.setdefault(text.strip(), (form, hit))
            for escaped in _in_json(text):
                self.forms.setdefault(escaped, (Form.ANSWER, hit))

    def find(self, data: bytes) -> set[tuple[Form, Hit]]:
        """The telling lines in a text."""
        lines = self._all.intersection(map(bytes.strip, data.split(b"\n")))
        if b"\\n" in data:
            lines |= self._all.intersection(map(bytes.strip, data.split(b"\\n")))
        return {self.forms[line] for line in lines}

    def find_whole(self, data: bytes) -> bool:
        """Whether the text holds the gold answer word for word."""
        return len(self.gold) >= _SHORTEST_ANSWER and self.gold in data

    def are_enough(self, hits: set[Hit]) -> bool:
        """Whether these lines in one file are more than chance.

        They are when they are at least half of what the answer adds to one file, and at least three of all; or
        all, when the answer has fewer.
        """
        found = [0] * len(self.sizes)
        for hit in hits:
            found[hit.part] += 1
        half = any(0 < size <= 2 * count for size, count in zip(self.sizes, found, strict=True))
        return half and len(hits) >= min(_ENOUGH, len(self))


def _tells(line: bytes) -> bool:
    return sum(map(str.isalnum, line.decode("utf-8", "replace"))) >= _TELLING_CHARACTERS


def _in_json(line: bytes) -> set[bytes]:
    text = line.rstrip().decode("utf-8", "replace")
    return {json.dumps(text, ensure_ascii=ascii_only)[1:-1].strip().encode() for ascii_only in (True, False)}
