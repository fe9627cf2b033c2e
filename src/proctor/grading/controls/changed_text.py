"""Another value in place of an expected one, of the same kind and, where that is possible, of the same length."""

import re
from typing import Final

_HEXADECIMAL: Final = re.compile(r"(0[xX])([0-9a-fA-F_]*?)([0-9a-fA-F])(_*(?:[ui](?:8|16|32|64|128|size))?[lLnN]?)")
_OTHER_BASE: Final = re.compile(r"(0[bBoO][0-7_]*)([0-7])(\D*|_*[ui](?:8|16|32|64|128|size))")
_INTEGER: Final = re.compile(r"([0-9][0-9_]*)(_*[ui](?:8|16|32|64|128|size)|[lLnN]|)")
_NONZERO: Final = re.compile(r"[1-9]")
# Escapes, directives of formats, variables and entities: what is inside of them does not stand for itself.
_PLAIN: Final = re.compile(
    r"\\.|%[-+#0-9.*]*[A-Za-z]|\$\w+|\$?\{[\w:?#.$]*\}|&\#?\w+;|(?P<plain>[0-9A-Za-z])", re.DOTALL
)
_FILLER: Final = "x"


def other_number(text: str) -> str:
    """A number of the same type that is not this one, and fits wherever this one does."""
    if match := _HEXADECIMAL.fullmatch(text):
        start, digits, last, suffix = match.groups()
        return f"{start}{digits}{_lower_digit(last)}{suffix}"
    if match := _OTHER_BASE.fullmatch(text):
        return f"{match[1]}{_lower_digit(match[2])}{match[3]}"
    if match := _INTEGER.fullmatch(text):
        digits = match[1]
        last = "2" if digits == "1" else _lower_digit(digits[-1])
        return f"{digits[:-1]}{last}{match[2]}"
    # Tests compare fractions with a tolerance: the digit that weighs most is changed.
    mantissa = re.match(r"[0-9_]*\.?[0-9_]*", text)
    end = mantissa.end() if mantissa else len(text)
    found = _NONZERO.search(text, 0, end) or re.search(r"[0-9]", text)
    if found is None:
        return f"{text}1"
    digit = "8" if found[0] == "9" else str(int(found[0]) + 1)
    return text[: found.start()] + digit + text[found.end() :]


def _lower_digit(digit: str) -> str:
    """The digit before; after zero comes one. A smaller number fits into the type that the larger one fits into."""
    return "1" if digit == "0" else f"{int(digit, 16) - 1:x}"


def other_text(text: str) -> str:
    """A text that differs from this one in its last letter or digit."""
    places = [match.start() for match in _PLAIN.finditer(text) if match["plain"]]
    if not places:
        return text + _FILLER
    place = places[-1]
    return text[:place] + _other_character(text[place]) + text[place + 1 :]


def _other_character(character: str) -> str:
    if character.isdigit():
        return "8" if character == "9" else str(int(character) + 1)
    return chr(ord(character) - 1) if character in "zZ" else chr(ord(character) + 1)


def other_pattern(text: str) -> str:
    """A regular expression that does not match what this one matches: a character that must be there is another."""
    place = _last_required(text)
    if place is not None:
        return text[:place] + _other_character(text[place]) + text[place + 1 :]
    if text.endswith("$") and not text.endswith("\\$"):
        return f"{text[:-1]}{_FILLER}$"
    return text + _FILLER


def _last_required(text: str) -> int | None:
    """Where the last letter or digit is that stands for itself and is not optional."""
    found: int | None = None
    inside_class = False
    depth = 0
    position = 0
    while position < len(text):
        character = text[position]
        if character == "\\":
            position += 2
            continue
        if inside_class:
            inside_class = character != "]"
        elif character == "[":
            inside_class = True
        elif character in "({":
            depth += 1
        elif character in ")}":
            depth -= 1
        elif character == "|" and depth == 0:
            return None
        elif depth == 0 and character.isascii() and character.isalnum():
            following = text[position + 1 : position + 2]
            if not following or following not in "?*{":
                found = position
        position += 1
    return found
