"""x07AST: reading it, its canonical form, compiling (checks only) and running it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

FUEL = 200_000
OPERATORS: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "=": lambda a, b: int(a == b),
    "!=": lambda a, b: int(a != b),
    "<": lambda a, b: int(a < b),
    "<=": lambda a, b: int(a <= b),
    ">": lambda a, b: int(a > b),
    ">=": lambda a, b: int(a >= b),
}
FORMS = {"let": 2, "set": 2, "if": 3, "for": 4, "while": 2, "try": 1, "return": 1}
"""The number of arguments of each form; `begin` takes any number."""

STD_TEST: dict[str, tuple[int, str]] = {
    "std.test.pass": (0, "result_i32"),
    "std.test.fail": (1, "result_i32"),
    "std.test.assert_true": (2, "result_i32"),
    "std.test.assert_i32_eq": (3, "result_i32"),
    "std.test.code_assert_true": (0, "i32"),
    "std.test.code_assert_i32_eq": (0, "i32"),
    "std.test.code_fail_generic": (0, "i32"),
}
CODES = {
    "std.test.code_assert_true": 1001,
    "std.test.code_assert_i32_eq": 1002,
    "std.test.code_fail_generic": 1099,
}


class NotAst(Exception):
    """The file is not x07AST."""


class DoesNotCompile(Exception):
    """The compiler's message."""


class Trap(Exception):
    """The program broke while it ran."""


class _Return(Exception):
    def __init__(self, value: Any) -> None:
        self.value = value


class Failure:
    """The error half of a result_i32; a success is its plain number."""

    def __init__(self, code: int) -> None:
        self.code = code


def read_ast(file: Path) -> dict[str, Any]:
    try:
        document = json.loads(file.read_bytes())
    except ValueError as error:
        raise NotAst(f"{error} at ") from error
    return check_ast(document)


def check_ast(document: Any) -> dict[str, Any]:
    if not isinstance(document, dict):
        raise NotAst("x07AST must be a JSON object at ")
    for field, kind in (("schema_version", str), ("kind", str), ("module_id", str), ("imports", list), ("decls", list)):
        if field not in document:
            raise NotAst(f"missing required field: {field} at ")
        if not isinstance(document[field], kind):
            raise NotAst(f"wrong type at /{field}")
    if not document["schema_version"].startswith("x07.x07ast@0."):
        raise NotAst(f"unsupported schema_version: {document['schema_version']!r} at /schema_version")
    for index, decl in enumerate(document["decls"]):
        if not isinstance(decl, dict) or decl.get("kind") not in {"export", "defn"}:
            raise NotAst(f"unsupported declaration at /decls/{index}")
        if decl["kind"] == "defn" and not {"name", "params", "result", "body"} <= decl.keys():
            raise NotAst(f"missing required field at /decls/{index}")
    return document


def canonical(document: dict[str, Any]) -> dict[str, Any]:
    """Imports sorted and unique, exports first, functions by name; keys are sorted when it is written."""
    exports = sorted({name for decl in document["decls"] if decl["kind"] == "export" for name in decl["names"]})
    functions = sorted((decl for decl in document["decls"] if decl["kind"] == "defn"), key=lambda decl: decl["name"])
    head = [{"kind": "export", "names": exports}] if exports else []
    return {**document, "imports": sorted(set(document["imports"])), "decls": [*head, *functions]}


def written(document: dict[str, Any], *, pretty: bool = False) -> str:
    style: dict[str, Any] = {"indent": 2} if pretty else {"separators": (",", ":")}
    return json.dumps(canonical(document), sort_keys=True, ensure_ascii=False, **style) + "\n"


class Program:
    """What a test needs: the functions that its entry can reach, checked, ready to run."""

    def __init__(self, roots: list[Path], entry: str) -> None:
        self.roots = roots
        self.functions: dict[str, dict[str, Any]] = {}
        self.fuel = FUEL
        self._load(entry.rpartition(".")[0], seen=set())
        if entry not in self.functions:
            raise DoesNotCompile(f'Parse: unknown function: "{entry}"')
        self._check_reachable(entry)
        self.entry = entry

    def run(self) -> Any:
        self.fuel = FUEL
        return self._call(self.entry, [])

    def _load(self, module: str, seen: set[str]) -> None:
        if module in seen or module.startswith("std."):
            return
        seen.add(module)
        relative = Path(*module.split(".")).with_suffix(".x07.json")
        file = next((root / relative for root in self.roots if (root / relative).is_file()), None)
        if file is None:
            raise DoesNotCompile(f'Parse: unknown module: "{module}" (searched: {relative})')
        try:
            document = read_ast(file)
        except NotAst as error:
            raise DoesNotCompile(f"Parse: {error}") from error
        for decl in document["decls"]:
            if decl["kind"] == "defn":
                self.functions[decl["name"]] = decl
        for imported in document["imports"]:
            self._load(imported, seen)

    def _check_reachable(self, entry: str) -> None:
        waiting, checked = [entry], set[str]()
        while waiting:
            name = waiting.pop()
            if name in checked:
                continue
            checked.add(name)
            function = self.functions[name]
            try:
                kind = self._check(function["body"], {param["name"] for param in function["params"]}, waiting)
            except DoesNotCompile as error:
                raise DoesNotCompile(f"{error} (fn={name})") from error
            if function["result"] not in {kind, "any"} and kind != "any":
                raise DoesNotCompile(f'Typing: function "{name}" must evaluate to {function["result"]}, got {kind}')

    def _check(self, body: Any, names: set[str], calls: list[str]) -> str:
        if isinstance(body, bool) or not isinstance(body, int | str | list):
            raise DoesNotCompile(f"Parse: unsupported expression: {body!r}")
        if isinstance(body, int):
            return "i32"
        if isinstance(body, str):
            if body not in names:
                raise DoesNotCompile(f'Typing: unknown identifier: "{body}"')
            return "any"
        if not body or not isinstance(body[0], str):
            raise DoesNotCompile("Parse: a list must start with a name")
        head, arguments = body[0], body[1:]
        if head in {"let", "set", "for"}:
            return self._check_binding(head, arguments, names, calls)
        kinds = [self._check(argument, names, calls) for argument in arguments]
        if head == "begin":
            return kinds[-1] if kinds else "i32"
        wanted, kind = self._signature(head, calls)
        if len(arguments) != wanted:
            what = f'call "{head}"' if "." in head else head
            raise DoesNotCompile(f"Parse: {what} expects {wanted} args")
        if head == "if":
            return kinds[1] if kinds[1] != "any" else kinds[2]
        return kind

    def _check_binding(self, head: str, arguments: list[Any], names: set[str], calls: list[str]) -> str:
        if len(arguments) != FORMS[head] or not isinstance(arguments[0], str):
            raise DoesNotCompile(f"Parse: {head} form: wrong arguments")
        name, *rest = arguments
        if head == "set" and name not in names:
            raise DoesNotCompile(f'Typing: unknown identifier: "{name}"')
        if head == "for":
            for bound in rest[:2]:
                self._check(bound, names, calls)
            names.add(name)
            self._check(rest[2], names, calls)
            return "i32"
        kind = self._check(rest[0], names, calls)
        names.add(name)
        return "i32" if head == "let" else kind

    def _signature(self, head: str, calls: list[str]) -> tuple[int, str]:
        if head in OPERATORS:
            return 2, "i32"
        if head in FORMS:
            return FORMS[head], "i32" if head in {"while", "try"} else "any"
        if head in STD_TEST:
            return STD_TEST[head]
        if head not in self.functions:
            raise DoesNotCompile(f'Unsupported: unsupported head: "{head}"')
        calls.append(head)
        return len(self.functions[head]["params"]), self.functions[head]["result"]

    def _call(self, name: str, arguments: list[Any]) -> Any:
        function = self.functions[name]
        names = {param["name"]: value for param, value in zip(function["params"], arguments, strict=True)}
        try:
            return self._value(function["body"], names)
        except _Return as done:
            return done.value
        except RecursionError:
            raise Trap("stack exhausted") from None

    def _value(self, body: Any, names: dict[str, Any]) -> Any:
        self.fuel -= 1
        if self.fuel < 0:
            raise Trap("fuel exhausted")
        if isinstance(body, int):
            return body
        if isinstance(body, str):
            return names[body]
        head, arguments = body[0], body[1:]
        if head in FORMS or head == "begin":
            return self._form(head, arguments, names)
        values = [self._value(argument, names) for argument in arguments]
        if head in OPERATORS:
            return _i32(OPERATORS[head](*values))
        if head in STD_TEST:
            return _std_test(head, values)
        return self._call(head, values)

    def _form(self, head: str, arguments: list[Any], names: dict[str, Any]) -> Any:
        if head == "begin":
            last: Any = 0
            for argument in arguments:
                last = self._value(argument, names)
            return last
        if head in {"let", "set"}:
            names[arguments[0]] = self._value(arguments[1], names)
            return names[arguments[0]]
        if head == "if":
            return self._value(arguments[1] if self._value(arguments[0], names) else arguments[2], names)
        if head == "while":
            while self._value(arguments[0], names):
                self._value(arguments[1], names)
            return 0
        if head == "for":
            name, start, end, body = arguments
            for number in range(self._value(start, names), self._value(end, names)):
                names[name] = number
                self._value(body, names)
            return 0
        value = self._value(arguments[0], names)
        if head == "return" or isinstance(value, Failure):
            raise _Return(value)
        return value


def _std_test(head: str, values: list[Any]) -> Any:
    if head in CODES:
        return CODES[head]
    if head == "std.test.pass":
        return 0
    if head == "std.test.fail":
        return Failure(values[0])
    holds = values[0] if head == "std.test.assert_true" else values[0] == values[1]
    return 0 if holds else Failure(values[-1])


def _i32(number: int) -> int:
    return (number + 2**31) % 2**32 - 2**31
