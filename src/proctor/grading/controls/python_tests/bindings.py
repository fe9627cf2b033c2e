"""What a name in a test stands for, where it was bound to a literal in the same function or file."""

import ast
import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import Final

from proctor.grading.controls.python_tests.source import Function, PythonSource

_WORD: Final = re.compile(rb"[A-Za-z_\x80-\xff][\w\x80-\xff]*")
_PASSED_THROUGH: Final = {"sorted", "list", "tuple", "reversed", "iter"}


class Bindings:
    """The bindings of one function, its nested functions included."""

    def __init__(self, function: Function, constants: dict[str, ast.expr]) -> None:
        self._constants = constants
        self._defined: set[str] = set()
        self._bound: dict[str, list[tuple[int, ast.expr]]] = {}
        arguments = function.args
        more = [arguments.vararg] if arguments.vararg is not None else []
        names = [*arguments.posonlyargs, *arguments.args, *more, *arguments.kwonlyargs]
        self.parameters = tuple(argument.arg for argument in names)
        for statement in function.body:
            for node in ast.walk(statement):
                self._bind_node(node)

    def value(self, name: str, line: int) -> ast.expr | None:
        """The expression that a name was bound to last before this line."""
        bound = self._bound.get(name)
        if bound is None:
            return None if name in self.parameters else self._constants.get(name)
        before = [value for at, value in sorted(bound, key=lambda pair: pair[0]) if at <= line]
        return before[-1] if before else None

    def binds(self, name: str) -> bool:
        return name in self.parameters or name in self._bound or name in self._defined

    def defines(self, name: str) -> bool:
        """Whether the name is that of a function within this one."""
        return name in self._defined

    def _bind_node(self, node: ast.AST) -> None:
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self._bind(target, value, node.lineno)
            case ast.AnnAssign(target=target, value=ast.expr() as value) | ast.NamedExpr(target=target, value=value):
                self._bind(target, value, node.lineno)
            case ast.For(target=target, iter=iterable) | ast.AsyncFor(target=target, iter=iterable):
                self._bind_items(target, iterable, node.lineno)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                self._defined.add(name)
            case ast.AugAssign(target=ast.Name(id=name), value=value):
                self._bound.setdefault(name, []).append((node.lineno, value))

    def _bind(self, target: ast.expr, value: ast.expr, line: int) -> None:
        match target, value:
            case ast.Name(id=name), _:
                self._bound.setdefault(name, []).append((line, value))
            case ((ast.Tuple(elts=targets) | ast.List(elts=targets)), (ast.Tuple(elts=values) | ast.List(elts=values))):
                if len(targets) == len(values):
                    for inner, item in zip(targets, values, strict=True):
                        self._bind(inner, item, line)

    def _bind_items(self, target: ast.expr, iterable: ast.expr, line: int) -> None:
        """Bind the target of a loop to the last of the items, where these are written down."""
        items = self._items_of(iterable, line)
        match target, items:
            case ((ast.Tuple(elts=targets) | ast.List(elts=targets)), ast.Call(func=ast.Name(id="zip"), args=columns)):
                for inner, column in zip(targets, columns, strict=False):
                    self._bind_items(inner, column, line)
            case (ast.Tuple(elts=[_, inner]), ast.Call(func=ast.Name(id="enumerate"), args=[column, *_])):
                self._bind_items(inner, column, line)
            case (ast.Tuple(elts=[key, value]), ast.Call(func=ast.Attribute(attr="items"), args=[])):
                mapping = self._items_of(items.func.value, line) if isinstance(items.func, ast.Attribute) else items
                if isinstance(mapping, ast.Dict) and mapping.keys and mapping.keys[-1] is not None:
                    self._bind(key, mapping.keys[-1], line)
                    self._bind(value, mapping.values[-1], line)
            case _, (ast.List(elts=[*_, last]) | ast.Tuple(elts=[*_, last])):
                self._bind(target, last, line)

    def _items_of(self, iterable: ast.expr, line: int) -> ast.expr:
        match iterable:
            case ast.Name(id=name):
                value = self.value(name, line)
                return value if value is not None else iterable
            case ast.Call(func=ast.Name(id=name), args=[inner, *_]) if name in _PASSED_THROUGH:
                return self._items_of(inner, line)
            case _:
                return iterable


def constants_of_one_user(source: PythonSource) -> dict[int, dict[str, ast.expr]]:
    """For each function, by identity, the constants of the module that are named in its body and nowhere else."""
    constants = {
        node.targets[0].id: node
        for node in source.tree.body
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name)
    }
    functions = [(source.start(function.body[0]), function) for function in _outer_functions(source.tree)]
    starts = [start for start, _ in functions]
    users: dict[str, set[int]] = {name: set() for name in constants}
    for word in _WORD.finditer(source.bytes) if constants else ():
        constant = constants.get(word.group().decode())
        if constant is None or source.start(constant) <= word.start() < source.end(constant):
            continue
        place = bisect_right(starts, word.start()) - 1
        inside = place >= 0 and word.start() < source.end(functions[place][1])
        users[word.group().decode()].add(id(functions[place][1]) if inside else 0)
    found: dict[int, dict[str, ast.expr]] = {}
    for name, where in users.items():
        if len(where) == 1 and 0 not in where:
            found.setdefault(next(iter(where)), {})[name] = constants[name].value
    return found


def _outer_functions(node: ast.AST) -> Iterator[Function]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Function):
            yield child
        elif isinstance(child, ast.stmt):
            yield from _outer_functions(child)
