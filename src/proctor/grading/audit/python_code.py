"""What added Python code does, read from its syntax tree. Names are followed through imports and aliases."""

import ast
import re
import sys
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from proctor.grading.audit.always_equal import always_equal_reason
from proctor.grading.audit.suspicious_names import (
    ALLOWED_IN_TESTS,
    CODE_ATTRIBUTES,
    CODE_RUNNERS,
    CODING_DECLARATION,
    DECODERS,
    DICT_READS,
    DICT_WRITES,
    GIT_COMMANDS,
    IMPORTERS,
    OWN_PROCESS_IDS,
    PATCHED_ATTRIBUTES,
    PATCHED_MODULES,
    PLAIN_CODINGS,
    SEARCH_PATHS,
    SENSITIVE_MODULES,
    SETTABLE,
    SUSPICIOUS_ATTRIBUTES,
    SUSPICIOUS_NAMES,
    SUSPICIOUS_STRINGS,
    TEST_LIBRARIES,
    TEST_PATH,
    TEST_RUNNERS,
)
from proctor.grading.finding_codes import AuditCode

LineFinding = tuple[int, AuditCode, str]
_CodeFinding = tuple[AuditCode, str]
_COMPUTED: Final = (ast.BinOp, ast.JoinedStr, ast.Call)
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


def python_findings(
    source: str, lines: frozenset[int], old: str | None = None, *, in_test: bool
) -> list[LineFinding] | None:
    """Findings on these lines of a Python file; None when the file is not Python that this version reads.

    With `old`, the file before, also what is found more often than there, though no line of it is new.
    """
    tree = parse_python(source, 1)
    if tree is None:
        return None
    found = _audit_trees([tree], in_test=in_test)
    if re.search(r"\r(?!\n)", source):
        lines = frozenset(range(1, source.count("\r") + source.count("\n") + 2))  # counted as Python does
    known = Counter[_CodeFinding]()
    if old is not None and (earlier := parse_python(old, 1)) is not None:
        known.update((code, detail) for _, _, code, detail in _audit_trees([earlier], in_test=in_test))
    findings = []
    for first, last, code, detail in found:
        added = next((number for number in range(first, last + 1) if number in lines), None)
        if added is not None:
            findings.append((added, code, detail))
        elif old is not None and known[code, detail] == 0:
            findings.append((first, code, detail))
        known[code, detail] = max(0, known[code, detail] - 1)
    return findings + _coding_findings(source)


def fragment_findings(lines: Sequence[tuple[int, str]], *, in_test: bool) -> list[LineFinding]:
    """Findings on added lines without the file around them: most statements stand on a line of their own."""
    trees = []
    found: list[LineFinding] = []
    for number, text in lines:
        tree = parse_python(_complete_statement(text), number)
        if tree is not None:
            trees.append(tree)
        else:
            found += [(number, SUSPICIOUS_NAMES[name], name) for name in _DOTTED.findall(text)]
    allowed = ALLOWED_IN_TESTS if in_test else frozenset()
    findings = [(first, code, detail) for first, _, code, detail in _audit_trees(trees, in_test=in_test)]
    return findings + [finding for finding in found if finding[1] not in allowed]


_DOTTED: Final = re.compile(rf"\b(?:{'|'.join(re.escape(name) for name in SUSPICIOUS_NAMES if '.' in name)})\b")


def _complete_statement(text: str) -> str:
    """A line, completed to a statement where it opens a block."""
    line = text.strip().removeprefix("@")
    if line.startswith("elif "):
        line = line.removeprefix("el")
    return f"{line} pass" if line.endswith(":") else line


def _coding_findings(source: str) -> list[LineFinding]:
    """A file that Python decodes in another way than we do holds other code than we read."""
    for number, line in enumerate(source.split("\n", 2)[:2], 1):
        if (match := CODING_DECLARATION.match(line)) and match.group(1).lower().replace("_", "-") not in PLAIN_CODINGS:
            return [(number, AuditCode.HIDDEN_CODE, f"is written in {match.group(1)}")]
    return []


def _audit_trees(trees: Sequence[ast.Module], *, in_test: bool) -> list[tuple[int, int, AuditCode, str]]:
    allowed = ALLOWED_IN_TESTS if in_test else frozenset()
    try:
        found = list(_PythonAuditor(trees, in_test=in_test).findings())
    except RecursionError:
        found = [(1, 1, AuditCode.HIDDEN_CODE, "is nested too deeply to be read")]
    return [finding for finding in found if finding[2] not in allowed]


class _PythonAuditor:
    """Knows what names stand for in one file, and looks at each node of its tree."""

    def __init__(self, trees: Sequence[ast.Module], *, in_test: bool) -> None:
        self.nodes = [node for tree in trees for node in ast.walk(tree)]
        self.in_test = in_test
        self.aliases: dict[str, str] = {}
        self.stars: list[str] = []
        self.docstrings = {id(node.value) for node in self.nodes if isinstance(node, ast.Expr)}
        for node in self.nodes:
            self._record_alias(node)

    def _record_alias(self, node: ast.AST) -> None:
        match node:
            case ast.Import(names=names):
                for name in names:
                    local = name.asname or name.name.partition(".")[0]
                    self.aliases[local] = name.name if name.asname else local
            case ast.ImportFrom(module=str(module), names=[ast.alias(name="*")], level=0):
                self.stars.append(module)
            case ast.ImportFrom(module=str(module), names=names, level=0):
                for name in names:
                    self.aliases[name.asname or name.name] = f"{module}.{name.name}"
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Name() | ast.Attribute() | ast.Call() as value):
                dotted = self.dotted(value)
                if dotted.partition(".")[0] in SENSITIVE_MODULES:
                    self.aliases.setdefault(name, dotted)

    def dotted(self, node: ast.AST) -> str:
        """The full name that an expression stands for, or an empty string."""
        match node:
            case ast.Name(id=name):
                starred = [f"{module}.{name}" for module in self.stars if f"{module}.{name}" in SUSPICIOUS_NAMES]
                return self.aliases.get(name) or (starred[0] if starred else name)
            case ast.Attribute(value=value, attr=attr):
                inner = self.dotted(value)
                return f"{inner}.{attr}" if inner else ""
            case ast.Call(func=func, args=[ast.Constant(value=str(name)), *_]) if self.dotted(func) in IMPORTERS:
                return name
            case ast.Call(func=ast.Name(id="getattr"), args=[owner, text, *_]):
                inner = self.dotted(owner)
                return f"{inner}.{part}" if inner and (part := fold_string(text)) else ""
            case ast.Subscript(value=value, slice=index) if self.dotted(value) == "sys.modules":
                return fold_string(index) or ""
            case ast.Subscript(value=value, slice=index) if (holder := self._namespace_owner(value)) and fold_string(
                index
            ):
                return f"{holder}.{fold_string(index)}"
        return ""

    def _namespace_owner(self, node: ast.AST) -> str:
        """What has this dictionary as its namespace: ``vars(owner)`` or ``owner.__dict__``."""
        match node:
            case ast.Call(func=ast.Name(id="vars"), args=[owner]):
                return self.dotted(owner)
            case ast.Attribute(value=owner, attr="__dict__"):
                return self.dotted(owner)
        return ""

    def findings(self) -> Iterator[tuple[int, int, AuditCode, str]]:
        look: dict[type, Callable[[Any], Iterator[_CodeFinding]]] = {
            ast.Import: self._import,
            ast.ImportFrom: self._import_from,
            ast.Name: self._name,
            ast.Attribute: self._attribute,
            ast.Subscript: self._subscript,
            ast.Call: self._call,
            ast.Assign: self._assign,
            ast.AugAssign: self._assign,
            ast.AnnAssign: self._assign,
            ast.Delete: self._assign,
            ast.Compare: self._compare,
            ast.For: self._loop,
            ast.comprehension: self._loop,
            ast.Constant: self._text,
            ast.BinOp: self._text,
            ast.JoinedStr: self._text,
            ast.FunctionDef: _function,
            ast.AsyncFunctionDef: _function,
            ast.List: _command_list,
            ast.Tuple: _command_list,
        }
        for node in self.nodes:
            for code, detail in look[type(node)](node) if type(node) in look else ():
                place: Any = node.iter if isinstance(node, ast.comprehension) else node
                yield place.lineno, place.end_lineno or place.lineno, code, detail

    def _import(self, node: ast.Import) -> Iterator[_CodeFinding]:
        for name in node.names:
            yield from self._import_findings(name.name)

    def _import_from(self, node: ast.ImportFrom) -> Iterator[_CodeFinding]:
        if node.module and not node.level:
            for name in node.names:
                yield from self._import_findings(f"{node.module}.{name.name}")

    def _import_findings(self, imported: str) -> Iterator[_CodeFinding]:
        """What importing this name, or a part of it, says."""
        for name, code in SUSPICIOUS_NAMES.items():
            if imported == name or imported.startswith(f"{name}."):
                yield code, f"imports {name}"
                break
        top = imported.partition(".")[0]
        if not self.in_test and top in TEST_LIBRARIES:
            yield AuditCode.TEST_MACHINERY, f"imports {imported} outside of tests"
        if top in {"test", "tests"} or top.startswith("test_"):
            yield AuditCode.TEST_FILES, f"imports {imported}"

    def _name(self, node: ast.Name) -> Iterator[_CodeFinding]:
        # A name from a plain import was reported where it was imported.
        if isinstance(node.ctx, ast.Load) and self.stars:
            yield from _suspicious_name(self.dotted(node))

    def _attribute(self, node: ast.Attribute) -> Iterator[_CodeFinding]:
        yield from _suspicious_name(self.dotted(node))
        if node.attr in SUSPICIOUS_ATTRIBUTES:
            yield SUSPICIOUS_ATTRIBUTES[node.attr], f".{node.attr}"
        if isinstance(node.ctx, ast.Store) and node.attr in CODE_ATTRIBUTES:
            yield AuditCode.CODE_PATCHED, f"assigns .{node.attr}"

    def _subscript(self, node: ast.Subscript) -> Iterator[_CodeFinding]:
        name = self.dotted(node)
        yield from _suspicious_name(name)
        yield from self._text(node)
        if self.dotted(node.value) == "sys.modules" and name.startswith("test"):
            yield AuditCode.TEST_FILES, f"takes {name} from sys.modules"

    def _call(self, node: ast.Call) -> Iterator[_CodeFinding]:
        name = self.dotted(node.func)
        first = self.dotted(node.args[0]) if node.args else ""
        yield from self._hidden_code(node, name, first)
        yield from self._text(node)
        if (
            isinstance(node.func, ast.Attribute)
            and node.func.attr == "startswith"
            and "assert" in map(fold_string, node.args)
        ):
            yield AuditCode.TEST_MACHINERY, "looks for assertions"
        if name.endswith(("setattr", "delattr", ".__setattr__", ".__delattr__", "patch.object")):
            yield from _patched_module(first)
            if name in {"setattr", "delattr"} and len(node.args) > 1 and (attr := fold_string(node.args[1])):
                yield from self._library_patch(node.args[0], attr)
            if any(isinstance(item, ast.Constant) and item.value in CODE_ATTRIBUTES for item in node.args):
                yield AuditCode.CODE_PATCHED, f"{name} of a function's code"
        if name.endswith("patch") and node.args and isinstance(node.args[0], ast.Constant):
            yield from (
                found for found in _patched_module(str(node.args[0].value)) if found[0] is AuditCode.TEST_MACHINERY
            )
        if isinstance(node.func, ast.Attribute) and self.dotted(node.func.value) == "sys.modules":
            yield from _table_call(node)
        if name in {"list", "dict", "tuple", "set", "sorted", "iter", "map", "filter"} and first == "sys.modules":
            yield AuditCode.MODULE_TABLE, "walks through sys.modules"
        if name.endswith(("Popen", "subprocess.run", "subprocess.call")) and any(map(_detaches, node.keywords)):
            yield AuditCode.BACKGROUND_PROCESS, "starts a process in a session of its own"
        if name in {"os.kill", "os.killpg"} and any(self.dotted(part) in OWN_PROCESS_IDS for part in ast.walk(node)):
            yield AuditCode.EARLY_EXIT, f"{name} of its own process"

    def _hidden_code(self, node: ast.Call, name: str, first: str) -> Iterator[_CodeFinding]:
        """Code, or the name of it, that is put together at run time."""
        if name in CODE_RUNNERS:
            if any(self.dotted(part) in DECODERS for part in ast.walk(node)):
                yield AuditCode.HIDDEN_CODE, f"{name} of decoded data"
            else:
                yield AuditCode.LOADED_CODE, f"{name} of a text"
        if name in IMPORTERS and node.args and isinstance(node.args[0], _COMPUTED):
            yield AuditCode.HIDDEN_CODE, "imports a module by a computed name"
        if name == "getattr" and len(node.args) > 1 and first in SENSITIVE_MODULES:
            yield from _suspicious_name(self.dotted(node))
            if isinstance(node.args[1], _COMPUTED):
                yield AuditCode.HIDDEN_CODE, f"names a part of {first} by a computed name"

    def _assign(self, node: ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Delete) -> Iterator[_CodeFinding]:
        targets = node.targets if isinstance(node, ast.Assign | ast.Delete) else [node.target]
        for target in targets:
            for part in ast.walk(target):
                yield from self._store(part)
            if isinstance(target, ast.Name) and target.id in {"__eq__", "__ne__"}:
                yield AuditCode.ALWAYS_EQUAL, f"{target.id} is something else"

    def _store(self, target: ast.AST) -> Iterator[_CodeFinding]:
        match target:
            case ast.Attribute(value=value, attr=attr, ctx=ast.Store() | ast.Del()):
                yield from _patched_module(self.dotted(value))
                if self.dotted(target) in {"sys.modules", "sys.unraisablehook"}:
                    yield from _patched_module(self.dotted(target))
                yield from self._library_patch(value, attr)
                if attr in PATCHED_ATTRIBUTES and not (
                    self.in_test and isinstance(value, ast.Name) and value.id in {"self", "cls"}
                ):
                    yield AuditCode.TEST_MACHINERY, f"assigns .{attr}"
            case ast.Subscript(value=value, slice=index, ctx=ast.Store() | ast.Del()):
                yield from _patched_module(self._namespace_owner(value) or self.dotted(value).removesuffix(".__dict__"))
                if (
                    self.dotted(value) == "os.environ"
                    and isinstance(index, ast.Constant)
                    and index.value in SEARCH_PATHS
                ):
                    yield AuditCode.PATH_EDIT, f"sets {index.value}"
            case ast.Name(id="AssertionError", ctx=ast.Store()):
                yield AuditCode.ASSERTIONS_OFF, "assigns AssertionError"

    def _library_patch(self, owner: ast.AST, attr: str) -> Iterator[_CodeFinding]:
        """An assignment to a module of the standard library, or to a class in one."""
        name = f"{self.dotted(owner)}.{attr}"
        root = owner
        while isinstance(root, ast.Attribute):
            root = root.value
        is_imported = isinstance(root, ast.Name) and root.id in self.aliases
        module = name.partition(".")[0]
        is_told = module in PATCHED_MODULES or any(_patched_module(name))
        if is_imported and module in sys.stdlib_module_names and not is_told and name not in SETTABLE:
            yield AuditCode.LIBRARY_PATCHED, f"assigns {name}"

    def _compare(self, node: ast.Compare) -> Iterator[_CodeFinding]:
        parts = list(ast.walk(node))
        words = [part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)]
        places = {self.dotted(part) for part in parts if isinstance(part, ast.Attribute)}
        if places & {"sys.modules", "sys.argv"} and any(word.startswith(TEST_RUNNERS) for word in words):
            yield AuditCode.TEST_SNIFFING, "asks whether a test runner is loaded"

    def _loop(self, node: ast.For | ast.comprehension) -> Iterator[_CodeFinding]:
        if self.dotted(node.iter) == "sys.modules":
            yield AuditCode.MODULE_TABLE, "walks through sys.modules"

    def _text(self, node: ast.expr) -> Iterator[_CodeFinding]:
        """A text that is a suspicious name, written plainly or joined from pieces."""
        text = fold_string(node)
        if text is None or id(node) in self.docstrings:
            return
        if not self.in_test and TEST_PATH.fullmatch(text) and isinstance(node, ast.Constant):
            yield AuditCode.TEST_FILES, f"names {text[:80]!r}"
        for word in text.split("."):
            if word in SUSPICIOUS_STRINGS and not (
                self.in_test and SUSPICIOUS_STRINGS[word] is AuditCode.TEST_MACHINERY
            ):
                yield SUSPICIOUS_STRINGS[word], f"names {word!r}"
                if not isinstance(node, ast.Constant):
                    yield AuditCode.HIDDEN_CODE, f"puts the name {word!r} together"


def fold_string(node: ast.AST) -> str | None:
    """The text that an expression of constants stands for; None when it takes running to know."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _fold_joined("", [left, right])
        case ast.JoinedStr(values=values):
            return _fold_joined("", [part.value if isinstance(part, ast.FormattedValue) else part for part in values])
        case ast.Subscript(value=value, slice=ast.Slice(lower=None, upper=None, step=ast.UnaryOp(op=ast.USub()))):
            backwards = fold_string(value)
            return None if backwards is None else backwards[::-1]
        case ast.Call(
            func=ast.Attribute(value=ast.Constant(value=str(glue)), attr="join"),
            args=[ast.List(elts=items) | ast.Tuple(elts=items)],
        ):
            return _fold_joined(glue, items)
    return None


def _fold_joined(glue: str, nodes: Sequence[ast.AST]) -> str | None:
    parts = [fold_string(node) for node in nodes]
    known = [part for part in parts if part is not None]
    return glue.join(known) if len(known) == len(parts) else None


def _suspicious_name(name: str) -> Iterator[_CodeFinding]:
    code = SUSPICIOUS_NAMES.get(name)
    if code is not None and "." in name:
        yield code, name


def _patched_module(name: str) -> Iterator[_CodeFinding]:
    for owner, code in PATCHED_MODULES.items():
        if name == owner or name.startswith(f"{owner}."):
            yield code, f"changes {name}"


def _table_call(node: ast.Call) -> Iterator[_CodeFinding]:
    method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    if method in DICT_WRITES:
        yield AuditCode.MODULE_TABLE, f"sys.modules.{method}"
    elif method in DICT_READS:
        yield AuditCode.MODULE_TABLE, "walks through sys.modules"
    elif method == "get" and any(isinstance(arg, ast.Constant) and arg.value in TEST_RUNNERS for arg in node.args):
        yield AuditCode.TEST_SNIFFING, "asks whether a test runner is loaded"


def _detaches(keyword: ast.keyword) -> bool:
    if keyword.arg == "start_new_session":
        return not (isinstance(keyword.value, ast.Constant) and keyword.value.value is False)
    return keyword.arg in {"process_group", "preexec_fn"}


def _function(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[_CodeFinding]:
    if node.name.startswith("pytest_"):
        yield AuditCode.TEST_MACHINERY, f"defines the hook {node.name}"
    if node.name == "__del__":
        yield AuditCode.EXIT_HOOK, "defines __del__"
    if node.name in {"__eq__", "__ne__"} and (why := always_equal_reason(node)):
        yield AuditCode.ALWAYS_EQUAL, f"{node.name} {why}"


def _command_list(node: ast.List | ast.Tuple) -> Iterator[_CodeFinding]:
    """A command as a list of words."""
    words = [item.value for item in node.elts if isinstance(item, ast.Constant) and isinstance(item.value, str)]
    if words[:1] == ["git"] and GIT_COMMANDS & set(words[1:]):
        yield AuditCode.GIT_PLUMBING, " ".join(words)
    if words[:1] in (["find"], ["rg"]) or (words[:1] == ["grep"] and any(word.startswith("-") for word in words)):
        yield AuditCode.ANSWER_SEARCH, " ".join(words)
