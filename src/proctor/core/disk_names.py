"""Task ids and their names on disk.

A task id is any string that a benchmark uses: it may hold slashes, spaces, pipes, dots only, or be longer
than a file name may be. Its name on disk is a relative path, made only of characters that every file system
takes, from which the id can be read back.

- Bytes other than ``A-Z a-z 0-9 . _ -``, and a leading dot, are written ``%xx``; the empty id is ``%``.
- A name longer than 180 bytes continues in a sub-directory: every piece but the last ends in ``~``.
- ``~`` never occurs otherwise.
"""

from typing import Final

from proctor.core.errors import InvalidData

MAX_PIECE_BYTES: Final = 180
MAX_NAME_BYTES: Final = 3000
_SAFE_BYTES: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")


def disk_name(task_id: str) -> str:
    """The relative path that stands for this id; two ids never share one."""
    raw = task_id.encode("utf-8", "surrogatepass")
    units = [chr(byte) if byte in _SAFE_BYTES else f"%{byte:02x}" for byte in raw] or ["%"]
    pieces: list[list[str]] = [[]]
    length = 0
    for unit in units:
        if length + len(unit) > MAX_PIECE_BYTES:
            pieces.append([])
            length = 0
        # A piece that starts with a dot could be "." or "..", or hidden.
        written = "%2e" if unit == "." and not pieces[-1] else unit
        pieces[-1].append(written)
        length += len(written)
    name = "~/".join("".join(piece) for piece in pieces)
    if len(name) > MAX_NAME_BYTES:
        raise InvalidData(
            f"task id is too long ({len(raw)} bytes)",
            where=f"{task_id[:40]!r}…",
            fix="give the task an id of at most 900 characters",
        )
    return name
