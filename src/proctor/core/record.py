"""The base class of records, and how records are written as JSON and read."""

import re
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar, dataclass_transform

import msgspec

from proctor.core.errors import InvalidData
from proctor.core.upgrades import UPGRADES, holds_older_record, upgrade
from proctor.core.user_files import BoundExceeded, check_json, read_user_bytes

T = TypeVar("T", bound=msgspec.Struct)
_MAX_BYTES: Final = 1 << 28
_WORDS: Final = re.compile(r"[A-Z0-9][a-z0-9]*")


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Record(msgspec.Struct, frozen=True, kw_only=True):
    """An immutable value.

    Fields unknown to this version are ignored when read, so that older code reads newer files.
    """


class Versioned(Protocol):
    """A record that states its schema and version."""

    @property
    def schema_version(self) -> str:
        """As in `proctor.task@1`: the schema's name, with underscores, and its version."""
        ...


def to_json(value: object) -> bytes:
    """Stable, readable JSON: keys in the order of the record's fields, two spaces, one final newline.

    Text that is not Unicode, as in some file names and test ids, is written with its invalid bytes escaped.
    """
    try:
        encoded = msgspec.json.encode(value)
    except UnicodeEncodeError:
        encoded = msgspec.json.encode(_printable(msgspec.to_builtins(value)))
    return msgspec.json.format(encoded, indent=2) + b"\n"


def _printable(value: Any) -> Any:
    if isinstance(value, str):
        try:
            raw = value.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            raw = value.encode("utf-8", "surrogatepass")
        return raw.decode("utf-8", "backslashreplace")
    if isinstance(value, dict):
        return {_printable(key): _printable(item) for key, item in value.items()}
    return [_printable(item) for item in value] if isinstance(value, list | tuple) else value


def from_json(data: bytes | str, kind: type[T], *, where: object = None) -> T:
    """Read a record and check it against its type. Records of older versions are upgraded (`core.upgrades`).

    Raises:
        InvalidData: not JSON, or not this kind of record; says at which path.
    """
    raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    try:
        check_json(raw)
        version_0 = _version_0(kind)
        if version_0 and b'"schema_version"' not in raw:
            return _upgraded(raw, kind, version_0)
        if "schema_version" not in kind.__struct_fields__ and holds_older_record(raw):
            return _upgraded(raw, kind)
        try:
            return msgspec.json.decode(raw, type=kind)
        except msgspec.ValidationError:
            if not holds_older_record(raw):
                raise
            return _upgraded(raw, kind)
    except msgspec.ValidationError as error:
        # A `_TaskResult` is a task result to the person who has to fix the file.
        name = " ".join(_WORDS.findall(kind.__name__)).lower()
        newer = "; another version of Proctor wrote it" if str(error).endswith("`$.schema_version`") else ""
        raise InvalidData(f"not a valid {name}: {error}{newer}", where=where) from error
    except (msgspec.DecodeError, BoundExceeded, RecursionError) as error:
        message = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise InvalidData(f"this is not JSON: {message}", where=where) from error


@lru_cache(maxsize=1024)
def _version_0(kind: type[msgspec.Struct]) -> str | None:
    """What stands for the version of documents without one, if this type had none at first and has changed since."""
    defaults = {field.name: field.default for field in msgspec.structs.fields(kind)}
    name = f"{str(defaults.get('schema_version', '')).partition('@')[0]}@0"
    return name if name in UPGRADES else None


def _upgraded(data: bytes, kind: type[T], version_0: str | None = None) -> T:
    document = msgspec.json.decode(data)
    if version_0 and isinstance(document, dict):
        document["schema_version"] = version_0
    upgrade(document)
    return msgspec.json.decode(msgspec.json.encode(document), type=kind)


def read_record(path: Path, kind: type[T]) -> T:
    """Read one record from a file."""
    return from_json(read_bytes(path), kind, where=path)


def read_bytes(path: Path) -> bytes:
    """The bytes of a file.

    Raises:
        InvalidData: it cannot be read, or is too large.
    """
    return read_user_bytes(path, "it", limit=_MAX_BYTES, error=InvalidData)


def time_now() -> str:
    """The time now, as records hold it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")
