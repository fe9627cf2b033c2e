"""Which literals of an assertion are what it expects, and which are what it gives to the program."""

import ast
from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from proctor.grading.controls.alteration import Edit
from proctor.grading.controls.python_tests.bindings import Bindings
from proctor.grading.controls.python_tests.literals import MatchMode, change_literal
from proctor.grading.controls.python_tests.source import PythonSource

# Arguments that say how to compare, or what to print.
_MANNERS: Final = frozenset(
    {"rel", "abs", "rtol", "atol", "rel_tol", "abs_tol", "tol", "delta", "places", "decimal", "significant", "exact"}
    | {"msg", "msg_prefix", "err_msg", "message", "verbose", "nan_ok", "equal_nan", "nulp", "maxulp", "obj"}
    | {"check_dtype", "check_names", "check_exact"}
)
# Functions that make a value out of literals, rather than being what is tested.
_MAKERS: Final = frozenset(
    {"bytearray", "bytes", "chr", "complex", "dict", "float", "frozenset", "int", "list", "range", "set", "sorted"}
    | {
        "str",
        "tuple",
        "approx",
        "array",
        "asarray",
        "call",
        "date",
        "datetime",
        "dedent",
        "encode",
        "format",
        "fromhex",
    }
    | {"join", "mark_safe", "ones", "param", "repeat", "replace", "time", "timedelta", "zeros"}
)


class LiteralRole(IntEnum):
    """What a literal probably is; a smaller number is likelier to be an expectation."""

    EXPECTED = 0
    BUILT = 1  # an argument of what makes the expected value
    GIVEN = 2  # an argument of what is tested
    NONE = 3


class Change(NamedTuple):
    role: LiteralRole
    edit: Edit


class Expectations:
    """Finds the literals of assertions of one function and changes them."""

    def __init__(self, source: PythonSource, bindings: Bindings, names_given: frozenset[str]) -> None:
        self._source = source
        self._bindings = bindings
        self._names_given = names_given

    def of_sides(self, left: ast.expr, right: ast.expr, mode: MatchMode = MatchMode.EXACT) -> list[Change]:
        """Changes of the side that is the expected one; of what is given, where no side is. The likeliest alone."""
        sides = [(self.changes(right, mode, others=left), right), (self.changes(left, mode, others=right), left)]
        found = min(sides, key=lambda side: min((change.role for change in side[0]), default=LiteralRole.NONE))[0]
        best = min((change.role for change in found), default=LiteralRole.NONE)
        return [change for change in found if change.role == best]

    def changes(
        self, side: ast.expr, mode: MatchMode = MatchMode.EXACT, *, others: ast.expr | None = None
    ) -> list[Change]:
        """Changes of the literals of an expression, the last literal first."""
        if _is_close(side):
            mode = MatchMode.CLOSE
        role = _role(side)
        found = [
            Change(role, edit)
            for node in _literals(side)
            if (edit := change_literal(self._source, node, mode)) is not None
        ]
        return found[::-1] if found else self._changes_of_names(side, mode, others)

    def _changes_of_names(self, side: ast.expr, mode: MatchMode, others: ast.expr | None) -> list[Change]:
        """Changes of the literals that the names in an expression were bound to."""
        compared = _names(others) if others is not None else set()
        found: list[Change] = []
        for node in ast.walk(side):
            if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load):
                continue
            value = self._bindings.value(node.id, node.lineno)
            given = node.id in self._names_given and not _is_named_expected(node.id)
            # A change of what is on both sides, or is given to the program too, may change nothing.
            if value is None or given or node.id in compared:
                continue
            role = max(_role(side), _role(value))
            edits = [change_literal(self._source, literal, mode) for literal in _literals(value)]
            found += [Change(role, edit) for edit in reversed(edits) if edit is not None]
        return found

    def parameters(self, left: ast.expr, right: ast.expr) -> Iterator[str]:
        """The parameters of the function that are an expected value or that it is built from, the likelier first."""
        for side, other in ((right, left), (left, right)):
            if isinstance(side, ast.Name):
                value = self._bindings.value(side.id, side.lineno)
                built = value if value is not None and _role(value) < LiteralRole.GIVEN else side
                yield from sorted((_names(built) - _names(other)) & set(self._bindings.parameters))


def ends(changes: Sequence[Change]) -> list[Change]:
    """The first and the last of some changes."""
    return [*changes[:1], *changes[-1:]] if len(changes) > 1 else list(changes)


def _role(side: ast.expr) -> LiteralRole:
    match side:
        case ast.Call(func=function):
            name = function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")
            # `"…".format(x)` and `textwrap.dedent("…")` build a value; `parse("…")` is what is tested.
            return LiteralRole.BUILT if name in _MAKERS or name[:1].isupper() else LiteralRole.GIVEN
        case ast.Await() | ast.Lambda() | ast.Compare() | ast.BoolOp():
            return LiteralRole.GIVEN
        case ast.Attribute(value=value) | ast.Subscript(value=value) | ast.Starred(value=value):
            return max(_role(value), LiteralRole.BUILT)
        case ast.Constant() | ast.Name() | ast.JoinedStr():
            return LiteralRole.EXPECTED
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            return LiteralRole.GIVEN
        case _:
            inner = [_role(child) for child in ast.iter_child_nodes(side) if isinstance(child, ast.expr)]
            return max((*inner, LiteralRole.EXPECTED))


def _literals(side: ast.expr) -> list[ast.expr]:
    """The literals of an expression in the order of its text, keys of dictionaries before all values."""
    values = list(_values(side))
    return values or list(_keys(side))


def _values(node: ast.expr) -> Iterator[ast.expr]:
    match node:
        case ast.Constant(value=value):
            yield from [node] if value is not Ellipsis else []
        case ast.JoinedStr() | ast.List(elts=[]) | ast.Tuple(elts=[]) | ast.Dict(keys=[]):
            yield node
        case ast.Call(func=ast.Name(id="set" | "list"), args=[], keywords=[]):
            yield node
        case _:
            for part in _parts_with_values(node):
                yield from _values(part)


def _parts_with_values(node: ast.expr) -> list[ast.expr]:
    """The parts of an expression whose literals make its value. What a subscript or a key is, selects."""
    match node:
        case ast.Dict(values=values):
            return values
        case ast.Call(func=function, args=arguments, keywords=keywords):
            called_on = [function.value] if isinstance(function, ast.Attribute) and function.attr != "join" else []
            return [*called_on, *arguments, *(word.value for word in keywords if word.arg not in _MANNERS)]
        case ast.Subscript(value=value) | ast.Attribute(value=value):
            return [value]
        case ast.ListComp(generators=loops) | ast.SetComp(generators=loops) | ast.GeneratorExp(generators=loops):
            return [node.elt, *(loop.iter for loop in loops)]
        case _:
            return [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]


def _keys(side: ast.expr) -> Iterator[ast.expr]:
    for node in ast.walk(side):
        if isinstance(node, ast.Dict):
            yield from (key for key in node.keys if isinstance(key, ast.Constant))


def _names(side: ast.expr) -> set[str]:
    return {node.id for node in ast.walk(side) if isinstance(node, ast.Name)}


def _is_close(side: ast.expr) -> bool:
    return isinstance(side, ast.Call) and (
        getattr(side.func, "id", None) == "approx" or getattr(side.func, "attr", None) == "approx"
    )


def _is_named_expected(name: str) -> bool:
    return any(word in name.lower() for word in ("expect", "want", "desired", "correct", "answer"))
