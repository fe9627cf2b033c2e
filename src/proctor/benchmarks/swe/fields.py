"""Fields of published rows, in all the ways in which they are written.

The same field is a list in one copy and a JSON list, or a Python literal, inside a string in another; names come in
capitals or not; a text may be a JSON string inside a string.
"""

import ast
import json
from collections.abc import Mapping
from typing import Any

from proctor.core.errors import InvalidData


def text_field(row: Mapping[str, Any], name: str, *, default: str | None = None) -> str:
    """A text field. Without a default it must be there, and not be empty.

    Raises:
        InvalidData: it is missing, or no text.
    """
    value = raw_field(row, name)
    if value is None or (value == "" and default is None):
        if default is None:
            raise InvalidData(f"has no {name!r}", where=_row_label(row))
        return default
    if not isinstance(value, str):
        raise InvalidData(f"{name!r} is not a string but {type(value).__name__}", where=_row_label(row))
    return value


def list_field(row: Mapping[str, Any], name: str, *, optional: bool = False) -> tuple[str, ...]:
    """A field that lists texts, byte for byte as they are written: a list, a JSON list or a Python literal.

    Raises:
        InvalidData: it is missing, or cannot be read as a list of texts.
    """
    value = raw_field(row, name)
    if value is None or value == "":
        if optional:
            return ()
        raise InvalidData(f"has no {name!r}", where=_row_label(row))
    found = _literal(value) if isinstance(value, str) else value
    if not isinstance(found, list | tuple) or not all(isinstance(entry, str) for entry in found):
        raise InvalidData(f"{name!r} is not a list of strings", where=_row_label(row))
    return tuple(found)


def object_field(row: Mapping[str, Any], name: str) -> dict[str, Any]:
    """A field that holds an object, or the JSON of one; empty when it is missing.

    Raises:
        InvalidData: it is something else.
    """
    value = raw_field(row, name)
    if value is None or value == "":
        return {}
    found = _literal(value) if isinstance(value, str) else value
    if not isinstance(found, dict):
        raise InvalidData(f"{name!r} is not an object", where=_row_label(row))
    return found


def raw_field(row: Mapping[str, Any], name: str) -> Any:
    """A field by its name, in capitals or not."""
    for spelled in (name, name.lower(), name.upper()):
        if spelled in row:
            return row[spelled]
    return None


def decode_json_string(value: str) -> str:
    """A text that is itself a JSON string, read; any other text as it is."""
    if len(value) > 1 and value[0] == value[-1] == '"':
        try:
            found = json.loads(value, strict=False)
        except ValueError:
            return value
        return found if isinstance(found, str) else value
    return value


def _literal(value: str) -> Any:
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        pass
    try:
        return ast.literal_eval(value)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None


def _row_label(row: Mapping[str, Any]) -> str:
    identity = row.get("instance_id")
    return identity if isinstance(identity, str) and identity else "a row without an instance_id"
