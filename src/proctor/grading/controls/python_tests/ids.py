"""Which function of a file a test id means, in the styles of unittest, pytest, Django, SymPy and doctest."""

import ast
import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from proctor.grading.controls.python_tests.source import Function

# `test_x (package.tests.Case)`, `test_x (package.tests.Case.test_x)`, each also with the values of a subtest behind it.
_METHOD_IN: Final = re.compile(r"^(\w+) \(([\w.]+)\)")
_IN_FILE: Final = re.compile(r"^([^:\s]+\.py):(\w+)$")
_DOTTED: Final = re.compile(r"^[^\W\d]\w*(?:\.[^\W\d]\w*)*")
_CASES: Final = re.compile(r"expand|param|data|cases|product|scenarios", re.IGNORECASE)
_WITHOUT_TESTS: Final = frozenset(
    {
        "object",
        "ABC",
        "TestCase",
        "IsolatedAsyncioTestCase",
        "SimpleTestCase",
        "TransactionTestCase",
        "LiveServerTestCase",
    }
)
_MAX_BASES: Final = 8

Names = tuple[str, ...]


class TestFunction(NamedTuple):
    """A test: its function, and the class through which it is run."""

    function: Function
    owner: ast.ClassDef | None


class Definitions:
    """The functions and classes of a file by their qualified names; a class also has what it inherits in the file."""

    def __init__(self, tree: ast.Module) -> None:
        self.classes: dict[Names, ast.ClassDef] = {}
        self.functions: dict[Names, TestFunction] = {}
        self._own: dict[int, dict[str, Function]] = {}
        self._collect(tree.body, (), None)
        self._names = {id(node): names for names, node in self.classes.items()}

    def _collect(self, body: Sequence[ast.stmt], prefix: Names, owner: ast.ClassDef | None) -> None:
        for node in body:
            if isinstance(node, Function):
                self.functions[*prefix, node.name] = TestFunction(node, owner)
                if owner is not None:
                    self._own[id(owner)][node.name] = node
            elif isinstance(node, ast.ClassDef):
                self.classes[*prefix, node.name] = node
                self._own[id(node)] = {}
                self._collect(node.body, (*prefix, node.name), node)
            elif isinstance(node, ast.If | ast.Try | ast.With | ast.For):
                self._collect(list(_inner_statements(node)), prefix, owner)
            elif isinstance(node, ast.Assign):
                self._collect_alias(node, prefix)

    def _collect_alias(self, node: ast.Assign, prefix: Names) -> None:
        """`test_other = test_it`: another name of a function."""
        match node:
            case ast.Assign(targets=[ast.Name(id=alias)], value=ast.Name(id=name)) if (*prefix, name) in self.functions:
                self.functions[*prefix, alias] = self.functions[*prefix, name]

    def method(self, owner: ast.ClassDef, name: str) -> tuple[Function, ast.ClassDef] | None:
        """A method of a class or of its bases in this file, and the class that defines it."""
        for base in self.bases(owner):
            function = self._own[id(base)].get(name)
            if function is not None:
                return function, base
        return None

    def bases(self, owner: ast.ClassDef) -> list[ast.ClassDef]:
        """The class, and its bases in this file, nearly in the order in which Python looks methods up."""
        found = [owner]
        for node in found:
            for base in node.bases:
                names = tuple(ast.unparse(base).split("."))
                inherited = self.classes.get((*self._names[id(node)][:-1], *names)) or self.classes.get(names)
                if inherited is not None and inherited not in found and len(found) < _MAX_BASES:
                    found.append(inherited)
        return found

    def inherits_from_elsewhere(self, owner: ast.ClassDef) -> bool:
        """Whether a base of the class is not in this file, and may have tests."""
        here = self.bases(owner)
        known = _WITHOUT_TESTS | {node.name for node in here}
        return any(ast.unparse(base).split(".")[-1] not in known for node in here for base in node.bases)

    def find(self, names: Names) -> TestFunction | None:
        """The function of this qualified name, or the one whose generated cases have such a name."""
        if names in self.functions:
            return self.functions[names]
        owner = self.classes.get(names[:-1])
        if owner is not None:
            method = self.method(owner, names[-1])
            if method is not None:
                return TestFunction(method[0], owner)
        return self._generated(names, owner)

    def _generated(self, names: Names, owner: ast.ClassDef | None) -> TestFunction | None:
        """`test_x_0_case` of a `test_x` that a decorator such as `parameterized.expand` multiplies."""
        if len(names) > 1 and owner is None:
            return None
        within = (
            [function for base in self.bases(owner) for function in self._own[id(base)].values()]
            if owner is not None
            else [test.function for name, test in self.functions.items() if len(name) == 1]
        )
        candidates = [
            function
            for function in within
            if names[-1].startswith(function.name)
            and any(_CASES.search(ast.unparse(decorator)) for decorator in function.decorator_list)
        ]
        best = max(candidates, key=lambda function: len(function.name), default=None)
        return TestFunction(best, owner) if best is not None else None


class TestIds:
    """Finds the tests of one file by their ids."""

    def __init__(self, path: str, definitions: Definitions) -> None:
        self._definitions = definitions
        self._path = tuple(part for part in PurePosixPath(path).parts if part not in {".", "/"})
        module = (*self._path[:-1], PurePosixPath(path).stem)
        self._module = module[:-1] if module[-1] == "__init__" and len(module) > 1 else module
        self._labels = _labels(definitions)

    def find(self, test: str) -> tuple[TestFunction, ...]:
        """The test of this id; several where it is a label that they share; none where this file does not define it."""
        line = test.strip().splitlines()[0] if test.strip() else ""
        for names in self._readings(line):
            found = self._definitions.find(names)
            if found is not None:
                return (found,)
        return self._labels.get(line, ())

    def inherited(self, test: str) -> tuple[ast.ClassDef, str] | None:
        """The class of this file, and the method, of a unittest test that the class inherits from another file."""
        line = test.strip().splitlines()[0] if test.strip() else ""
        method, dotted = _METHOD_IN.match(line), _DOTTED.match(line)
        if method is not None:
            name, within = method.group(1), tuple(method.group(2).split("."))
            names = within if within[-1] == name else (*within, name)
        elif dotted is not None and (dotted.end() == len(line) or line[dotted.end()] == " "):
            names = tuple(dotted.group().split("."))
        else:
            return None
        for rest in self._after_module(names):
            owner = self._definitions.classes.get(rest[:-1])
            if owner is not None and rest[-1].startswith("test") and self._definitions.inherits_from_elsewhere(owner):
                return owner, rest[-1]
        return None

    def documented(self, test: str) -> Names | None:
        """The qualified name of what a doctest's id documents: `()` for the module itself."""
        head, separator, name = test.strip().removeprefix("Doctest: ").partition("::")
        dotted = name if separator and self._is_path(head) else head if not separator else ""
        if dotted and dotted == self._path[-1]:
            return ()
        match = _DOTTED.fullmatch(dotted)
        if match is None:
            return None
        return next((names for names in self._after_module(tuple(dotted.split("."))) if self._has_text(names)), None)

    def _has_text(self, names: Names) -> bool:
        return not names or names in self._definitions.functions or names in self._definitions.classes

    def _readings(self, test: str) -> Iterator[Names]:
        """What the id may mean as a qualified name in this file."""
        method, in_file = _METHOD_IN.match(test), _IN_FILE.match(test)
        if "::" in test.split("[", 1)[0]:
            head, _, tail = test.partition("::")
            names = tuple(name for name in re.split(r"::|\.", tail.split("[", 1)[0]) if name not in {"", "()"})
            if names and self._is_path(head):
                yield names
            elif names and _DOTTED.fullmatch(head):
                yield from self._qualified((*head.split("."), *names))
        elif in_file is not None:
            if self._is_path(in_file.group(1)):
                yield (in_file.group(2),)
        elif method is not None:
            name, dotted = method.group(1), tuple(method.group(2).split("."))
            if dotted[-1] == name:
                yield from self._qualified(dotted)
            yield from self._qualified((*dotted, name))
        else:
            match = _DOTTED.match(test)
            if match is not None and (match.end() == len(test) or test[match.end()] in " ["):
                yield from self._qualified(tuple(match.group().split(".")))

    def _qualified(self, dotted: Names) -> Iterator[Names]:
        yield from (names for names in self._after_module(dotted) if names)
        if len(dotted) <= 2:  # noqa: PLR2004 - `Case.test_x`: a name without its module
            yield dotted

    def _after_module(self, dotted: Names) -> Iterator[Names]:
        """What follows the module's name in a dotted name. The name may start above or below the tree's root."""
        for length in range(len(dotted), 0, -1):
            if _one_ends_with_other(dotted[:length], self._module):
                yield dotted[length:]

    def _is_path(self, head: str) -> bool:
        parts = tuple(part for part in head.split("/") if part not in {"", "."})
        return bool(parts) and _one_ends_with_other(parts, self._path)


def _one_ends_with_other(one: Names, other: Names) -> bool:
    length = min(len(one), len(other))
    return one[len(one) - length :] == other[len(other) - length :]


def _labels(definitions: Definitions) -> dict[str, tuple[TestFunction, ...]]:
    """Tests by the first line of their docstring, which unittest prints instead of a name."""
    found: dict[str, tuple[TestFunction, ...]] = {}
    for test in definitions.functions.values():
        text = ast.get_docstring(test.function, clean=False)
        if text and text.strip() and test.function.name.startswith("test"):
            label = text.strip().splitlines()[0].strip()
            found[label] = (*found.get(label, ()), test)
    return found


def _inner_statements(node: ast.stmt) -> Iterator[ast.stmt]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            yield child
        elif isinstance(child, ast.ExceptHandler):
            yield from child.body
