"""Another type of exception or warning in the place of the expected one, to which it is not related."""

import ast
import builtins
from typing import Final

# Hardly any program raises these, and no common exception is one of them.
_EXCEPTIONS: Final = ("EOFError", "BufferError", "ReferenceError", "ZeroDivisionError")
_TOLD_BY: Final = {"EOFError": ("EOF", "Incomplete"), "ZeroDivisionError": ("Zero", "Division")}
_WARNINGS: Final = ("BytesWarning", "UnicodeWarning", "ImportWarning")


def other_exception(node: ast.expr, text: str, *, warning: bool) -> str:
    """A built-in type whose name is about as long as the text, and that what is expected is no kind of."""
    expected = [inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)]
    last = node.attr if isinstance(node, ast.Attribute) else ""
    candidates = [
        name
        for name in (_WARNINGS if warning else _EXCEPTIONS)
        if name not in {*expected, last}
        and not any(_is_kind_of(other, name) for other in expected)
        and not any(word in text for word in _TOLD_BY.get(name, ()))
    ]
    return min(candidates, key=lambda name: abs(len(name) - len(text)))


def _is_kind_of(name: str, other: str) -> bool:
    one, two = getattr(builtins, name, None), getattr(builtins, other)
    return isinstance(one, type) and issubclass(one, two)
