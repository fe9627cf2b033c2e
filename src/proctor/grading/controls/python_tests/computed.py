"""Another value in the place of an expected one that is computed: of the same type, as far as its expression says."""

import ast
from typing import Final

from proctor.grading.controls.alteration import Edit
from proctor.grading.controls.python_tests.source import PythonSource

_NUMBERS: Final = frozenset(
    "sum len abs round int float count index total_seconds sqrt floor ceil prod fsum pow".split()
)
_TEXTS: Final = frozenset("str repr join upper lower strip title capitalize hex oct bin".split())
_LISTS: Final = frozenset("list sorted split splitlines".split())
_ARITHMETIC: Final = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod)
_ADDED: Final = {"number": " + 1", "text": ' + "1"', "list": " + [1]", "tuple": " + (1,)"}


def shift(source: PythonSource, left: ast.expr, right: ast.expr) -> Edit | None:
    """An edit that adds something to the side whose type is known, the right one first; None where neither is."""
    for side in (right, left):
        kind = _type_of(side)
        if kind is not None:
            end = source.end(side)
            return Edit(start=end, end=end, text=_ADDED[kind])
    return None


def _type_of(node: ast.expr) -> str | None:
    """What an expression gives, where its form says so and something can be added behind it."""
    match node:
        case ast.Call(func=ast.Name(id=name)) | ast.Call(func=ast.Attribute(attr=name)):
            if name in _NUMBERS:
                return "number"
            if name in _TEXTS:
                return "text"
            return "list" if name in _LISTS else "tuple" if name == "tuple" else None
        case ast.ListComp():
            return "list"
        case ast.BinOp(left=one, op=op, right=other) if isinstance(op, _ARITHMETIC):
            kinds = {_type_of(one) or _constant_type(one), _type_of(other) or _constant_type(other)}
            kinds.discard(None)
            if kinds == {"number"} or (isinstance(op, ast.Add) and len(kinds) == 1):
                return kinds.pop()
    return None


def _constant_type(node: ast.expr) -> str | None:
    match node:
        case ast.Constant(value=bool()):
            return None
        case ast.Constant(value=int() | float()):
            return "number"
    return None
