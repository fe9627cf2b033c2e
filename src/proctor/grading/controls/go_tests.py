"""Alterations of Go's tests: functions of package testing with their subtests and tables, examples, and testify.

An id names the package, the function and the subtests: `pkg::TestName/case`. A subtest that fails fails the tests
around it.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from proctor.grading.controls.alteration import Alteration, AlterationKind, Edit
from proctor.grading.controls.changed_text import other_text
from proctor.grading.controls.syntax_tree import Grammar, ProposedChange, Proposer, SyntaxTree, parse_source, walk
from proctor.grading.controls.test_blocks import HOLE, TestBlock, TestName, alterations_of_blocks

if TYPE_CHECKING:
    from tree_sitter import Node

GO: Final = Grammar(
    language="Go",
    package="tree_sitter_go",
    numbers=frozenset({"int_literal", "float_literal"}),
    strings={
        "interpreted_string_literal": frozenset({"interpreted_string_literal_content"}),
        "raw_string_literal": frozenset({"raw_string_literal_content"}),
    },
    characters=frozenset({"rune_literal"}),
    pairs=frozenset({"keyed_element"}),
    words={"true": "false", "false": "true"},
    passed_over=frozenset(
        {"slice_type", "array_type", "map_type", "struct_type", "type_identifier", "field_identifier", "comment"}
        | {"func_literal", "index_expression", "slice_expression"}
    ),
)
_TEST: Final = re.compile(r"(?:Test|Example|Fuzz|Benchmark)(?![a-z])")
_FAILURES: Final = re.compile(r"\.(?:Error|Errorf|Fatal|Fatalf|Fail|FailNow)\(|\bpanic\(|\bfail\w*\(")
_COMPARISONS: Final = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_OPPOSITES: Final = {
    name + suffix: other + suffix
    for one, two in (
        ("Equal", "NotEqual"),
        ("EqualValues", "NotEqualValues"),
        ("True", "False"),
        ("Nil", "NotNil"),
        ("NoError", "Error"),
        ("Empty", "NotEmpty"),
        ("Contains", "NotContains"),
        ("ErrorIs", "NotErrorIs"),
        ("Same", "NotSame"),
        ("Zero", "NotZero"),
        ("ElementsMatch", "NotElementsMatch"),
        ("Panics", "NotPanics"),
        ("Regexp", "NotRegexp"),
        ("Greater", "LessOrEqual"),
        ("Less", "GreaterOrEqual"),
        ("FileExists", "NoFileExists"),
        ("DirExists", "NoDirExists"),
        ("To", "NotTo"),
        ("Should", "ShouldNot"),
        ("Implements", "NotImplements"),
    )
    for name, other in ((one, two), (two, one))
    for suffix in ("", "f")
}
_EQUALITIES: Final = frozenset(
    "Equal EqualValues Exactly Len Contains ElementsMatch JSONEq YAMLEq EqualError ErrorContains InDelta InEpsilon"
    " Subset Regexp HTTPStatusCode WithinDuration PanicsWithValue PanicsWithError To Should Eq Equals DeepEqual IsEqual"
    " HasPrefix EqualStrings".split()
)
_COMPARERS: Final = re.compile(
    r"\b(?:reflect\.DeepEqual|(?:bytes|slices|maps|cmp|proto|strings|utils?)\.(?:Equal|EqualFunc|Contains|HasPrefix|HasSuffix"
    r"|EqualFold)|errors\.Is|\w*[eE]qual\w*|MatchString)\($"
)
_ELEMENTS: Final = {"string": '"x"', "int": "1", "int64": "1", "byte": "1", "float64": "1", "bool": "true", "any": "1"}
_ASSERTERS: Final = frozenset("assert require is qt g Expect must should a r".split())
_HELPER_NAME: Final = re.compile(
    r"(?i)^(check|verify|assert|expect|test|must|equal|compare|require|ensure|run|do|validate)"
)
_EXPECTED_FIELD: Final = re.compile(r"(?i)want|expect|exp$|^exp|out(put)?$|result|res$|err|ok$|valid")
_ONCE: Final = 2  # a function that is declared and called once
_FAILING: Final = 'Fatal("unexpected result")'


def find_alterations(path: str, source: bytes, tests: Sequence[str]) -> dict[str, tuple[Alteration, ...]]:
    """Alterations of the tests of a Go file."""
    tree = parse_source(source, GO)
    if tree is None:
        return {}
    own = _of_package(path, tests)
    return alterations_of_blocks(path, tree, own, _GoFile(tree, own).blocks)


def _of_package(path: str, tests: Sequence[str]) -> list[str]:
    """The ids of the file's own package; all, where none is of a package that is called like the file's directory."""
    directory = PurePosixPath(path).parent.name
    own = [test for test in tests if _package_name(test) in {"", directory}]
    return own if directory and own else list(tests)


def _package_name(test: str) -> str:
    package = test.rpartition("::")[0] or re.match(r"(.*?)\.?(?=(?:Test|Example|Fuzz|Benchmark))", test + "Test")[1]  # type: ignore[index]
    package = re.sub(r"/v[0-9]+$", "", package)
    return package.rpartition("/")[2].strip()


class _GoFile:
    def __init__(self, tree: SyntaxTree, tests: Sequence[str]) -> None:
        self.tree = tree
        self.tests = tests
        self.proposer = Proposer(tree)
        self.text = tree.text
        self.blocks: list[TestBlock] = []
        self.block_of: dict[int, TestBlock] = {}
        self.helpers: dict[str, Node] = {}
        functions = [
            node for node in tree.root.named_children if node.type in {"function_declaration", "method_declaration"}
        ]
        for node in [node for node in functions if not self._add_helper(node)]:
            self._add_function(node)

    # Which tests there are.

    def _add_helper(self, node: "Node") -> bool:
        name = node.child_by_field_name("name")
        if name is not None and _TEST.match(self.text(name)) and self.text(name) != "TestMain":
            return False
        if name is not None:
            self.helpers[self.text(name)] = node
        return True

    def _add_function(self, node: "Node") -> None:
        name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        if name is None or body is None:
            return
        text = self.text(name)
        parameter = self._parameter(node)
        block = TestBlock(TestName((text,)), lambda: ())
        self.blocks.append(block)
        inner = self._add_subtests(body, body, block)
        if text.startswith("Example"):
            block.propose = lambda: self._example(body)
            return
        if inner:
            block.propose = lambda: self._body(body, parameter)
            return
        # Subtests that other code starts share what the function expects.
        rest = TestBlock(
            TestName((f"{text}/", HOLE)),
            lambda: (*self._started(body), *self._body(body, parameter)),
            block,
            lambda name: self._rows(name, body),
        )
        self.blocks.append(rest)
        block.propose = lambda: () if rest.ids else self._body(body, parameter)

    def _started(self, body: "Node") -> Iterator[ProposedChange]:
        """What subtests expect that a function starts which only this test calls."""
        for node in walk(body):
            function = node.child_by_field_name("function") if node.type == "call_expression" else None
            name = self.text(function) if function is not None else ""
            if name not in self.helpers or self.tree.source.count(f"{name}(".encode()) > _ONCE:
                continue
            for inner in walk(self.helpers[name]):
                arguments = _arguments(inner) if inner.type == "call_expression" else []
                run = arguments[-1] if len(arguments) > 1 and arguments[-1].type == "func_literal" else None
                started = run.child_by_field_name("body") if run is not None else None
                if run is not None and started is not None:
                    yield from self._body(started, self._parameter(run))

    def _add_subtests(self, top: "Node", body: "Node", parent: TestBlock) -> bool:
        found = False
        waiting = [(body, parent)]
        while waiting:
            node, around = waiting.pop()
            inner = around
            if node.type == "call_expression":
                function = node.child_by_field_name("function")
                arguments = _arguments(node)
                if (
                    function is not None
                    and function.type == "selector_expression"
                    and self.text(function).endswith(".Run")
                    and len(arguments) > 1
                    and arguments[-1].type in {"func_literal", "identifier", "selector_expression", "call_expression"}
                ):
                    found = True
                    inner = self._subtest(top, node, arguments, around)
            waiting.extend((child, inner) for child in reversed(node.children))
        return found

    def _subtest(self, top: "Node", call: "Node", arguments: "Sequence[Node]", parent: TestBlock) -> TestBlock:
        name = TestName((*parent.name.pieces, "/", *self._name(arguments[0])))
        function = arguments[-1]
        body = function.child_by_field_name("body")
        helper = self.helpers.get(self.text(function).rpartition(".")[2])
        if body is None and helper is not None:
            function, body = helper, helper.child_by_field_name("body")
        parameter = self._parameter(function)
        block = TestBlock(
            name,
            (lambda: self._body(body, parameter)) if body is not None else (lambda: ()),
            parent,
            None if name.is_fixed else lambda row: self._rows(row, top),
        )
        self.blocks.append(block)
        self.block_of[call.id] = block
        return block

    def _name(self, node: "Node") -> tuple[str | None, ...]:
        """The name that an expression gives a subtest, as Go writes it."""
        if node.type in GO.strings:
            return (_rewritten(_unquoted(self.text(node))),)
        if node.type == "binary_expression":
            sides = (node.child_by_field_name("left"), node.child_by_field_name("right"))
            return tuple(piece for side in sides if side is not None for piece in self._name(side))
        if node.type == "call_expression" and self.text(node).startswith("fmt.Sprintf("):
            form = _arguments(node)[:1]
            if form and form[0].type in GO.strings:
                pieces = re.split(r"%[-+# 0-9.*]*[a-zA-Z]", _rewritten(_unquoted(self.text(form[0]))))
                filled: list[str | None] = []
                for number, piece in enumerate(pieces):
                    filled += [HOLE, piece] if number else [piece]
                return tuple(piece for piece in filled if piece != "")
        return (HOLE,)

    def _parameter(self, function: "Node") -> str:
        """What a function calls the test that it is given."""
        for place in ("parameters", "receiver"):
            parameters = function.child_by_field_name(place)
            for one in parameters.named_children if parameters is not None else ():
                name = one.child_by_field_name("name")
                if name is None or self.text(name) == "_":
                    continue
                if re.search(r"testing\.(T|B|F|TB)$|\bgocheck\.C$|\bcheck\.C$", self.text(one)):
                    return self.text(name)
                if place == "receiver":
                    return f"{self.text(name)}.T()"
        return ""

    def _rows(self, name: str, body: "Node") -> Iterator[TestBlock]:
        """The rows of tables with this name: the elements beside it, or what it is the key of."""
        for root in (body, self.tree.root):
            rows = list(self._rows_below(root, name))
            for row, named in rows:
                yield TestBlock(TestName((name,)), lambda row=row, named=named: self._row(row, named))  # type: ignore[misc]
            if rows:
                return

    def _rows_below(self, root: "Node", name: str) -> "Iterator[tuple[Node, Node]]":
        for node in walk(root):
            if node.type not in GO.strings or _rewritten(_unquoted(self.text(node))) != name:
                continue
            element = node.parent
            around = element.parent if element is not None else None
            if element is None or around is None or element.type != "literal_element":
                continue
            if around.type == "literal_value":
                yield around, element
            elif around.type == "keyed_element":
                if around.child_by_field_name("key") == element:
                    value = around.child_by_field_name("value")
                    if value is not None:
                        yield value, element
                elif around.parent is not None:
                    yield around.parent, around

    def _row(self, row: "Node", named: "Node") -> Iterator[ProposedChange]:
        if row.type == "literal_element" and row.named_children:
            row = row.named_children[0]
        fields = [one for one in row.named_children if one != named and one.type != "comment"] or [row]
        keyed = any(one.type == "keyed_element" for one in fields)
        if keyed:
            expected = [one for one in fields if _EXPECTED_FIELD.search(self.text(one).partition(":")[0])]
            fields = expected or fields
        else:
            fields.reverse()
        for one in fields:
            yield from self._literals(one, one)

    def _literals(self, assertion: "Node", node: "Node") -> Iterator[ProposedChange]:
        """The values of an expression; a list that is expected to be empty gets an element."""
        found = False
        for proposal in self.proposer.values(assertion, [node]):
            found = True
            yield proposal
        for inner in walk(node) if not found else ():
            kind, body = inner.child_by_field_name("type"), inner.child_by_field_name("body")
            if inner.type != "composite_literal" or kind is None or body is None or body.named_child_count:
                continue
            element = kind.child_by_field_name("element")
            if kind.type == "slice_type" and element is not None and self.text(element) in _ELEMENTS:
                text = f"{{{_ELEMENTS[self.text(element)]}}}"
                yield self.proposer.replaced(AlterationKind.LITERAL, assertion, body, text)

    # What a test expects.

    def _body(self, body: "Node", parameter: str) -> Iterator[ProposedChange]:
        inside = [
            node for node in walk(body, into=lambda node: node.id not in self.block_of) if node.id not in self.block_of
        ]
        declared = self._declared(inside)
        for node in inside:
            if node.type == "if_statement":
                condition, consequence = node.child_by_field_name("condition"), node.child_by_field_name("consequence")
                if condition is not None and consequence is not None and _FAILURES.search(self.text(consequence)):
                    yield from self._condition(condition, condition, declared, body)
            elif node.type == "call_expression":
                yield from self._call(node, declared, body)
        yield from self._failing_statement(body, parameter)

    def _declared(self, nodes: "Iterable[Node]") -> "dict[str, Node]":
        found: dict[str, Node] = {}
        for node in nodes:
            if node.type in {"short_var_declaration", "var_spec", "const_spec"}:
                left = node.child_by_field_name("left") or node.child_by_field_name("name")
                right = node.child_by_field_name("right") or node.child_by_field_name("value")
                if left is not None and right is not None:
                    found.setdefault(self.text(left), right)
        return found

    def _condition(
        self, assertion: "Node", node: "Node", declared: "dict[str, Node]", body: "Node"
    ) -> Iterator[ProposedChange]:
        """A condition under which the test fails."""
        operator = node.child_by_field_name("operator")
        sign = self.text(operator) if operator is not None else ""
        if node.type == "parenthesized_expression" and node.named_children:
            yield from self._condition(assertion, node.named_children[0], declared, body)
        elif node.type == "binary_expression" and sign == "||":
            for side in (node.child_by_field_name("left"), node.child_by_field_name("right")):
                if side is not None:
                    yield from self._condition(side, side, declared, body)
        elif node.type == "binary_expression" and operator is not None and sign in _COMPARISONS:
            if sign == "!=":
                sides = [node.child_by_field_name("right"), node.child_by_field_name("left")]
                yield from self._expected(assertion, [side for side in sides if side is not None], declared, body)
            yield self.proposer.replaced(AlterationKind.COMPARISON, assertion, operator, _COMPARISONS[sign])
        elif node.type == "unary_expression" and operator is not None and sign == "!":
            operand = node.child_by_field_name("operand")
            if operand is not None and _COMPARERS.search(self.text(operand).partition("(")[0] + "("):
                yield from self._expected(assertion, _arguments(operand)[::-1], declared, body)
            edit = Edit(start=operator.start_byte, end=operator.end_byte, text="")
            yield self.proposer.edited(AlterationKind.BOOLEAN, assertion, [edit])
        else:
            yield self.proposer.replaced(AlterationKind.BOOLEAN, assertion, node, f"!({self.text(node)})")

    def _expected(
        self, assertion: "Node", sides: "Sequence[Node]", declared: "dict[str, Node]", body: "Node"
    ) -> Iterator[ProposedChange]:
        """A value that is expected, where it stands, or where its variable or the field of its table gets it."""
        for side in sides:
            if side.type != "call_expression" or re.match(r"\[\]|errors\.New|fmt\.Errorf", self.text(side)):
                found = list(self._literals(assertion, side))
                if found:
                    yield from found
                    return
        for side in sides:
            value = declared.get(self.text(side)) if side.type == "identifier" else None
            if value is not None and not any(inner.type == "call_expression" for inner in walk(value)):
                yield from self._literals(assertion, value)
            elif side.type == "selector_expression":
                field = side.child_by_field_name("field")
                if field is not None:
                    yield from self._fields(assertion, self.text(field), body)

    def _fields(self, assertion: "Node", field: str, body: "Node") -> Iterator[ProposedChange]:
        """The values that the rows of a table have for a field."""
        found = [
            value
            for node in walk(body)
            if node.type == "keyed_element"
            and (key := node.child_by_field_name("key")) is not None
            and self.text(key) == field
            and (value := node.child_by_field_name("value")) is not None
        ]
        for value in [*found[:1], *found[:0:-1]][:2]:
            yield from self._literals(assertion, value)

    def _call(self, call: "Node", declared: "dict[str, Node]", body: "Node") -> Iterator[ProposedChange]:
        function = call.child_by_field_name("function")
        arguments = _arguments(call)
        if function is None:
            return
        if function.type == "selector_expression":
            operand, field = function.child_by_field_name("operand"), function.child_by_field_name("field")
            if operand is None or field is None:
                return
            name = self.text(field)
            root = re.split(r"[.(]", self.text(operand), maxsplit=1)[0]
            is_method = name in _OPPOSITES or name in _EQUALITIES
            if is_method and (root in _ASSERTERS or re.fullmatch(r"s|suite|\w*[sS]uite|c|t|ts", root)):
                yield from self._named(call, field, arguments, declared, body)
            elif name in self.helpers and self._is_given_test(arguments):
                yield from self._helper(call, arguments)
        elif function.type == "identifier":
            name = self.text(function)
            if self._is_given_test(arguments) and (name in self.helpers or _HELPER_NAME.match(name)):
                yield from self._helper(call, arguments)
            elif name in _EQUALITIES or name in _OPPOSITES:  # imported with a dot
                yield from self._named(call, function, arguments, declared, body)

    def _named(
        self, call: "Node", method: "Node", arguments: "Sequence[Node]", declared: "dict[str, Node]", body: "Node"
    ) -> Iterator[ProposedChange]:
        """An assertion of testify, or one that is called like those."""
        name = self.text(method)
        given = arguments[1:] if self._is_given_test(arguments) else arguments
        plain = name.removesuffix("f") if name not in _EQUALITIES else name
        if plain in _EQUALITIES:
            nested = [one for one in given if one.type == "call_expression"] if name in {"To", "Should"} else []
            sides = [inner for one in nested for inner in _arguments(one)] or list(given[:2])
            yield from self._expected(call, sides, declared, body)
        elif plain in {"True", "False"} and given:
            yield self.proposer.replaced(AlterationKind.BOOLEAN, call, given[0], f"!({self.text(given[0])})")
            return
        if name in _OPPOSITES:
            yield self.proposer.replaced(AlterationKind.COMPARISON, call, method, _OPPOSITES[name])

    def _is_given_test(self, arguments: "Sequence[Node]") -> bool:
        return (
            bool(arguments) and re.fullmatch(r"t|tb|b|tt|c|s\.T\(\)|suite\.T\(\)", self.text(arguments[0])) is not None
        )

    def _helper(self, call: "Node", arguments: "Sequence[Node]") -> Iterator[ProposedChange]:
        """A function of this file's that is given the test: what else it is given."""
        for argument in arguments[:0:-1]:
            if argument.type not in {"call_expression", "func_literal"} and not self._is_name(argument):
                yield from self._literals(call, argument)

    def _is_name(self, node: "Node") -> bool:
        """Whether a text is the name of a subtest."""
        if node.type not in GO.strings:
            return False
        name = f"/{_rewritten(_unquoted(self.text(node)))}"
        return any(name in test for test in self.tests)

    def _example(self, body: "Node") -> Iterator[ProposedChange]:
        """The output that an example says it has, in its last comments."""
        comments = [node for node in walk(body) if node.type == "comment"]
        marked = next(
            (n for n, node in enumerate(comments) if re.match(r"//\s*(?i:unordered )?(?i:output):", self.text(node))),
            None,
        )
        if marked is None:
            return
        for number, comment in reversed(list(enumerate(comments[marked:]))):
            text = self.text(comment)
            start = text.index(":") + 1 if number == 0 else 2
            changed = other_text(text[start:])
            if len(changed) == len(text[start:]):
                yield self.proposer.replaced(AlterationKind.OUTPUT, comment, comment, text[:start] + changed)

    def _failing_statement(self, body: "Node", parameter: str) -> Iterator[ProposedChange]:
        """A statement that fails, after all others."""
        statements = [
            one
            for part in body.named_children
            for one in (part.named_children if part.type == "statement_list" else [part])
            if one.type != "comment"
        ]
        if any(node.id in self.block_of for node in walk(body)):
            return  # it fails with its subtests
        text = f"{parameter}.{_FAILING}" if parameter else 'panic("unexpected result")'
        if not statements:
            place = body.start_byte + 1
            edit = Edit(start=place, end=place, text=f" {text} ")
            yield self.proposer.edited(AlterationKind.STATEMENT, body, [edit])
        elif statements[-1].type == "return_statement":
            place = statements[-1].start_byte
            edit = Edit(start=place, end=place, text=f"{text}; ")
            yield self.proposer.edited(AlterationKind.STATEMENT, statements[-1], [edit])
        else:
            place = statements[-1].end_byte
            edit = Edit(start=place, end=place, text=f"; {text}")
            yield self.proposer.edited(AlterationKind.STATEMENT, statements[-1], [edit])


def _arguments(call: "Node") -> "list[Node]":
    arguments = call.child_by_field_name("arguments")
    return [one for one in arguments.named_children if one.type != "comment"] if arguments is not None else []


def _unquoted(text: str) -> str:
    return text[1:-1] if text[:1] == "`" else re.sub(r"\\(.)", r"\1", text[1:-1])


def _rewritten(name: str) -> str:
    """A name as Go reports it."""
    return re.sub(r"\s", "_", name)
