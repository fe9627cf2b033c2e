"""What a name in a test stands for, where it was bound to a literal in the same function or file."""

import ast
from collections.abc import Iterator

from proctor.grading.controls.python_tests.source import Function

_PASSED_THROUGH = {"sorted", "list", "tuple", "reversed", "iter"}


class Scope:
    """The bindings of one function, its nested functions included."""

    def __init__(self, function: Function, constants: dict[str, ast.expr]) -> None:
        self._constants = constants
        self._bound: dict[str, list[tuple[int, ast.expr]]] = {}
        arguments = function.args
        names = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        self.parameters = tuple(argument.arg for argument in names)
        for node in ast.walk(function):
            self._bind_node(node)

    def value(self, name: str, line: int) -> ast.expr | None:
        """The expression that a name was bound to last before this line."""
        bound = self._bound.get(name)
        if bound is None:
            return None if name in self.parameters else self._constants.get(name)
        before = [value for at, value in sorted(bound, key=lambda pair: pair[0]) if at <= line]
        return before[-1] if before else None

    def _bind_node(self, node: ast.AST) -> None:
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self._bind(target, value, node.lineno)
            case ast.AnnAssign(target=target, value=ast.expr() as value) | ast.NamedExpr(target=target, value=value):
                self._bind(target, value, node.lineno)
            case ast.For(target=target, iter=iterable) | ast.AsyncFor(target=target, iter=iterable):
                self._bind_items(target, iterable, node.lineno)
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


def constants_of_one_user(tree: ast.Module) -> dict[int, dict[str, ast.expr]]:
    """For each function, by identity, the constants of the module that are used by it alone."""
    constants: dict[str, ast.expr] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            constants[node.targets[0].id] = node.value
    users: dict[str, set[int]] = {}
    functions = list(_outer_functions(tree))
    # What a decorator uses may be in the ids of tests.
    inside = {
        id(name): id(function)
        for function in functions
        for statement in function.body
        for name in _loads(statement)
        if name.id in constants
    }
    for name in _loads(tree):
        if name.id in constants:
            users.setdefault(name.id, set()).add(inside.get(id(name), 0))
    found: dict[int, dict[str, ast.expr]] = {}
    for constant, where in users.items():
        if len(where) == 1 and 0 not in where:
            found.setdefault(next(iter(where)), {})[constant] = constants[constant]
    return found


def _outer_functions(node: ast.AST) -> Iterator[Function]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Function):
            yield child
        elif isinstance(child, ast.stmt):
            yield from _outer_functions(child)


def _loads(node: ast.AST) -> Iterator[ast.Name]:
    return (name for name in ast.walk(node) if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Load))
