"""Rows of a data set, from whichever form it is published in: parquet, JSON lines, JSON, CSV, or a folder of these."""

import csv
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import msgspec

from proctor.core.errors import InfrastructureError, InvalidData, UsageError
from proctor.core.user_files import check_json, read_user_bytes, read_user_lines

RawRow = dict[str, Any]
_MAX_BYTES: Final = 1 << 30


def read_rows(path: Path) -> list[RawRow]:
    """All rows of a file; of a folder, those of its files in the order of their names.

    Raises:
        UsageError: it is not there, or in no form that can be read.
        InvalidData: it is broken; says where.
        InfrastructureError: it is parquet, and pyarrow is not installed.
    """
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.suffix.lower() in _READERS and file.is_file())
        if not files:
            raise UsageError(f"no {_SUFFIXES} file is in this folder", where=path)
        return [row for file in files for row in read_rows(file)]
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise UsageError(f"cannot be read as rows: it is not a {_SUFFIXES} file", where=path)
    try:
        return list(reader(path))
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", where=path) from error


def _json_lines(path: Path) -> Iterable[RawRow]:
    for number, line in enumerate(read_user_lines(path, "the rows"), 1):
        if line.strip():
            yield _row(_decode(line, f"{path}:{number}"), f"{path}:{number}")


def _json(path: Path) -> Iterable[RawRow]:
    """A list of rows, one row, or an object whose values are rows by their ids."""
    value = _decode(read_user_bytes(path, "the rows", limit=_MAX_BYTES), str(path))
    if isinstance(value, list):
        return [_row(item, f"{path}: $[{place}]") for place, item in enumerate(value)]
    row = _row(value, str(path))
    if row and all(isinstance(item, dict) for item in row.values()):
        return list(row.values())
    return [row]


def _csv(path: Path) -> Iterable[RawRow]:
    csv.field_size_limit(min(sys.maxsize, 2**31 - 1))  # whole logs and patches stand in one field
    with path.open(newline="", encoding="utf-8-sig") as text:
        reader = csv.DictReader(text, strict=True)
        try:
            for row in reader:
                if None in row or None in row.values():
                    raise InvalidData(
                        "this row has not as many fields as the header", where=f"{path}:{reader.line_num}"
                    )
                yield row
        except (csv.Error, UnicodeDecodeError) as error:
            raise InvalidData(f"this is not CSV: {error}", where=f"{path}:{reader.line_num}") from error


def _parquet(path: Path) -> Iterable[RawRow]:
    try:
        import pyarrow as pa  # type: ignore[import-untyped]
        from pyarrow import parquet
    except ImportError:
        raise InfrastructureError(
            "reading parquet needs pyarrow", where=path, fix="install it: `pip install 'proctor[datasets]'`"
        ) from None
    try:
        rows: list[RawRow] = parquet.read_table(path).to_pylist()
    except (pa.ArrowException, ValueError) as error:
        raise InvalidData(f"this is not parquet: {error}", where=path) from error
    return rows


def _decode(raw: bytes, where: str) -> Any:
    try:
        check_json(raw)
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, ValueError) as error:
        raise InvalidData(f"this is not JSON that can be read: {error}", where=where) from error


def _row(value: Any, where: str) -> RawRow:
    if not isinstance(value, dict):
        raise InvalidData("a row must be an object", where=where)
    return value


_READERS: Final[dict[str, Callable[[Path], Iterable[RawRow]]]] = {
    ".csv": _csv,
    ".json": _json,
    ".jsonl": _json_lines,
    ".parquet": _parquet,
}
_SUFFIXES: Final = ", ".join(sorted(_READERS))
