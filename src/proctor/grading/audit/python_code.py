"""What added Python code does to the test machinery, read from its syntax tree. Names are followed through imports."""

import ast
import re
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from proctor.grading.finding_codes import AuditCode

LineFinding = tuple[int, AuditCode, str]
_CodeFinding = tuple[AuditCode, str]

TEST_LIBRARIES: Final = frozenset({"unittest", "pytest", "_pytest", "pluggy", "nose"})
# Hooks of pytest by which a plugin decides how a test ends.
_DECIDING_HOOKS: Final = frozenset(
    "pytest_runtest_makereport pytest_runtest_call pytest_runtest_protocol pytest_pyfunc_call pytest_report_teststatus "
    "pytest_runtest_logreport pytest_make_collect_report pytest_itemcollected".split()
)
# Parts of unittest and pytest that decide how a test ends. Other objects have no attributes of these names.
_DECIDING_NAMES: Final = frozenset(
    "TestResult addFailure addError addSuccess addSubTest addSkip failureException _baseAssertEqual "
    "_getAssertEqualityFunc _callTestMethod _type_equality_funcs _Outcome testPartExecutor assertEqual assertTrue "
    "assertFalse assertRaises assertIn assertIs assertIsNone assertListEqual assertDictEqual assertAlmostEqual "
    "assertMultiLineEqual pytest_runtest_makereport pytest_runtest_call pytest_pyfunc_call TestReport "
    "_testMethodName".split()
)
# Builtins that decide how a test ends. `open`, `print` and their like are replaced in all innocence.
_DECIDING_BUILTINS: Final = frozenset(
    "__build_class__ AssertionError BaseException Exception abs all any bool callable dict filter float frozenset "
    "getattr hasattr hash int isinstance issubclass iter len list map max min next object range repr reversed round "
    "set sorted str sum tuple type zip".split()
)
_TEST_FILE: Final = re.compile(r"(?:[\w./-]*/)?(?:test_\w+|\w+_test)\.py")
_IMPORTERS: Final = frozenset("__import__ importlib.import_module builtins.__import__".split())
# Submissions are read in threads, and neither Python's parser (which may then raise SystemError, at least in 3.11) nor
# its warnings are made for two at once.
_PARSER_LOCK: Final = threading.Lock()


def parse_python(source: str, first_line: int = 1) -> ast.Module | None:
    """The syntax tree of Python code whose first line has this number; None when it cannot be parsed."""
    try:
        with _PARSER_LOCK, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an invalid escape in a submission is no warning of ours
            tree = ast.parse(source)
        if first_line != 1:  # numbering a whole file takes longer than parsing it
            ast.increment_lineno(tree, first_line - 1)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return tree


def python_findings(source: str, lines: frozenset[int], old: str | None = None) -> list[LineFinding] | None:
    """Findings on these lines of a Python file; None when the file is not Python that this version reads.

    With `old`, the file before, also what is found more often than there, though no line of it is new.
    """
    tree = parse_python(source, 1)
    if tree is None:
        return None
    if re.search(r"\r(?!\n)", source):
        lines = frozenset(range(1, source.count("\r") + source.count("\n") + 2))  # counted as Python does
    known = Counter[_CodeFinding]()
    if old is not None and (earlier := parse_python(old, 1)) is not None:
        known.update((code, detail) for _, _, code, detail in _audit_trees([earlier]))
    findings = []
    for first, last, code, detail in _audit_trees([tree]):
        added = next((number for number in range(first, last + 1) if number in lines), None)
        if added is not None:
            findings.append((added, code, detail))
        elif old is not None and known[code, detail] == 0:
            findings.append((first, code, detail))
        known[code, detail] = max(0, known[code, detail] - 1)
    return findings


def fragment_findings(lines: Sequence[tuple[int, str]]) -> list[LineFinding]:
    """Findings on added lines without the file around them: most statements stand on a line of their own."""
    trees = [parse_python(_complete_statement(text), number) for number, text in lines]
    found = _audit_trees([tree for tree in trees if tree is not None])
    return [(first, code, detail) for first, _, code, detail in found]


def uses_test_library(source: bytes) -> bool:
    """Whether a file is made for tests: it imports a test library, or defines a hook of pytest."""
    return (
        re.search(rb"^\s*(?:import|from)\s+(?:_?pytest|unittest|nose)\b|^def pytest_", source, re.MULTILINE) is not None
    )


def _complete_statement(text: str) -> str:
    """A line, completed to a statement where it opens a block."""
    line = text.strip().removeprefix("@")
    if line.startswith("elif "):
        line = line.removeprefix("el")
    return f"{line} pass" if line.endswith(":") else line


def _audit_trees(trees: Sequence[ast.Module]) -> list[tuple[int, int, AuditCode, str]]:
    try:
        return list(_PythonAuditor(trees).findings())
    except RecursionError:
        return []


class _PythonAuditor:
    """Knows what names stand for in one file, and looks at each node of its tree."""

    def __init__(self, trees: Sequence[ast.Module]) -> None:
        self.nodes = [node for tree in trees for node in ast.walk(tree)]
        self.aliases: dict[str, str] = {}
        self.docstrings = {id(node.value) for node in self.nodes if isinstance(node, ast.Expr)}
        for node in self.nodes:
            self._record_alias(node)

    def _record_alias(self, node: ast.AST) -> None:
        match node:
            case ast.Import(names=names):
                for name in names:
                    local = name.asname or name.name.partition(".")[0]
                    self.aliases[local] = name.name if name.asname else local
            case ast.ImportFrom(module=str(module), names=names, level=0):
                for name in names:
                    self.aliases[name.asname or name.name] = f"{module}.{name.name}"
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Name() | ast.Attribute() | ast.Call() as value):
                dotted = self.dotted(value)
                if dotted.partition(".")[0] in TEST_LIBRARIES | {"builtins"}:
                    self.aliases.setdefault(name, dotted)

    def dotted(self, node: ast.AST) -> str:
        """The full name that an expression stands for, or an empty string."""
        match node:
            case ast.Name(id=name):
                return self.aliases.get(name) or name
            case ast.Attribute(value=value, attr=attr):
                inner = self.dotted(value)
                return f"{inner}.{attr}" if inner else ""
            case ast.Call(func=func, args=[ast.Constant(value=str(name)), *_]) if self.dotted(func) in _IMPORTERS:
                return name
            case ast.Call(func=ast.Name(id="getattr"), args=[owner, ast.Constant(value=str(part)), *_]):
                inner = self.dotted(owner)
                return f"{inner}.{part}" if inner else ""
            case ast.Call(func=ast.Name(id="vars"), args=[owner]):
                return self.dotted(owner)
            case ast.Subscript(value=value, slice=ast.Constant(value=str(index))):
                owner = self.dotted(value)
                return (
                    index if owner == "sys.modules" else f"{owner.removesuffix('.__dict__')}.{index}" if owner else ""
                )
        return ""

    def findings(self) -> Iterator[tuple[int, int, AuditCode, str]]:
        look: dict[type, Callable[[Any], Iterator[_CodeFinding]]] = {
            ast.Import: self._import,
            ast.ImportFrom: self._import_from,
            ast.Call: self._call,
            ast.Assign: self._assign,
            ast.AugAssign: self._assign,
            ast.AnnAssign: self._assign,
            ast.Delete: self._assign,
            ast.Compare: self._compare,
            ast.Constant: self._text,
            ast.FunctionDef: _function,
            ast.AsyncFunctionDef: _function,
        }
        for node in self.nodes:
            for code, detail in look[type(node)](node) if type(node) in look else ():
                yield node.lineno, node.end_lineno or node.lineno, code, detail  # type: ignore[attr-defined]

    def _import(self, node: ast.Import) -> Iterator[_CodeFinding]:
        for name in node.names:
            yield from _import_findings(name.name)

    def _import_from(self, node: ast.ImportFrom) -> Iterator[_CodeFinding]:
        if node.module and not node.level:
            yield from _import_findings(node.module)

    def _call(self, node: ast.Call) -> Iterator[_CodeFinding]:
        name = self.dotted(node.func)
        if name in _IMPORTERS:
            yield from _import_findings(self.dotted(node))
        if name.endswith(("setattr", "delattr", ".__setattr__", ".__delattr__", "patch.object")) and len(node.args) > 1:
            attr = node.args[1].value if isinstance(node.args[1], ast.Constant) else "…"
            yield from _patch_findings(f"{self.dotted(node.args[0])}.{attr}")
        elif name.endswith("patch") and node.args and isinstance(node.args[0], ast.Constant):
            yield from _patch_findings(str(node.args[0].value))
        if name.startswith("sys.modules.") and node.args and isinstance(node.args[0], ast.Constant):
            module = str(node.args[0].value)
            if name.endswith(("get", "__contains__")) and module in TEST_LIBRARIES:
                yield AuditCode.TEST_SNIFFING, "asks whether a test runner is loaded"
            elif name.endswith(("pop", "setdefault", "__setitem__")):
                yield from _patch_findings(f"{module}.*")

    def _assign(self, node: ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Delete) -> Iterator[_CodeFinding]:
        targets = node.targets if isinstance(node, ast.Assign | ast.Delete) else [node.target]
        for part in (part for target in targets for part in ast.walk(target)):
            match part:
                case ast.Subscript(value=value, slice=ast.Constant(value=str(module)), ctx=ast.Store() | ast.Del()) if (
                    self.dotted(value) == "sys.modules"
                ):
                    yield from _patch_findings(f"{module}.*")
                case ast.Attribute(ctx=ast.Store() | ast.Del()) | ast.Subscript(ctx=ast.Store() | ast.Del()):
                    yield from _patch_findings(self.dotted(part))
                    if isinstance(part, ast.Attribute) and part.attr in _DECIDING_NAMES and not _is_own(part.value):
                        yield AuditCode.TEST_MACHINERY, f"assigns .{part.attr}"

    def _compare(self, node: ast.Compare) -> Iterator[_CodeFinding]:
        parts = list(ast.walk(node))
        words = {part.value for part in parts if isinstance(part, ast.Constant)}
        places = {self.dotted(part) for part in parts if isinstance(part, ast.Attribute)}
        if places & {"sys.modules", "sys.argv"} and words & TEST_LIBRARIES:
            yield AuditCode.TEST_SNIFFING, "asks whether a test runner is loaded"

    def _text(self, node: ast.Constant) -> Iterator[_CodeFinding]:
        if isinstance(node.value, str) and id(node) not in self.docstrings:
            if _TEST_FILE.fullmatch(node.value):
                yield AuditCode.TEST_FILES, f"names {node.value[:80]!r}"
            if node.value.rpartition(".")[2] in _DECIDING_NAMES:
                yield AuditCode.TEST_MACHINERY, f"names {node.value!r}"


def _import_findings(imported: str) -> Iterator[_CodeFinding]:
    top = imported.partition(".")[0]
    if top in TEST_LIBRARIES:
        yield AuditCode.TEST_MACHINERY, f"imports {imported} outside of tests"
    if top == "tests" or top.startswith("test_"):
        yield AuditCode.TEST_FILES, f"imports {imported}"


def _patch_findings(name: str) -> Iterator[_CodeFinding]:
    """What replacing the object of this name says."""
    top, _, rest = name.partition(".")
    if top in TEST_LIBRARIES and rest:
        yield AuditCode.TEST_MACHINERY, f"changes {name}"
    if top in {"builtins", "__builtins__"} and rest in _DECIDING_BUILTINS:
        yield AuditCode.BUILTINS_PATCHED, f"changes {name}"


def _is_own(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id in {"self", "cls"}


def _function(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[_CodeFinding]:
    if node.name in _DECIDING_HOOKS:
        yield AuditCode.TEST_MACHINERY, f"defines the hook {node.name}"
