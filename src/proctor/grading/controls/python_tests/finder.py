"""Which alterations are proposed for the tests of a Python file, and in which order."""

import ast
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from proctor.grading.controls.alteration import Alteration, AlterationKind, Edit, alter, overlap
from proctor.grading.controls.python_tests.assertion_functions import ProposalFinder, behind
from proctor.grading.controls.python_tests.assertions import GIVEN_RANK, STATEMENT_RANK, Proposal
from proctor.grading.controls.python_tests.contradiction import CertainComparisons
from proctor.grading.controls.python_tests.doctests import has_examples, output_changes
from proctor.grading.controls.python_tests.ids import Definitions, Names, TestFunction, TestIds
from proctor.grading.controls.python_tests.source import Function, PythonSource, RepeatedConstants, last_line, parse
from proctor.grading.controls.python_tests.statements import Certainty

_MAX_ALTERATIONS: Final = 12
_MAX_OF_FIRST_CHOICE: Final = 7
_FLIPS: Final = frozenset({AlterationKind.BOOLEAN, AlterationKind.COMPARISON, AlterationKind.EXCEPTION})


def find_alterations(path: str, source: bytes, tests: Sequence[str]) -> dict[str, tuple[Alteration, ...]]:
    """Alterations of those of the tests that this file defines, by test id, the least conspicuous first.

    Tests that share their code share their alterations. A change within a helper is made in a copy of it, and its
    lines are those of the helper's call in the test. Of a test that is inherited from another file only a method of
    unittest can be altered, by a statement.
    """
    tree = parse(source)
    if tree is None:
        return {}
    python = PythonSource(source, tree)
    definitions = Definitions(tree)
    ids = TestIds(path, definitions)
    by_code: dict[tuple[Function, ...], tuple[tuple[TestFunction, ...], list[str]]] = {}
    by_text: dict[Names, list[str]] = {}
    by_class: dict[tuple[ast.ClassDef, str], list[str]] = {}
    for test in dict.fromkeys(tests):
        found, names = ids.find(test), ids.documented(test)
        documented = names is not None and has_examples(_documented(python, definitions, names))
        if found and not (documented and not found[0].function.name.startswith("test")):
            by_code.setdefault(tuple(one.function for one in found), (found, []))[1].append(test)
        elif names is not None and documented:
            by_text.setdefault(names, []).append(test)
        elif (inherited := ids.inherited(test)) is not None:
            by_class.setdefault(inherited, []).append(test)
    finder = ProposalFinder(python, definitions)
    groups = [(same_code, _chosen_of_all(python, finder, code)) for code, same_code in by_code.values()]
    groups += [
        (same_text, list(_of_docstring(python, _documented(python, definitions, names))))
        for names, same_text in by_text.items()
    ]
    groups += [(same_method, _overriding(python, *method)) for method, same_method in by_class.items()]
    certain = CertainComparisons(python)
    proposed = [
        [_alteration(python, certain, path, tuple(same_code), proposal) for proposal in proposals]
        for same_code, proposals in groups
    ]
    valid = _valid(source, proposed)
    return {
        test: tuple(one for one in alterations if id(one) in valid)
        for (same_code, _), alterations in zip(groups, proposed, strict=True)
        for test in same_code
        if any(id(one) in valid for one in alterations)
    }


def _chosen_of_all(source: PythonSource, finder: ProposalFinder, code: Sequence[TestFunction]) -> list[Proposal]:
    """The proposals for an id. Where several tests share it as their label, each is made in all of them."""
    chosen = [_chosen(source, finder, test) for test in code]
    return [_joined(row) for row in zip(*chosen, strict=False)]


def _joined(proposals: Sequence[Proposal]) -> Proposal:
    return proposals[0]._replace(
        edits=tuple(edit for one in proposals for edit in one.edits),
        first_line=min(one.first_line for one in proposals),
        last_line=max(one.last_line for one in proposals),
    )


def _chosen(source: PythonSource, finder: ProposalFinder, test: TestFunction) -> list[Proposal]:
    """The proposals for a test: other assertions before other changes of one, the last certain assertion first.

    A constant that stands once in the test is better than one that stands there again: its change leaves the rest of
    the compiled code as it was.
    """
    try:
        found = finder.proposals(test.function, test.owner)
    except RecursionError:  # an expression that is nested too deep
        found = []
    repeated = RepeatedConstants(source, test.function)
    proposals = sorted(
        _distinct(found), key=lambda one: (one.rank, one.certainty, repeated.hold(one.edits), -one.first_line)
    )
    seen: Counter[tuple[int, int]] = Counter()
    turns: list[tuple[bool, int]] = []
    for one in proposals:
        site = (one.first_line, one.last_line)
        unlikely = one.certainty is Certainty.SOMETIMES or one.rank >= GIVEN_RANK
        turns.append((unlikely, seen[site]))
        seen[site] += 1
    order = [one for _, one in sorted(zip(turns, proposals, strict=True), key=lambda pair: pair[0])]
    first, rest = order[:_MAX_OF_FIRST_CHOICE], order[_MAX_OF_FIRST_CHOICE:]
    # Whatever a right program returns, it fails what was turned round.
    rest.sort(key=lambda one: one.kind not in _FLIPS)
    return [*[*first, *rest][: _MAX_ALTERATIONS - 1], _failing_statement(source, test.function)]


def _distinct(proposals: Sequence[Proposal]) -> Iterator[Proposal]:
    seen: set[tuple[Edit, ...]] = set()
    for one in sorted(proposals, key=lambda one: (one.rank, one.certainty)):
        if one.edits not in seen:
            seen.add(one.edits)
            yield one


def _failing_statement(source: PythonSource, function: Function) -> Proposal:
    """A statement that fails, at the end of the test."""
    final = function.body[-1]
    line, place = last_line(final), source.end(final)
    if isinstance(final, ast.Return | ast.Raise | ast.Pass):
        line, place, text = final.lineno, source.start(final), "assert 0; "
    elif hasattr(final, "body") or isinstance(final, ast.Match):
        text = f"{source.newline}{source.indentation(function.body[0])}assert 0"
    else:
        text = "; assert 0"
    edits = (Edit(start=place, end=place, text=text),)
    return Proposal(STATEMENT_RANK, AlterationKind.STATEMENT, Certainty.ALWAYS, edits, line, line, shown=edits)


def _overriding(source: PythonSource, owner: ast.ClassDef, method: str) -> list[Proposal]:
    """A method that calls the one of another file, which it overrides, and then fails."""
    last = owner.body[-1]
    if isinstance(last, ast.ClassDef):  # where it ends, only what is for itself can be inserted
        return []
    indentation, newline = source.indentation(owner.body[0]), source.newline
    text = f"{indentation}def {method}(self):{newline}{indentation * 2}super().{method}(); assert 0"
    place, inserted = behind(source, last, text, blank_lines=1)
    edits = (Edit(start=place, end=place, text=inserted),)
    lines = (last_line(last), last_line(last) + 1)
    return [Proposal(STATEMENT_RANK, AlterationKind.STATEMENT, Certainty.ALWAYS, edits, *lines, shown=edits)]


def _documented(source: PythonSource, definitions: Definitions, names: Names) -> ast.Module | ast.ClassDef | Function:
    function = definitions.functions.get(names)
    return source.tree if not names else function.function if function is not None else definitions.classes[names]


def _of_docstring(source: PythonSource, owner: ast.Module | ast.ClassDef | Function) -> Iterator[Proposal]:
    for edit, first, last in list(output_changes(source, owner))[:_MAX_ALTERATIONS]:
        yield Proposal(0, AlterationKind.OUTPUT, Certainty.ALWAYS, (edit,), first, last, shown=(edit,))


def _alteration(
    source: PythonSource, certain: CertainComparisons, path: str, tests: tuple[str, ...], proposal: Proposal
) -> Alteration:
    shown = sorted(proposal.shown, key=lambda edit: edit.start)
    start = source.bytes.rfind(b"\n", 0, shown[0].start) + 1
    end = source.line_end(shown[-1].end)
    altered = source.bytes[start:end]
    for edit in reversed(shown):
        altered = altered[: edit.start - start] + edit.text.encode() + altered[edit.end - start :]
    return Alteration(
        path=path,
        tests=tests,
        kind=proposal.kind,
        edits=proposal.edits,
        first_line=proposal.first_line,
        last_line=proposal.last_line,
        original=source.text(start, end).strip(),
        altered=altered.decode().strip(),
        contradicts=certain.decide(proposal.edits, proposal.first_line, proposal.last_line),
    )


def _valid(source: bytes, proposed: Sequence[Sequence[Alteration]]) -> set[int]:
    """By identity, the alterations with which the file can be parsed.

    Those that do not overlap are tried together, and halves of them where that fails.
    """
    valid: set[int] = set()
    for layer in _layers(proposed):
        waiting = [layer]
        while waiting:
            some = waiting.pop()
            if parse(alter(source, some)) is not None:
                valid |= {id(one) for one in some}
            elif len(some) > 1:
                waiting += [some[: len(some) // 2], some[len(some) // 2 :]]
    return valid


def _layers(proposed: Sequence[Sequence[Alteration]]) -> list[list[Alteration]]:
    """Groups of alterations that do not overlap, as those of different tests never do."""
    layers: list[list[Alteration]] = []
    for alterations in proposed:
        own: list[list[Alteration]] = []
        for one in alterations:
            free = next((some for some in own if not any(overlap(one, other) for other in some)), None)
            if free is None:
                own.append([one])
            else:
                free.append(one)
        layers += [[] for _ in own[len(layers) :]]
        for layer, some in zip(layers, own, strict=False):
            layer.extend(some)
    return layers
