"""Reads a JSON file against its type, and reports everything that is wrong with it, each with its place."""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from proctor.core.errors import InvalidData
from proctor.core.record import Record
from proctor.core.user_files import BoundExceeded, parse_json, read_limited

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError

T = TypeVar("T")
_MAX_BYTES: Final = 16 << 20
_SMALL_BYTES: Final = 1 << 20  # in larger files only the first problem is reported: the schema finds the others slowly
_MAX_PROBLEMS: Final = 100


class DocumentProblem(Record):
    """One thing that is wrong, in which file, at which place in it."""

    file: str
    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.file}: {self.path}: {self.message}"


class InvalidDocument(InvalidData):
    """A file, or a set of files, with all its problems."""

    def __init__(self, problems: Iterable[DocumentProblem]) -> None:
        self.problems = tuple(problems)
        first = self.problems[0]
        more = f" (and {len(self.problems) - 1} more)" if len(self.problems) > 1 else ""
        super().__init__(
            f"{first.path}: {first.message}{more}",
            where=first.file,
            details=[str(problem) for problem in self.problems] if more else (),
        )


def read_bytes(file: Path) -> bytes:
    """The content of a file.

    Raises:
        InvalidDocument: it cannot be read.
    """
    try:
        return read_limited(file, limit=_MAX_BYTES)
    except (OSError, ValueError) as error:
        message = f"cannot read it: {error.strerror if isinstance(error, OSError) else error}"
        raise InvalidDocument([DocumentProblem(file=str(file), path="$", message=message)]) from error


def decode_document(data: bytes, kind: type[T], *, file: str) -> T:
    """Read the bytes of `file` as this type.

    Raises:
        InvalidDocument: they are not JSON, or do not fit the type; lists every problem.
    """
    duplicates: list[str] = []
    try:
        document = parse_json(data, object_pairs_hook=lambda pairs: _object(pairs, duplicates))
    except ValueError as error:
        message = str(error) if isinstance(error, BoundExceeded) else f"not JSON: {error}"
        raise InvalidDocument([DocumentProblem(file=file, path="$", message=message)]) from error
    problems = [
        DocumentProblem(file=file, path="$", message=f"the key {key!r} stands twice in one object")
        for key in duplicates[:_MAX_PROBLEMS]
    ]
    try:
        converted = msgspec.convert(document, type=kind)
    except msgspec.ValidationError as error:
        # msgspec stops at the first problem; the schema, which is made from the same type, finds the others.
        others = list(islice(_violations(document, kind, file), _MAX_PROBLEMS)) if len(data) < _SMALL_BYTES else []
        problems += others or [DocumentProblem(file=file, path="$", message=str(error))]
    if problems:
        raise InvalidDocument(problems)
    return converted


def _object(pairs: list[tuple[str, Any]], duplicates: list[str]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        duplicates += sorted(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
    return result


def _violations(document: object, kind: type[Any], file: str) -> Iterator[DocumentProblem]:
    from jsonschema import Draft202012Validator

    try:
        for error in Draft202012Validator(msgspec.json.schema(kind)).iter_errors(document):
            for leaf in _leaves(error):
                yield DocumentProblem(file=file, path=_json_path(leaf), message=_message(leaf))
    except RecursionError:
        yield DocumentProblem(file=file, path="$", message="nested too deeply")


def _leaves(error: "ValidationError") -> Iterator["ValidationError"]:
    """Of a choice of shapes, the problems of the one that was meant (its tag and type fit), else the choice itself."""
    branches: dict[object, list[ValidationError]] = {}
    for inner in error.context or ():
        branches.setdefault(inner.schema_path[0], []).append(inner)
    meant = [inners for inners in branches.values() if not any(map(_is_other_shape, inners))]
    if len(meant) == 1:
        for inner in meant[0]:
            yield from _leaves(inner)
    else:
        yield error


def _is_other_shape(error: "ValidationError") -> bool:
    place = list(error.relative_path)
    return error.validator in {"enum", "const", "type"} and place in ([], ["kind"])


def _json_path(error: "ValidationError") -> str:
    return "$" + "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in error.absolute_path)


def _message(error: "ValidationError") -> str:
    schema = error.schema if isinstance(error.schema, dict) else {}
    if error.validator == "pattern" and "description" in schema:
        return f"{error.instance!r} is not {schema['description']}"
    message = " ".join(error.message.split())
    return message if len(message) <= 300 else message[:300] + "…"  # noqa: PLR2004 - a line, not a page
