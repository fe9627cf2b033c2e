"""The statements of a test, and how certain it is that each is run."""

import ast
from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import NamedTuple

from proctor.grading.controls.python_tests.source import Function, last_line


class Certainty(IntEnum):
    """How likely a statement is run by a test that passes, and its failure is the test's."""

    ALWAYS = 0
    LIKELY = 1  # in a loop, or in a function that the test defines
    SOMETIMES = 2  # under a condition, in a handler, or where a failure may be caught


class TestStep(NamedTuple):
    """A statement, or the head of a compound one, of a test."""

    node: ast.stmt
    certainty: Certainty

    @property
    def last_line(self) -> int:
        return last_line(self.node)


def steps(function: Function) -> list[TestStep]:
    return list(_steps(function.body, Certainty.ALWAYS))


def _steps(body: Sequence[ast.stmt], certainty: Certainty) -> Iterator[TestStep]:
    for node in body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield from _steps(node.body, max(certainty, Certainty.LIKELY))
            case ast.ClassDef():
                yield from _steps(node.body, Certainty.SOMETIMES)
            case _:
                yield TestStep(node, certainty)
                for inner, inner_certainty in _blocks(node, certainty):
                    yield from _steps(inner, inner_certainty)


def _blocks(node: ast.stmt, certainty: Certainty) -> Iterator[tuple[Sequence[ast.stmt], Certainty]]:
    match node:
        case ast.With() | ast.AsyncWith():
            yield node.body, Certainty.SOMETIMES if _expects_exception(node) else certainty
        case ast.For() | ast.AsyncFor():
            written = isinstance(node.iter, ast.List | ast.Tuple | ast.Set) and bool(node.iter.elts)
            yield node.body, certainty if written else max(certainty, Certainty.LIKELY)
            yield node.orelse, max(certainty, Certainty.LIKELY)
        case ast.While():
            yield node.body, max(certainty, Certainty.LIKELY)
            yield node.orelse, max(certainty, Certainty.LIKELY)
        case ast.If():
            yield node.body, Certainty.SOMETIMES
            yield node.orelse, Certainty.SOMETIMES
        case ast.Try() | ast.TryStar():
            caught = any(_catches_failures(handler) for handler in node.handlers)
            yield node.body, Certainty.SOMETIMES if caught else certainty
            for handler in node.handlers:
                yield handler.body, Certainty.SOMETIMES
            yield node.orelse, max(certainty, Certainty.LIKELY)
            yield node.finalbody, certainty
        case ast.Match():
            for case in node.cases:
                yield case.body, Certainty.SOMETIMES


def _expects_exception(node: ast.With | ast.AsyncWith) -> bool:
    return any(
        isinstance(item.context_expr, ast.Call) and "raises" in callee(item.context_expr).lower() for item in node.items
    )


def _catches_failures(handler: ast.ExceptHandler) -> bool:
    caught = {"AssertionError", "Exception", "BaseException"}
    return handler.type is None or any(
        isinstance(node, ast.Name) and node.id in caught for node in ast.walk(handler.type)
    )


def callee(call: ast.Call) -> str:
    """The last part of the name of what is called; empty where it has none."""
    match call.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""
