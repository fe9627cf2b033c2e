"""Alterations of the expected output of the examples in docstrings."""

import ast
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from proctor.grading.controls.alteration import Edit
from proctor.grading.controls.python_tests.literals import other_letter
from proctor.grading.controls.python_tests.source import Function, PythonSource, last_line

_PROMPT: Final = (">>>", "...")
_CLOSING: Final = re.compile(r"(?:\"\"\"|''')\s*$")


def has_examples(owner: ast.Module | ast.ClassDef | Function) -> bool:
    return ">>>" in (ast.get_docstring(owner, clean=False) or "")


class OutputChange(NamedTuple):
    edit: Edit
    first_line: int
    last_line: int


def output_changes(source: PythonSource, owner: ast.Module | ast.ClassDef | Function) -> Iterator[OutputChange]:
    """A changed character in the last line of each expected output of a docstring, the last example first."""
    match owner.body:
        case [ast.Expr(value=ast.Constant(value=str()) as text), *_]:
            yield from reversed(list(_changes(source, text)))


def _changes(source: PythonSource, text: ast.Constant) -> Iterator[OutputChange]:
    offset = source.line_start(text.lineno)
    example: int | None = None  # the line of the last prompt
    output: tuple[int, str, int] | None = None  # the last line of output behind it
    lines = source.text(offset, source.end(text)).splitlines(keepends=True)
    for number, line in enumerate([*lines, ""], text.lineno):
        content = _CLOSING.sub("", line) if number >= last_line(text) else line
        prompt = ">>>" if output is not None else _PROMPT
        starts_example = content.lstrip().startswith(prompt)
        if starts_example or not content.strip():
            if example is not None and output is not None:
                yield from _change(*output, example)
            example, output = (number if starts_example else None), None
        elif example is not None:
            output = (offset, content, number)
        offset += len(line.encode())


def _change(offset: int, line: str, number: int, example: int) -> Iterator[OutputChange]:
    for place in range(len(line) - 1, -1, -1):
        other = other_letter(line[place])
        if other is not None and line[place - 1 : place] != "\\":
            start = offset + len(line[:place].encode())
            yield OutputChange(Edit(start=start, end=start + 1, text=other), example, number)
            return
