"""Another literal in the place of one: of the same kind and, where it can be, of the same length."""

import ast
import re
from collections.abc import Container, Iterator, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from proctor.grading.controls.alteration import Edit
from proctor.grading.controls.python_tests.source import ConstantKey, PythonSource, constant_key


class MatchMode(StrEnum):
    """How an expectation is compared with what the program returned."""

    EXACT = "exact"
    CLOSE = "close"  # within a tolerance
    PATTERN = "pattern"  # as a regular expression


class _Part(NamedTuple):
    """One of the strings that stand beside each other in a literal: its prefix, and where its content is."""

    prefix: str
    start: int
    end: int


_OPENING: Final = re.compile(r"([A-Za-z]{0,3})('''|\"\"\"|'|\")")
_PLAIN_NUMBER: Final = re.compile(r"[1-9][0-9]{0,8}")
_BETWEEN: Final = re.compile(r"(?:\s|\\\r?\n|#[^\r\n]*)+")
_ESCAPE: Final = re.compile(
    r"\\(?:x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|N\{[^}]*\}|[0-7]{1,3}|\r\n|.)", re.DOTALL
)
# Directives of formats and tags of markup: a change there may be no other value but no value at all.
_DIRECTIVES: Final = re.compile(r"%(?:\(\w*\))?[-#0 +]*[\d.*]*[a-zA-Z%]|\{[^{}]*\}|<[^<>]*>|&\w+;")
_IN_PATTERN: Final = re.compile(r"\[\^?\]?[^\]]*\]|\{[^}]*\}|\(\?[^)]*[):=!>]|\w[?*{]|[|]")
_OTHER_MARKS: Final = {"-": "+", "+": "-", ".": ",", ",": ".", ":": ";", ";": ":", "!": "?", "?": "!", "*": "+"}


def change_literal(source: PythonSource, node: ast.expr, mode: MatchMode = MatchMode.EXACT) -> Edit | None:
    """An edit that makes this literal another one; None where that cannot be done.

    A number becomes one that does not stand elsewhere in its function, where there is one: compiled code keeps equal
    constants once, so another choice would change its layout, and who takes values from there would fail by accident.
    """
    start, end = source.start(node), source.end(node)
    text = source.text(start, end)
    match node:
        case ast.JoinedStr() | ast.Constant(value=str() | bytes()):
            return _string_edit(text, start, mode)
        case ast.Constant(value=value):
            others = list(_other_constants(text, value, mode))
            beside = source.constants_beside(node)
            free = (one for one in others if not _stands_in(one, beside))
            other = next(free, others[0] if others else None)
        case _:
            other = _other_display(text, node)
    return Edit(start=start, end=end, text=other) if other is not None else None


def other_letter(char: str) -> str | None:
    """Another letter for a letter, another digit for a digit; hexadecimal ones stay hexadecimal."""
    if char.isdigit() and char.isascii():
        return str(int(char) - 1) if char not in "01" else ("1" if char == "0" else "2")
    if char in "fFzZ":
        return chr(ord(char) - 1)
    if char.isascii() and char.isalpha():
        return chr(ord(char) + 1)
    return None


def _stands_in(text: str, constants: Container[ConstantKey]) -> bool:
    if _PLAIN_NUMBER.fullmatch(text):  # most are, and parsing takes a hundred times as long
        return constant_key(int(text)) in constants
    try:
        return constant_key(ast.literal_eval(text)) in constants
    except (SyntaxError, ValueError):  # no number: the file will not be parsed with it
        return True


def _other_constants(text: str, value: object, mode: MatchMode) -> Iterator[str]:
    """Constants of the same kind, the best choice first."""
    if isinstance(value, bool):
        yield "False" if value else "True"
    elif value is None:
        yield "True"
    elif isinstance(value, int | float | complex):
        yield from _other_numbers(text, mode, whole=isinstance(value, int))


def _other_numbers(text: str, mode: MatchMode, *, whole: bool) -> Iterator[str]:
    if text[:2].lower() in {"0x", "0o", "0b"}:
        last = text[-1]
        yield text[:-1] + ("0" if last == "1" else other_letter(last) or "1")
    elif whole and mode is not MatchMode.CLOSE:
        yield _other_whole_number(text)
        yield from (text[:-1] + digit for digit in _nearest_digits(text[-1]) if len(text) == 1 or text.isdigit())
    else:
        yield _with_other_first_digit(text)


def _nearest_digits(digit: str) -> list[str]:
    """The other digits, but for 0, which is often no valid size; the nearest first."""
    return sorted("123456789".replace(digit, ""), key=lambda one: abs(int(one) - int(digit)))


def _with_other_first_digit(text: str) -> str:
    # The first digit that counts: a change behind it may be lost in rounding, or within a tolerance.
    place = next((i for i, char in enumerate(text) if char in "123456789" and "e" not in text[:i].lower()), 0)
    if not text[place].isdigit():
        place = next(i for i, char in enumerate(text) if char.isdigit())
    digit = int(text[place])
    return text[:place] + str(digit + 1 if digit < 9 else 8) + text[place + 1 :]  # noqa: PLR2004 - the digits


def _other_whole_number(text: str) -> str:
    """A neighbour that is as valid as a day, a month or a size: 31 becomes 30, 30 becomes 20, 1 becomes 2."""
    last = text[-1]
    if last == "0" and len(text) > 1:
        first = text[0]
        return str(int(first) - 1) + text[1:] if first not in "01" else text[:-1] + "1"
    if last == "1" and len(text) > 1:
        return text[:-1] + "0"
    return text[:-1] + (other_letter(last) or "1")


def _other_display(text: str, node: ast.expr) -> str | None:
    match node:
        case ast.List(elts=[]):
            return "[0]"
        case ast.Tuple(elts=[]):
            return "(0,)"
        case ast.Dict(keys=[]):
            return "{0: 0}"
        case ast.Call(func=ast.Name(id="set" | "frozenset" | "list" | "tuple" | "dict"), args=[], keywords=[]):
            return "{0}" if text.startswith("set") else "[0]" if text.startswith("list") else None
        case _:
            return None


def _string_edit(text: str, offset: int, mode: MatchMode) -> Edit | None:
    change = _pattern_change(text) if mode is MatchMode.PATTERN else _string_change(text)
    if change is None:
        return None
    start, end, other = change
    first = offset + len(text[:start].encode())
    return Edit(start=first, end=first + len(text[start:end].encode()), text=other)


def _string_change(text: str) -> tuple[int, int, str] | None:
    parts = list(_parts(text))
    if not parts:
        return None
    plain = [place for part in parts for place in _plain_places(text, part)]
    directives = [match for part in parts for match in _DIRECTIVES.finditer(text, part.start, part.end)]
    hidden = {place for match in directives for place in range(*match.span())}
    for place in [*reversed([place for place in plain if place not in hidden]), *reversed(plain)]:
        other = other_letter(text[place])
        if other is not None:
            return place, place + 1, other
    for place in reversed(plain):
        other = "a" if text[place].isalpha() else _OTHER_MARKS.get(text[place])
        if other is not None:
            return place, place + 1, other
    # Nothing in it can be exchanged, but for what is written as an escape: else one letter more.
    return _escape_change(text, parts) or (parts[-1].end, parts[-1].end, "x")


def _escape_change(text: str, parts: Sequence[_Part]) -> tuple[int, int, str] | None:
    for part in reversed(parts):
        for match in reversed(list(_ESCAPE.finditer(text, part.start, part.end))):
            if "r" not in part.prefix.lower() and match.group()[1] in "xuU":
                last = match.end() - 1
                return last, last + 1, other_letter(text[last]) or "1"
    return None


def _pattern_change(text: str) -> tuple[int, int, str] | None:
    """A letter that stands for itself, in a word: not in a class, a group's head, or before a quantifier."""
    parts = list(_parts(text))
    if any("|" in text[part.start : part.end] for part in parts):
        return None
    for part in reversed(parts):
        special = {i for match in _IN_PATTERN.finditer(text, part.start, part.end) for i in range(*match.span())}
        plain = [place for place in _plain_places(text, part, escapes_twice=True) if place not in special]
        for place in reversed(plain):
            other = other_letter(text[place])
            if other is not None:
                return place, place + 1, other
    return None


def _parts(text: str) -> Iterator[_Part]:
    place = 0
    while place < len(text):
        between = _BETWEEN.match(text, place)
        place = between.end() if between is not None else place
        opening = _OPENING.match(text, place)
        if opening is None:
            return
        prefix, quotes = opening.groups()
        end = _string_end(text, opening.end(), quotes, formatted="f" in prefix.lower())
        if end is None:
            return
        yield _Part(prefix, opening.end(), end)
        place = end + len(quotes)


def _string_end(text: str, start: int, quotes: str, *, formatted: bool) -> int | None:
    place = start
    while place < len(text):
        if text[place] == "\\":
            place += 2
        elif text.startswith(quotes, place):
            return place
        elif formatted and text[place] == "{":
            place = _after_replacement(text, place)
        else:
            place += 1
    return None


def _after_replacement(text: str, start: int) -> int:
    """Behind the `{…}` of an f-string that starts here, or behind `{{`."""
    if text.startswith("{{", start):
        return start + 2
    depth, place = 0, start
    while place < len(text):
        char = text[place]
        if char in "\"'":
            quotes = text[place : place + 3] if text.startswith((char * 3), place) else char
            end = text.find(quotes, place + len(quotes))
            place = end + len(quotes) - 1 if end > 0 else place
        depth += (char == "{") - (char == "}")
        place += 1
        if depth == 0:
            break
    return place


def _plain_places(text: str, part: _Part, *, escapes_twice: bool = False) -> list[int]:
    """Where characters stand for themselves. In a pattern a backslash also takes the character behind it."""
    places = []
    place = part.start
    raw = "r" in part.prefix.lower()
    formatted = "f" in part.prefix.lower()
    while place < part.end:
        if text[place] == "\\":
            match = _ESCAPE.match(text, place, part.end)
            taken = match.end() if match is not None and not raw else place + 2
            place = taken + 1 if escapes_twice and not raw and text[place + 1] == "\\" else taken
        elif formatted and text[place] == "{":
            place = _after_replacement(text, place)
        else:
            places.append(place)
            place += 1
    return places
