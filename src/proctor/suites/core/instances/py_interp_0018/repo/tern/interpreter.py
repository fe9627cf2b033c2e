from .builtins import BUILTINS
from .errors import TernError
from .operators import binary
from .parser import parse
from .scopes import Scopes
from .values import Function, show, truth

MAX_DEPTH = 60


class _Break(Exception):
    pass


class _Continue(Exception):
    pass


class _Return(Exception):
    def __init__(self, value):
        super().__init__()
        self.value = value


class Interpreter:
    def __init__(self, out=print):
        self._out = out
        self._depth = 0
        self._scopes = Scopes()
        for name, function in BUILTINS.items():
            self._scopes.declare(0, name, function)
        self._scopes.declare(0, "print", lambda *values: self._out(" ".join(map(show, values))))
        self._scopes.enter()

    def run(self, source):
        """Runs a program; the value of its last statement, if that is an expression."""
        result = None
        self._depth = 0
        for statement in parse(source):
            result = self._execute(statement)
        return result

    def _block(self, statements):
        self._scopes.enter()
        for statement in statements:
            self._execute(statement)
        self._scopes.leave()

    def _execute(self, tree):
        kind, line = tree[0], tree[1]
        if kind == "expression":
            return self._value(tree[2])
        if kind in ("let", "declare"):
            self._scopes.declare(line, tree[2], self._value(tree[3]))
        elif kind == "assign":
            self._assign(line, tree[2], tree[3])
        elif kind == "if":
            chosen = tree[3] if truth(self._value(tree[2])) else tree[4]
            self._block(chosen)
        elif kind == "while":
            while truth(self._value(tree[2])):
                if not self._turn(tree[3]):
                    break
        elif kind == "for":
            self._for(tree)
        elif kind == "return":
            raise _Return(self._value(tree[2]))
        else:
            raise _Break if kind == "break" else _Continue
        return None

    def _for(self, tree):
        _, line, name, head, body = tree
        items = self._value(head)
        if not isinstance(items, list):
            raise TernError(line, f"{show(items)} is not a list")
        self._scopes.enter()
        self._scopes.declare(line, name, None)
        for item in list(items):
            self._scopes.assign(line, name, item)
            if not self._turn(body):
                break
        self._scopes.leave()

    def _turn(self, body):
        """One turn of a loop; says whether there may be another one."""
        try:
            self._block(body)
        except _Continue:
            pass
        except _Break:
            return False
        return True

    def _assign(self, line, target, value):
        if target[0] == "name":
            self._scopes.assign(line, target[2], self._value(value))
            return
        items = self._value(target[2])
        index = self._index(line, items, self._value(target[3]))
        items[index] = self._value(value)

    def _value(self, tree):
        kind, line = tree[0], tree[1]
        if kind == "value":
            return tree[2]
        if kind == "name":
            return self._scopes.get(line, tree[2])
        if kind == "list":
            return [self._value(item) for item in tree[2]]
        if kind == "function":
            return Function(tree[2], tree[3], tree[4])
        if kind in ("and", "or"):
            left = self._value(tree[3])
            return left if truth(left) == (kind == "or") else self._value(tree[4])
        if kind == "binary":
            return binary(line, tree[2], self._value(tree[3]), self._value(tree[4]))
        if kind == "unary":
            value = self._value(tree[3])
            return not truth(value) if tree[2] == "not" else binary(line, "-", 0, value)
        if kind == "index":
            items = self._value(tree[2])
            return items[self._index(line, items, self._value(tree[3]))]
        function = self._value(tree[2])
        return self._call(line, function, [self._value(argument) for argument in tree[3]])

    def _index(self, line, items, index):
        if not isinstance(items, list):
            raise TernError(line, f"{show(items)} is not a list")
        if not isinstance(index, int) or isinstance(index, bool) or not 0 <= index < len(items):
            raise TernError(line, f"there is no item {show(index)}")
        return index

    def _call(self, line, function, arguments):
        if not isinstance(function, Function):
            if not callable(function):
                raise TernError(line, f"{show(function)} is not a function")
            try:
                return function(*arguments)
            except (TypeError, ValueError) as error:
                raise TernError(line, str(error)) from None
        required = sum(default is None for _, default in function.parameters)
        if not required <= len(arguments) <= len(function.parameters):
            raise TernError(line, f"{function.name} does not take {len(arguments)} arguments")
        if self._depth >= MAX_DEPTH:
            raise TernError(line, "calls are nested too deeply")
        self._scopes.enter()
        self._depth += 1
        try:
            for index, (name, default) in enumerate(function.parameters):
                given = index < len(arguments)
                self._scopes.declare(line, name, arguments[index] if given else self._value(default))
            self._block(function.body)
        except _Return as result:
            return result.value
        finally:
            self._depth -= 1
            self._scopes.leave()
        return None
