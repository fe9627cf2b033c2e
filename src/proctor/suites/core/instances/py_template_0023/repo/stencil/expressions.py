"""Expressions: parsed into functions of a scope."""

import operator
import re

_TOKEN = re.compile(
    r"\s*(?:(?P<number>[0-9]+(?:\.[0-9]+)?)|\"(?P<text>[^\"]*)\"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<sign>==|!=|<=|>=|[<>().,|]))"
)
_COMPARE = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}
_CONSTANTS = {"true": True, "false": False, "none": None}


class BadExpression(Exception):
    pass


def parse(text, filters):
    """A function that takes a scope and gives the value."""
    parser = _Parser(text, filters)
    tree = parser.either()
    if parser.kind != "end":
        raise BadExpression(f"unexpected {parser.text!r}")
    return tree


def item(value, name):
    """`value.name`: an item of a mapping, an element of a list, or an attribute; None if there is nothing."""
    try:
        return value[int(name) if name.isdigit() else name]
    except (KeyError, IndexError, TypeError):
        return None if name.startswith("_") else getattr(value, name, None)


class _Parser:
    def __init__(self, text, filters):
        self._filters = filters
        self._tokens = []
        position = 0
        text = text.rstrip()
        while position < len(text):
            match = _TOKEN.match(text, position)
            if match is None:
                raise BadExpression(f"unexpected {text[position:].strip()[:1]!r}")
            self._tokens.append((match.lastgroup, match.group(match.lastgroup)))
            position = match.end()
        self._tokens.append(("end", "the end"))

    @property
    def kind(self):
        return self._tokens[0][0]

    @property
    def text(self):
        return self._tokens[0][1]

    def accept(self, *texts):
        if self.kind in ("name", "sign") and self.text in texts:
            return self._tokens.pop(0)[1]
        return None

    def expect(self, text):
        if self.accept(text) is None:
            raise BadExpression(f"expected {text!r}, found {self.text!r}")

    def either(self):
        left = self.both()
        while self.accept("or"):
            left = _or(left, self.both())
        return left

    def both(self):
        left = self.negation()
        while self.accept("and"):
            left = _and(left, self.negation())
        return left

    def negation(self):
        if self.accept("not"):
            inner = self.negation()
            return lambda scope: not inner(scope)
        left = self.filtered()
        sign = self.accept(*_COMPARE)
        return left if sign is None else _comparison(_COMPARE[sign], left, self.filtered())

    def filtered(self):
        value = self.primary()
        while self.accept("|"):
            if self.kind != "name" or self.text not in self._filters:
                raise BadExpression(f"there is no filter {self.text!r}")
            value = _filter(self._filters[self._tokens.pop(0)[1]], value, self.arguments())
        return value

    def arguments(self):
        found = []
        if self.accept("("):
            while not self.accept(")"):
                found.append(self.either())
                if self.text != ")":
                    self.expect(",")
        return found

    def primary(self):
        if self.accept("("):
            value = self.either()
            self.expect(")")
        elif self.kind in ("number", "text", "name"):
            kind, text = self._tokens.pop(0)
            value = _constant(kind, text) if kind != "name" or text in _CONSTANTS else _variable(text)
        else:
            raise BadExpression(f"unexpected {self.text!r}")
        while self.accept("."):
            if self.kind not in ("name", "number"):
                raise BadExpression(f"unexpected {self.text!r}")
            value = _member(value, self._tokens.pop(0)[1])
        return value


def _constant(kind, text):
    value = _CONSTANTS[text] if kind == "name" else text
    if kind == "number":
        value = float(text) if "." in text else int(text)
    return lambda scope: value


def _variable(name):
    return lambda scope: scope.get(name)


def _member(value, name):
    return lambda scope: item(value(scope), name)


def _or(left, right):
    return lambda scope: left(scope) or right(scope)


def _and(left, right):
    return lambda scope: left(scope) and right(scope)


def _comparison(compare, left, right):
    return lambda scope: compare(left(scope), right(scope))


def _filter(function, value, arguments):
    return lambda scope: function(value(scope), *(argument(scope) for argument in arguments))
