"""Test files as syntax trees. The grammars are packages of their own, an extra of Proctor's."""

import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Final

from proctor.core.record import Record
from proctor.grading.controls.alteration import AlterationKind, Edit
from proctor.grading.controls.changed_text import other_number, other_pattern, other_text

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

HOW_TO_INSTALL: Final = "pip install 'proctor[languages]'"


class Grammar(Record):
    """A language's grammar, and which of its nodes are values that a test may expect.

    Attributes:
        package, function: where the compiled grammar is.
        strings: nodes of texts, and the parts of them that stand for themselves (none: all but the quotes).
        characters: nodes of single characters.
        patterns: nodes of regular expressions.
        pairs: nodes of a key and a value, of which only the value is one.
        words: values that are a word, and the word to put in place.
        passed_over: nodes below which nothing is a value: types, names of fields.
    """

    language: str
    package: str
    numbers: frozenset[str]
    strings: Mapping[str, frozenset[str]]
    passed_over: frozenset[str]
    function: str = "language"
    characters: frozenset[str] = frozenset()
    patterns: frozenset[str] = frozenset()
    pairs: frozenset[str] = frozenset()
    words: Mapping[str, str] = {}


@cache
def load_parser(package: str, function: str) -> "Parser | None":
    """The parser for a grammar; none where the extra is not installed."""
    try:
        tree_sitter = importlib.import_module("tree_sitter")
        grammar = importlib.import_module(package)
    except ImportError:
        return None
    parser: Parser = tree_sitter.Parser(tree_sitter.Language(getattr(grammar, function)()))
    return parser


class SyntaxTree:
    """A parsed file."""

    def __init__(self, source: bytes, grammar: Grammar, parser: "Parser") -> None:
        self.source = source
        self.grammar = grammar
        self._parser = parser
        self.root: Node = parser.parse(source).root_node
        self.errors = count_errors(self.root)

    def parses_as_well(self, altered: bytes) -> bool:
        """Whether an altered file has no more errors of syntax than this one."""
        root = self._parser.parse(altered).root_node
        return not root.has_error or count_errors(root) <= self.errors

    def text(self, node: "Node") -> str:
        return self.source[node.start_byte : node.end_byte].decode("utf-8", "replace")


def parse_source(source: bytes, grammar: Grammar) -> SyntaxTree | None:
    """The file as a tree; none where the grammar is missing or the file is not text."""
    parser = load_parser(grammar.package, grammar.function)
    if parser is None or b"\0" in source:
        return None
    try:
        source.decode()
    except UnicodeDecodeError:
        return None
    return SyntaxTree(source, grammar, parser)


def count_errors(root: "Node") -> int:
    """How many places of a tree are not the language."""
    if not root.has_error:
        return 0
    return sum(1 for node in walk(root, into=lambda node: node.has_error) if node.is_error or node.is_missing)


def walk(node: "Node", *, into: "Callable[[Node], bool] | None" = None) -> "Iterator[Node]":
    """A node and all below it, in the order of the file; below those that `into` refuses it does not go."""
    waiting = [node]
    while waiting:
        node = waiting.pop()
        yield node
        if into is None or into(node):
            waiting.extend(reversed(node.children))


class ProposedChange(Record):
    """A changed expectation, before it is known which ids it concerns.

    Attributes:
        assertion: where the changed assertion begins: proposals of different assertions come first.
    """

    kind: AlterationKind
    edits: tuple[Edit, ...]
    assertion: int
    first_line: int
    last_line: int
    original: str
    altered: str


class Proposer:
    """Makes proposals for one file."""

    def __init__(self, tree: SyntaxTree) -> None:
        self.tree = tree

    def edited(self, kind: AlterationKind, assertion: "Node", edits: Iterable[Edit]) -> ProposedChange:
        """The assertion with these edits made; the evidence is what is replaced, or the assertion around insertions."""
        made = tuple(edits)
        start, end = made[0].start, made[0].end
        if not made[0].text or start == end:
            start, end = min(start, assertion.start_byte), max(end, assertion.end_byte)
        altered = self.tree.source[start:end]
        for edit in reversed(made):
            if start <= edit.start <= edit.end <= end:
                altered = altered[: edit.start - start] + edit.text.encode() + altered[edit.end - start :]
        return ProposedChange(
            kind=kind,
            edits=made,
            assertion=assertion.start_byte,
            first_line=assertion.start_point.row + 1,
            last_line=assertion.end_point.row + 1,
            original=self.tree.source[start:end].decode("utf-8", "replace"),
            altered=altered.decode("utf-8", "replace"),
        )

    def replaced(self, kind: AlterationKind, assertion: "Node", node: "Node", text: str) -> ProposedChange:
        """The assertion with one node replaced."""
        return self.edited(kind, assertion, [Edit(start=node.start_byte, end=node.end_byte, text=text)])

    def values(
        self, assertion: "Node", nodes: "Iterable[Node]", kind: AlterationKind = AlterationKind.LITERAL
    ) -> Iterator[ProposedChange]:
        """The assertion with one of the values in these nodes changed: the first, the last, then those between."""
        found = [value for node in nodes for value in self.find_values(node)]
        chosen = [*found[:1], *found[:0:-1]][:MAX_VALUES]
        for value in chosen:
            yield from self.changed_value(assertion, value, kind)

    def find_values(self, node: "Node") -> "Iterator[Node]":
        grammar = self.tree.grammar
        known = grammar.numbers | grammar.strings.keys() | grammar.patterns | grammar.characters
        waiting = [node]
        while waiting:
            found = waiting.pop()
            if found.type in known:
                yield found
            elif found.type in grammar.passed_over:
                continue
            elif not found.child_count:
                if found.is_named and self.tree.text(found) in grammar.words:
                    yield found
            elif found.type in grammar.pairs:
                waiting += [value for value in (found.child_by_field_name("value"),) if value is not None]
            else:
                waiting += reversed(found.children)

    def changed_value(
        self, assertion: "Node", value: "Node", kind: AlterationKind = AlterationKind.LITERAL
    ) -> Iterator[ProposedChange]:
        grammar = self.tree.grammar
        text = self.tree.text(value)
        if value.type in grammar.numbers:
            yield self.replaced(kind, assertion, value, other_number(text))
        elif value.type in grammar.patterns:
            yield self.replaced(kind, assertion, value, other_pattern(text))
        elif value.type in grammar.characters:
            inner = text[1:-1]
            if len(inner) == 1 and inner.isascii() and inner.isalnum():
                yield self.replaced(kind, assertion, value, f"'{other_text(inner)}'")
        elif value.type in grammar.strings:
            yield from self.changed_string(assertion, value, kind)
        elif text in grammar.words:
            yield self.replaced(AlterationKind.BOOLEAN, assertion, value, grammar.words[text])

    def changed_string(
        self, assertion: "Node", value: "Node", kind: AlterationKind = AlterationKind.LITERAL
    ) -> Iterator[ProposedChange]:
        """One character of a text changed; a text without letters gets one at its end."""
        parts = self.tree.grammar.strings[value.type]
        fragments = [child for child in value.children if child.type in parts]
        for fragment in [*fragments[:1], *fragments[:0:-1]]:
            text = self.tree.text(fragment)
            changed = other_text(text)
            if len(changed) == len(text):
                yield self.replaced(kind, assertion, fragment, changed)
                return
        closing = value.children[-1] if value.child_count else None
        if closing is not None and not closing.is_named:
            # Quotes of several characters close as they opened: the letter comes before the first of them.
            edit = Edit(start=closing.start_byte, end=closing.start_byte, text="x")
            yield self.edited(kind, assertion, [edit])


MAX_VALUES: Final = 4  # that are changed in one assertion
