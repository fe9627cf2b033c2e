"""Alterations of tests in shell scripts: checks that print TAP, bats, shunit2, sharness, and scripts that just exit.

A check is a command that is given the name of a test. What it compares is looked up in the function that it calls.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from proctor.grading.controls.alteration import Alteration, AlterationKind, Edit
from proctor.grading.controls.changed_text import other_number, other_pattern, other_text
from proctor.grading.controls.syntax_tree import Grammar, ProposedChange, Proposer, SyntaxTree, parse_source, walk
from proctor.grading.controls.test_blocks import HOLE, TestBlock, TestName, alterations_of_blocks

if TYPE_CHECKING:
    from tree_sitter import Node

SHELL: Final = Grammar(
    language="shell",
    package="tree_sitter_bash",
    numbers=frozenset({"number"}),
    strings={"string": frozenset({"string_content"})},
    passed_over=frozenset({"comment"}),
)
_EXPANSIONS: Final = frozenset({"simple_expansion", "expansion", "command_substitution", "arithmetic_expansion"})
_TEXTS: Final = frozenset({"string", "raw_string", "ansi_c_string", "word", "number", "concatenation"})
_PROGRAMS: Final = frozenset(
    "echo printf cat cd mkdir rm cp mv test [ grep sed awk tr sort export local set unset shift return exit eval read"
    " touch ln ls source . trap exec run".split()
)
_PRINTERS: Final = frozenset({"echo", "printf"})
_COMPARERS: Final = frozenset("diff cmp test_cmp diffchk".split())
_GREPS: Final = frozenset("grep egrep fgrep rg".split())
_ASSERTION_NAME: Final = re.compile(
    r"^(_?assert|_?refute|expect|check|verify|is$|is_|isnt|like|ok$|cmp_ok|should|fail_)"
)
_OPERATORS: Final = {
    "=": "!=", "==": "!=", "!=": "=", "-eq": "-ne", "-ne": "-eq", "-lt": "-ge", "-ge": "-lt", "-gt": "-le",
    "-le": "-gt", "-z": "-n", "-n": "-z", "-nt": "-ot", "-ot": "-nt",
}  # fmt: skip
_EQUALS: Final = frozenset({"=", "==", "-eq"})
_OPPOSITES: Final = {
    "assert_success": "assert_failure", "assert_failure": "assert_success", "assert_exist": "assert_not_exist",
    "assert_output": "refute_output", "refute_output": "assert_output", "assert_line": "refute_line",
    "refute_line": "assert_line", "assert": "refute", "refute": "assert", "assertTrue": "assertFalse",
    "assertFalse": "assertTrue", "assertEquals": "assertNotEquals", "assertNull": "assertNotNull",
    "assertNotNull": "assertNull", "test_must_fail": "test_expect_code 0", "assert_equal": "assert_not_equal",
}  # fmt: skip
_NAMED_SCRIPTS: Final = frozenset("test_expect_success test_expect_failure test_expect_code".split())
_BATS_HEADER: Final = re.compile(rb"^([ \t]*)@test[ \t]+(\S.*?)[ \t]*\{[ \t]*$", re.MULTILINE)
_FAILS: Final = re.compile(r"\bnot ok\b|\b(exit|return) [1-9]|\bfail|\bFAIL|\bdie\b|\berror\b|\bbad\b|\bfalse\b")
_STATEMENTS: Final = frozenset({"program", "compound_statement", "do_group", "if_statement", "else_clause", "subshell"})
_MAX_DEPTH: Final = 3  # of checks that call checks

Piece = str | tuple[str] | None


def find_alterations(path: str, source: bytes, tests: Sequence[str]) -> dict[str, tuple[Alteration, ...]]:
    """Alterations of the tests of a shell script."""
    readable, headers = _without_headers(source)
    tree = parse_source(readable, SHELL)
    if tree is None:
        return {}
    script = _Script(tree, tests, headers)
    return alterations_of_blocks(path, tree, tests, [*script.blocks, *script.whole(path)])


def _without_headers(source: bytes) -> tuple[bytes, dict[int, str]]:
    """The file with functions in place of the tests of bats, which are not shell, and the names of these tests."""
    names: dict[int, str] = {}

    def header(match: re.Match[bytes]) -> bytes:
        indent, name = match[1], match[2].decode("utf-8", "replace")
        start = match.start() + len(indent)
        names[start] = name[1:-1] if name[:1] in {"'", '"'} else name
        return indent + b"f()".ljust(len(match[0]) - len(indent) - 1) + b"{"

    return _BATS_HEADER.sub(header, source), names


class _Script:
    def __init__(self, tree: SyntaxTree, tests: Sequence[str], headers: dict[int, str]) -> None:
        self.tree = tree
        self.proposer = Proposer(tree)
        self.text = tree.text
        self.tests = tests
        self.functions: dict[str, Node] = {}
        self.blocks: list[TestBlock] = []
        self._fixed: dict[str, bool] = {}
        self._commands: list[Node] = []
        self._find(headers)

    # Which tests there are.

    def _find(self, headers: dict[int, str]) -> None:
        tests: list[tuple[str, Node]] = []
        inside_functions: set[int] = set()
        for node in walk(self.tree.root):
            if node.type == "function_definition":
                name = node.child_by_field_name("name")
                body = node.child_by_field_name("body")
                if name is None or body is None:
                    continue
                if node.start_byte in headers:
                    tests.append((headers[node.start_byte], body))
                else:
                    self.functions[self.text(name)] = body
                    if re.match(r"test", self.text(name)):
                        tests.append((self.text(name), body))
                inside_functions.update(inner.id for inner in walk(body) if inner.type == "command")
            elif node.type == "command":
                self._commands.append(node)
        for name_, body in tests:
            self.blocks.append(TestBlock(TestName((name_,)), lambda body=body: self._body(body)))  # type: ignore[misc]
        seen: set[int] = set()
        for command in self._commands:
            if command.id not in inside_functions:
                self._add_checks(command, seen)

    def _add_checks(self, command: "Node", seen: set[int]) -> None:
        name = self._name(command)
        arguments = _arguments(command)
        if name in _PRINTERS:
            self._add_printed(command, arguments, seen)
            return
        if name in _PROGRAMS or not arguments:
            return
        if name in self.functions:
            wrapped = list(self._wrapped_checks(name, arguments))
            for test, inner in wrapped:
                propose = self._copier(command, name, inner)
                if propose is not None and test.is_fixed:
                    self.blocks.append(TestBlock(test, propose))
                else:
                    self.blocks.append(TestBlock(self._open_name(inner), lambda inner=inner: self._check(inner)))  # type: ignore[misc]
            if wrapped:
                return
        for number, argument in enumerate(arguments):
            given = self._test_name(argument)
            if given is not None and (number == 0 or given.is_fixed) and self._may_be_named(given, name):
                self.blocks.append(TestBlock(given, lambda n=number: self._check(command, n)))  # type: ignore[misc]
                return

    def _may_be_named(self, test: TestName, command: str) -> bool:
        """Whether an argument may be a test's name: it ends an id; a pattern must be given to a function."""
        if not test.is_fixed:
            return command in self.functions and len(test.text.strip()) > 1
        text = test.text.strip()
        if text not in self._fixed:
            self._fixed[text] = bool(text) and any(one.endswith(text) for one in self.tests)
        return self._fixed[text]

    def _wrapped_checks(self, function: str, arguments: "Sequence[Node]") -> "Iterator[tuple[TestName, Node]]":
        """The checks inside of a function whose names are made of what the function is given."""
        body = self.functions[function]
        given = self._variables(body)
        for inner in walk(body):
            if inner.type != "command" or self._name(inner) not in self.functions:
                continue
            own = _arguments(inner)
            if not own:
                continue
            pieces = self._pieces(own[0])
            if pieces is None or not any(isinstance(piece, tuple) for piece in pieces):
                continue
            if not any(isinstance(piece, str) and piece.strip() for piece in pieces) and self._is_checker(function):
                continue
            filled: list[str | None] = []
            for piece in pieces:
                if not isinstance(piece, tuple):
                    filled.append(piece)
                    continue
                position = given.get(piece[0])
                if position is None or position > len(arguments):
                    filled.append(HOLE)
                    continue
                parts = self._pieces(arguments[position - 1]) or [HOLE]
                filled += [part if isinstance(part, str) else HOLE for part in parts]
            yield TestName(_joined(filled)), inner

    def _open_name(self, check: "Node") -> TestName:
        pieces = self._pieces(_arguments(check)[0]) or [HOLE]
        return TestName(_joined([piece if isinstance(piece, str) else HOLE for piece in pieces]))

    def _variables(self, body: "Node") -> dict[str, int]:
        """Which of a function's arguments its variables hold."""
        found = {str(number): number for number in range(1, 10)}
        shifted = 0
        for node in walk(body):
            if node.type == "command" and self._name(node) == "shift":
                shifted += 1
                found |= {str(number): number + shifted for number in range(1, 10)}
            elif node.type == "variable_assignment":
                name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
                if name is not None and value is not None:
                    match = re.fullmatch(r'"?\$\{?([0-9])(?::?-[^}]*)?\}?"?', self.text(value))
                    if match:
                        found[self.text(name)] = found[match[1]] if match[1] in found else int(match[1])
        return found

    def _add_printed(self, command: "Node", arguments: "Sequence[Node]", seen: set[int]) -> None:
        """A line `ok 1 - name` that the script prints itself, in the branch of a decision."""
        for argument in arguments:
            test = self._test_name(argument)
            if test is None:
                continue
            match = re.search(r"\b(?:not )?ok\b[ \t]*(?:[0-9]+)?[ \t]*(?:-[ \t]*)?(.*)", test.pieces[-1] or "")
            name = TestName((match[1].replace("\\n", "").strip(),)) if match is not None and match[1] else test
            decision = _decision(command)
            if decision is not None and name.is_fixed and self._may_be_named(name, "") and decision.id not in seen:
                seen.add(decision.id)
                self.blocks.append(TestBlock(name, lambda node=decision: self._decided(node)))  # type: ignore[misc]
                return

    def whole(self, path: str) -> Iterator[TestBlock]:
        """The whole script as one test, named like its file."""
        file = PurePosixPath(path)
        for name in {file.name, file.stem}:
            yield TestBlock(TestName((name,)), lambda: self._body(self.tree.root))

    # Names.

    def _name(self, command: "Node") -> str:
        name = command.child_by_field_name("name")
        return self.text(name) if name is not None else ""

    def _test_name(self, argument: "Node") -> TestName | None:
        pieces = self._pieces(argument)
        if not pieces:
            return None
        return TestName(_joined([piece if isinstance(piece, str) else HOLE for piece in pieces]))

    def _pieces(self, node: "Node") -> list[Piece] | None:
        """What a word is made of: texts, variables as a tuple of their name, and what else is filled in."""
        if node.type == "raw_string":
            return [self.text(node)[1:-1]]
        if node.type in {"word", "number"}:
            return [re.sub(r"\\(.)", r"\1", self.text(node))]
        if node.type in {"string", "concatenation"}:
            found: list[Piece] = []
            position = node.start_byte + (node.type == "string")
            for child in node.children:
                if child.type == '"':
                    continue
                if child.start_byte > position and node.type == "string":
                    found.append(self.tree.source[position : child.start_byte].decode("utf-8", "replace"))
                position = child.end_byte
                if child.type == "string_content":
                    found.append(re.sub(r'\\(["\\$`])', r"\1", self.text(child)))
                else:
                    found += self._pieces(child) or [None]
            return found
        if node.type in {"simple_expansion", "expansion"}:
            match = re.fullmatch(r"\$\{?(\w+)\}?", self.text(node))
            return [(match[1],)] if match else [None]
        return None

    # What a check compares.

    def _is_checker(self, function: str) -> bool:
        body = self.functions[function]
        return any(
            node.type == "command" and self._name(node) in _PRINTERS and re.search(r"\bok\b", self.text(node))
            for node in walk(body)
        )

    def _compared(self, function: str, depth: int = 0) -> list[int]:
        """Which arguments of a function are compared, the first being 1."""
        body = self.functions.get(function)
        if body is None or depth > _MAX_DEPTH:
            return []
        given = self._variables(body)
        found: list[int] = []
        for node in walk(body):
            uses: Iterable[Node] = ()
            if node.type in {"test_command", "case_statement"}:
                uses = walk(node) if node.type == "test_command" else walk(node.children[1])
            elif node.type == "command":
                name = self._name(node)
                if name in {"test", "["} | _GREPS | _COMPARERS:
                    uses = walk(node)
                elif name in self.functions and name != function:
                    inner = self._compared(name, depth + 1)
                    own = _arguments(node)
                    uses = [use for place in inner if place <= len(own) for use in walk(own[place - 1])]
            for use in uses:
                if use.type == "variable_name" and (place := given.get(self.text(use))) and place not in found:
                    found.append(place)
        return found

    def _check(self, command: "Node", named: int = 0) -> Iterator[ProposedChange]:
        """A check that is given a name: what it compares changed, or else what decides that it is reached."""
        name = self._name(command)
        arguments = _arguments(command)
        compared = [place - 1 for place in self._compared(name) if place - 1 != named and place <= len(arguments)]
        places = compared or [place for place in range(len(arguments)) if place != named]
        if name in _NAMED_SCRIPTS:
            yield from self._script_argument(arguments)
            return
        chosen = [arguments[place] for place in places]
        yield from self._changed_arguments(command, chosen, options=bool(compared))
        if (decision := _decision(command)) is not None:
            yield from self._decided(decision)
        if not compared:
            yield from self._executed(command, name, [one for place, one in enumerate(arguments) if place != named])

    def _changed_arguments(
        self, command: "Node", arguments: "Sequence[Node]", *, options: bool = True
    ) -> Iterator[ProposedChange]:
        """One of the arguments with another text in it: plain texts first, then those with expansions."""
        plain = [one for one in arguments if one.type in _TEXTS and not _has_expansion(one)]
        if not options:
            plain = [one for one in plain if not self.text(one).startswith("-")]
            plain.reverse()
        mixed = [one for one in arguments if one not in plain and (one.type in _TEXTS or one.type in _EXPANSIONS)]
        for argument in [*plain, *mixed]:
            if options or argument in plain or argument.type in {"string", *_EXPANSIONS}:
                yield from self._changed(command, argument)

    def _changed(
        self, assertion: "Node", argument: "Node", kind: AlterationKind = AlterationKind.LITERAL
    ) -> Iterator[ProposedChange]:
        """Another text in place of a word: a letter changed, or one put in front of what is filled in."""
        text = self.text(argument)
        if argument.type == "number":
            yield self.proposer.replaced(kind, assertion, argument, other_number(text))
        elif argument.type == "raw_string":
            yield self.proposer.replaced(kind, assertion, argument, f"'{other_text(text[1:-1])}'")
        elif argument.type == "ansi_c_string":
            yield self.proposer.replaced(kind, assertion, argument, f"$'{other_text(text[2:-1])}'")
        elif argument.type == "word" and not _has_expansion(argument):
            other = other_number(text) if text.isdigit() else other_text(text)
            yield self.proposer.replaced(kind, assertion, argument, other)
        elif argument.type in {"string", "concatenation"}:
            parts = [
                part
                for part in walk(argument, into=lambda node: node.type not in _EXPANSIONS)
                if part.type in {"string_content", "raw_string"} or (part.type == "word" and not part.child_count)
            ]
            for part in parts[::-1]:
                fragment = self.text(part)
                changed = other_text(fragment)
                if len(changed) == len(fragment):
                    yield self.proposer.replaced(kind, assertion, part, changed)
                    break
            else:
                first = next((part for part in walk(argument) if part.type == "string"), None)
                place = first.start_byte + 1 if first is not None else argument.start_byte
                yield self.proposer.edited(kind, assertion, [Edit(start=place, end=place, text="x")])
        elif argument.type in _EXPANSIONS:
            place = argument.start_byte
            yield self.proposer.edited(kind, assertion, [Edit(start=place, end=place, text="x")])

    def _executed(self, command: "Node", name: str, arguments: "Sequence[Node]") -> Iterator[ProposedChange]:
        """A check that runs a command: a script in quotes is read as one; else another command is run."""
        body = self.functions.get(name)
        text = self.text(body) if body is not None else ""
        if re.search(r"\beval\b|\bsh -c\b|\bbash -c\b", text) or body is None:
            yield from self._script_argument(arguments)
        if '"$@"' in text:
            program = next((one for one in arguments if one.type == "word" and not self.text(one)[:1].isdigit()), None)
            if program is not None:
                for other in ("false", "true"):
                    edit = Edit(start=program.start_byte, end=program.start_byte, text=f"{other} ")
                    yield self.proposer.edited(AlterationKind.STATEMENT, command, [edit])

    def _script_argument(self, arguments: "Sequence[Node]") -> Iterator[ProposedChange]:
        for argument in arguments:
            text = self.text(argument)
            if argument.type not in {"raw_string", "string"} or not re.search(r"\s", text.strip("'\"").strip()):
                continue
            start, end = argument.start_byte + 1, argument.end_byte - 1
            source = self.tree.source
            # Blank around the script, so that places in it are places in the file.
            blank = re.sub(rb"[^\n]", b" ", source[:start])
            script = parse_source(blank + source[start:end], SHELL)
            if script is not None and not script.errors:
                inner = _Script(script, (), {})
                inner.functions = self.functions
                yield from inner._body(script.root, is_script=True)

    # Decisions and assertions.

    def _decided(self, node: "Node") -> Iterator[ProposedChange]:
        """The condition of a decision between success and failure."""
        if node.type == "if_statement":
            condition = node.child_by_field_name("condition")
            if condition is not None:
                yield from self._condition(condition, condition)
        elif node.children:
            yield from self._condition(node.children[0], node.children[0])

    def _condition(self, assertion: "Node", node: "Node") -> Iterator[ProposedChange]:
        if node.type == "negated_command":
            inner = node.children[-1]
            found = list(self._condition(assertion, inner))
            yield from (one for one in found if one.kind is not AlterationKind.LITERAL)
            edit = Edit(start=node.start_byte, end=inner.start_byte, text="")
            yield self.proposer.edited(AlterationKind.BOOLEAN, assertion, [edit])
        elif node.type == "test_command":
            yield from self._tested(assertion, node)
        elif node.type == "list":
            for child in node.named_children:
                yield from self._condition(assertion, child)
        elif node.type in {"redirected_statement", "pipeline"}:
            inner = node.named_children[0 if node.type == "redirected_statement" else -1]
            yield from self._condition(assertion, inner)
        elif node.type == "command":
            yield from self._command(assertion, node)
            if assertion == node and (_starts_statement(node) or (node.parent and node.parent.type == "list")):
                edit = Edit(start=node.start_byte, end=node.start_byte, text="! ")
                yield self.proposer.edited(AlterationKind.BOOLEAN, assertion, [edit])

    def _tested(self, assertion: "Node", node: "Node") -> Iterator[ProposedChange]:
        """`[ a = b ]` and its like: another text, or another operator."""
        comparison = next((one for one in walk(node) if one.type in {"binary_expression", "unary_expression"}), None)
        if comparison is None or comparison.child_count < 2:  # noqa: PLR2004 - an operator and what it is applied to
            return
        operator = comparison.child_by_field_name("operator") or next(
            (one for one in comparison.children if self.text(one) in _OPERATORS), None
        )
        sign = self.text(operator) if operator is not None else ""
        left, right = comparison.child_by_field_name("left"), comparison.child_by_field_name("right")
        if sign in _EQUALS:
            sides = [side for side in (right, left) if side is not None]
            plain = [side for side in sides if not _has_expansion(side)]
            for side in plain[:1]:
                if side.type in _TEXTS:
                    yield from self._changed(assertion, side)
                else:
                    yield self.proposer.replaced(AlterationKind.LITERAL, assertion, side, other_text(self.text(side)))
        elif sign == "=~" and right is not None and not _has_expansion(right):
            yield self.proposer.replaced(AlterationKind.LITERAL, assertion, right, other_pattern(self.text(right)))
        if operator is not None and sign in _OPERATORS:
            yield self.proposer.replaced(AlterationKind.COMPARISON, assertion, operator, _OPERATORS[sign])
        else:
            opening = node.children[0]
            edit = Edit(start=opening.end_byte, end=opening.end_byte, text=" !")
            if re.match(r"\[\[?\s+!\s", self.text(node)):
                removed = re.compile(rb"\s+!(?=\s)").search(self.tree.source, opening.end_byte, node.end_byte)
                if removed is not None:
                    edit = Edit(start=removed.start(), end=removed.end(), text="")
            yield self.proposer.edited(AlterationKind.BOOLEAN, assertion, [edit])

    def _command(self, assertion: "Node", node: "Node") -> Iterator[ProposedChange]:
        """A command that decides by its exit status."""
        name = self._name(node)
        arguments = _arguments(node)
        if name in _GREPS:
            options = [self.text(one) for one in arguments if self.text(one).startswith("-")]
            if not any(re.match(r"-\w*v|--invert", one) for one in options):
                pattern = next((one for one in arguments if not self.text(one).startswith("-")), None)
                if pattern is not None:
                    yield from self._changed(assertion, pattern, AlterationKind.OUTPUT)
        elif name in {"test", "["}:
            yield from self._test_program(assertion, arguments)
        elif name in _COMPARERS:
            yield from self._compared_files(node, arguments)
        elif name in self.functions:
            places = [place - 1 for place in self._compared(name) if place <= len(arguments)]
            yield from self._changed_arguments(assertion, [arguments[place] for place in places])
        elif _ASSERTION_NAME.match(name):
            plain = [one for one in arguments if not self.text(one).startswith("-")]
            if not name.startswith("refute"):
                yield from self._changed_arguments(assertion, plain, options=False)
            word = node.child_by_field_name("name")
            if name in _OPPOSITES and word is not None:
                yield self.proposer.replaced(AlterationKind.BOOLEAN, assertion, word, _OPPOSITES[name])

    def _test_program(self, assertion: "Node", arguments: "Sequence[Node]") -> Iterator[ProposedChange]:
        for place, argument in enumerate(arguments):
            sign = self.text(argument)
            if sign in _EQUALS:
                sides = [*arguments[place + 1 : place + 2], *arguments[place - 1 : place]]
                yield from self._changed_arguments(assertion, [side for side in sides if not _has_expansion(side)])
            if sign in _OPERATORS:
                yield self.proposer.replaced(AlterationKind.COMPARISON, assertion, argument, _OPERATORS[sign])
                return
        yield from self._negated_test(assertion, arguments)

    def _negated_test(self, assertion: "Node", arguments: "Sequence[Node]") -> Iterator[ProposedChange]:
        if not arguments:
            return
        first = arguments[0]
        if self.text(first) == "!" and len(arguments) > 1:
            edit = Edit(start=first.start_byte, end=arguments[1].start_byte, text="")
        else:
            edit = Edit(start=first.start_byte, end=first.start_byte, text="! ")
        yield self.proposer.edited(AlterationKind.BOOLEAN, assertion, [edit])

    def _compared_files(self, node: "Node", arguments: "Sequence[Node]") -> Iterator[ProposedChange]:
        """Files that are compared: what the script writes into one of them."""
        names = {self.text(one).strip("'\"") for one in arguments if not self.text(one).startswith("-")}
        around = node
        while around.parent is not None and around.type not in {"function_definition", "program"}:
            around = around.parent
        for written in walk(around):
            if written.type == "redirected_statement":
                inside = list(walk(written))
                targets = {self.text(one).strip("'\"") for one in self._targets(inside)}
                if targets & names or any(one == node for one in inside):
                    yield from self._written(node, inside)

    def _targets(self, nodes: "Iterable[Node]") -> "Iterator[Node]":
        for node in nodes:
            target = node.child_by_field_name("destination") if node.type == "file_redirect" else None
            if target is not None:
                yield target

    def _written(self, assertion: "Node", nodes: "Iterable[Node]") -> Iterator[ProposedChange]:
        """What a statement writes, or gives to the command that compares."""
        for part in nodes:
            if part.type == "heredoc_redirect":
                yield from self._heredoc(assertion, part)
            elif part.type == "command" and self._name(part) in _PRINTERS:
                texts = [one for one in _arguments(part) if one.type in _TEXTS and not self.text(one).startswith("-")]
                for one in texts[-1:]:
                    yield from self._changed(assertion, one, AlterationKind.OUTPUT)

    def _heredoc(self, assertion: "Node", redirect: "Node") -> Iterator[ProposedChange]:
        """A letter of an expected output, in the last line that has one and fills nothing in.

        The lines are found by the words around them: where a command goes on behind the first of these, the grammar
        takes the lines for it.
        """
        opening = next((one for one in redirect.children if one.type == "heredoc_start"), None)
        closing = next((one for one in redirect.children if one.type == "heredoc_end"), None)
        if opening is None or closing is None:
            return
        source = self.tree.source
        start = source.find(b"\n", opening.end_byte) + 1
        end = source.rfind(b"\n", 0, closing.start_byte) + 1
        while start < end:
            line = source.rfind(b"\n", start, end - 1) + 1 or start
            text = source[line:end].decode("utf-8", "replace")
            changed = other_text(text)
            if len(changed) == len(text) and not re.search(r"[$`\\]", text):
                edit = Edit(start=line, end=end, text=changed)
                yield self.proposer.edited(AlterationKind.OUTPUT, assertion, [edit])
                return
            end = line

    # Tests that are a function, a script in quotes, or a whole file.

    def _body(self, body: "Node", *, is_script: bool = False) -> Iterator[ProposedChange]:
        statements = [node for node in walk(body) if node.type in {"command", "test_command", "if_statement"}]
        for node in statements:
            if node.type == "if_statement":
                condition = node.child_by_field_name("condition")
                if condition is not None and _FAILS.search(self.text(node)):
                    yield from self._condition(condition, condition)
            elif not _is_condition(node):
                if node.type == "test_command":
                    yield from self._tested(node, node)
                else:
                    yield from self._command(node, node)
        yield from self._failing_statement(body, is_script=is_script)

    def _failing_statement(self, body: "Node", *, is_script: bool) -> Iterator[ProposedChange]:
        """A command that fails, after all others."""
        named = [one for one in body.named_children if one.type != "comment"]
        if not named:
            return
        last = named[-1]
        if last.type == "command" and self._name(last) in {"exit", "return"} and len(named) > 1:
            text, place = "false || exit 1; ", last.start_byte
        elif body.type == "program" and not is_script:
            text, place = "; exit 1", last.end_byte
        else:
            text, place = "; false", last.end_byte
        if "<<" in self.text(last):
            return  # what follows a heredoc's end is another line
        yield self.proposer.edited(AlterationKind.STATEMENT, last, [Edit(start=place, end=place, text=text)])

    # Copies of functions.

    def _copier(self, call: "Node", function: str, check: "Node") -> Callable[[], Iterator[ProposedChange]] | None:
        """Ways to alter a check inside of a function for one call of it: the call is of a copy, made on its line."""
        body = self.functions[function]
        statements = [one for one in body.named_children if one.type != "comment"]
        texts = [self.text(one) for one in statements]
        between = (self.tree.source[one.end_byte : other.start_byte] for one, other in pairwise(statements))
        if (
            body.type != "compound_statement"
            or any("\n" in text for text in texts)
            or any(b"&" in gap.partition(b"#")[0] for gap in between)
            or not _starts_statement(call)
        ):
            return None
        copy = f"{function}_2"
        while copy in self.functions:
            copy += "2"

        def propose() -> Iterator[ProposedChange]:
            for proposal in self._check(check):
                lines = []
                for one, text in zip(statements, texts, strict=True):
                    made = text.encode()
                    for edit in reversed(proposal.edits):
                        if one.start_byte <= edit.start <= edit.end <= one.end_byte:
                            start, end = edit.start - one.start_byte, edit.end - one.start_byte
                            made = made[:start] + edit.text.encode() + made[end:]
                    lines.append(made.decode())
                word = call.child_by_field_name("name")
                if "".join(lines) == "".join(texts) or word is None:
                    continue
                edits = (
                    Edit(start=call.start_byte, end=word.end_byte, text=f"{copy}() {{ {'; '.join(lines)}; }}; {copy}"),
                )
                yield ProposedChange(
                    kind=proposal.kind,
                    edits=edits,
                    assertion=proposal.assertion,
                    first_line=call.start_point.row + 1,
                    last_line=call.end_point.row + 1,
                    original=proposal.original,
                    altered=proposal.altered,
                )

        return propose


def _arguments(command: "Node") -> "list[Node]":
    return command.children_by_field_name("argument")


def _has_expansion(node: "Node") -> bool:
    return any(inner.type in _EXPANSIONS for inner in walk(node))


def _joined(pieces: Iterable[str | None]) -> tuple[str | None, ...]:
    """The pieces of a name, with texts that follow each other made one."""
    found: list[str | None] = []
    for piece in pieces:
        if isinstance(piece, str) and found and isinstance(found[-1], str):
            found[-1] += piece
        elif piece is not HOLE or not found or found[-1] is not HOLE:
            found.append(piece)
    return tuple(found)


def _decision(node: "Node") -> "Node | None":
    """The decision that a command is a branch of: an `if`, or a list with `&&` or `||`."""
    inner, around = node, node.parent
    while around is not None and around.type not in {"program", "function_definition"}:
        if around.type == "if_statement":
            conditions = around.children_by_field_name("condition")
            return None if inner in conditions else around
        if around.type == "list" and around.children and around.children[0] != inner:
            return around.children[0] if around.children[0].type == "list" else around
        inner, around = around, around.parent
    return None


def _is_condition(node: "Node") -> bool:
    """Whether a command is what an `if` or a loop decides by, or is inside of another word."""
    inner, around = node, node.parent
    while around is not None:
        if around.type in {"if_statement", "elif_clause", "while_statement"}:
            return inner in around.children_by_field_name("condition")
        if around.type in {"command_substitution", "process_substitution"}:
            return True
        if around.type in {"function_definition", "program", "compound_statement", "do_group"}:
            return False
        inner, around = around, around.parent
    return False


def _starts_statement(node: "Node") -> bool:
    return node.parent is not None and node.parent.type in _STATEMENTS
