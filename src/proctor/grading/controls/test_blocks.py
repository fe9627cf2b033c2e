"""The tests of a file, as its language declares them, and which ids of a report mean which of them.

Test programs join the names of a test and of what is around it in many ways, so an id belongs to the test whose name
it ends with; the names around it decide between tests of one name. A name that is built while the tests run is a
pattern, and all ids that fit it share their code.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from proctor.grading.controls.alteration import Alteration, AlterationKind, alter
from proctor.grading.controls.syntax_tree import ProposedChange, SyntaxTree

MAX_ALTERATIONS: Final = 12  # of one test
_KINDS: Final = list(AlterationKind)
# A time, a number, the arguments or their types.
_DECORATION: Final = re.compile(r"(?:#\d+|\s*\[[^\[\]]*\]|\s*\([^()]*\)|\s*\{[^{}]*\})$")
_BLANKS: Final = re.compile(r"\s+")
HOLE: Final = None


@dataclass(frozen=True)
class TestName:
    """A name as it stands in a file: its fixed pieces, with a `HOLE` for what is filled in while the tests run."""

    pieces: tuple[str | None, ...]

    __test__ = False  # not a test of pytest's

    @property
    def is_fixed(self) -> bool:
        return HOLE not in self.pieces

    @property
    def text(self) -> str:
        return "".join(piece or "" for piece in self.pieces)

    def compiled(self) -> re.Pattern[str]:
        parts = ["(.+?)" if piece is HOLE else re.escape(_BLANKS.sub(" ", piece)) for piece in self.pieces]
        return re.compile(rf"(?:^|(?<=[^0-9A-Za-z_]))(?:{''.join(parts)})$", re.DOTALL)


@dataclass(eq=False)
class TestBlock:
    """A test, or what holds tests.

    Attributes:
        propose: gives the ways to alter it, without those of the blocks inside of it.
        rows: the blocks of a table's rows, by the name of the row, where the tests' names come from a table.
    """

    name: TestName
    propose: Callable[[], Iterable[ProposedChange]]
    parent: "TestBlock | None" = None
    rows: "Callable[[str], Iterable[TestBlock]] | None" = None
    ids: list[str] = field(default_factory=list)

    __test__ = False

    def ancestors(self) -> "list[TestBlock]":
        found: list[TestBlock] = []
        block = self.parent
        while block is not None:
            found.append(block)
            block = block.parent
        return found


def alterations_of_blocks(
    path: str, tree: SyntaxTree, tests: Sequence[str], blocks: Sequence[TestBlock]
) -> dict[str, tuple[Alteration, ...]]:
    """The alterations of the tests that these blocks are, by id, in the order in which they are to be tried."""
    found = [*blocks, *assign_ids(tests, blocks)]
    order = {test: number for number, test in enumerate(tests)}
    by_id: dict[str, list[tuple[int, ProposedChange, Alteration]]] = defaultdict(list)
    for block in found:
        ids = {*block.ids, *(test for around in block.ancestors() for test in around.ids)}
        if not ids:
            continue
        concerned = tuple(sorted(ids, key=order.__getitem__))
        for proposal in block.propose():
            one = Alteration(
                path=path,
                tests=concerned,
                kind=proposal.kind,
                edits=proposal.edits,
                first_line=proposal.first_line,
                last_line=proposal.last_line,
                original=proposal.original,
                altered=proposal.altered,
            )
            for test in concerned:
                shared = len(block.ids) - (test in block.ids)
                by_id[test].append((shared, proposal, one))
    chosen = {test: _in_order(some) for test, some in by_id.items()}
    broken = _broken(tree, [one for some in chosen.values() for one in some])
    kept = {
        test: tuple(one for one in chosen[test] if id(one) not in broken)[:MAX_ALTERATIONS]
        for test in tests
        if test in chosen
    }
    return {test: some for test, some in kept.items() if some}


def assign_ids(tests: Sequence[str], blocks: Sequence[TestBlock]) -> list[TestBlock]:
    """Gives each block its ids. Rows of tables that were found for ids come back as further blocks."""
    fixed: dict[str, list[TestBlock]] = defaultdict(list)
    patterns: list[tuple[TestBlock, re.Pattern[str]]] = []
    for block in blocks:
        if block.name.is_fixed:
            fixed[_blanks_as_one(block.name.text)].append(block)
        else:
            patterns.append((block, block.name.compiled()))
    fixed.pop("", None)
    lengths = sorted({len(name) for name in fixed}, reverse=True)
    rows: list[TestBlock] = []
    for test in tests:
        for text in _readings(test):
            matched = _longest_fixed(text, fixed, lengths)
            weight = max((len(block.name.text) for block in matched), default=-1)
            fitting = _longest_pattern(text, patterns, weight)
            if fitting:
                matched = [block for block, _ in fitting]
                rows += _find_rows(test, fitting)
            if matched:
                for block in _closest(text, matched):
                    block.ids.append(test)
                break
    return rows


def _longest_pattern(
    text: str, patterns: Sequence[tuple[TestBlock, re.Pattern[str]]], weight: int
) -> list[tuple[TestBlock, re.Match[str]]]:
    """The blocks whose pattern the id ends with, of those with more fixed text than `weight` the ones with most."""
    fitting = [
        (block, match)
        for block, pattern in patterns
        if len(block.name.text) > weight and (match := pattern.search(text)) is not None
    ]
    most = max((len(block.name.text) for block, _ in fitting), default=0)
    return [(block, match) for block, match in fitting if len(block.name.text) == most]


def _find_rows(test: str, fitting: Iterable[tuple[TestBlock, re.Match[str]]]) -> Iterable[TestBlock]:
    for block, match in fitting:
        for hole in match.groups() if block.rows is not None else ():
            for row in block.rows(hole) if block.rows is not None else ():
                row.ids.append(test)
                row.parent = block.parent
                yield row


def _readings(test: str) -> Iterable[str]:
    """An id as it is, and without what a test program appends to names."""
    text = _blanks_as_one(test)
    yield text
    while (shorter := _DECORATION.sub("", text)) != text:
        text = shorter
        yield text


def _longest_fixed(text: str, fixed: dict[str, list[TestBlock]], lengths: Sequence[int]) -> list[TestBlock]:
    for length in lengths:
        if length > len(text):
            continue
        before = text[-length - 1 : -length] if length < len(text) else ""
        if before and (before.isalnum() or before == "_"):
            continue
        if found := fixed.get(text[-length:]):
            return found
    return []


def _closest(text: str, blocks: list[TestBlock]) -> list[TestBlock]:
    """Those of the blocks whose names around them the id has most of, and lacks least of."""
    if len(blocks) == 1:
        return blocks

    def around(block: TestBlock) -> tuple[int, int]:
        names = [part for outer in block.ancestors() if (part := _blanks_as_one(outer.name.text))]
        there = [name for name in names if name in text]
        return sum(map(len, there)), len(there) - len(names)

    most = max(map(around, blocks))
    return [block for block in blocks if around(block) == most]


def _blanks_as_one(text: str) -> str:
    return _BLANKS.sub(" ", text).strip() if len(text) > 1 else text


def _in_order(found: list[tuple[int, ProposedChange, Alteration]]) -> list[Alteration]:
    """Those that alter fewest other tests first, then one of each assertion, the least conspicuous first."""
    rounds: dict[tuple[int, int], int] = defaultdict(int)
    keyed: list[tuple[tuple[int, ...], Alteration]] = []
    for number, (shared, proposal, one) in enumerate(found):
        last_resort = proposal.kind is AlterationKind.STATEMENT
        place = (shared, proposal.assertion)
        keyed.append(((last_resort, min(shared, 1), rounds[place], _KINDS.index(proposal.kind), number), one))
        rounds[place] += 1
    keyed.sort(key=lambda pair: pair[0])
    seen: set[tuple[object, ...]] = set()
    unique: list[Alteration] = []
    for _, one in keyed:
        if one.edits not in seen:
            seen.add(one.edits)
            unique.append(one)
    statements = [one for one in unique if one.kind is AlterationKind.STATEMENT][:2]
    others = [one for one in unique if one.kind is not AlterationKind.STATEMENT]
    return [*others[: MAX_ALTERATIONS - len(statements)], *statements]


def _broken(tree: SyntaxTree, alterations: Sequence[Alteration]) -> set[int]:
    """The identities of those after which the file is no longer the language.

    Many are tried at once: as many as do not overlap.
    """
    unique = {id(one): one for one in alterations}.values()
    spans = sorted(
        (
            (min(edit.start for edit in one.edits), max(edit.end for edit in one.edits), number, one)
            for number, one in enumerate(unique)
        ),
        key=lambda span: span[:3],
    )
    layers: list[list[Alteration]] = []
    ends: list[int] = []
    for start, end, _, one in spans:
        free = next((number for number, reached in enumerate(ends) if reached < start), None)
        if free is None:
            layers.append([one])
            ends.append(end)
        else:
            layers[free].append(one)
            ends[free] = end
    broken: set[int] = set()
    waiting = layers
    while waiting:
        some = waiting.pop()
        if tree.parses_as_well(alter(tree.source, some)):
            continue
        if len(some) == 1:
            broken.add(id(some[0]))
        else:
            middle = len(some) // 2
            waiting += [some[:middle], some[middle:]]
    return broken
