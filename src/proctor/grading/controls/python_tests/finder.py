"""Which alterations are proposed for the tests of a Python file, and in which order."""

import ast
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Final

from proctor.grading.controls.alteration import Alteration, AlterationKind, Edit, alter
from proctor.grading.controls.python_tests.assertions import STATEMENT_RANK, Proposal
from proctor.grading.controls.python_tests.doctests import output_changes
from proctor.grading.controls.python_tests.helpers import ProposalFinder
from proctor.grading.controls.python_tests.ids import Definitions, Names, TestFunction, TestIds
from proctor.grading.controls.python_tests.source import Function, PythonSource, last_line, parse
from proctor.grading.controls.python_tests.statements import Certainty

_MAX_ALTERATIONS: Final = 12
_MAX_OF_FIRST_CHOICE: Final = 7
_FLIPS: Final = frozenset({AlterationKind.BOOLEAN, AlterationKind.COMPARISON, AlterationKind.EXCEPTION})


def find_alterations(path: str, source: bytes, tests: Sequence[str]) -> dict[str, tuple[Alteration, ...]]:
    """Alterations of those of the tests that this file defines, by test id, the least conspicuous first.

    Tests that share their code share their alterations. A change within a helper is made in a copy of it, and its
    lines are those of the helper's call in the test.
    """
    tree = parse(source)
    if tree is None:
        return {}
    python = PythonSource(source, tree)
    definitions = Definitions(tree)
    ids = TestIds(path, definitions)
    by_function: dict[int, tuple[TestFunction, list[str]]] = {}
    by_text: dict[Names, list[str]] = {}
    for test in dict.fromkeys(tests):
        found = ids.find(test)
        if found is not None:
            by_function.setdefault(id(found.function), (found, []))[1].append(test)
            continue
        names = ids.documented(test)
        if names is not None:
            by_text.setdefault(names, []).append(test)
    finder = ProposalFinder(python, definitions)
    groups = [(names, _chosen(python, finder, test)) for test, names in by_function.values()]
    groups += [(names, list(_of_docstring(python, definitions, owner))) for owner, names in by_text.items()]
    proposed = [
        [_alteration(python, path, tuple(names), proposal) for proposal in proposals] for names, proposals in groups
    ]
    valid = _valid(source, proposed)
    return {
        test: tuple(one for one in alterations if id(one) in valid)
        for (names, _), alterations in zip(groups, proposed, strict=True)
        for test in names
        if any(id(one) in valid for one in alterations)
    }


def _chosen(source: PythonSource, finder: ProposalFinder, test: TestFunction) -> list[Proposal]:
    """The proposals for a test: other assertions before other changes of one, the last certain assertion first."""
    proposals = sorted(
        _distinct(finder.proposals(test.function, test.owner)),
        key=lambda one: (one.certainty is Certainty.SOMETIMES, one.rank, one.certainty, -one.first_line),
    )
    seen: dict[tuple[int, int], int] = {}
    turns = []
    for one in proposals:
        site = (one.first_line, one.last_line)
        turns.append(seen.get(site, 0))
        seen[site] = turns[-1] + 1
    order = [one for _, one in sorted(zip(turns, proposals, strict=True), key=lambda pair: pair[0])]
    first = order[:_MAX_OF_FIRST_CHOICE]
    rest = order[_MAX_OF_FIRST_CHOICE:]
    # Whatever a right program returns, it fails what was turned round.
    flips = [one for one in rest if one.kind in _FLIPS]
    rest = flips + [one for one in rest if one.kind not in _FLIPS]
    return [*first, *rest][: _MAX_ALTERATIONS - 1] + [_failing_statement(source, test.function)]


def _distinct(proposals: Sequence[Proposal]) -> Iterator[Proposal]:
    seen: set[tuple[Edit, ...]] = set()
    for one in sorted(proposals, key=lambda one: (one.rank, one.certainty)):
        if one.edits not in seen:
            seen.add(one.edits)
            yield one


def _failing_statement(source: PythonSource, function: Function) -> Proposal:
    """A statement that fails, at the end of the test."""
    body = function.body
    final = body[-1]
    if isinstance(final, ast.Return | ast.Raise | ast.Pass):
        start = source.start(final)
        edit = Edit(start=start, end=start, text="assert 0; ")
        line = final.lineno
    else:
        end = source.end(final)
        line = last_line(final)
        simple = not isinstance(
            final,
            ast.If
            | ast.For
            | ast.While
            | ast.With
            | ast.Try
            | ast.TryStar
            | ast.Match
            | ast.FunctionDef
            | ast.AsyncFunctionDef
            | ast.ClassDef
            | ast.AsyncFor
            | ast.AsyncWith,
        )
        text = "; assert 0" if simple else f"{source.newline}{source.indentation(body[0])}assert 0"
        edit = Edit(start=end, end=end, text=text)
    return Proposal(STATEMENT_RANK, AlterationKind.STATEMENT, Certainty.ALWAYS, (edit,), line, line)


def _of_docstring(source: PythonSource, definitions: Definitions, names: Names) -> Iterator[Proposal]:
    function = definitions.functions.get(names)
    owner = source.tree if not names else function.function if function is not None else definitions.classes[names]
    for change in list(output_changes(source, owner))[:_MAX_ALTERATIONS]:
        yield Proposal(0, AlterationKind.OUTPUT, Certainty.ALWAYS, (change.edit,), change.first_line, change.last_line)


def _alteration(source: PythonSource, path: str, tests: tuple[str, ...], proposal: Proposal) -> Alteration:
    edits = proposal.edits
    return Alteration(
        path=path,
        tests=tests,
        kind=proposal.kind,
        edits=edits,
        first_line=proposal.first_line,
        last_line=proposal.last_line,
        original=_shown(source, edits, altered=False),
        altered=_shown(source, edits, altered=True),
    )


def _shown(source: PythonSource, edits: Sequence[Edit], *, altered: bool) -> str:
    """The changed lines before or after, without what is added behind them."""
    first = min(edits, key=lambda edit: edit.start)
    start = source.bytes.rfind(b"\n", 0, first.start) + 1
    near = sorted((edit for edit in edits if edit.start <= source.line_end(first.end)), key=lambda edit: edit.start)
    end = source.line_end(max(edit.end for edit in near))
    text = source.bytes[start:end]
    if altered:
        for edit in reversed(near):
            text = text[: edit.start - start] + edit.text.encode() + text[edit.end - start :]
    return text.decode().strip()


def _valid(source: bytes, proposed: Sequence[Sequence[Alteration]]) -> set[int]:
    """By identity, the alterations with which the file can be parsed.

    One of each test is tried together, as those of different tests do not overlap, and halves of those that fail.
    """
    valid: set[int] = set()
    for row in zip_longest(*proposed):
        waiting = [[one for one in row if one is not None]]
        while waiting:
            some = waiting.pop()
            if parse(alter(source, some)) is not None:
                valid |= {id(one) for one in some}
            elif len(some) > 1:
                waiting += [some[: len(some) // 2], some[len(some) // 2 :]]
    return valid
