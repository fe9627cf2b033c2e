"""A Python file as bytes and as a syntax tree: where each node stands in the bytes."""

import ast
import re
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from typing import Final

from proctor.grading.audit.python_code import parse_python
from proctor.grading.controls.alteration import Edit

_LINE_END: Final = re.compile(rb"\r\n|\r|\n")
_BOM: Final = b"\xef\xbb\xbf"
_CODING: Final = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")

Function = ast.FunctionDef | ast.AsyncFunctionDef
ConstantKey = tuple[type, str]
"""What makes two constants the same one in compiled code: 1, 1.0 and True are equal, and three constants."""


def parse(source: bytes) -> ast.Module | None:
    """The syntax tree of a file in UTF-8, which is what its offsets count in; None for any other file."""
    try:
        text = source.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None
    return parse_python(text) if source.isascii() or _declares_utf8(source) else None


def _declares_utf8(source: bytes) -> bool:
    for line in source.splitlines()[:2]:
        match = _CODING.match(line)
        if match is not None:
            return match.group(1).lower().replace(b"_", b"-").startswith((b"utf-8", b"utf8"))
    return True


class PythonSource:
    """A file and its syntax tree. Offsets count bytes."""

    def __init__(self, source: bytes, tree: ast.Module) -> None:
        self.bytes = source
        self.tree = tree
        start = len(_BOM) if source.startswith(_BOM) else 0
        self._starts = [start, *(match.end() for match in _LINE_END.finditer(source))]
        line_end = _LINE_END.search(source)
        self.newline = line_end.group().decode() if line_end is not None else "\n"

    def start(self, node: ast.expr | ast.stmt | ast.keyword) -> int:
        return self._starts[node.lineno - 1] + node.col_offset

    def end(self, node: ast.expr | ast.stmt | ast.keyword) -> int:
        return self._starts[last_line(node) - 1] + (node.end_col_offset or 0)

    def text(self, start: int, end: int) -> str:
        return self.bytes[start:end].decode()

    def line_start(self, line: int) -> int:
        return self._starts[line - 1]

    def line_end(self, offset: int) -> int:
        """The end of the line that holds this offset, before its line break."""
        match = _LINE_END.search(self.bytes, offset)
        return match.start() if match is not None else len(self.bytes)

    def indentation(self, node: ast.stmt) -> str:
        """What stands before a statement on its line, where that is nothing but blanks; blanks as many otherwise."""
        before = self.text(self.line_start(node.lineno), self.start(node))
        return before if not before.strip() else " " * len(before)

    def constants_beside(self, node: ast.expr) -> Counter[ConstantKey]:
        """How often each constant stands in the function that holds this expression; in the file, where none does."""
        beside = self._constants_by_line.get(node.lineno)
        return beside if beside is not None else self._constants_of_file

    @cached_property
    def _constants_of_file(self) -> Counter[ConstantKey]:
        return _count_constants(self.tree)

    @cached_property
    def _constants_by_line(self) -> dict[int, Counter[ConstantKey]]:
        """Of each line in a function, what stands in the innermost one."""
        found: dict[int, Counter[ConstantKey]] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, Function):
                found |= dict.fromkeys(range(node.lineno, last_line(node) + 1), _count_constants(node))
        return found


class RepeatedConstants:
    """Where the constants of a function stand that it has more than once."""

    def __init__(self, source: PythonSource, function: Function) -> None:
        nodes = [node for node in ast.walk(function) if isinstance(node, ast.Constant)]
        counts = Counter(constant_key(node.value) for node in nodes)
        self._spans = [(source.start(node), source.end(node)) for node in nodes if counts[constant_key(node.value)] > 1]

    def hold(self, edits: Sequence[Edit]) -> bool:
        """Whether one of these edits changes such a constant."""
        return any(start <= edit.start and edit.end <= end for edit in edits for start, end in self._spans)


def constant_key(value: object) -> ConstantKey:
    return type(value), repr(value)


def _count_constants(tree: ast.AST) -> Counter[ConstantKey]:
    return Counter(constant_key(node.value) for node in ast.walk(tree) if isinstance(node, ast.Constant))


def last_line(node: ast.expr | ast.stmt | ast.keyword) -> int:
    return node.end_lineno or node.lineno
