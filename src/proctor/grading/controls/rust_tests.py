"""Alterations of Rust's tests: functions with an attribute of a test, their assertions and the panics they expect.

What a macro is given is no syntax tree but a sequence of tokens: it is read up to the commas between its arguments.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from proctor.grading.controls.alteration import Alteration, AlterationKind, Edit
from proctor.grading.controls.syntax_tree import Grammar, ProposedChange, Proposer, SyntaxTree, parse_source, walk
from proctor.grading.controls.test_blocks import HOLE, TestBlock, TestName, alterations_of_blocks

if TYPE_CHECKING:
    from tree_sitter import Node

RUST: Final = Grammar(
    language="Rust",
    package="tree_sitter_rust",
    numbers=frozenset({"integer_literal", "float_literal"}),
    strings={
        "string_literal": frozenset({"string_content"}),
        "raw_string_literal": frozenset({"string_content"}),
    },
    characters=frozenset({"char_literal"}),
    words={"true": "false", "false": "true"},
    passed_over=frozenset({"type_identifier", "primitive_type", "array_type", "line_comment", "block_comment"})
    | {"closure_expression", "index_expression"},
)
_TEST: Final = re.compile(r"(?:^|::)(?:\w*test\w*|case|quickcheck)$")
_ASSERTION: Final = re.compile(r"^(?:prop_|debug_)?(?:assert|check|expect|verify)\w*$")
_OPPOSITES: Final = {
    name: other
    for prefix in ("", "debug_", "prop_")
    for one, two in ((f"{prefix}assert_eq", f"{prefix}assert_ne"),)
    for name, other in ((one, two), (two, one))
}
_COMPARISONS: Final = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
# How an argument begins that is a value and not a call of what is tested.
_VALUE: Final = re.compile(
    r"&*\s*(?:-?[0-9]|b?r?#*[\"']|\[|\(|vec!|true\b|false\b|Some\(|Ok\(|Err\(|None\b|[A-Z]\w*(?:::[A-Z]\w*)?\s*[{(\"]"
    r"|String::from|Duration::|HashMap::from|BTreeMap::from|format!|json!)"
)
_FAILING: Final = "assert_eq!(1, 2);"


def find_alterations(path: str, source: bytes, tests: Sequence[str]) -> dict[str, tuple[Alteration, ...]]:
    """Alterations of the tests of a Rust file."""
    tree = parse_source(source, RUST)
    if tree is None:
        return {}
    blocks = _RustFile(tree, is_test_file="src" not in PurePosixPath(path).parts).blocks
    return alterations_of_blocks(path, tree, _of_module(path, tests, blocks), blocks)


def _of_module(path: str, tests: Sequence[str], blocks: Sequence[TestBlock]) -> list[str]:
    """The ids of the file's own module; all, where none is."""
    parts = PurePosixPath(path).with_suffix("").parts
    inner = parts[len(parts) - parts[::-1].index("src") :] if "src" in parts else ()
    modules = [part for part in inner if part not in {"lib", "main", "mod"}]
    names = {"::".join((*modules, block.name.text.removesuffix("::"))) for block in blocks}
    own = [test for test in tests if test.split()[-1:] and _is_below(test.split()[-1], names)]
    return own or list(tests)


def _is_below(test: str, names: Collection[str]) -> bool:
    """Whether a test is one of these, or a case of one."""
    return test in names or test.rpartition("::")[0] in names


class _RustFile:
    def __init__(self, tree: SyntaxTree, *, is_test_file: bool) -> None:
        self.tree = tree
        self._is_test_file = is_test_file
        self.proposer = Proposer(tree)
        self.text = tree.text
        self.blocks: list[TestBlock] = []
        self.helpers: dict[str, Node] = {}
        self._find(tree.root, ())

    # Which tests there are.

    def _find(self, root: "Node", modules: tuple[str, ...]) -> None:
        waiting = [(root, modules)]
        while waiting:
            around, inside = waiting.pop()
            attributes: list[Node] = []
            for node in around.named_children:
                name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
                if node.type == "attribute_item":
                    attributes.append(node)
                    continue
                if node.type == "mod_item" and name is not None and body is not None:
                    waiting.append((body, (*inside, self.text(name))))
                elif node.type == "impl_item" and body is not None:
                    waiting.append((body, inside))
                elif node.type == "function_item" and name is not None and body is not None:
                    self._add(node, attributes, "::".join((*inside, self.text(name))), body)
                if node.type not in {"line_comment", "block_comment"}:
                    attributes = []

    def _add(self, function: "Node", attributes: "list[Node]", name: str, body: "Node") -> None:
        paths = [self.text(one.named_children[0]).partition("(")[0].strip() for one in attributes if one.named_children]
        if not any(_TEST.search(path) and not path.startswith("cfg") for path in paths):
            if self._is_test_file or "test" in name.rpartition("::")[0]:  # else it is what is tested
                self.helpers.setdefault(name.rpartition("::")[2], function)
            return
        self.blocks.append(TestBlock(TestName((name,)), lambda: self._body(body, attributes)))
        cases = [
            one for one, path in zip(attributes, paths, strict=False) if re.search(r"(^|::)(test_)?case(::\w+)?$", path)
        ]
        inline = self._case_parameters(function)
        if cases or inline:
            self.blocks.append(
                TestBlock(
                    TestName((f"{name}::", HOLE)),
                    lambda: self._body(body, attributes),
                    rows=lambda case: self._case(case, cases),
                )
            )

    def _case_parameters(self, function: "Node") -> "list[Node]":
        parameters = function.child_by_field_name("parameters")
        if parameters is None:
            return []
        return [one for one in parameters.named_children if one.type in {"attribute_item", "attribute"}]

    def _case(self, case: str, cases: "Sequence[Node]") -> Iterator[TestBlock]:
        """The attribute of a case, by its number or its comment."""
        match = re.match(r"case_(\d+)", case)
        number = int(match[1]) - 1 if match else -1
        for place, attribute in enumerate(cases):
            words = re.sub(r"\W+", "_", self.text(attribute)).lower()
            if place == number or (match is None and case.lower() in words):
                yield TestBlock(TestName((case,)), lambda one=attribute: self._given(one))  # type: ignore[misc]

    def _given(self, attribute: "Node") -> Iterator[ProposedChange]:
        tokens = next((one for one in walk(attribute) if one.type == "token_tree"), None)
        if tokens is not None:
            for argument in reversed(_split(tokens)):
                yield from self.proposer.values(attribute, argument)

    # What a test expects.

    def _body(self, body: "Node", attributes: "Sequence[Node]") -> Iterator[ProposedChange]:
        panics = next((one for one in attributes if re.match(r"#\[\s*should_panic", self.text(one))), None)
        if panics is not None:
            yield from self._panic(panics)
        inside = list(walk(body))
        declared = {
            self.text(pattern): value
            for node in inside
            if node.type == "let_declaration"
            and (pattern := node.child_by_field_name("pattern")) is not None
            and (value := node.child_by_field_name("value")) is not None
        }
        for node in inside:
            if node.type == "macro_invocation":
                yield from self._macro(node, declared)
            elif node.type == "if_expression":
                yield from self._guard(node)
            elif node.type == "call_expression":
                yield from self._helper(node)
        if panics is None:
            yield from self._failing_statement(body)

    def _panic(self, attribute: "Node") -> Iterator[ProposedChange]:
        """The message that a test expects to end with; where any will do, one that it does not end with."""
        texts = [one for one in walk(attribute) if one.type in RUST.strings]
        if texts:
            yield from self.proposer.values(attribute, texts, AlterationKind.EXCEPTION)
            return
        word = next((one for one in walk(attribute) if one.type == "identifier"), None)
        if word is not None and self.text(word) == "should_panic":
            edit = Edit(start=word.end_byte, end=word.end_byte, text='(expected = "unexpected result")')
            yield self.proposer.edited(AlterationKind.EXCEPTION, attribute, [edit])

    def _macro(self, node: "Node", declared: "dict[str, Node]") -> Iterator[ProposedChange]:
        macro = node.child_by_field_name("macro")
        tokens = next((one for one in node.children if one.type == "token_tree"), None)
        if macro is None or tokens is None:
            return
        name = self.text(macro).rpartition("::")[2]
        arguments = [argument for argument in _split(tokens) if argument]
        if not _ASSERTION.match(name) or not arguments:
            return
        if name in {"assert", "debug_assert", "prop_assert"}:
            yield from self._truth(node, arguments[0])
            return
        if not name.endswith("_ne"):
            given = arguments[:2] if name in _OPPOSITES else arguments
            yield from self._expected(node, given, declared)
        if name in _OPPOSITES:
            word = macro.child_by_field_name("name") or macro
            yield self.proposer.replaced(AlterationKind.COMPARISON, node, word, _OPPOSITES[name])

    def _span(self, argument: "Sequence[Node]") -> str:
        return self.tree.source[argument[0].start_byte : argument[-1].end_byte].decode("utf-8", "replace")

    def _expected(
        self, assertion: "Node", arguments: "Sequence[Sequence[Node]]", declared: "dict[str, Node]"
    ) -> Iterator[ProposedChange]:
        """Values of the argument that is one, the last such first, or else of the variable that an argument is."""
        values = [argument for argument in reversed(arguments) if _VALUE.match(self._span(argument))]
        for argument in values:
            found = list(self.proposer.values(assertion, argument))
            if found:
                yield from found
                return
        for argument in reversed(arguments):
            value = declared.get(self._span(argument).lstrip("&*").strip())
            if value is not None and _VALUE.match(self.text(value)):
                yield from self.proposer.values(assertion, [value])

    def _truth(self, assertion: "Node", condition: "Sequence[Node]") -> Iterator[ProposedChange]:
        """A condition that must hold: another value in it, another operator, or its negation."""
        signs = [number for number, node in enumerate(condition) if self.text(node) in _COMPARISONS]
        joined = any(self.text(node) in {"&&", "||"} for node in condition)
        if len(signs) == 1 and not joined:
            sign = condition[signs[0]]
            if self.text(sign) == "==":
                sides = [condition[: signs[0]], condition[signs[0] + 1 :]]
                yield from self._expected(assertion, [side for side in sides if side], {})
            yield self.proposer.replaced(AlterationKind.COMPARISON, assertion, sign, _COMPARISONS[self.text(sign)])
            return
        start, end = condition[0].start_byte, condition[-1].end_byte
        edit = Edit(start=start, end=end, text=f"!({self._span(condition)})")
        yield self.proposer.edited(AlterationKind.BOOLEAN, assertion, [edit])

    def _guard(self, node: "Node") -> Iterator[ProposedChange]:
        """`if a != b { panic!(…) }` expects that they are equal."""
        condition, consequence = node.child_by_field_name("condition"), node.child_by_field_name("consequence")
        if condition is None or consequence is None or condition.type != "binary_expression":
            return
        operator = condition.child_by_field_name("operator")
        if operator is None or not re.search(r"\b(panic|unreachable)!", self.text(consequence)):
            return
        sign = self.text(operator)
        if sign == "!=":
            sides = [condition.child_by_field_name("left"), condition.child_by_field_name("right")]
            yield from self._expected(condition, [[side] for side in sides if side is not None], {})
        if sign in _COMPARISONS:
            yield self.proposer.replaced(AlterationKind.COMPARISON, condition, operator, _COMPARISONS[sign])

    def _helper(self, call: "Node") -> Iterator[ProposedChange]:
        """A call of a function of this file's that asserts: the values that it is given."""
        function, arguments = call.child_by_field_name("function"), call.child_by_field_name("arguments")
        if function is None or arguments is None:
            return
        helper = self.helpers.get(self.text(function).rpartition("::")[2])
        if helper is None or not re.search(
            r"\bassert\w*!|\bpanic!|\bcheck(?:_\w+)?\(|\bassert\w*\(", self.text(helper)
        ):
            return
        for argument in reversed(arguments.named_children):
            if argument.type not in {"call_expression", "closure_expression"} or _VALUE.match(self.text(argument)):
                yield from self.proposer.values(call, [argument])

    def _failing_statement(self, body: "Node") -> Iterator[ProposedChange]:
        """An assertion that fails, after all other statements."""
        named = [one for one in body.named_children if one.type not in {"line_comment", "block_comment"}]
        last = named[-1] if named else None
        result = last is not None and last.type not in {"expression_statement", "let_declaration", "empty_statement"}
        if last is not None and result:
            place, text = last.start_byte, f"{_FAILING} "
        elif last is not None:
            place, text = last.end_byte, f" {_FAILING}"
        else:
            place, text = body.start_byte + 1, f" {_FAILING} "
        anchor = last if last is not None else body
        yield self.proposer.edited(AlterationKind.STATEMENT, anchor, [Edit(start=place, end=place, text=text)])


def _split(tokens: "Node") -> "list[list[Node]]":
    """What a macro is given, at the commas between its arguments."""
    found: list[list[Node]] = [[]]
    for node in tokens.children[1:-1]:
        if node.type == ",":
            found.append([])
        elif node.type not in {"line_comment", "block_comment"}:
            found[-1].append(node)
    return [argument for argument in found if argument]
