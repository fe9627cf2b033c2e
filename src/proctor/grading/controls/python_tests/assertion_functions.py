"""Tests that assert through a function of the same file: a copy of it, altered, is called by this test alone."""

import ast
import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from proctor.grading.controls.alteration import Edit
from proctor.grading.controls.python_tests.assertions import Assertions, Proposal, proposal
from proctor.grading.controls.python_tests.bindings import constants_of_one_user
from proctor.grading.controls.python_tests.ids import Definitions
from proctor.grading.controls.python_tests.source import Function, PythonSource, last_line
from proctor.grading.controls.python_tests.statements import TestStep

_MAX_DEPTH: Final = 2
_MAX_OF_HELPER: Final = 4


class _Helper(NamedTuple):
    function: Function
    owner: ast.ClassDef | None


class _HelperCall(NamedTuple):
    step: TestStep
    call: ast.Call
    helper: _Helper


class ProposalFinder:
    """The proposals for the tests of one file, those in helpers included."""

    def __init__(self, source: PythonSource, definitions: Definitions) -> None:
        self._source = source
        self._definitions = definitions
        self._constants = constants_of_one_user(source)
        self._assertions: dict[tuple[int, int], Assertions] = {}
        self._helper_proposals: dict[tuple[int, int, int], list[Proposal]] = {}
        self._words = set(re.findall(r"\w+", source.bytes.decode()))
        self._copies = 0

    def proposals(self, function: Function, owner: ast.ClassDef | None, depth: int = 0) -> list[Proposal]:
        """Proposals for a function that is called through this class."""
        assertions = self._assertions_of(function, owner)
        found = list(assertions.proposals())
        if depth < _MAX_DEPTH:
            for step, call, helper in self._helper_calls(function, owner):
                found += self._through(assertions, _HelperCall(step, call, helper), owner, depth)
        return found

    def _helper_calls(
        self, function: Function, owner: ast.ClassDef | None
    ) -> Iterator[tuple[TestStep, ast.Call, _Helper]]:
        assertions = self._assertions_of(function, owner)
        for step in assertions.steps:
            for call in _calls(step.node):
                # What the function binds itself, as a parameter for a fixture or a function in it, is no helper.
                if not (isinstance(call.func, ast.Name) and assertions.bindings.binds(call.func.id)):
                    helper = self._helper(call, owner)
                    if helper is not None and helper.function is not function:
                        yield step, call, helper

    def _assertions_of(self, function: Function, owner: ast.ClassDef | None) -> Assertions:
        key = (id(function), id(owner))
        if key not in self._assertions:
            constants = self._constants.get(id(function), {})
            self._assertions[key] = Assertions(
                self._source, function, constants, lambda call: self._helper(call, owner) is not None
            )
        return self._assertions[key]

    def _through(
        self, assertions: Assertions, there: _HelperCall, owner: ast.ClassDef | None, depth: int
    ) -> Iterator[Proposal]:
        step, call, helper = there
        for argument in self._expected_arguments(call, helper, owner, depth):
            for draft in assertions.of_argument(argument):
                yield proposal(draft, step)
        for inner in self._of_helper(helper, owner, depth + 1):
            edits = self._in_copy(call, helper, inner.edits)
            if edits is not None:
                yield inner._replace(
                    rank=inner.rank + 1,
                    certainty=max(step.certainty, inner.certainty),
                    edits=edits,
                    first_line=step.node.lineno,
                    last_line=step.last_line,
                )

    def _of_helper(self, helper: _Helper, owner: ast.ClassDef | None, depth: int) -> list[Proposal]:
        key = (id(helper.function), id(owner), depth)
        if key not in self._helper_proposals:
            self._helper_proposals[key] = []  # a helper that calls itself finds nothing more in itself
            found = self.proposals(helper.function, owner, depth)
            found.sort(key=lambda proposal: (proposal.certainty, proposal.rank))
            self._helper_proposals[key] = found[:_MAX_OF_HELPER]
        return self._helper_proposals[key]

    def _helper(self, call: ast.Call, owner: ast.ClassDef | None) -> _Helper | None:
        match call.func:
            case ast.Name(id=name):
                found = self._definitions.functions.get((name,))
                return _Helper(found.function, None) if found is not None else None
            case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name) if owner is not None:
                method = self._definitions.method(owner, name)
                return _Helper(*method) if method is not None else None
            case ast.Attribute(value=ast.Name(id=class_name), attr=name):
                other = self._definitions.classes.get((class_name,))
                method = self._definitions.method(other, name) if other is not None else None
                return _Helper(*method) if method is not None else None
            case _:
                return None

    def _expected_arguments(
        self, call: ast.Call, helper: _Helper, owner: ast.ClassDef | None, depth: int
    ) -> Iterator[ast.expr]:
        """The arguments of a call that the helper compares with what the program returned."""
        arguments = _arguments(call, helper)
        for parameter in self._expected_parameters(helper, owner, depth):
            if parameter in arguments:
                yield arguments[parameter]

    def _expected_parameters(self, helper: _Helper, owner: ast.ClassDef | None, depth: int) -> list[str]:
        assertions = self._assertions_of(helper.function, owner)
        found = assertions.expected_parameters()
        if depth + 1 < _MAX_DEPTH:
            for _, call, inner in self._helper_calls(helper.function, owner):
                found += [
                    argument.id
                    for argument in self._expected_arguments(call, inner, owner, depth + 1)
                    if isinstance(argument, ast.Name) and argument.id in assertions.bindings.parameters
                ]
        return list(dict.fromkeys(found))

    def _in_copy(self, call: ast.Call, helper: _Helper, edits: Sequence[Edit]) -> tuple[Edit, ...] | None:
        """The edits of a proposal within a helper, made in a copy of it that this call uses."""
        source = self._source
        function = helper.function
        first = min([function.lineno, *(decorator.lineno for decorator in function.decorator_list)])
        start, end = source.line_start(first), source.end(function)
        inside = [edit for edit in edits if start <= edit.start and edit.end <= end]
        outside = [edit for edit in edits if edit not in inside]
        if not inside or source.bytes[start : source.line_end(start)].lstrip()[:1] not in {b"@", b"d", b"a"}:
            return None
        name = self._new_name(function.name)
        at_name = source.bytes.index(function.name.encode(), source.bytes.index(b"def", source.start(function)) + 3)
        renamed = Edit(start=at_name, end=at_name + len(function.name.encode()), text=name)
        copy = source.bytes[start:end]
        for edit in sorted([*inside, renamed], key=lambda edit: edit.start, reverse=True):
            copy = copy[: edit.start - start] + edit.text.encode() + copy[edit.end - start :]
        place, text = self._placed(helper, copy.decode())
        called_to = source.end(call.func)
        called = Edit(start=called_to - len(function.name.encode()), end=called_to, text=name)
        return (called, *outside, Edit(start=place, end=place, text=text))

    def _placed(self, helper: _Helper, copy: str) -> tuple[int, str]:
        """Where a copy goes: behind all else in the class or file, so that lines before it keep their numbers.

        No copy for a class may be inserted where one for the file, or for another class, is: it would have to be first.
        """
        siblings = helper.owner.body if helper.owner is not None else self._source.tree.body
        final = siblings[-1]
        if helper.owner is None and _runs_main(final) and not _directly_after_class(siblings):
            return self._source.line_start(final.lineno), copy + self._source.newline * 3
        last = final if helper.function in siblings and not isinstance(final, ast.ClassDef) else helper.function
        return behind(self._source, last, copy, blank_lines=1 if helper.owner is not None else 2)

    def _new_name(self, name: str) -> str:
        """A name that the file does not have, and that no test program takes for that of a test."""
        stem = f"_{name}" if "test" in name.lower() else name
        self._copies += 1
        while f"{stem}_{self._copies}" in self._words:
            self._copies += 1
        return f"{stem}_{self._copies}"


def behind(source: PythonSource, node: ast.stmt, text: str, blank_lines: int) -> tuple[int, str]:
    """Where a text goes, and what is inserted, so that it stands behind a statement on lines of its own."""
    end = source.line_end(source.end(node))
    if end == len(source.bytes):
        return end, source.newline * (blank_lines + 1) + text
    return source.line_start(last_line(node) + 1), source.newline * blank_lines + text + source.newline


def _arguments(call: ast.Call, helper: _Helper) -> dict[str, ast.expr]:
    if any(isinstance(argument, ast.Starred) for argument in call.args):
        return {}
    arguments = helper.function.args
    names = [argument.arg for argument in [*arguments.posonlyargs, *arguments.args]]
    static = any(isinstance(node, ast.Name) and node.id == "staticmethod" for node in helper.function.decorator_list)
    if helper.owner is not None and not static:
        names = names[1:]
    found = dict(zip(names, call.args, strict=False)) | {word.arg: word.value for word in call.keywords if word.arg}
    if arguments.vararg is not None and len(call.args) > len(names):
        found[arguments.vararg.arg] = call.args[-1]
    return found


def _calls(node: ast.stmt) -> Iterator[ast.Call]:
    """The calls of a statement itself, without those of the statements in it."""
    waiting: list[ast.AST] = [node]
    while waiting:
        current = waiting.pop()
        if isinstance(current, ast.Call):
            yield current
        waiting += [
            child
            for child in ast.iter_child_nodes(current)
            if not isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case)
        ]


def _directly_after_class(body: Sequence[ast.stmt]) -> bool:
    return len(body) > 1 and isinstance(body[-2], ast.ClassDef) and last_line(body[-2]) + 1 == body[-1].lineno


def _runs_main(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and "__name__" in ast.unparse(node.test)
