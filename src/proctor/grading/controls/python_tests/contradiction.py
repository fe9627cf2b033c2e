"""Which alterations whoever passes the original test must fail, whatever the right result is.

Such is another literal in a plain comparison for equality that every pass of the test makes. It needs no oracle.
"""

import ast
from collections.abc import Sequence

from proctor.grading.controls.alteration import Edit
from proctor.grading.controls.python_tests.source import PythonSource, last_line
from proctor.grading.controls.python_tests.statements import callee

_EQUALITIES = frozenset({"assertEqual", "assertEquals"})


class CertainComparisons:
    """The sides of comparisons that are literals, in statements that every pass of a function runs."""

    def __init__(self, source: PythonSource) -> None:
        self._source = source
        self._literals: dict[tuple[int, int], list[ast.expr]] = {}
        for node in ast.walk(source.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                for statement in _certain(node.body):
                    sides = [side for side in _sides(statement) if _is_literal(side)]
                    self._literals[statement.lineno, last_line(statement)] = sides

    def decide(self, edits: Sequence[Edit], first_line: int, last: int) -> bool:
        """Whether these edits change nothing but one of those literals."""
        return len(edits) == 1 and any(
            self._source.start(side) <= edits[0].start and edits[0].end <= self._source.end(side)
            for side in self._literals.get((first_line, last), ())
        )


def _certain(body: Sequence[ast.stmt]) -> list[ast.stmt]:
    """The statements of a body up to the first one that may leave it early and pass."""
    found = []
    for statement in body:
        if any(isinstance(node, ast.Return | ast.Yield | ast.YieldFrom) for node in ast.walk(statement)):
            break
        found.append(statement)
    return found


def _sides(statement: ast.stmt) -> list[ast.expr]:
    match statement:
        case ast.Assert(test=ast.Compare(left=left, ops=[ast.Eq()], comparators=[right])):
            return [left, right]
        case ast.Expr(value=ast.Call(args=[left, right, *_]) as call) if callee(call) in _EQUALITIES:
            return [left, right]
        case _:
            return []


def _is_literal(node: ast.expr) -> bool:
    match node:
        case ast.Constant():
            return True
        case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=ast.Constant()):
            return True
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return all(map(_is_literal, items))
        case ast.Dict(keys=keys, values=values):
            return all(key is not None and _is_literal(key) for key in keys) and all(map(_is_literal, values))
        case _:
            return False
