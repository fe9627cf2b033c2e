"""Whether a comparison compares: an object that equals whatever it is compared with passes every test of equality."""

import ast
from collections.abc import Iterator
from typing import Final

_STORES: Final = frozenset({"setattr", "__setattr__", "update", "setdefault", "append", "add"})


def always_equal_reason(function: ast.FunctionDef | ast.AsyncFunctionDef) -> str | None:
    """Why this `__eq__` or `__ne__` may agree with anything; None when it looks like one that compares.

    One that compares puts something of its object and something of the other on the two sides of a comparison, or
    hands both on to somebody who does; and it changes nothing.
    """
    body = [item for item in function.body if not (isinstance(item, ast.Expr) and isinstance(item.value, ast.Constant))]
    match body:
        case [ast.Raise()] | [ast.Return(value=ast.Name(id="NotImplemented"))]:
            return None
        case [ast.Return(value=ast.Constant(value=bool(value)))] if value is not (function.name == "__eq__"):
            return None  # never equal: harmless
    names = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
    if len(names) != 2:  # noqa: PLR2004 - itself and the other
        return "takes other arguments than one"
    nodes = [node for statement in function.body for node in ast.walk(statement)]
    if any(map(_has_side_effect, nodes)):
        return "changes something"
    if any(map(_is_always_true, nodes)):
        return "is true whatever it compares"
    stands_for = _origins(nodes, *names)
    if not any(_compares(node, stands_for) for node in nodes):
        return "does not compare the two"
    return None


def _origins(nodes: list[ast.AST], own: str, other: str) -> "_NameOrigins":
    """Which of the two a name was made from: itself, the other, or both."""
    known = {own: {"own"}, other: {"other"}, "super": {"own"}}
    for _ in range(3):  # names that are made from names
        for node in nodes:
            for target, source in _bindings(node):
                made_from = set().union(*(known.get(name, set()) for name in _names_in(source)))
                for name in _names_in(target):
                    known[name] = known.get(name, set()) | made_from
    return known


_NameOrigins = dict[str, set[str]]


def _bindings(node: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
    match node:
        case ast.Assign(targets=targets, value=value):
            yield from ((target, value) for target in targets)
        case ast.NamedExpr(target=target, value=value) | ast.AnnAssign(target=target, value=ast.expr() as value):
            yield target, value
        case ast.For(target=target, iter=value) | ast.comprehension(target=target, iter=value):
            yield target, value


def _is_always_true(node: ast.AST) -> bool:
    """``... or True``."""
    return (
        isinstance(node, ast.BoolOp)
        and isinstance(node.op, ast.Or)
        and any(isinstance(value, ast.Constant) and value.value for value in node.values)
    )


def _has_side_effect(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(ctx=ast.Store() | ast.Del()) | ast.Subscript(ctx=ast.Store() | ast.Del()):
            return True
        case ast.Global() | ast.Nonlocal():
            return True
        case ast.Call(func=ast.Name(id=name)) | ast.Call(func=ast.Attribute(attr=name)):
            return name in _STORES
    return False


def _compares(node: ast.AST, known: _NameOrigins) -> bool:
    match node:
        case ast.Compare(left=left, comparators=rights):
            sides = [_origin(side, known) for side in (left, *rights)]
            return any("own" in side for side in sides) and any("other" in side for side in sides)
        case ast.Call(func=func, args=arguments):
            # ``super().__eq__(other)``, ``self.key(other)``, ``same(self, other)``
            given = set().union(*(_origin(argument, known) for argument in arguments))
            return "own" in _origin(func, known) | given and "other" in given and not _is_not_equality(func)
    return False


def _origin(node: ast.AST, known: _NameOrigins) -> set[str]:
    return set().union(*(known.get(name, set()) for name in _names_in(node)))


def _is_not_equality(func: ast.AST) -> bool:
    """``isinstance(other, type(self))`` compares classes, ``self.__lt__(other)`` says nothing of equality."""
    match func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name in {"isinstance", "issubclass", "hasattr", "__lt__", "__gt__", "__le__", "__ge__"}
    return False


def _names_in(node: ast.AST) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
