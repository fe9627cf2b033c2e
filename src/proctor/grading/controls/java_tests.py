"""Alterations of Java's tests: JUnit 3 to 5 and TestNG, with their own assertions, AssertJ, Hamcrest and Truth."""

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from proctor.grading.controls.alteration import Alteration, AlterationKind, Edit
from proctor.grading.controls.syntax_tree import Grammar, ProposedChange, Proposer, SyntaxTree, parse_source, walk
from proctor.grading.controls.test_blocks import TestBlock, TestName, alterations_of_blocks

if TYPE_CHECKING:
    from tree_sitter import Node

JAVA: Final = Grammar(
    language="Java",
    package="tree_sitter_java",
    numbers=frozenset(
        {"decimal_integer_literal", "hex_integer_literal", "octal_integer_literal", "binary_integer_literal"}
        | {"decimal_floating_point_literal"}
    ),
    strings={"string_literal": frozenset({"string_fragment", "multiline_string_fragment"})},
    characters=frozenset({"character_literal"}),
    words={"true": "false", "false": "true"},
    passed_over=frozenset({"type_identifier", "integral_type", "type_arguments", "line_comment", "block_comment"})
    | {"lambda_expression", "array_access", "dimensions_expr", "class_literal"},
)
_TESTS: Final = frozenset(
    "Test ParameterizedTest RepeatedTest TestFactory TestTemplate Theory Property Example".split()
)
_CLASSES: Final = frozenset({"class_declaration", "record_declaration", "interface_declaration", "enum_declaration"})
_EQUALITIES: Final = frozenset(
    "assertEquals assertArrayEquals assertIterableEquals assertLinesMatch assertSame assertEqualsNoOrder assertThat"
    " assertEqualsDeep".split()
)
_OPPOSITES: Final = {
    name: other
    for one, two in (
        ("assertEquals", "assertNotEquals"),
        ("assertTrue", "assertFalse"),
        ("assertNull", "assertNotNull"),
        ("assertSame", "assertNotSame"),
        ("isEqualTo", "isNotEqualTo"),
        ("isTrue", "isFalse"),
        ("isNull", "isNotNull"),
        ("isEmpty", "isNotEmpty"),
        ("isSameAs", "isNotSameAs"),
        ("isSameInstanceAs", "isNotSameInstanceAs"),
        ("isInstanceOf", "isNotInstanceOf"),
        ("contains", "doesNotContain"),
        ("hasSameHashCodeAs", "doesNotHaveSameHashCodeAs"),
        ("startsWith", "doesNotStartWith"),
        ("endsWith", "doesNotEndWith"),
        ("matches", "doesNotMatch"),
        ("isIn", "isNotIn"),
        ("isZero", "isNotZero"),
        ("exists", "doesNotExist"),
        ("isGreaterThan", "isLessThanOrEqualTo"),
        ("isLessThan", "isGreaterThanOrEqualTo"),
    )
    for name, other in ((one, two), (two, one))
}
_COMPARISONS: Final = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_CHAINS: Final = frozenset(
    "assertThat assertThatThrownBy assertThatExceptionOfType expect then verify expectThat".split()
)
_NEGATIVE: Final = re.compile(
    r"^(assertNot|isNot|doesNot|hasNo|isGreater|isLess|assertThrows|assertAll|as$|describedAs)"
)
_HELPER_NAME: Final = re.compile(r"(?i)^(check|verify|assert|expect|ensure|validate|test|compare|should|must)")
_EXCEPTIONS: Final = ("IllegalStateException", "ArithmeticException")


def find_alterations(path: str, source: bytes, tests: Sequence[str]) -> dict[str, tuple[Alteration, ...]]:
    """Alterations of the tests of a Java file."""
    tree = parse_source(source, JAVA)
    if tree is None:
        return {}
    return alterations_of_blocks(path, tree, _of_class(path, tests), _JavaFile(tree).blocks)


def _of_class(path: str, tests: Sequence[str]) -> list[str]:
    """The ids of the class that the file is named after; all, where none is."""
    name = PurePosixPath(path).stem
    own = [test for test in tests if re.search(rf"(?:^|\W){re.escape(name)}(?:$|\W)", test)]
    return own or list(tests)


class _JavaFile:
    def __init__(self, tree: SyntaxTree) -> None:
        self.tree = tree
        self.proposer = Proposer(tree)
        self.text = tree.text
        self.blocks: list[TestBlock] = []
        self.methods: dict[str, Node] = {}
        self._imports = [
            self.text(node).removeprefix("import static").strip(" ;")
            for node in tree.root.named_children
            if node.type == "import_declaration" and self.text(node).startswith("import static")
        ]
        self._find()

    # Which tests there are.

    def _find(self) -> None:
        waiting: list[tuple[Node, TestBlock | None]] = [(self.tree.root, None)]
        while waiting:
            node, parent = waiting.pop()
            name = node.child_by_field_name("name")
            if node.type in _CLASSES and name is not None:
                block = TestBlock(TestName((self.text(name),)), lambda: (), parent)
                body = node.child_by_field_name("body")
                waiting += [(child, block) for child in reversed(body.named_children if body is not None else [])]
            elif node.type == "method_declaration" and name is not None:
                self._add(node, self.text(name), parent)
            elif node.type in {"program", "enum_body_declarations"}:
                waiting += [(child, parent) for child in reversed(node.named_children)]

    def _add(self, method: "Node", name: str, parent: TestBlock | None) -> None:
        body = method.child_by_field_name("body")
        annotations = self._annotations(method)
        if body is None:
            return
        if not _TESTS & annotations.keys() and not re.match(r"test|should", name):
            self.methods.setdefault(name, method)
            return
        names = [name]
        display = annotations.get("DisplayName")
        if display is not None:
            names += [self.text(one)[1:-1] for one in walk(display) if one.type == "string_literal"]
        test = annotations.get("Test")
        for one in names:
            self.blocks.append(TestBlock(TestName((one,)), lambda: self._method(body, test), parent))

    def _annotations(self, method: "Node") -> "dict[str, Node]":
        found: dict[str, Node] = {}
        for part in method.named_children:
            for one in part.named_children if part.type == "modifiers" else ():
                name = one.child_by_field_name("name")
                if one.type in {"annotation", "marker_annotation"} and name is not None:
                    found[self.text(name).rpartition(".")[2]] = one
        return found

    # What a test expects.

    def _method(self, body: "Node", annotation: "Node | None") -> Iterator[ProposedChange]:
        expects = annotation is not None and any(one.type == "class_literal" for one in walk(annotation))
        if annotation is not None:
            for one in walk(annotation):
                if one.type == "class_literal":
                    yield from self._exception(annotation, one)
        inside = list(walk(body))
        declared = {
            self.text(name): value
            for node in inside
            if node.type == "variable_declarator"
            and (name := node.child_by_field_name("name")) is not None
            and (value := node.child_by_field_name("value")) is not None
        }
        for node in inside:
            if node.type == "method_invocation":
                yield from self._invocation(node, declared)
            elif node.type == "assert_statement" and node.named_children:
                yield from self._negated(node, node.named_children[0])
            elif node.type == "if_statement":
                yield from self._guard(node)
        if not expects:
            yield from self._failing_statement(body)

    def _exception(self, assertion: "Node", literal: "Node") -> Iterator[ProposedChange]:
        other = next(one for one in _EXCEPTIONS if one not in self.text(literal))
        yield self.proposer.replaced(AlterationKind.EXCEPTION, assertion, literal, f"{other}.class")

    def _invocation(self, call: "Node", declared: "dict[str, Node]") -> Iterator[ProposedChange]:
        name_node, target = call.child_by_field_name("name"), call.child_by_field_name("object")
        if name_node is None:
            return
        name, arguments = self.text(name_node), _arguments(call)
        if target is not None and self._chain_root(target) in _CHAINS:
            yield from self._chained(call, name_node, arguments, declared)
        elif name in {"assertThrows", "assertThrowsExactly"}:
            is_typed = call.parent is not None and call.parent.type not in {"expression_statement", "method_invocation"}
            for one in arguments[:1] if not is_typed else ():
                if one.type == "class_literal":
                    yield from self._exception(call, one)
        elif name in {"assertTrue", "assertFalse"}:
            for condition in arguments[-1:] if arguments[:1] and self._is_text(arguments[0]) else arguments[:1]:
                yield from self._negated(call, condition)
        elif name in _EQUALITIES or name in _OPPOSITES:
            yield from self._plain(call, name_node, name, arguments, declared)
        elif self._asserts(name, is_own=target is None):
            yield from self._values(call, arguments[::-1], {})

    def _chained(
        self, call: "Node", word: "Node", arguments: "Sequence[Node]", declared: "dict[str, Node]"
    ) -> Iterator[ProposedChange]:
        """`assertThat(x).isEqualTo(5)`."""
        name = self.text(word)
        if not _NEGATIVE.match(name):
            yield from self._values(call, arguments, declared)
        if name in _OPPOSITES:
            kind = AlterationKind.COMPARISON if arguments else AlterationKind.BOOLEAN
            yield self.proposer.replaced(kind, call, word, _OPPOSITES[name])

    def _asserts(self, name: str, *, is_own: bool) -> bool:
        """Whether a method asserts something, by what it does or, where it is not in this file, by its name."""
        if name in self.methods:
            return re.search(r"\bassert|\bfail\(|\bverify\(|throw ", self.text(self.methods[name])) is not None
        return is_own and _HELPER_NAME.match(name) is not None

    def _is_text(self, node: "Node") -> bool:
        return node.type == "string_literal"

    def _chain_root(self, node: "Node") -> str:
        """The name of the call that a chain of calls begins with."""
        while True:
            inner = node.child_by_field_name("object")
            if node.type != "method_invocation":
                return ""
            name = node.child_by_field_name("name")
            if inner is None or inner.type != "method_invocation":
                return self.text(name) if name is not None else ""
            if name is not None and self.text(name) in _CHAINS:
                return self.text(name)
            node = inner

    def _plain(
        self, call: "Node", word: "Node", name: str, arguments: "Sequence[Node]", declared: "dict[str, Node]"
    ) -> Iterator[ProposedChange]:
        """An assertion of JUnit, TestNG or Hamcrest."""
        if name in _EQUALITIES:
            given = list(arguments[1:] if name == "assertThat" else arguments[:3])
            if len(given) > 2 and self._is_text(given[0]) and not self._is_text(given[2]):  # noqa: PLR2004 - a message
                given.append(given.pop(0))
            yield from self._values(call, given, declared)
        if name in _OPPOSITES and (other := self._reachable(word, _OPPOSITES[name])):
            kind = AlterationKind.BOOLEAN if len(arguments) == 1 else AlterationKind.COMPARISON
            yield self.proposer.replaced(kind, call, word, other)

    def _reachable(self, word: "Node", other: str) -> str:
        """How another assertion is called here: by its name, or through the class that this one is imported from."""
        call = word.parent
        if call is not None and call.child_by_field_name("object") is not None:
            return other
        if any(one.endswith((".*", f".{other}")) for one in self._imports):
            return other
        used = self.text(word)
        found = next((one for one in self._imports if one.endswith(f".{used}")), None)
        if found is not None:
            return f"{found.removesuffix(used)}{other}"
        return other if not self._imports else ""

    def _values(
        self, call: "Node", arguments: "Sequence[Node]", declared: "dict[str, Node]"
    ) -> Iterator[ProposedChange]:
        """Values among the arguments, or else those of the variables that they are."""
        found = False
        for argument in arguments:
            if argument.type != "method_invocation" or self._is_matcher(argument):
                for proposal in self.proposer.values(call, [argument]):
                    found = True
                    yield proposal
        for argument in arguments if not found else ():
            value = declared.get(self.text(argument)) if argument.type == "identifier" else None
            if value is not None and (value.type != "method_invocation" or self._is_matcher(value)):
                yield from self.proposer.values(call, [value])

    def _is_matcher(self, node: "Node") -> bool:
        """Whether a call makes a value that is expected, and is not of what is tested."""
        target = node.child_by_field_name("object")
        name = node.child_by_field_name("name")
        made = re.compile(
            r"^(of|ofEntries|asList|valueOf|is|equalTo|hasSize|containsString|contains|hasItems?|times|not)$"
        )
        if name is None or not made.match(self.text(name)):
            return False
        return target is None or self.text(target)[:1].isupper()

    def _negated(self, assertion: "Node", condition: "Node") -> Iterator[ProposedChange]:
        if condition.type == "binary_expression":
            operator = condition.child_by_field_name("operator")
            if operator is not None and self.text(operator) in _COMPARISONS:
                sign = self.text(operator)
                right = condition.child_by_field_name("right")
                if sign == "==" and right is not None:
                    yield from self._values(assertion, [right], {})
                yield self.proposer.replaced(AlterationKind.COMPARISON, assertion, operator, _COMPARISONS[sign])
                return
        if condition.type == "unary_expression" and self.text(condition).startswith("!"):
            operand = condition.child_by_field_name("operand")
            if operand is not None:
                yield self.proposer.replaced(AlterationKind.BOOLEAN, assertion, condition, self.text(operand))
                return
        if condition.type == "method_invocation":
            name, arguments = condition.child_by_field_name("name"), _arguments(condition)
            if name is not None and self.text(name) in {"equals", "contains", "startsWith", "endsWith", "matches"}:
                yield from self._values(assertion, arguments, {})
        yield self.proposer.replaced(AlterationKind.BOOLEAN, assertion, condition, f"!({self.text(condition)})")

    def _guard(self, node: "Node") -> Iterator[ProposedChange]:
        """`if (a != b) fail(…)` expects that they are equal."""
        condition, consequence = node.child_by_field_name("condition"), node.child_by_field_name("consequence")
        if condition is None or consequence is None or not condition.named_children:
            return
        if re.search(r"\bfail\(|\bthrow new Assertion|\bthrow new \w*(Exception|Error)", self.text(consequence)):
            yield from self._negated(condition, condition.named_children[0])

    def _failing_statement(self, body: "Node") -> Iterator[ProposedChange]:
        """A statement that fails, after all others. What cannot be reached does not compile."""
        named = [one for one in body.named_children if one.type not in {"line_comment", "block_comment"}]
        last = named[-1] if named else None
        for statement in self._failing_texts():
            if last is not None and last.type in {"return_statement", "throw_statement", "while_statement"}:
                place = last.start_byte
                text = f"if (true) {statement} "
            else:
                place = last.end_byte if last is not None else body.start_byte + 1
                text = f" {statement}"
            anchor = last if last is not None else body
            yield self.proposer.edited(AlterationKind.STATEMENT, anchor, [Edit(start=place, end=place, text=text)])

    def _failing_texts(self) -> Iterable[str]:
        if re.search(rb"\bassertEquals\(", self.tree.source):
            yield "assertEquals(1, 2);"
        yield 'throw new AssertionError("unexpected result");'


def _arguments(call: "Node") -> "list[Node]":
    arguments = call.child_by_field_name("arguments")
    if arguments is None:
        return []
    return [one for one in arguments.named_children if one.type not in {"line_comment", "block_comment"}]
