from .errors import TernError
from .values import same, show


def binary(line, sign, left, right):
    if sign in ("==", "!="):
        return same(left, right) == (sign == "==")
    if sign == "+" and isinstance(left, str) and isinstance(right, str):
        return left + right
    if sign == "+" and isinstance(left, list) and isinstance(right, list):
        return left + right
    if sign in ("<", "<=", ">", ">=") and isinstance(left, str) and isinstance(right, str):
        return _compare(sign, left, right)
    for value in (left, right):
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise TernError(line, f"{sign!r} needs numbers, not {show(value, True)}")
    if sign in ("/", "%"):
        if right == 0:
            raise TernError(line, "division by zero")
        result = left / right if sign == "/" else left % right
        return int(result) if isinstance(result, float) and result.is_integer() else result
    if sign == "+":
        return left + right
    if sign == "-":
        return left - right
    return left * right if sign == "*" else _compare(sign, left, right)


def _compare(sign, left, right):
    if sign in ("<", ">="):
        return (left < right) == (sign == "<")
    return (left > right) == (sign == ">")
