"""Proposals to change what the assertions of a function expect, so that a right program fails them."""

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from proctor.grading.controls.alteration import AlterationKind, Edit
from proctor.grading.controls.python_tests.assertion_names import (
    ASSERTS,
    CALLED_WITH,
    CLOSE,
    FALSE,
    METHODS_ONLY,
    NO_LITERAL,
    OPPOSITES,
    RAISES,
    SIDES,
    TRUE,
    UNCHANGEABLE,
)
from proctor.grading.controls.python_tests.bindings import Bindings
from proctor.grading.controls.python_tests.computed import shift
from proctor.grading.controls.python_tests.exceptions import other_exception
from proctor.grading.controls.python_tests.expectations import Change, Expectations, LiteralRole, ends
from proctor.grading.controls.python_tests.literals import MatchMode
from proctor.grading.controls.python_tests.source import Function, PythonSource
from proctor.grading.controls.python_tests.statements import Certainty, TestStep, callee, steps

_OPERATORS: Final[dict[type[ast.cmpop], tuple[str, str]]] = {
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Lt: ("<", ">="),
    ast.GtE: (">=", "<"),
    ast.Gt: (">", "<="),
    ast.LtE: ("<=", ">"),
    ast.In: ("in", "not in"),
    ast.NotIn: (r"not\s+in", "in"),
    ast.Is: ("is", "is not"),
    ast.IsNot: (r"is\s+not", "is"),
}
_NEEDS_BRACKETS: Final = (ast.BoolOp, ast.IfExp, ast.Lambda, ast.NamedExpr, ast.Yield, ast.Starred)
_SHORT: Final = 3
_MAX_TOGETHER: Final = 8


class Proposal(NamedTuple):
    """One change of an assertion. A smaller `rank` is less conspicuous, and likelier to be failed by a right program.

    `shown` are the edits of the assertion itself, for the evidence, where `edits` make them in a copy of it.
    """

    rank: int
    kind: AlterationKind
    certainty: Certainty
    edits: tuple[Edit, ...]
    first_line: int
    last_line: int
    shown: tuple[Edit, ...]


class Draft(NamedTuple):
    """A change, of an assertion that is still to be named."""

    rank: int
    kind: AlterationKind
    edits: tuple[Edit, ...]


LITERAL_RANK: Final = 0
_BUILT_RANK: Final = 1
_EXCEPTION_RANK: Final = 2
_BOOLEAN_RANK: Final = 3
_COMPARISON_RANK: Final = 4
_REPLACED_RANK: Final = 5
GIVEN_RANK: Final = 6
STATEMENT_RANK: Final = 9
_RANK_OF_ROLE: Final = {
    LiteralRole.EXPECTED: LITERAL_RANK,
    LiteralRole.BUILT: _BUILT_RANK,
    LiteralRole.GIVEN: GIVEN_RANK,
}


class Assertions:
    """The assertions of one function."""

    def __init__(
        self,
        source: PythonSource,
        function: Function,
        constants: dict[str, ast.expr],
        is_helper: Callable[[ast.Call], bool],
    ) -> None:
        self._source = source
        self._is_helper = is_helper
        self.steps = steps(function)
        self.bindings = Bindings(function, constants)
        self._expectations = Expectations(source, self.bindings, _names_given(self.steps))

    def proposals(self) -> Iterator[Proposal]:
        for step in self.steps:
            for draft in self._of_step(step.node):
                yield proposal(draft, step)

    def expected_parameters(self) -> list[str]:
        """The parameters that an assertion of this function compares with: a caller's argument is what is expected."""
        found: list[str] = []
        for step in self.steps:
            for node in ast.walk(step.node) if isinstance(step.node, ast.Assert | ast.Expr) else ():
                match node:
                    case ast.Compare(left=left, ops=[ast.Eq() | ast.Is() | ast.In()], comparators=[right]):
                        found += self._expectations.parameters(left, right)
                    case ast.Call(args=[left, right, *_]) if ASSERTS.match(callee(node)):
                        found += self._expectations.parameters(left, right)
        return list(dict.fromkeys(found))

    def of_argument(self, argument: ast.expr) -> list[Draft]:
        """Changes of an argument that is expected by the function that gets it."""
        return self._literals(self._expectations.changes(argument)[:2])

    def _of_step(self, node: ast.stmt) -> Iterator[Draft]:
        match node:
            case ast.Assert(test=test) if not isinstance(test, ast.Constant):
                yield from self._made_false(test)
            case ast.Expr(value=ast.Call() as call) | ast.Expr(value=ast.Await(value=ast.Call() as call)):
                yield from self._of_call(call)
            case ast.Assign(value=ast.Call() as call) if RAISES.match(callee(call)):
                yield from self._of_call(call)
            case ast.With(items=items) | ast.AsyncWith(items=items):
                for call in (item.context_expr for item in items if isinstance(item.context_expr, ast.Call)):
                    yield from self._of_call(call)
            case ast.If(test=test, body=[*_, last]) if _fails(last):
                yield from self._made_true(test)
            case ast.Try(handlers=handlers):
                for handler in handlers:
                    yield from self._of_handler(node, handler)

    def _of_handler(self, node: ast.Try, handler: ast.ExceptHandler) -> Iterator[Draft]:
        """A handler expects its exception where the test fails without it."""
        if handler.type is None or _fails(handler.body[-1]):
            return
        leaves = isinstance(handler.body[-1], ast.Continue | ast.Return | ast.Break)
        expects = leaves or any(_fails(one) for one in [*node.body[-1:], *node.orelse[-1:]])
        yield self._other_type(handler.type)._replace(rank=_EXCEPTION_RANK if expects else GIVEN_RANK)

    def _of_call(self, call: ast.Call) -> Iterator[Draft]:
        name = self._name(call)
        if RAISES.match(name):
            yield from self._of_raises(call, name)
        elif name in CALLED_WITH or name == "assert_has_calls":
            yield from self._of_called_with(call, name)
        elif name in TRUE and call.args:
            yield from self._made_false(call.args[0], negate=False)
        elif name in {"assertIn", "assert_in"} and len(call.args) > 1:
            yield from self._contained(call.args[0], call.args[1])
        elif name in NO_LITERAL or UNCHANGEABLE.search(name):
            pass
        elif _is_regex(name):
            yield from self._of_pattern(call.args[1] if len(call.args) > 1 else None)
        elif SIDES.search(name) and len(call.args) > 1 and not self._is_known(call):
            yield from self._of_sides(
                call.args[0], call.args[1], MatchMode.CLOSE if CLOSE.search(name) else MatchMode.EXACT
            )
        elif ASSERTS.match(name):
            yield from self._of_unknown(call)
        yield from self._flipped(call, name)

    def _flipped(self, call: ast.Call, name: str) -> Iterator[Draft]:
        other = _opposite(call, name)
        end = self._source.end(call.func)
        if other is not None:
            boolean = name in TRUE or name in FALSE
            kind = AlterationKind.BOOLEAN if boolean else AlterationKind.COMPARISON
            edit = Edit(start=end - len(name.encode()), end=end, text=other)
            yield Draft(_BOOLEAN_RANK if boolean else _COMPARISON_RANK, kind, (edit,))
        elif name in CALLED_WITH and not call.keywords:
            end = self._source.end(call) - 1
            before = self._source.text(self._source.start(call), end).rstrip()
            text = "None" if before.endswith(("(", ",")) else ", None"
            yield Draft(_COMPARISON_RANK, AlterationKind.COMPARISON, (Edit(start=end, end=end, text=text),))
        elif SIDES.search(name) and len(call.args) > 1 and not (UNCHANGEABLE.search(name) or self._is_known(call)):
            yield self._replaced(call.args[1], "None")

    def _is_known(self, call: ast.Call) -> bool:
        """Whether a function of this test, or of the file, is called."""
        return self._is_helper(call) or (isinstance(call.func, ast.Name) and self.bindings.defines(call.func.id))

    def _name(self, call: ast.Call) -> str:
        """The name of what is called, through an alias such as `eq = self.assertEqual`."""
        if isinstance(call.func, ast.Name):
            value = self.bindings.value(call.func.id, call.lineno)
            if isinstance(value, ast.Attribute) and value.attr.startswith("assert"):
                return value.attr
        return callee(call)

    def _of_raises(self, call: ast.Call, name: str) -> Iterator[Draft]:
        expected = (
            call.args[0]
            if call.args
            else next(
                (word.value for word in call.keywords if word.arg in {"expected_exception", "expected_warning"}), None
            )
        )
        pattern = next((word.value for word in call.keywords if word.arg in {"match", "expected_regex"}), None)
        if pattern is None and len(call.args) > 1 and not re.search(r"(?:raises|warns)$", name, re.IGNORECASE):
            pattern = call.args[1]
        if "message" in name.lower() and pattern is not None:
            yield from self._literals(self._expectations.changes(pattern)[:1])
        else:
            yield from self._of_pattern(pattern)
        if expected is not None:
            yield self._other_type(expected, warning="warn" in name.lower())

    def _other_type(self, expected: ast.expr, *, warning: bool = False) -> Draft:
        start, end = self._source.start(expected), self._source.end(expected)
        other = other_exception(expected, self._source.text(start, end), warning=warning)
        return Draft(_EXCEPTION_RANK, AlterationKind.EXCEPTION, (Edit(start=start, end=end, text=other),))

    def _of_pattern(self, pattern: ast.expr | None) -> Iterator[Draft]:
        if pattern is None:
            return
        if isinstance(pattern, ast.Call) and callee(pattern) == "escape" and pattern.args:
            yield from self._literals(self._expectations.changes(pattern.args[0])[:1], role=LiteralRole.EXPECTED)
        else:
            yield from self._literals(self._expectations.changes(pattern, MatchMode.PATTERN)[:1])

    def _of_called_with(self, call: ast.Call, name: str) -> Iterator[Draft]:
        arguments = [*call.args, *(word.value for word in call.keywords)]
        for argument in reversed(arguments[:1] if name == "assert_has_calls" else arguments):
            yield from self._literals(self._expectations.changes(argument)[:1])

    def _of_sides(self, left: ast.expr, right: ast.expr, mode: MatchMode = MatchMode.EXACT) -> Iterator[Draft]:
        changes = self._expectations.of_sides(left, right, mode)
        expected = [change for change in changes if change.role < LiteralRole.GIVEN]
        yield from self._literals(ends(changes))
        if 1 < len(expected) <= _MAX_TOGETHER:
            yield from self._together(expected)
        if not expected and (text := shift(self._source, left, right)) is not None:
            yield Draft(_BUILT_RANK, AlterationKind.LITERAL, (text,))

    def _together(self, changes: Sequence[Change]) -> Iterator[Draft]:
        """All changes at once: cases of a parametrised test may each compare with another of the literals."""
        edits = tuple(sorted({change.edit for change in changes}, key=lambda edit: edit.start))
        before = sorted(self._source.text(edit.start, edit.end) for edit in edits)
        # The same literals in another order may be the same value.
        if before != sorted(edit.text for edit in edits):
            yield Draft(_RANK_OF_ROLE[changes[0].role], AlterationKind.LITERAL, edits)

    def _of_unknown(self, call: ast.Call) -> Iterator[Draft]:
        """An assertion with a rule of its own: any literal may be what it expects."""
        arguments = [*call.args, *(word.value for word in call.keywords if word.arg not in {"msg", "msg_prefix"})]
        # What a function of the file expects is read from its own code.
        role = LiteralRole.GIVEN if self._is_known(call) else LiteralRole.BUILT
        for argument in reversed(arguments):
            for change in self._expectations.changes(argument)[:1]:
                yield from self._literals([change._replace(role=max(change.role, role))])
        if role is LiteralRole.BUILT and len(call.args) > 1 and not isinstance(call.args[-1], ast.Constant):
            yield self._replaced(call.args[-1], "None")

    def _contained(self, item: ast.expr, container: ast.expr) -> Iterator[Draft]:
        """`item in container`: another item, where it is not so short that the container may hold it too."""
        if isinstance(container, ast.List | ast.Tuple | ast.Set | ast.Dict | ast.Constant):
            return
        for change in self._expectations.changes(item)[:1]:
            short = isinstance(item, ast.Constant) and len(str(item.value)) < _SHORT
            yield from self._literals([change._replace(role=LiteralRole.GIVEN if short else change.role)])

    def _made_false(self, test: ast.expr, *, negate: bool = True) -> Iterator[Draft]:
        """Changes that make an expression false that is true."""
        match test:
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                yield from self._of_comparison(left, op, right)
                yield from self._other_operator(left, op, right)
                negate = False
            case ast.Compare(comparators=[*_, right]) if all(isinstance(op, ast.Eq) for op in test.ops):
                yield from self._of_sides(test.left, right)
            case ast.BoolOp(op=ast.And(), values=values):
                for value in reversed(values):
                    yield from self._made_false(value)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                yield self._without_not(test, operand)
                negate = False
            case ast.Call():
                yield from self._of_predicate(test)
        if negate:
            yield self._negated(test)

    def _made_true(self, test: ast.expr) -> Iterator[Draft]:
        """Changes that make an expression true that is false."""
        match test:
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                yield self._without_not(test, operand)
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                yield from self._other_operator(left, op, right)
            case _:
                yield self._negated(test)

    def _of_comparison(self, left: ast.expr, op: ast.cmpop, right: ast.expr) -> Iterator[Draft]:
        match op:
            case ast.Eq():
                yield from self._of_sides(left, right)
            case ast.Is() if isinstance(right, ast.Constant):
                yield from self._of_sides(left, right)
            case ast.In():
                yield from self._contained(left, right)

    def _of_predicate(self, call: ast.Call) -> Iterator[Draft]:
        """A call that must be true: what it compares with, where its name says that it compares."""
        name = callee(call)
        match call:
            case ast.Call(func=ast.Attribute(attr="startswith" | "endswith"), args=[expected, *_]):
                yield from self._literals(self._expectations.changes(expected)[:1])
            case ast.Call(
                func=ast.Attribute(value=ast.Compare(left=left, ops=[ast.Eq()], comparators=[right]), attr="all")
            ):
                yield from self._of_sides(left, right)
            case ast.Call(args=[left, right, *_]) if re.search(r"close|equal", name, re.IGNORECASE):
                yield from self._of_sides(left, right, MatchMode.CLOSE)
            case ast.Call(args=[ast.Compare(left=left, ops=[ast.Eq()], comparators=[right])]) if name == "all":
                yield from self._of_sides(left, right)
            case ast.Call(args=[pattern, _, *_]) if name in {"match", "search", "fullmatch"}:
                yield from self._of_pattern(pattern)

    def _other_operator(self, left: ast.expr, op: ast.cmpop, right: ast.expr) -> Iterator[Draft]:
        pattern, other = _OPERATORS[type(op)]
        start, end = self._source.end(left), self._source.start(right)
        gap = re.sub(r"#[^\r\n]*", lambda comment: " " * len(comment.group().encode()), self._source.text(start, end))
        found = re.search(pattern, gap)
        if found is not None:
            first, last = (start + len(gap[:place].encode()) for place in found.span())
            edit = Edit(start=first, end=last, text=other)
            yield Draft(_COMPARISON_RANK, AlterationKind.COMPARISON, (edit,))

    def _negated(self, test: ast.expr) -> Draft:
        start, end = self._source.start(test), self._source.end(test)
        before = " " if self._source.bytes[start - 1 : start].isalnum() else ""
        if isinstance(test, _NEEDS_BRACKETS):
            edits: tuple[Edit, ...] = (
                Edit(start=start, end=start, text=f"{before}not ("),
                Edit(start=end, end=end, text=")"),
            )
        else:
            edits = (Edit(start=start, end=start, text=f"{before}not "),)
        return Draft(_BOOLEAN_RANK, AlterationKind.BOOLEAN, edits)

    def _without_not(self, test: ast.expr, operand: ast.expr) -> Draft:
        start = self._source.start(test)
        end = start + len("not")
        if self._source.bytes[end : end + 1] == b" " and self._source.start(operand) > end:
            end += 1
        return Draft(_BOOLEAN_RANK, AlterationKind.BOOLEAN, (Edit(start=start, end=end, text=""),))

    def _replaced(self, node: ast.expr, text: str) -> Draft:
        edit = Edit(start=self._source.start(node), end=self._source.end(node), text=text)
        return Draft(_REPLACED_RANK, AlterationKind.LITERAL, (edit,))

    @staticmethod
    def _literals(changes: Sequence[Change], role: LiteralRole | None = None) -> list[Draft]:
        return [
            Draft(_RANK_OF_ROLE[change.role if role is None else role], AlterationKind.LITERAL, (change.edit,))
            for change in changes
        ]


def proposal(draft: Draft, step: TestStep) -> Proposal:
    return Proposal(
        draft.rank, draft.kind, step.certainty, draft.edits, step.node.lineno, step.last_line, shown=draft.edits
    )


def is_assertion(node: ast.stmt) -> bool:
    match node:
        case ast.Assert():
            return True
        case ast.Expr(value=ast.Call() as call) | ast.Expr(value=ast.Await(value=ast.Call() as call)):
            return ASSERTS.match(callee(call)) is not None
        case _:
            return False


def _names_given(all_steps: Sequence[TestStep]) -> frozenset[str]:
    """The names that are used outside assertions, and so may be what the test gives to the program."""
    found: set[str] = set()
    for step in all_steps:
        for part in _own_parts(step.node):
            found |= {
                node.id for node in ast.walk(part) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
            }
    return frozenset(found)


def _own_parts(node: ast.stmt) -> list[ast.expr]:
    """The expressions of a statement itself that are not those of an assertion, or of a loop's items."""
    if is_assertion(node) or isinstance(node, ast.For | ast.AsyncFor):
        return []
    return [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)] + [
        item.context_expr
        for item in getattr(node, "items", ())
        if not (isinstance(item.context_expr, ast.Call) and ASSERTS.match(callee(item.context_expr)))
    ]


def _is_regex(name: str) -> bool:
    return re.search(r"regexp?(?:matches)?$", name, re.IGNORECASE) is not None


def _opposite(call: ast.Call, name: str) -> str | None:
    """The method that asserts the opposite, where the call names one itself and its object has the other."""
    named = isinstance(call.func, ast.Attribute) and call.func.attr == name
    return OPPOSITES.get(name) if named and (name not in METHODS_ONLY or _is_self(call.func)) else None


def _is_self(function: ast.expr) -> bool:
    return isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name) and function.value.id == "self"


def _fails(node: ast.stmt) -> bool:
    match node:
        case ast.Raise() | ast.Assert(test=ast.Constant()):
            return True
        case ast.Expr(value=ast.Call() as call):
            return callee(call) == "fail"
        case _:
            return False
