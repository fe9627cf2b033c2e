"""RFC 6901 pointers and RFC 6902 operations on documents as `lossless_json` reads them.

Strict where implementations differ: array indices are plain decimal numbers without leading zeros, `test` compares
value by value, nothing is moved into itself. A document is changed in place; on a failure it is good for nothing.
"""

import re
from typing import Final

from proctor.core.causes import Cause
from proctor.core.record import Record
from proctor.workspaces.invalid_submission import InvalidSubmission
from proctor.workspaces.lossless_json import MAX_DEPTH, InvalidJson, Json, json_equal, measure

_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,8}")
_BAD_ESCAPE: Final = re.compile(r"~(?![01])")


class JsonPatchOperation(Record):
    """One step of a JSON patch; `source` is what RFC 6902 calls ``from``."""

    op: str
    path: str
    value: Json = None
    source: str = ""

    def __str__(self) -> str:
        return f"{self.op} {self.path[:200]!r}"


class PatchConflict(Exception):
    """Why an operation does not fit its document. It never leaves this package: the patch set says which and where."""


class CopyBudget:
    """How much a patch set may still copy, move and add: copies of copies double with each step."""

    def __init__(self, size: int) -> None:
        self.left = size

    def spend(self, value: Json, *, depth: int) -> None:
        size, inner = measure(value)
        if depth + inner > MAX_DEPTH:
            raise InvalidJson(f"the result is nested deeper than {MAX_DEPTH} levels")
        self.left -= size
        if self.left < 0:
            raise InvalidSubmission(Cause.TOO_LARGE, "the patch set copies and adds more than it may")


def tokens_of(pointer: str) -> list[str]:
    """The keys and indices that a pointer goes through.

    Raises:
        Misfit: it is not a pointer.
    """
    if not pointer:
        return []
    if not pointer.startswith("/"):
        raise PatchConflict("a pointer starts with /")
    if _BAD_ESCAPE.search(pointer):
        raise PatchConflict("a pointer has ~ only in ~0 and ~1")
    return [token.replace("~1", "/").replace("~0", "~") for token in pointer[1:].split("/")]


def apply_operation(document: Json, operation: JsonPatchOperation, budget: CopyBudget) -> Json:
    """The document after one operation.

    Raises:
        Misfit: the document has no such place, or a `test` found another value.
        BadDocument: the result would be nested too deeply.
        InvalidSubmission: the budget is spent.
    """
    tokens = tokens_of(operation.path)
    match operation.op:
        case "add":
            budget.spend(operation.value, depth=len(tokens))
            return _add(document, tokens, operation.value)
        case "remove":
            return _remove(document, tokens)[0]
        case "replace":
            budget.spend(operation.value, depth=len(tokens))
            return _replace(document, tokens, operation.value)
        case "copy":
            value = _get(document, tokens_of(operation.source))
            budget.spend(value, depth=len(tokens))
            return _add(document, tokens, _copy(value))
        case "move":
            source = tokens_of(operation.source)
            if tokens[: len(source)] == source and len(tokens) > len(source):
                raise PatchConflict(f"cannot move {operation.source!r} into itself")
            if tokens == source:
                _get(document, source)
                return document
            document, value = _remove(document, source)
            budget.spend(value, depth=len(tokens))
            return _add(document, tokens, value)
        case _:
            if not json_equal(_get(document, tokens), operation.value):
                raise PatchConflict("the value there is another one")
            return document


def _copy(value: Json) -> Json:
    match value:
        case dict():
            return {key: _copy(inner) for key, inner in value.items()}
        case list():
            return [_copy(inner) for inner in value]
        case _:
            return value


def _get(document: Json, tokens: list[str]) -> Json:
    for token in tokens:
        document = document[_key(document, token)]
    return document


def _key(container: Json, token: str, *, grows: bool = False) -> str | int:
    """The token as a key that is there; or, where the container grows, as one that may be added."""
    match container:
        case dict():
            if token in container or grows:
                return token
            raise PatchConflict(f"no key {token[:100]!r} there")
        case list():
            if grows and token == "-":  # noqa: S105 - not a secret: RFC 6901's name for the end of an array
                return len(container)
            if not _INDEX.fullmatch(token):
                raise PatchConflict(f"{token[:100]!r} is not an index of an array")
            if int(token) < len(container) + grows:
                return int(token)
            raise PatchConflict(f"no element {token} in an array of {len(container)}")
        case _:
            raise PatchConflict(f"nothing can be under {token[:100]!r}: there is neither an object nor an array")


def _add(document: Json, tokens: list[str], value: Json) -> Json:
    if not tokens:
        return value
    container = _get(document, tokens[:-1])
    key = _key(container, tokens[-1], grows=True)
    if isinstance(container, list):
        container.insert(int(key), value)
    else:
        container[key] = value
    return document


def _replace(document: Json, tokens: list[str], value: Json) -> Json:
    if not tokens:
        return value
    container = _get(document, tokens[:-1])
    container[_key(container, tokens[-1])] = value
    return document


def _remove(document: Json, tokens: list[str]) -> tuple[Json, Json]:
    if not tokens:
        raise PatchConflict("the whole document cannot be removed")
    container = _get(document, tokens[:-1])
    key = _key(container, tokens[-1])
    return document, container.pop(key)
