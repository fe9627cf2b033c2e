"""The distinctive lines of an oracle, by which it is recognised wherever it is found.

An added line is distinctive when it has at least ten letters or digits and is not already in the files that the oracle
changes, nor among the lines that it removes. Lines are compared without the white space around them. Each is searched
for as it is, as a patch writes it (after a ``+``), and as JSON writes both inside a string.
"""

import json
from collections.abc import Iterable, Mapping
from enum import Enum, auto
from typing import Final, NamedTuple

from proctor.core.submission import PatchKind
from proctor.workspaces.diff_parser import read_diff
from proctor.workspaces.lossless_json import pretty
from proctor.workspaces.patch_sets import read_patch_set

_MIN_DISTINCTIVE_CHARS: Final = 10
_MIN_HITS: Final = 3
_MIN_ORACLE_BYTES: Final = 40


class MatchForm(Enum):
    """How a line was found: as code, or embedded (in a patch, or inside a JSON string)."""

    CODE = auto()
    EMBEDDED = auto()


class SignatureHit(NamedTuple):
    """A distinctive line that was found; `file_index` is the changed file that the oracle adds it to."""

    file_index: int
    line: bytes


class OracleFile(NamedTuple):
    """What an oracle says about one file: its paths, the lines it adds, the lines it expects there."""

    paths: frozenset[bytes]
    added: tuple[bytes, ...]
    preimage: tuple[bytes, ...]


def oracle_files(oracle: bytes, kind: PatchKind) -> list[OracleFile]:
    """An oracle, file by file.

    Raises:
        InvalidSubmission: it is not of this kind.
    """
    if kind is PatchKind.UNIFIED_DIFF:
        return [
            OracleFile(
                frozenset(file.written | file.removed),
                tuple(file.lines_of("add")),
                tuple(file.lines_of("del", "same")),
            )
            for file in read_diff(oracle)
        ]
    return [
        OracleFile(
            frozenset({patch.path.encode()}),
            tuple(line for step in patch.operations for line in pretty(step.value).split(b"\n")),
            (),
        )
        for patch in read_patch_set(oracle)
    ]


class LeakSignature:
    """The lines to search for, and the rule for when enough of them are in one file."""

    def __init__(self, oracle: bytes, files: Iterable[OracleFile], base_files: Mapping[bytes, bytes]) -> None:
        """Args: the oracle; its files; the starting tree's content of the files that they name."""
        self.oracle = oracle.strip()
        self.forms: dict[bytes, tuple[MatchForm, SignatureHit]] = {}
        self.sizes: list[int] = []
        for number, part in enumerate(files):
            known = {line.strip() for line in part.preimage}
            known.update(line.strip() for path in part.paths for line in base_files.get(path, b"").split(b"\n"))
            distinctive = {line for line in part.added if _is_distinctive(line) and line.strip() not in known}
            self.sizes.append(len({line.strip() for line in distinctive}))
            for line in distinctive:
                self._add(line, SignatureHit(number, line.strip()))
        self._all = frozenset(self.forms)

    def __len__(self) -> int:
        return sum(self.sizes)

    def _add(self, line: bytes, hit: SignatureHit) -> None:
        for form, text in ((MatchForm.CODE, line), (MatchForm.EMBEDDED, b"+" + line)):
            self.forms.setdefault(text.strip(), (form, hit))
            for escaped in _in_json(text):
                self.forms.setdefault(escaped, (MatchForm.EMBEDDED, hit))

    def find(self, data: bytes) -> set[tuple[MatchForm, SignatureHit]]:
        """The distinctive lines in a text."""
        lines = self._all.intersection(map(bytes.strip, data.split(b"\n")))
        if b"\\n" in data:
            lines |= self._all.intersection(map(bytes.strip, data.split(b"\\n")))
        return {self.forms[line] for line in lines}

    def contains_oracle(self, data: bytes) -> bool:
        """Whether the text holds the oracle word for word."""
        return len(self.oracle) >= _MIN_ORACLE_BYTES and self.oracle in data

    def is_significant(self, hits: set[SignatureHit]) -> bool:
        """Whether these lines in one file are more than chance.

        They are when they are at least half of what the oracle adds to one file, and at least three of all; or
        all, when the oracle has fewer.
        """
        found = [0] * len(self.sizes)
        for hit in hits:
            found[hit.file_index] += 1
        half = any(0 < size <= 2 * count for size, count in zip(self.sizes, found, strict=True))
        return half and len(hits) >= min(_MIN_HITS, len(self))


def _is_distinctive(line: bytes) -> bool:
    return sum(map(str.isalnum, line.decode("utf-8", "replace"))) >= _MIN_DISTINCTIVE_CHARS


def _in_json(line: bytes) -> set[bytes]:
    text = line.rstrip().decode("utf-8", "replace")
    return {json.dumps(text, ensure_ascii=ascii_only)[1:-1].strip().encode() for ascii_only in (True, False)}
