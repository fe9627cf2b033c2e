"""The one way in for files that users bring: suites, sweeps, predictions, scripts, prices, reports, imported runs.

Whoever wrote such a file may be hostile or may have made a mistake, and neither makes Proctor hang, run out of memory
or fail with a traceback. So everything here is bounded: a file's size, how deeply its values are nested, how many a
YAML alias expands to, and how long a number is. What is over a bound is a `ValueError` with one short sentence, and
the caller says of which file.
"""

import errno
import os
import re
import stat
from array import array
from collections.abc import Callable, Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any, BinaryIO, Final

from proctor.core.errors import InvalidData, ProctorError, UsageError

MAX_DEPTH: Final = 200
MAX_BYTES: Final = 64 << 20
MAX_LINE_BYTES: Final = 64 << 20
MAX_LINES_BYTES: Final = 4 << 30
_BLOCK_BYTES: Final = 1 << 20
MAX_YAML_BYTES: Final = 1 << 20
MAX_TOML_BYTES: Final = 1 << 18
"""The parsers of YAML and TOML are a hundred times slower than those of JSON."""
MAX_YAML_NODES: Final = 100_000
"""After every alias is replaced by what it stands for."""
MAX_DIGITS: Final = 300
"""Of a whole number: it can be written out, and be made a float."""

_NOT_BRACKETS: Final = bytes(set(range(256)) - set(b'"[]{}'))
_STEPS: Final = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")  # one level down, or up
_STRING: Final = re.compile(rb'"[^"]*+"')
_LONG_NUMBER: Final = re.compile(rb"[0-9]{%d}" % MAX_DIGITS)
_LARGEST_INTEGER: Final = 10**MAX_DIGITS
# The parser takes minutes for keys of many parts. Possessive: a failed match is not tried in other ways.
_MAX_KEY_PARTS: Final = 50
_TOML_PART: Final = r"""(?:[A-Za-z0-9_-]++|"[^"\n]*+"|'[^'\n]*+')"""
_LONG_TOML_KEY: Final = re.compile(
    rf"(?<![A-Za-z0-9_-]){_TOML_PART}(?:[ \t]*+\.[ \t]*+{_TOML_PART}){{{_MAX_KEY_PARTS}}}"
)
_SHELL_PIPES: Final = ("/dev/", "/proc/")
_LONG: Final = f"a number has more than {MAX_DIGITS} digits"
# What YAML may read as a number: also in hexadecimal, and in hours, minutes and seconds.
_NUMBER: Final = re.compile(r"[-+0-9a-fA-FxXo_:.]+")
_TOO_DEEP: Final = f"it is nested too deeply (more than {MAX_DEPTH} levels)"


class BoundExceeded(ValueError):
    """A file, or a value in it, is larger or nested deeper than any real one."""


def read_limited(file: Path, *, limit: int = MAX_BYTES) -> bytes:
    """The bytes of a plain file, or of the pipe that a shell made for this command (``<(…)``, ``/dev/stdin``).

    Raises:
        OSError: it cannot be read.
        BoundExceeded: it is larger, or no plain file.
    """
    with _open(file, limit) as opened:
        data = opened.read(limit + 1)
    if len(data) > limit:
        raise BoundExceeded(_too_large(limit))
    return data


def _open(file: Path, limit: int) -> BinaryIO:
    from_shell = str(file).startswith(_SHELL_PIPES)
    # Any other pipe would block until somebody writes to it.
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC | (0 if from_shell else os.O_NONBLOCK))
    try:
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(file))
        if not from_shell and not stat.S_ISREG(status.st_mode):
            raise BoundExceeded("it is not a plain file")
        if stat.S_ISREG(status.st_mode) and status.st_size > limit:
            raise BoundExceeded(_too_large(limit))
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_user_bytes(file: Path, what: str, *, limit: int = MAX_BYTES, error: type[ProctorError] = UsageError) -> bytes:
    """The bytes of a file that a user names.

    Raises:
        UsageError: it cannot be read, or is too large; `what` names it in the message. Or another `error`.
    """
    try:
        return read_limited(file, limit=limit)
    except OSError as failed:
        raise error(f"cannot read {what}: {failed.strerror}", where=file) from failed
    except ValueError as failed:
        raise error(f"cannot read {what}: {failed}", where=file) from failed


def read_user_file(file: Path, what: str, *, limit: int = MAX_BYTES, error: type[ProctorError] = UsageError) -> str:
    """The text of a file that a user names; a byte order mark is dropped.

    Raises:
        UsageError: it cannot be read, is too large or no text; `what` names it in the message. Or another `error`.
    """
    try:
        return read_user_bytes(file, what, limit=limit, error=error).decode("utf-8-sig")
    except UnicodeDecodeError as failed:
        raise error(f"cannot read {what}: it is not UTF-8 text", where=file) from failed


def read_user_lines(file: Path, what: str) -> Iterator[bytes]:
    """The lines of a file that may be long as a whole, each with its end.

    Raises:
        InvalidData: it is too large, or has a line that is.
        OSError: it cannot be read.
    """
    try:
        opened = _open(file, MAX_LINES_BYTES)
    except BoundExceeded as error:
        raise InvalidData(f"cannot read {what}: {error}", where=file) from error
    with opened as lines:
        number = 0
        while line := lines.readline(MAX_LINE_BYTES):
            number += 1
            if len(line) == MAX_LINE_BYTES and not line.endswith(b"\n"):
                raise InvalidData(
                    f"cannot read {what}: the line is longer than {_size(MAX_LINE_BYTES)}", where=f"{file}:{number}"
                )
            yield line


def read_line_blocks(file: Path) -> Iterator[bytes]:
    """The lines of a file in large pieces, each of which ends where a line does, for readers that take many at once.

    Raises:
        OSError: it cannot be read in this way; `read_user_lines` says why.
    """
    try:
        opened = _open(file, MAX_LINES_BYTES)
    except BoundExceeded as error:
        raise OSError(errno.EFBIG, str(error), str(file)) from error
    with opened as blocks:
        rest = b""
        while block := blocks.read(_BLOCK_BYTES):
            whole, newline, end = block.rpartition(b"\n")
            if newline:
                yield rest + whole + newline
                rest = end
            elif len(rest := rest + block) > MAX_LINE_BYTES:
                raise OSError(errno.EFBIG, "a line is too long", str(file))
        if rest:
            yield rest


def parse_json(data: bytes | str, **options: Any) -> Any:
    """The value of a JSON text; `options` are those of `json.loads`.

    Raises:
        ValueError: it is not JSON; BoundExceeded: it is nested too deeply, or has a number that is too long.
    """
    import json

    check_json(data)
    try:
        value = json.loads(data, **options)
    except RecursionError:
        raise BoundExceeded(_TOO_DEEP) from None
    except ValueError as error:
        raise _without_advice(error) from error
    raw = data if isinstance(data, bytes) else data.encode("utf-8", "surrogatepass")
    if _LONG_NUMBER.search(raw):
        _check_values(value)
    return value


def check_json(data: bytes | str) -> None:
    """See that a JSON text is not nested too deeply, without decoding it. What is not JSON passes.

    Raises:
        BoundExceeded: it is.
    """
    raw = data if isinstance(data, bytes) else data.encode("utf-8", "surrogatepass")
    if raw.count(b"[") + raw.count(b"{") <= MAX_DEPTH:
        return
    if b"\\" in raw:
        raw = raw.replace(b"\\\\", b"").replace(b'\\"', b"")
    brackets = _STRING.sub(b"", raw.translate(None, _NOT_BRACKETS))
    if max(accumulate(array("b", brackets.translate(_STEPS))), default=0) > MAX_DEPTH:
        raise BoundExceeded(_TOO_DEEP)


def parse_yaml(text: str) -> Any:
    """The value of a YAML text, or of a JSON text, which YAML is meant to include.

    Raises:
        ValueError: it is neither; BoundExceeded: it is too large, is nested too deeply, or its aliases, or a
            number, stand for too much.
    """
    if text.lstrip()[:1] in {"{", "["}:
        try:
            return parse_json(text)
        except BoundExceeded:
            raise
        except ValueError:
            pass  # then it is YAML in the same style
    if len(text) > MAX_YAML_BYTES:
        raise BoundExceeded(_too_large(MAX_YAML_BYTES))
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        _check_yaml(yaml.parse(text, loader))
        return yaml.load(text, loader)  # noqa: S506 - it is the safe one
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from error
    except RecursionError:
        raise BoundExceeded(_TOO_DEEP) from None


def parse_toml(text: str) -> dict[str, Any]:
    """The table that a TOML text is.

    Raises:
        ValueError: it is not TOML; BoundExceeded: it is too large, is nested too deeply, or has a number that is too
            long.
    """
    import tomllib

    if len(text) > MAX_TOML_BYTES:
        raise BoundExceeded(_too_large(MAX_TOML_BYTES))
    if _LONG_TOML_KEY.search(text):
        raise BoundExceeded(f"a key has more than {_MAX_KEY_PARTS} parts")
    try:
        document = tomllib.loads(text)
    except RecursionError:
        raise BoundExceeded(_TOO_DEEP) from None
    except ValueError as error:
        raise _without_advice(error) from error
    _check_values(document)
    return document


def parse_document(file: Path, what: str, parse: Callable[[str], Any], form: str, *, error: type[ProctorError]) -> Any:
    """The value of a file that a user names; `form` says what `parse` reads.

    Raises:
        ProctorError: an `error`: it cannot be read, or is not of that form.
    """
    text = read_user_file(file, what, error=error)
    try:
        return parse(text)
    except ValueError as failed:
        raise error(f"{what} is not {form} that can be read: {failed}", where=file) from failed


def _without_advice(error: ValueError) -> ValueError:
    """Python's own limit on digits comes with advice for programmers."""
    return BoundExceeded(_LONG) if type(error) is ValueError and "digits" in str(error) else error


def _check_yaml(events: Iterator[Any]) -> None:
    """See that a document is not nested too deeply, and how many nodes it has with its aliases replaced."""
    import yaml

    nodes = 0
    sizes: dict[str, int] = {}
    open_nodes: list[tuple[str | None, int]] = []
    for event in events:
        match event:
            case yaml.AliasEvent():
                nodes += _alias_nodes(event.anchor or "", sizes, open_nodes)
            case yaml.ScalarEvent():
                nodes += 1
                sizes[event.anchor or ""] = 1
                # Quoted, and without a tag, it is a text.
                if not event.implicit[1] and len(event.value) > MAX_DIGITS and _NUMBER.fullmatch(event.value):
                    raise BoundExceeded(_LONG)
            case yaml.CollectionStartEvent():
                open_nodes.append((event.anchor, nodes))
                nodes += 1
            case yaml.CollectionEndEvent():
                anchor, before = open_nodes.pop()
                sizes[anchor or ""] = nodes - before
        if len(open_nodes) > MAX_DEPTH:
            raise BoundExceeded(_TOO_DEEP)
        if nodes > MAX_YAML_NODES:
            raise BoundExceeded(f"it holds more than {MAX_YAML_NODES} values, aliases counted as what they stand for")


def _alias_nodes(anchor: str, sizes: dict[str, int], open_nodes: list[tuple[str | None, int]]) -> int:
    """How many nodes an alias stands for."""
    if any(above == anchor for above, _ in open_nodes):
        raise BoundExceeded(f"the alias {anchor!r} stands for what it is a part of")
    return sizes.get(anchor, 1)


def _check_values(document: Any) -> None:
    """See that what was decoded is not nested too deeply and has no endless number."""
    level = [document]
    for _ in range(MAX_DEPTH + 1):
        if any(isinstance(value, int) and abs(value) >= _LARGEST_INTEGER for value in level):
            raise BoundExceeded(_LONG)
        level = [inner for outer in level for inner in _children(outer)]
        if not level:
            return
    raise BoundExceeded(_TOO_DEEP)


def _children(value: Any) -> Any:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _too_large(limit: int) -> str:
    return f"it is larger than {_size(limit)}"


def _size(number: int) -> str:
    for unit in ("KiB", "MiB"):
        number >>= 10
        if number < 1 << 10:
            return f"{number} {unit}"
    return f"{number >> 10} GiB"
