"""Alterations of tests in JavaScript and TypeScript: node:test, tape, jest, mocha, vitest, ava, QUnit and their kin.

A test is a call with a name and a function. What it expects is recognised by the names of assertions, which these
libraries share for the most part.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from proctor.grading.controls.alteration import Alteration, AlterationKind, Edit
from proctor.grading.controls.syntax_tree import (
    Grammar,
    ProposedChange,
    Proposer,
    SyntaxTree,
    load_parser,
    parse_source,
    walk,
)
from proctor.grading.controls.test_blocks import HOLE, TestBlock, TestName, alterations_of_blocks

if TYPE_CHECKING:
    from tree_sitter import Node

_VALUES: Final = {
    "numbers": frozenset({"number"}),
    "strings": {"string": frozenset({"string_fragment"}), "template_string": frozenset({"string_fragment"})},
    "patterns": frozenset({"regex_pattern"}),
    "pairs": frozenset({"pair"}),
    "words": {"true": "false", "false": "true", "null": "0", "undefined": "0"},
    "passed_over": frozenset(
        {"type_annotation", "type_arguments", "property_identifier", "regex_flags", "comment", "computed_property_name"}
    ),
}
JAVASCRIPT: Final = Grammar(language="JavaScript", package="tree_sitter_javascript", **_VALUES)  # type: ignore[arg-type]
TYPESCRIPT: Final = Grammar(
    language="TypeScript",
    package="tree_sitter_typescript",
    function="language_typescript",
    **_VALUES,  # type: ignore[arg-type]
)
TSX: Final = Grammar(
    language="TypeScript",
    package="tree_sitter_typescript",
    function="language_tsx",
    **_VALUES,  # type: ignore[arg-type]
)
_FUNCTIONS: Final = frozenset({"arrow_function", "function_expression", "function", "generator_function"})
_RUNNERS: Final = frozenset(
    "test it describe context suite specify scenario feature given when then tape tap ava t QUnit Deno module fit"
    " fdescribe xit xtest bench step".split()
)
_MODIFIERS: Final = frozenset(
    "test it describe context suite only skip todo serial each concurrent sequential failing fails parallel step"
    " specify module subtest skipIf runIf for".split()
)
# Assertions by what they compare. Those that expect a difference only have their opposite.
_OPPOSITES: Final = {
    name: other
    for one, two in (
        ("equal", "notEqual"),
        ("strictEqual", "notStrictEqual"),
        ("deepEqual", "notDeepEqual"),
        ("deepStrictEqual", "notDeepStrictEqual"),
        ("partialDeepStrictEqual", "notDeepStrictEqual"),
        ("looseEqual", "notLooseEqual"),
        ("deepLooseEqual", "notDeepLooseEqual"),
        ("is", "not"),
        ("same", "notSame"),
        ("strictSame", "strictNotSame"),
        ("deepLooseEqual", "notDeepLooseEqual"),
        ("propEqual", "notPropEqual"),
        ("match", "doesNotMatch"),
        ("throws", "doesNotThrow"),
        ("rejects", "doesNotReject"),
        ("include", "notInclude"),
        ("includes", "notIncludes"),
        ("deepInclude", "notDeepInclude"),
        ("isTrue", "isFalse"),
        ("ok", "notOk"),
        ("isOk", "isNotOk"),
        ("true", "false"),
        ("truthy", "falsy"),
        ("isNull", "isNotNull"),
        ("isUndefined", "isDefined"),
        ("exists", "notExists"),
        ("isEmpty", "isNotEmpty"),
        ("isAbove", "isAtMost"),
        ("isBelow", "isAtLeast"),
        ("instanceOf", "notInstanceOf"),
        ("property", "notProperty"),
        ("assertEquals", "assertNotEquals"),
        ("assertStrictEquals", "assertNotStrictEquals"),
        ("assertMatch", "assertNotMatch"),
    )
    for name, other in ((one, two), (two, one))
}
_OPPOSITES["partialDeepStrictEqual"] = "notDeepStrictEqual"
_OPPOSITES["notDeepStrictEqual"] = "deepStrictEqual"
_EQUALITIES: Final = frozenset(
    "equal strictEqual deepEqual deepStrictEqual partialDeepStrictEqual looseEqual deepLooseEqual is same strictSame"
    " propEqual include includes deepInclude assertEquals assertStrictEquals equals isEqual eq eql deepEquals"
    " lengthOf sameMembers sameDeepMembers sameOrderedMembers closeTo approximately typeOf propertyVal assertEqual"
    " assertArrayEquals assertObjectMatch assertStringIncludes snapshot like".split()
)
_MATCHES: Final = frozenset("match assertMatch regex matches".split())
_EXCEPTIONS: Final = frozenset("throws rejects throwsAsync assertThrows assertRejects throw".split())
_TRUTHS: Final = frozenset(
    "ok assert isTrue isFalse true false truthy falsy notOk isOk isNotOk notTruthy assertTrue assertFalse".split()
)
_ASSERTERS: Final = frozenset("assert t test chai should expect QUnit tap is equal ctx context".split())
_PLAIN_ASSERTIONS: Final = (_EQUALITIES | _MATCHES | _EXCEPTIONS | _TRUTHS | _OPPOSITES.keys()) - {
    "is",
    "include",
    "includes",
    "match",
    "matches",
    "true",
    "false",
    "same",
    "property",
    "like",
    "exists",
    "regex",
}
_HELPER_NAME: Final = re.compile(r"(?i)^_?(check|verify|expect|assert|should|ensure|validate|compare|must|same|equal)")
_ERROR_TYPES: Final = ("RangeError", "SyntaxError")
_COMPARISONS: Final = {
    "===": "!==", "!==": "===", "==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">",
}  # fmt: skip
_PLACEHOLDER: Final = re.compile(r"%(?:\d+\$)?[sdifjoOpc#$]|\$\{?[A-Za-z_#][\w.]*\}?")
_FAILURE: Final = 'throw new Error("unexpected result");'


def find_alterations(path: str, source: bytes, tests: Sequence[str]) -> dict[str, tuple[Alteration, ...]]:
    """Alterations of the tests of a file in JavaScript or TypeScript."""
    tree = _parse(path, source)
    if tree is None:
        return {}
    own = [test for test in tests if not _names_another_file(test, path)]
    return alterations_of_blocks(path, tree, own, _JavaScriptFile(tree, own).blocks)


def _parse(path: str, source: bytes) -> SyntaxTree | None:
    if path.endswith(".tsx"):
        return parse_source(source, TSX)
    if path.endswith("ts"):
        return parse_source(source, TYPESCRIPT)
    tree = parse_source(source, JAVASCRIPT)
    if tree is not None and tree.errors and load_parser(TSX.package, TSX.function) is not None:
        typed = parse_source(source, TSX)  # Flow's types are written like TypeScript's
        return typed if typed is not None and typed.errors < tree.errors else tree
    return tree


_FILE_NAME: Final = re.compile(r"[\w@./-]+\.[cm]?[jt]sx?\b")


def _names_another_file(test: str, path: str) -> bool:
    named = [name.lstrip("./") for name in _FILE_NAME.findall(test)]
    paths = [name for name in named if "/" in name]
    return bool(paths) and not any(path.endswith(name) or name.endswith(path) for name in named)


class _JavaScriptFile:
    def __init__(self, tree: SyntaxTree, tests: Sequence[str]) -> None:
        self.tree = tree
        self.proposer = Proposer(tree)
        self.text = tree.text
        self.blocks: list[TestBlock] = []
        self.block_of: dict[int, TestBlock] = {}
        self.helpers: dict[str, Node] = {}
        self.strings: dict[str, list[Node]] | None = None
        self._asserting: dict[str, bool] = {}
        self._endings = {_last_words(test) for test in tests}
        self._find_helpers()
        self._find_blocks()

    # Which tests there are.

    def _find_helpers(self) -> None:
        for node in walk(self.tree.root):
            name: Node | None = None
            function: Node | None = node
            if node.type in {"function_declaration", "generator_function_declaration", "method_definition"}:
                name = node.child_by_field_name("name")
            elif node.type in {"variable_declarator", "pair", "public_field_definition"}:
                name = node.child_by_field_name("name") or node.child_by_field_name("key")
                function = node.child_by_field_name("value")
            if name is None or function is None or name.type not in {"identifier", "property_identifier"}:
                continue
            if function is node or function.type in _FUNCTIONS:
                self.helpers.setdefault(self.text(name), function)

    def _find_blocks(self) -> None:
        waiting: list[tuple[Node, TestBlock | None]] = [(self.tree.root, None)]
        while waiting:
            node, parent = waiting.pop()
            inner = parent
            if node.type == "call_expression" and (block := self._block(node, parent)) is not None:
                self.blocks.append(block)
                self.block_of[node.id] = block
                inner = block
            waiting.extend((child, inner) for child in reversed(node.children))

    def _block(self, call: "Node", parent: TestBlock | None) -> TestBlock | None:
        arguments = _arguments(call)
        if not arguments:
            return None
        function = call.child_by_field_name("function")
        if function is None or not self._may_declare(function):
            return None
        name = self._name(arguments[0], is_table=function.type == "call_expression")
        if name is None:
            return None
        body = next((one for one in arguments[1:] if one.type in _FUNCTIONS), None)
        if body is not None:
            rows = self._rows if not name.is_fixed else None
            return TestBlock(name, lambda: self._proposals(body), parent, rows)
        # A check that is given its name and what it compares, and prints a line itself.
        if function.type == "identifier" and len(arguments) > 1 and name.is_fixed and name.text in self._endings:
            return TestBlock(name, lambda: self.proposer.values(call, arguments[:0:-1]), parent)
        return None

    def _may_declare(self, function: "Node") -> bool:
        """Whether a call of this may declare a test: by a known name, or by any plain one."""
        if function.type == "identifier":
            return True
        if function.type == "call_expression":  # test.each(table)(name, body)
            inner = function.child_by_field_name("function")
            return inner is not None and inner.type == "member_expression" and self._may_declare(inner)
        if function.type != "member_expression":
            return False
        member = function.child_by_field_name("property")
        root = function.child_by_field_name("object")
        while root is not None and root.type in {"member_expression", "call_expression"}:
            root = root.child_by_field_name("object") or root.child_by_field_name("function")
        if member is None or root is None:
            return False
        return self.text(member) in _MODIFIERS or (self.text(root) in _RUNNERS and self.text(member) != "on")

    def _name(self, node: "Node", *, is_table: bool) -> TestName | None:
        """The name that an expression gives a test."""
        if node.type == "string":
            text = _unescaped(self.text(node)[1:-1])
            if is_table and _PLACEHOLDER.search(text):
                return TestName(tuple(_with_holes(_PLACEHOLDER.split(text))))
            return TestName((text,)) if text else None
        if node.type == "template_string":
            pieces = [
                HOLE if child.type == "template_substitution" else _unescaped(self.text(child))
                for child in node.children[1:-1]
            ]
            if is_table:
                pieces = [
                    part
                    for piece in pieces
                    for part in ([HOLE] if piece is None else _with_holes(_PLACEHOLDER.split(piece)))
                ]
            return TestName(tuple(pieces)) if pieces else None
        if node.type == "binary_expression":
            sides = [node.child_by_field_name("left"), node.child_by_field_name("right")]
            names = [self._name(side, is_table=is_table) for side in sides if side is not None]
            return TestName(tuple(piece for name in names for piece in (name.pieces if name else (HOLE,))))
        if node.type in {"identifier", "member_expression", "subscript_expression", "call_expression"}:
            return TestName((HOLE,))
        return None

    def _rows(self, name: str) -> Iterator[TestBlock]:
        """The rows of tables that have this text in them: an object or an array, or what a key leads to."""
        if self.strings is None:
            self.strings = {}
            for node in walk(self.tree.root):
                if node.type == "string":
                    self.strings.setdefault(_unescaped(self.text(node)[1:-1]), []).append(node)
        for node in self.strings.get(name, ()):
            around = node.parent
            if around is None:
                continue
            row: Node | None = None
            if around.type == "array":
                row = around
            elif around.type == "pair":
                row = around if around.child_by_field_name("key") == node else around.parent
            if row is not None:
                yield TestBlock(TestName((name,)), lambda row=row, node=node: self._row_proposals(row, node))  # type: ignore[misc]

    def _row_proposals(self, row: "Node", name: "Node") -> Iterator[ProposedChange]:
        fields = [child for child in row.named_children if child != name and child.type != "comment"]
        if row.type == "object":
            fields = [child for child in fields if child.child_by_field_name("value") != name]
            expected = [child for child in fields if _EXPECTED_FIELD.search(self.text(child).partition(":")[0])]
            fields = expected or fields
        elif row.type == "array":
            fields.reverse()
        for one in fields:
            value = one.child_by_field_name("value") or one
            yield from self.proposer.values(one, [value])

    # What a test expects.

    def _proposals(self, body: "Node") -> Iterator[ProposedChange]:
        yield from self._expectations(body)
        yield from self._statements(body)

    def _expectations(self, body: "Node") -> Iterator[ProposedChange]:
        inside = [
            node for node in walk(body, into=lambda node: node.id not in self.block_of) if node.id not in self.block_of
        ]
        declared = {
            self.text(name): value
            for node in inside
            if node.type == "variable_declarator"
            and (name := node.child_by_field_name("name")) is not None
            and (value := node.child_by_field_name("value")) is not None
        }
        for node in inside:
            if node.type == "call_expression":
                yield from self._assertion(node, declared)
            elif node.type == "member_expression" and node.parent is not None:
                if node.parent.type in {"expression_statement", "await_expression"}:
                    yield from self._chained(node, node, ())
            elif node.type == "if_statement":
                yield from self._guard(node)

    def _assertion(self, call: "Node", declared: "dict[str, Node]") -> Iterator[ProposedChange]:
        function = call.child_by_field_name("function")
        arguments = _arguments(call)
        if function is None:
            return
        if function.type == "member_expression":
            if self._chain_root(function) is not None:
                yield from self._chained(call, function, arguments)
            else:
                yield from self._method(call, function, arguments, declared)
        elif function.type == "identifier":
            name = self.text(function)
            if name in self.helpers:
                if self._asserts(name):
                    yield from self._helper(call, name, arguments)
            elif name in _PLAIN_ASSERTIONS or name == "assert":
                yield from self._named(call, function, name, arguments, declared)
            elif name != "expect" and _HELPER_NAME.match(name):
                yield from self._helper(call, name, arguments)

    def _method(
        self, call: "Node", function: "Node", arguments: "Sequence[Node]", declared: "dict[str, Node]"
    ) -> Iterator[ProposedChange]:
        """`assert.equal(…)`, or a method of this file's that asserts."""
        member = function.child_by_field_name("property")
        root = function.child_by_field_name("object")
        if member is None or root is None:
            return
        name = self.text(member)
        if re.split(r"[.(]", self.text(root), maxsplit=1)[0] in _ASSERTERS or name.startswith("assert"):
            yield from self._named(call, member, name, arguments, declared)
        elif self._asserts(name):
            yield from self._helper(call, name, arguments)

    def _named(
        self, call: "Node", method: "Node", name: str, arguments: "Sequence[Node]", declared: "dict[str, Node]"
    ) -> Iterator[ProposedChange]:
        """An assertion whose name says what it compares."""
        if name in _EQUALITIES or name in _MATCHES:
            yield from self._expected(call, arguments[:2], declared)
        elif name in _EXCEPTIONS:
            yield from self._exception(call, arguments[1:2])
        elif name in _TRUTHS and arguments:
            yield from self._negated(call, arguments[0])
        if name in _OPPOSITES and name not in _TRUTHS and arguments and self._is_there(method, _OPPOSITES[name]):
            kind = AlterationKind.EXCEPTION if name in _EXCEPTIONS else AlterationKind.COMPARISON
            yield self.proposer.replaced(kind, call, method, _OPPOSITES[name])

    def _is_there(self, method: "Node", other: str) -> bool:
        """Whether an assertion can be used: as a member of the same object, or because the file uses it already."""
        return method.type != "identifier" or re.search(rf"\b{other}\b".encode(), self.tree.source) is not None

    def _expected(
        self, call: "Node", arguments: "Sequence[Node]", declared: "dict[str, Node]"
    ) -> Iterator[ProposedChange]:
        """Values of the second argument, or else of the first, or else of the variable that one of them is."""
        for argument in reversed(arguments):
            if argument.type in {"call_expression", "await_expression", "new_expression", *_FUNCTIONS}:
                continue
            found = list(self._literal(call, argument))
            if found:
                yield from found
                return
        for argument in reversed(arguments):
            value = declared.get(self.text(argument)) if argument.type == "identifier" else None
            if value is not None and value.type not in {"call_expression", "await_expression", *_FUNCTIONS}:
                yield from self._literal(call, value)

    def _literal(self, call: "Node", node: "Node") -> Iterator[ProposedChange]:
        found = False
        for proposal in self.proposer.values(call, [node]):
            found = True
            yield proposal
        if not found and node.type in {"array", "object"} and not node.named_child_count:
            yield self.proposer.replaced(
                AlterationKind.LITERAL, call, node, "[0]" if node.type == "array" else "{ x: 0 }"
            )

    def _exception(self, call: "Node", expected: "Sequence[Node]") -> Iterator[ProposedChange]:
        """Another type, or another text in the message or pattern that is expected."""
        for node in expected:
            if node.type in {"identifier", "member_expression"}:
                other = next(one for one in _ERROR_TYPES if one != self.text(node))
                yield self.proposer.replaced(AlterationKind.EXCEPTION, call, node, other)
            elif node.type in _FUNCTIONS:
                body = node.child_by_field_name("body")
                if body is not None and body.type != "statement_block":
                    yield self._wrapped(AlterationKind.EXCEPTION, call, body)
            else:
                yield from self.proposer.values(call, [node], AlterationKind.EXCEPTION)

    def _wrapped(self, kind: AlterationKind, call: "Node", node: "Node") -> ProposedChange:
        return self.proposer.edited(
            kind,
            call,
            [
                Edit(start=node.start_byte, end=node.end_byte, text=f"!({self.text(node)})"),
            ],
        )

    def _negated(self, call: "Node", condition: "Node") -> Iterator[ProposedChange]:
        """The other truth value: of a comparison by its operator, else by a negation."""
        if condition.type == "binary_expression":
            operator = condition.child_by_field_name("operator")
            if operator is not None and self.text(operator) in _COMPARISONS:
                if self.text(operator) in {"===", "=="}:
                    right = condition.child_by_field_name("right")
                    if right is not None:
                        yield from self.proposer.values(call, [right])
                yield self.proposer.replaced(
                    AlterationKind.COMPARISON, call, operator, _COMPARISONS[self.text(operator)]
                )
                return
        if condition.type == "unary_expression" and self.text(condition).startswith("!"):
            inner = condition.child_by_field_name("argument")
            if inner is not None:
                yield self.proposer.replaced(AlterationKind.BOOLEAN, call, condition, self.text(inner))
                return
        yield self._wrapped(AlterationKind.BOOLEAN, call, condition)

    def _chain_root(self, node: "Node") -> "Node | None":
        """The call of `expect` that a chain of properties begins with, or its `should`."""
        while True:
            if node.type == "call_expression":
                function = node.child_by_field_name("function")
                if function is None:
                    return None
                if function.type == "identifier":
                    return node if self.text(function) in {"expect", "expectTypeOf", "assertThat", "should"} else None
                if self.text(function) in {"expect.soft", "expect.poll", "chai.expect"}:
                    return node
                node = function
            elif node.type == "member_expression":
                member = node.child_by_field_name("property")
                if member is not None and self.text(member) == "should":
                    return node
                inner = node.child_by_field_name("object")
                if inner is None:
                    return None
                node = inner
            else:
                return None

    def _chained(self, assertion: "Node", chain: "Node", arguments: "Sequence[Node]") -> Iterator[ProposedChange]:
        """`expect(x).toBe(5)`, `expect(x).to.be.true`, `x.should.equal(5)`."""
        root = self._chain_root(chain)
        matcher = chain.child_by_field_name("property")
        if root is None or matcher is None or root == assertion:
            return
        if assertion.parent is not None and assertion.parent.type == "member_expression":
            return  # the chain goes on
        name = self.text(matcher)
        words = self.tree.source[root.end_byte : chain.end_byte].decode("utf-8", "replace").split(".")
        negated = next((word for word in words if word.strip() == "not"), None)
        if negated is None:
            if re.search(r"(?i)throw|reject", name):
                yield from self._exception(assertion, arguments)
            elif name not in {"lessThan", "above", "below", "least", "most"} and not re.match(
                r"toBe(Greater|Less)|toMatchSnapshot|toMatchFileSnapshot", name
            ):
                for argument in arguments[::-1] if name in {"toHaveProperty", "property"} else arguments:
                    if argument.type not in {"call_expression", *_FUNCTIONS}:
                        yield from self._literal(assertion, argument)
            start = matcher.start_byte if re.match(r"to[A-Z]", name) else root.end_byte
            text = "not." if re.match(r"to[A-Z]", name) else ".not"
            yield self.proposer.edited(
                AlterationKind.BOOLEAN if not arguments else AlterationKind.COMPARISON,
                assertion,
                [Edit(start=start, end=start, text=text)],
            )
        else:
            found = re.compile(rb"\.\s*not\b").search(self.tree.source, root.end_byte, chain.end_byte)
            if found is not None and b"\n" not in found[0]:
                yield self.proposer.edited(
                    AlterationKind.COMPARISON, assertion, [Edit(start=found.start(), end=found.end(), text="")]
                )

    def _guard(self, node: "Node") -> Iterator[ProposedChange]:
        """`if (a !== b) throw …` expects that they are equal."""
        condition = node.child_by_field_name("condition")
        consequence = node.child_by_field_name("consequence")
        if condition is None or consequence is None or condition.named_child_count != 1:
            return
        first = consequence
        if consequence.type == "statement_block" and consequence.named_children:
            first = consequence.named_children[0]
        if first.type == "throw_statement" or re.match(r"(t|assert)\.fail\(|fail\(|process\.exit\(1", self.text(first)):
            yield from self._negated(condition, condition.named_children[0])

    # Helpers of the file.

    def _asserts(self, name: str) -> bool:
        """Whether a function of this file asserts something, itself or through another."""
        if name not in self.helpers:
            return False
        if name not in self._asserting:
            self._asserting[name] = False  # a function that calls itself asserts what else it does
            self._asserting[name] = any(self._is_assertion(node) for node in walk(self.helpers[name]))
        return self._asserting[name]

    def _is_assertion(self, node: "Node") -> bool:
        if node.type == "throw_statement":
            return True
        if node.type != "call_expression":
            return False
        function = node.child_by_field_name("function")
        if function is None:
            return False
        if function.type == "identifier":
            name = self.text(function)
            if name in self.helpers:
                return self._asserts(name)
            return name in _PLAIN_ASSERTIONS or name in {"assert", "expect"}
        root = self.text(function).split(".")[0]
        return root in {"assert", "t", "expect", "chai", "should"}

    def _helper(self, call: "Node", name: str, arguments: "Sequence[Node]") -> Iterator[ProposedChange]:
        """A call of a function that asserts: the values that it is given, those that it expects first."""
        given = [one for one in arguments if one.type not in _FUNCTIONS]
        parameters = self._parameters(name)
        expected = self._expected_parameters(name)
        ranked = sorted(
            enumerate(given),
            key=lambda pair: ((parameters[pair[0] : pair[0] + 1] or [""])[0] not in expected, -pair[0]),
        )
        found = False
        for place, argument in ranked:
            if found and (parameters[place : place + 1] or [""])[0] not in expected:
                return  # what is tested with stays as it is where what is expected can be changed
            if argument.type not in {"call_expression", "await_expression", "new_expression", "identifier"}:
                for proposal in self._literal(call, argument):
                    found = True
                    yield proposal

    def _parameters(self, name: str) -> list[str]:
        function = self.helpers.get(name)
        parameters = function.child_by_field_name("parameters") if function is not None else None
        if parameters is None:
            return []
        names = []
        for one in parameters.named_children:
            inner = one.child_by_field_name("left") or one.child_by_field_name("pattern") or one
            names.append(self.text(inner))
        return names

    def _expected_parameters(self, name: str) -> set[str]:
        """The parameters that stand where an assertion has what it expects."""
        function = self.helpers.get(name)
        parameters = set(self._parameters(name))
        found: set[str] = {one for one in parameters if _EXPECTED_FIELD.search(one)}
        if function is None:
            return found
        for node in walk(function):
            if node.type == "call_expression" and self._is_assertion(node):
                arguments = _arguments(node)
                for argument in arguments[1:2] if len(arguments) > 1 else arguments[:1]:
                    found |= {self.text(inner) for inner in walk(argument) if inner.type == "identifier"} & parameters
        return found

    # The last resort.

    def _statements(self, body: "Node") -> Iterator[ProposedChange]:
        """A statement that fails at the end of the test: an assertion as the file makes them, or an exception."""
        block = body.child_by_field_name("body")
        if block is None:
            return
        if block.type != "statement_block":
            made = self.text(block)
            yield self.proposer.replaced(AlterationKind.STATEMENT, block, block, f"{{ {made}; {_FAILURE} }}")
            return
        if any(node.id in self.block_of for node in walk(block)):
            return  # what holds tests fails with them
        closing = block.children[-1]
        last = next((one for one in reversed(block.named_children) if one.type != "comment"), None)
        place = last.start_byte if last is not None and last.type == "return_statement" else closing.start_byte
        anchor = last if last is not None else block
        for statement in (*self._failing_assertion(), _FAILURE):
            text = f"{statement} "
            if self.tree.source[place - 1 : place].strip():
                text = f" {text}"
            if last is not None and last.type != "return_statement" and not self.text(last).endswith((";", "}")):
                text = f";{text}"
            yield self.proposer.edited(AlterationKind.STATEMENT, anchor, [Edit(start=place, end=place, text=text)])

    def _failing_assertion(self) -> Iterator[str]:
        source = self.tree.source
        if re.search(rb"\bassert\.(strict|deep)?[eE]qual\(", source):
            yield "assert.equal(1, 0);"
        elif re.search(rb"\bassert\(", source):
            yield "assert(1 === 0);"
        elif re.search(rb"\bexpect\([^\n]*\)[\w.]*\.to[A-Z]", source):
            yield "expect(1).toBe(0);"
        elif re.search(rb"\bexpect\([^\n]*\)\.to\.", source):
            yield "expect(1).to.equal(0);"


_EXPECTED_FIELD: Final = re.compile(r"(?i)want|expect|result|output|should|answer|correct|^exp|^out$")


def _arguments(call: "Node") -> "list[Node]":
    arguments = call.child_by_field_name("arguments")
    if arguments is None or arguments.type != "arguments":
        return []
    return [one for one in arguments.named_children if one.type != "comment"]


def _with_holes(pieces: Iterable[str]) -> list[str | None]:
    """The pieces between placeholders, with holes where these were."""
    found: list[str | None] = []
    for number, piece in enumerate(pieces):
        if number:
            found.append(HOLE)
        if piece:
            found.append(piece)
    return found


def _last_words(test: str) -> str:
    return test.rpartition(" > ")[2].strip()


_ESCAPE: Final = re.compile(r"\\(u\{([0-9a-fA-F]{1,6})\}|u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|\r?\n|.)", re.DOTALL)
_ESCAPED: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "0": "\0", "\n": "", "\r\n": ""}


def _unescaped(text: str) -> str:
    def character(match: re.Match[str]) -> str:
        code = match[2] or match[3] or match[4]
        return chr(min(int(code, 16), 0x10FFFF)) if code else _ESCAPED.get(match[1], match[1])

    return _ESCAPE.sub(character, text) if "\\" in text else text
