"""Which literals of an assertion are what it expects, and which are what it gives to the program."""

import ast
from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from proctor.grading.controls.alteration import Edit
from proctor.grading.controls.python_tests.literals import Use, change_literal
from proctor.grading.controls.python_tests.scope import Scope
from proctor.grading.controls.python_tests.source import PythonSource

# Arguments that say how to compare, or what to print.
_MANNERS: Final = frozenset(
    "rel abs rtol atol rel_tol abs_tol tol delta places decimal significant msg msg_prefix err_msg verbose message nan_ok "
    "equal_nan nulp maxulp check_dtype check_names strict_nan exact check_exact obj".split()
)
# Functions that make a value out of literals, rather than being what is tested.
_MAKERS: Final = frozenset(
    "approx array asarray bytearray bytes chr complex date datetime dedent dict encode fromhex frozenset int float "
    "format join list mappingproxy namedtuple ones ordereddict range replace repeat set sorted str time timedelta "
    "timestamp tuple zeros ANY call param mark_safe Path PurePath".split()
)


class Role(IntEnum):
    """What a literal probably is; a smaller number is likelier to be an expectation."""

    EXPECTED = 0
    BUILT = 1  # an argument of what makes the expected value
    GIVEN = 2  # an argument of what is tested
    NONE = 3


class Change(NamedTuple):
    role: Role
    edit: Edit


class Expectations:
    """Finds the literals of assertions of one function and changes them."""

    def __init__(self, source: PythonSource, scope: Scope, names_given: frozenset[str]) -> None:
        self._source = source
        self._scope = scope
        self._names_given = names_given

    def of_sides(self, left: ast.expr, right: ast.expr, use: Use = Use.EXACT) -> list[Change]:
        """Changes of the side that is the expected one; of what is given, where no side is."""
        sides = [(self.changes(right, use, others=left), right), (self.changes(left, use, others=right), left)]
        found = min(sides, key=lambda side: min((change.role for change in side[0]), default=Role.NONE))[0]
        return _ends(found)

    def changes(self, side: ast.expr, use: Use = Use.EXACT, *, others: ast.expr | None = None) -> list[Change]:
        """Changes of the literals of an expression, the last literal first."""
        if _is_close(side):
            use = Use.CLOSE
        role = _role(side)
        found = [
            Change(role, edit)
            for node in _literals(side)
            if (edit := change_literal(self._source, node, use)) is not None
        ]
        return found[::-1] if found else self._changes_of_names(side, use, others)

    def _changes_of_names(self, side: ast.expr, use: Use, others: ast.expr | None) -> list[Change]:
        """Changes of the literals that the names in an expression were bound to."""
        compared = {node.id for node in ast.walk(others) if isinstance(node, ast.Name)} if others is not None else set()
        found: list[Change] = []
        for node in ast.walk(side):
            if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load):
                continue
            value = self._scope.value(node.id, node.lineno)
            if value is None:
                continue
            given = node.id in compared or (node.id in self._names_given and not _is_named_expected(node.id))
            role = Role.GIVEN if given else max(_role(side), _role(value))
            edits = [change_literal(self._source, literal, use) for literal in _literals(value)]
            found += [Change(role, edit) for edit in reversed(edits) if edit is not None]
        return found

    def parameters(self, left: ast.expr, right: ast.expr | None) -> Iterator[str]:
        """The parameters of the function that are an expected value, the likelier first."""
        for side in (right, left):
            if isinstance(side, ast.Name) and side.id in self._scope.parameters:
                yield side.id


def _ends(changes: Sequence[Change]) -> list[Change]:
    """The first and the last of the changes with the best role."""
    best = min((change.role for change in changes), default=Role.NONE)
    found = [change for change in changes if change.role == best]
    return found[:1] + found[-1:] if len(found) > 1 else found


def _role(side: ast.expr) -> Role:
    match side:
        case ast.Call(func=function):
            name = function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")
            # `"…".format(x)` and `textwrap.dedent("…")` build a value; `parse("…")` is what is tested.
            return Role.BUILT if name in _MAKERS or name[:1].isupper() else Role.GIVEN
        case ast.Await() | ast.Lambda():
            return Role.GIVEN
        case ast.Attribute(value=value) | ast.Subscript(value=value) | ast.Starred(value=value):
            return max(_role(value), Role.BUILT)
        case ast.Constant() | ast.Name() | ast.JoinedStr():
            return Role.EXPECTED
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            return Role.GIVEN
        case _:
            inner = [_role(child) for child in ast.iter_child_nodes(side) if isinstance(child, ast.expr)]
            return max((*inner, Role.EXPECTED))


def _literals(side: ast.expr) -> list[ast.expr]:
    """The literals of an expression in the order of its text, keys of dictionaries before all values."""
    values = list(_values(side))
    return values or list(_keys(side))


def _values(node: ast.expr) -> Iterator[ast.expr]:
    match node:
        case ast.Constant(value=value):
            if value is not Ellipsis:
                yield node
        case ast.JoinedStr() | ast.List(elts=[]) | ast.Tuple(elts=[]) | ast.Dict(keys=[]):
            yield node
        case ast.Call(func=ast.Name(id="set" | "list"), args=[], keywords=[]):
            yield node
        case ast.Dict(values=values):
            for value in values:
                yield from _values(value)
        case ast.Call():
            if isinstance(node.func, ast.Attribute):
                yield from _values(node.func.value)
            for argument in node.args:
                yield from _values(argument)
            for keyword in node.keywords:
                if keyword.arg not in _MANNERS:
                    yield from _values(keyword.value)
        case ast.Subscript(value=value) | ast.Attribute(value=value):
            yield from _values(value)
        case _:
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.expr):
                    yield from _values(child)
                elif isinstance(child, ast.comprehension):
                    yield from _values(child.iter)


def _keys(side: ast.expr) -> Iterator[ast.expr]:
    for node in ast.walk(side):
        if isinstance(node, ast.Dict):
            yield from (key for key in node.keys if isinstance(key, ast.Constant))


def _is_close(side: ast.expr) -> bool:
    return isinstance(side, ast.Call) and (
        getattr(side.func, "id", None) == "approx" or getattr(side.func, "attr", None) == "approx"
    )


def _is_named_expected(name: str) -> bool:
    return any(word in name.lower() for word in ("expect", "want", "desired", "correct", "answer", "wanted"))
