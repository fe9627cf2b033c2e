"""The value of a tree."""

import operator

from . import refs
from .values import DIVISION, NAME, VALUE, Error, as_number, as_text, same, tidy

_ORDER = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
_ARITHMETIC = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "^": operator.pow}


class Calculator:
    """`look_up` gives the value of a cell, `functions` are the user's own."""

    def __init__(self, look_up, functions):
        self._look_up = look_up
        self._functions = functions

    def value(self, tree):
        kind = tree[0]
        if kind == "value":
            return tree[1]
        if kind == "cell":
            return self._look_up(tree[1])
        if kind == "range":
            return VALUE  # ranges have their place in some functions only
        if kind == "negative":
            number = as_number(self.value(tree[1]))
            return number if isinstance(number, Error) else -number
        if kind == "binary":
            return _binary(tree[1], self.value(tree[2]), self.value(tree[3]))
        return self._call(tree[1], tree[2])

    def _call(self, word, arguments):
        if word == "IF":
            if len(arguments) not in (2, 3):
                return VALUE
            condition = as_number(self.value(arguments[0]))
            if isinstance(condition, Error):
                return condition
            if condition:
                return self.value(arguments[1])
            return self.value(arguments[2]) if len(arguments) == 3 else False
        if word == "IFERROR":
            if len(arguments) != 2:
                return VALUE
            value = self.value(arguments[0])
            return self.value(arguments[1]) if isinstance(value, Error) else value
        if word in _SUMMARIES:
            return self._summary(_SUMMARIES[word], arguments)
        if word not in self._functions:
            return NAME
        values = [self.value(argument) for argument in arguments]
        for value in values:
            if isinstance(value, Error):
                return value
        return self._functions[word](*values)

    def _summary(self, function, arguments):
        numbers = []
        for argument in arguments:
            if argument[0] == "range":
                values = [self._look_up(cell) for cell in refs.area(argument[1], argument[2])]
            else:
                values = [self.value(argument)]
            for value in values:
                if isinstance(value, Error):
                    return value
                if isinstance(value, (int, float)) and not isinstance(value, bool):
                    numbers.append(value)
        return function(numbers)


def _average(numbers):
    return tidy(sum(numbers) / len(numbers)) if numbers else DIVISION


_SUMMARIES = {
    "SUM": lambda numbers: tidy(sum(numbers)),
    "MIN": lambda numbers: min(numbers, default=0),
    "MAX": lambda numbers: max(numbers, default=0),
    "COUNT": len,
    "AVERAGE": _average,
}


def _binary(sign, left, right):
    for value in (left, right):
        if isinstance(value, Error):
            return value
    if sign == "&":
        return as_text(left) + as_text(right)
    if sign in ("=", "<>"):
        if left is None or right is None:
            other = right if left is None else left
            equal = other in (None, "") or same(other, 0)
        else:
            equal = same(left, right)
        return equal if sign == "=" else not equal
    if sign in _ORDER and isinstance(left, str) and isinstance(right, str):
        return _ORDER[sign](left, right)
    left, right = as_number(left), as_number(right)
    for value in (left, right):
        if isinstance(value, Error):
            return value
    if sign in _ORDER:
        return _ORDER[sign](left, right)
    try:
        result = _ARITHMETIC[sign](left, right)
    except ZeroDivisionError:
        return DIVISION
    except OverflowError:
        return VALUE
    return VALUE if isinstance(result, complex) else tidy(result)
