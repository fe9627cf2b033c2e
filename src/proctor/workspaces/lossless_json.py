"""JSON without loss: numbers stay as they were written, keys are never doubled, depth has a limit."""

import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from json.encoder import encode_basestring
from typing import Any, Final

# As deep as the parsers of most other languages go by default.
MAX_DEPTH: Final = 128
_NUMBER: Final = re.compile(r"(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?")
_LONGEST_EXPONENT: Final = 1000
_NODE_BYTES: Final = 64

Json = Any


class InvalidJson(Exception):
    """Why a text cannot be taken for a JSON document. It never leaves this package: the reader says whose it is."""


@dataclass(frozen=True, slots=True)
class JsonNumber:
    """A number as it is written: ``1``, ``1.0``, ``1e400``."""

    text: str

    @property
    def value(self) -> tuple[bool, bool, str, int]:
        """Equal for equal numbers of one kind; an integer is never equal to a number with a fraction or exponent."""
        match = _NUMBER.fullmatch(self.text)
        if match is None or len(match[4] or "") > _LONGEST_EXPONENT:
            return (False, False, self.text, 0)
        sign, whole, fraction, exponent = match[1], match[2], match[3] or "", match[4]
        digits = (whole + fraction).lstrip("0")
        significant = digits.rstrip("0")
        power = int(exponent or 0) - len(fraction) + len(digits) - len(significant)
        is_integer = match[3] is None and exponent is None
        return (is_integer, bool(sign and significant), significant, power if significant else 0)


def parse_json(data: bytes) -> Json:
    """The document: dict, list, str, bool, None and `Number`.

    Raises:
        BadDocument: it is not UTF-8, not JSON, doubles a key, or is nested too deeply.
    """
    try:
        document = _DECODER.decode(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise InvalidJson(f"not UTF-8 at byte {error.start}") from error
    except json.JSONDecodeError as error:
        raise InvalidJson(f"not JSON: {error.msg} at line {error.lineno}, column {error.colno}") from error
    except RecursionError as error:
        raise InvalidJson(_TOO_DEEP) from error
    if measure(document)[1] > MAX_DEPTH:
        raise InvalidJson(_TOO_DEEP)
    return document


def measure(document: Json) -> tuple[int, int]:
    """About how many bytes a document takes in memory, and how deeply it is nested.

    Raises:
        BadDocument: it holds half a surrogate pair, which no file can.
    """
    size, deepest = 0, 0
    waiting: list[tuple[Json, int]] = [(document, 0)]
    while waiting:
        value, depth = waiting.pop()
        size += _NODE_BYTES
        deepest = max(deepest, depth)
        match value:
            case dict():
                waiting.extend((key, depth + 1) for key in value)
                waiting.extend((inner, depth + 1) for inner in value.values())
            case list():
                waiting.extend((inner, depth + 1) for inner in value)
            case str():
                size += len(value)
                if not value.isascii():
                    _refuse_lone_surrogates(value)
            case JsonNumber():
                size += len(value.text)
    return size, deepest


def json_equal(left: Json, right: Json) -> bool:
    """Whether two documents are equal, value by value: 1 is neither 1.0 nor true."""
    match left, right:
        case (dict(), dict()):
            return left.keys() == right.keys() and all(json_equal(left[key], right[key]) for key in left)
        case (list(), list()):
            return len(left) == len(right) and all(map(json_equal, left, right))
        case (JsonNumber(), JsonNumber()):
            return left.value == right.value
        case _:
            return type(left) is type(right) and bool(left == right)


def compact(document: Json) -> bytes:
    """On one line, keys sorted."""
    return "".join(_pieces(document, None, 0)).encode()


def pretty(document: Json) -> bytes:
    """Keys sorted, two spaces, a final newline."""
    return "".join(_pieces(document, "  ", 0)).encode() + b"\n"


def _pieces(value: Json, indent: str | None, depth: int) -> Iterable[str]:
    match value:
        case dict():
            items = [(encode_basestring(key) + (":" if indent is None else ": "), value[key]) for key in sorted(value)]
            yield from _sequence("{}", items, indent, depth)
        case list():
            yield from _sequence("[]", [("", inner) for inner in value], indent, depth)
        case str():
            yield encode_basestring(value)
        case JsonNumber():
            yield value.text
        case _:
            yield {True: "true", False: "false", None: "null"}[value]


def _sequence(brackets: str, items: list[tuple[str, Json]], indent: str | None, depth: int) -> Iterable[str]:
    yield brackets[0]
    for number, (label, inner) in enumerate(items):
        if number:
            yield ","
        if indent is not None:
            yield "\n" + indent * (depth + 1)
        yield label
        yield from _pieces(inner, indent, depth + 1)
    if items and indent is not None:
        yield "\n" + indent * depth
    yield brackets[1]


def _refuse_lone_surrogates(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidJson("a string holds half a surrogate pair") from error


def _without_duplicate_keys(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    found = dict(pairs)
    if len(found) != len(pairs):
        [(double, _)] = Counter(key for key, _ in pairs).most_common(1)
        raise InvalidJson(f"the key {double[:100]!r} is there twice")
    return found


def _refuse_constant(name: str) -> None:
    raise InvalidJson(f"{name} is not JSON")


_TOO_DEEP: Final = f"nested deeper than {MAX_DEPTH} levels"
_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_without_duplicate_keys,
    parse_float=JsonNumber,
    parse_int=JsonNumber,
    parse_constant=_refuse_constant,
)
