"""What added Python code does, read from its syntax tree. Names are followed through imports and aliases."""

import ast
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from proctor.grading.audit.codes import Code
from proctor.grading.audit.equality import is_agreeable
from proctor.grading.audit.names import (
    CODE_PARTS,
    CODING,
    DECODERS,
    EVERYDAY,
    FOR_TESTS,
    GIT_COMMANDS,
    IMPORTERS,
    NAMES,
    OWN_PROCESS,
    OWNERS,
    PARTS,
    PATCHED,
    PLAIN_CODINGS,
    RUNNERS,
    SEARCH_PATHS,
    SENSITIVE,
    SETTABLE,
    TABLE_CHANGES,
    TABLE_WALKS,
    TEST_PATH,
    TEST_RUNNERS,
    TEXTS,
)
from proctor.grading.audit.parsing import parse

Smell = tuple[int, Code, str]
_Found = tuple[Code, str]
_COMPUTED: Final = (ast.BinOp, ast.JoinedStr, ast.Call)


def python_smells(source: str, lines: frozenset[int], old: str | None = None, *, in_test: bool) -> list[Smell] | None:
    """Findings on these lines of a Python file; None when the file is not Python that this version reads.

    With `old`, the file before, also what is found more often than there, though no line of it is new.
    """
    tree = parse(source, 1)
    if tree is None:
        return None
    found = _read([tree], in_test=in_test)
    if re.search(r"\r(?!\n)", source):
        lines = frozenset(range(1, source.count("\r") + source.count("\n") + 2))  # counted as Python does
    known = Counter[_Found]()
    if old is not None and (earlier := parse(old, 1)) is not None:
        known.update((code, detail) for _, _, code, detail in _read([earlier], in_test=in_test))
    smells = []
    for first, last, code, detail in found:
        added = next((number for number in range(first, last + 1) if number in lines), None)
        if added is not None:
            smells.append((added, code, detail))
        elif old is not None and known[code, detail] == 0:
            smells.append((first, code, detail))
        known[code, detail] = max(0, known[code, detail] - 1)
    return smells + _coding_smells(source)


def fragment_smells(lines: Sequence[tuple[int, str]], *, in_test: bool) -> list[Smell]:
    """Findings on added lines without the file around them: most statements stand on a line of their own."""
    trees = []
    found: list[Smell] = []
    for number, text in lines:
        tree = parse(_statement(text), number)
        if tree is not None:
            trees.append(tree)
        else:
            found += [(number, NAMES[name], name) for name in _DOTTED.findall(text)]
    allowed = EVERYDAY if in_test else frozenset()
    smells = [(first, code, detail) for first, _, code, detail in _read(trees, in_test=in_test)]
    return smells + [smell for smell in found if smell[1] not in allowed]


_DOTTED: Final = re.compile(rf"\b(?:{'|'.join(re.escape(name) for name in NAMES if '.' in name)})\b")


def _statement(text: str) -> str:
    """A line, completed to a statement where it opens a block."""
    line = text.strip().removeprefix("@")
    if line.startswith("elif "):
        line = line.removeprefix("el")
    return f"{line} pass" if line.endswith(":") else line


def _coding_smells(source: str) -> list[Smell]:
    """A file that Python decodes in another way than we do holds other code than we read."""
    for number, line in enumerate(source.split("\n", 2)[:2], 1):
        if (match := CODING.match(line)) and match.group(1).lower().replace("_", "-") not in PLAIN_CODINGS:
            return [(number, Code.HIDDEN_CODE, f"is written in {match.group(1)}")]
    return []


def _read(trees: Sequence[ast.Module], *, in_test: bool) -> list[tuple[int, int, Code, str]]:
    allowed = EVERYDAY if in_test else frozenset()
    try:
        found = list(_Reader(trees, in_test=in_test).smells())
    except RecursionError:
        found = [(1, 1, Code.HIDDEN_CODE, "is nested too deeply to be read")]
    return [smell for smell in found if smell[2] not in allowed]


class _Reader:
    """Knows what names stand for in one file, and looks at each node of its tree."""

    def __init__(self, trees: Sequence[ast.Module], *, in_test: bool) -> None:
        self.nodes = [node for tree in trees for node in ast.walk(tree)]
        self.in_test = in_test
        self.aliases: dict[str, str] = {}
        self.stars: list[str] = []
        self.prose = {id(node.value) for node in self.nodes if isinstance(node, ast.Expr)}
        for node in self.nodes:
            self._learn(node)

    def _learn(self, node: ast.AST) -> None:
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
                if dotted.partition(".")[0] in SENSITIVE:
                    self.aliases.setdefault(name, dotted)

    def dotted(self, node: ast.AST) -> str:
        """The full name that an expression stands for, or an empty string."""
        match node:
            case ast.Name(id=name):
                starred = [f"{module}.{name}" for module in self.stars if f"{module}.{name}" in NAMES]
                return self.aliases.get(name) or (starred[0] if starred else name)
            case ast.Attribute(value=value, attr=attr):
                inner = self.dotted(value)
                return f"{inner}.{attr}" if inner else ""
            case ast.Call(func=func, args=[ast.Constant(value=str(name)), *_]) if self.dotted(func) in IMPORTERS:
                return name
            case ast.Call(func=ast.Name(id="getattr"), args=[owner, text, *_]):
                inner = self.dotted(owner)
                return f"{inner}.{part}" if inner and (part := folded(text)) else ""
            case ast.Subscript(value=value, slice=index) if self.dotted(value) == "sys.modules":
                return folded(index) or ""
            case ast.Subscript(value=value, slice=index) if (holder := self._namespace_owner(value)) and folded(index):
                return f"{holder}.{folded(index)}"
        return ""

    def _namespace_owner(self, node: ast.AST) -> str:
        """What has this dictionary as its namespace: ``vars(owner)`` or ``owner.__dict__``."""
        match node:
            case ast.Call(func=ast.Name(id="vars"), args=[owner]):
                return self.dotted(owner)
            case ast.Attribute(value=owner, attr="__dict__"):
                return self.dotted(owner)
        return ""

    def smells(self) -> Iterator[tuple[int, int, Code, str]]:
        look: dict[type, Callable[[Any], Iterator[_Found]]] = {
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
            ast.List: _words,
            ast.Tuple: _words,
        }
        for node in self.nodes:
            for code, detail in look[type(node)](node) if type(node) in look else ():
                place: Any = node.iter if isinstance(node, ast.comprehension) else node
                yield place.lineno, place.end_lineno or place.lineno, code, detail

    def _import(self, node: ast.Import) -> Iterator[_Found]:
        for name in node.names:
            yield from self._mention(name.name)

    def _import_from(self, node: ast.ImportFrom) -> Iterator[_Found]:
        if node.module and not node.level:
            for name in node.names:
                yield from self._mention(f"{node.module}.{name.name}")

    def _mention(self, imported: str) -> Iterator[_Found]:
        """What importing this name, or a part of it, says."""
        for name, code in NAMES.items():
            if imported == name or imported.startswith(f"{name}."):
                yield code, f"imports {name}"
                break
        top = imported.partition(".")[0]
        if not self.in_test and top in FOR_TESTS:
            yield Code.TEST_MACHINERY, f"imports {imported} outside of tests"
        if top in {"test", "tests"} or top.startswith("test_"):
            yield Code.TEST_FILES, f"imports {imported}"

    def _name(self, node: ast.Name) -> Iterator[_Found]:
        # A name from a plain import was told of where it was imported.
        if isinstance(node.ctx, ast.Load) and self.stars:
            yield from _exact(self.dotted(node))

    def _attribute(self, node: ast.Attribute) -> Iterator[_Found]:
        yield from _exact(self.dotted(node))
        if node.attr in PARTS:
            yield PARTS[node.attr], f".{node.attr}"
        if isinstance(node.ctx, ast.Store) and node.attr in CODE_PARTS:
            yield Code.CODE_PATCHED, f"assigns .{node.attr}"

    def _subscript(self, node: ast.Subscript) -> Iterator[_Found]:
        name = self.dotted(node)
        yield from _exact(name)
        yield from self._text(node)
        if self.dotted(node.value) == "sys.modules" and name.startswith("test"):
            yield Code.TEST_FILES, f"takes {name} from sys.modules"

    def _call(self, node: ast.Call) -> Iterator[_Found]:
        name = self.dotted(node.func)
        first = self.dotted(node.args[0]) if node.args else ""
        yield from self._hidden(node, name, first)
        yield from self._text(node)
        if (
            isinstance(node.func, ast.Attribute)
            and node.func.attr == "startswith"
            and "assert" in map(folded, node.args)
        ):
            yield Code.TEST_MACHINERY, "looks for assertions"
        if name.endswith(("setattr", "delattr", ".__setattr__", ".__delattr__", "patch.object")):
            yield from _owner(first)
            if name in {"setattr", "delattr"} and len(node.args) > 1 and (attr := folded(node.args[1])):
                yield from self._library(node.args[0], attr)
            if any(isinstance(item, ast.Constant) and item.value in CODE_PARTS for item in node.args):
                yield Code.CODE_PATCHED, f"{name} of a function's code"
        if name.endswith("patch") and node.args and isinstance(node.args[0], ast.Constant):
            yield from (found for found in _owner(str(node.args[0].value)) if found[0] is Code.TEST_MACHINERY)
        if isinstance(node.func, ast.Attribute) and self.dotted(node.func.value) == "sys.modules":
            yield from _table_call(node)
        if name in {"list", "dict", "tuple", "set", "sorted", "iter", "map", "filter"} and first == "sys.modules":
            yield Code.MODULE_TABLE, "walks through sys.modules"
        if name.endswith(("Popen", "subprocess.run", "subprocess.call")) and any(map(_detaches, node.keywords)):
            yield Code.BACKGROUND_PROCESS, "starts a process in a session of its own"
        if name in {"os.kill", "os.killpg"} and any(self.dotted(part) in OWN_PROCESS for part in ast.walk(node)):
            yield Code.EARLY_EXIT, f"{name} of its own process"

    def _hidden(self, node: ast.Call, name: str, first: str) -> Iterator[_Found]:
        """Code, or the name of it, that is put together at run time."""
        if name in RUNNERS:
            if any(self.dotted(part) in DECODERS for part in ast.walk(node)):
                yield Code.HIDDEN_CODE, f"{name} of decoded data"
            else:
                yield Code.LOADED_CODE, f"{name} of a text"
        if name in IMPORTERS and node.args and isinstance(node.args[0], _COMPUTED):
            yield Code.HIDDEN_CODE, "imports a module by a computed name"
        if name == "getattr" and len(node.args) > 1 and first in SENSITIVE:
            yield from _exact(self.dotted(node))
            if isinstance(node.args[1], _COMPUTED):
                yield Code.HIDDEN_CODE, f"names a part of {first} by a computed name"

    def _assign(self, node: ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Delete) -> Iterator[_Found]:
        targets = node.targets if isinstance(node, ast.Assign | ast.Delete) else [node.target]
        for target in targets:
            for part in ast.walk(target):
                yield from self._store(part)
            if isinstance(target, ast.Name) and target.id in {"__eq__", "__ne__"}:
                yield Code.ALWAYS_EQUAL, f"{target.id} is something else"

    def _store(self, target: ast.AST) -> Iterator[_Found]:
        match target:
            case ast.Attribute(value=value, attr=attr, ctx=ast.Store() | ast.Del()):
                yield from _owner(self.dotted(value))
                if self.dotted(target) in {"sys.modules", "sys.unraisablehook"}:
                    yield from _owner(self.dotted(target))
                yield from self._library(value, attr)
                if attr in PATCHED and not (
                    self.in_test and isinstance(value, ast.Name) and value.id in {"self", "cls"}
                ):
                    yield Code.TEST_MACHINERY, f"assigns .{attr}"
            case ast.Subscript(value=value, slice=index, ctx=ast.Store() | ast.Del()):
                yield from _owner(self._namespace_owner(value) or self.dotted(value).removesuffix(".__dict__"))
                if (
                    self.dotted(value) == "os.environ"
                    and isinstance(index, ast.Constant)
                    and index.value in SEARCH_PATHS
                ):
                    yield Code.PATH_EDIT, f"sets {index.value}"
            case ast.Name(id="AssertionError", ctx=ast.Store()):
                yield Code.ASSERTIONS_OFF, "assigns AssertionError"

    def _library(self, owner: ast.AST, attr: str) -> Iterator[_Found]:
        """An assignment to a module of the standard library, or to a class in one."""
        name = f"{self.dotted(owner)}.{attr}"
        root = owner
        while isinstance(root, ast.Attribute):
            root = root.value
        is_imported = isinstance(root, ast.Name) and root.id in self.aliases
        module = name.partition(".")[0]
        is_told = module in OWNERS or any(_owner(name))
        if is_imported and module in sys.stdlib_module_names and not is_told and name not in SETTABLE:
            yield Code.LIBRARY_PATCHED, f"assigns {name}"

    def _compare(self, node: ast.Compare) -> Iterator[_Found]:
        parts = list(ast.walk(node))
        words = [part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)]
        places = {self.dotted(part) for part in parts if isinstance(part, ast.Attribute)}
        if places & {"sys.modules", "sys.argv"} and any(word.startswith(TEST_RUNNERS) for word in words):
            yield Code.TEST_SNIFFING, "asks whether a test runner is loaded"

    def _loop(self, node: ast.For | ast.comprehension) -> Iterator[_Found]:
        if self.dotted(node.iter) == "sys.modules":
            yield Code.MODULE_TABLE, "walks through sys.modules"

    def _text(self, node: ast.expr) -> Iterator[_Found]:
        """A text that is a telling name, written plainly or put together from pieces."""
        text = folded(node)
        if text is None or id(node) in self.prose:
            return
        if not self.in_test and TEST_PATH.fullmatch(text) and isinstance(node, ast.Constant):
            yield Code.TEST_FILES, f"names {text[:80]!r}"
        for word in text.split("."):
            if word in TEXTS and not (self.in_test and TEXTS[word] is Code.TEST_MACHINERY):
                yield TEXTS[word], f"names {word!r}"
                if not isinstance(node, ast.Constant):
                    yield Code.HIDDEN_CODE, f"puts the name {word!r} together"


def folded(node: ast.AST) -> str | None:
    """The text that an expression of constants stands for; None when it takes running to know."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _joined("", [left, right])
        case ast.JoinedStr(values=values):
            return _joined("", [part.value if isinstance(part, ast.FormattedValue) else part for part in values])
        case ast.Subscript(value=value, slice=ast.Slice(lower=None, upper=None, step=ast.UnaryOp(op=ast.USub()))):
            backwards = folded(value)
            return None if backwards is None else backwards[::-1]
        case ast.Call(
            func=ast.Attribute(value=ast.Constant(value=str(glue)), attr="join"),
            args=[ast.List(elts=items) | ast.Tuple(elts=items)],
        ):
            return _joined(glue, items)
    return None


def _joined(glue: str, nodes: Sequence[ast.AST]) -> str | None:
    parts = [folded(node) for node in nodes]
    known = [part for part in parts if part is not None]
    return glue.join(known) if len(known) == len(parts) else None


def _exact(name: str) -> Iterator[_Found]:
    code = NAMES.get(name)
    if code is not None and "." in name:
        yield code, name


def _owner(name: str) -> Iterator[_Found]:
    for owner, code in OWNERS.items():
        if name == owner or name.startswith(f"{owner}."):
            yield code, f"changes {name}"


def _table_call(node: ast.Call) -> Iterator[_Found]:
    method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    if method in TABLE_CHANGES:
        yield Code.MODULE_TABLE, f"sys.modules.{method}"
    elif method in TABLE_WALKS:
        yield Code.MODULE_TABLE, "walks through sys.modules"
    elif method == "get" and any(isinstance(arg, ast.Constant) and arg.value in TEST_RUNNERS for arg in node.args):
        yield Code.TEST_SNIFFING, "asks whether a test runner is loaded"


def _detaches(keyword: ast.keyword) -> bool:
    if keyword.arg == "start_new_session":
        return not (isinstance(keyword.value, ast.Constant) and keyword.value.value is False)
    return keyword.arg in {"process_group", "preexec_fn"}


def _function(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[_Found]:
    if node.name.startswith("pytest_"):
        yield Code.TEST_MACHINERY, f"defines the hook {node.name}"
    if node.name == "__del__":
        yield Code.EXIT_HOOK, "defines __del__"
    if node.name in {"__eq__", "__ne__"} and (why := is_agreeable(node)):
        yield Code.ALWAYS_EQUAL, f"{node.name} {why}"


def _words(node: ast.List | ast.Tuple) -> Iterator[_Found]:
    """A command as a list of words."""
    words = [item.value for item in node.elts if isinstance(item, ast.Constant) and isinstance(item.value, str)]
    if words[:1] == ["git"] and GIT_COMMANDS & set(words[1:]):
        yield Code.GIT_PLUMBING, " ".join(words)
    if words[:1] in (["find"], ["rg"]) or (words[:1] == ["grep"] and any(word.startswith("-") for word in words)):
        yield Code.ANSWER_SEARCH, " ".join(words)
