"""A submission as a list of changed files with the lines that it adds, read from the change of a tree."""

from collections import Counter
from collections.abc import Iterator
from enum import StrEnum
from pathlib import PurePosixPath

from proctor.core.record import Record
from proctor.core.trees import LINK, FileEntry
from proctor.workspaces import TreeChange


class ChangeKind(StrEnum):
    """What was done to a file."""

    ADDED = "added"
    CHANGED = "changed"
    DELETED = "deleted"
    RENAMED = "renamed"


class ChangedFile(Record):
    """One file of a submission.

    Attributes:
        old_path: where a renamed file was.
        added: the lines that are new, each with its number in the new file.
        removed: the lines that are gone.
        content: the whole new file, where it is known.
        before: the whole old file, where it is known.
        mode: git's mode of the new file, where it is known.
    """

    path: str
    kind: ChangeKind
    old_path: str | None = None
    added: tuple[tuple[int, str], ...] = ()
    removed: tuple[str, ...] = ()
    content: bytes | None = None
    before: bytes | None = None
    binary: bool = False
    mode: int | None = None


def changed_files(change: TreeChange) -> tuple[ChangedFile, ...]:
    """The changed files of a tree.

    A new file with the content and the suffix of a deleted one was renamed; the deleted one is listed all the same.
    """
    renamed = _renames(change)
    return tuple(_changed_file(change, path, renamed.get(path)) for path in change.paths)


def _renames(change: TreeChange) -> dict[str, str]:
    """New paths whose content a deleted file had, with that file's path."""
    deleted: dict[tuple[bytes, str], list[str]] = {}
    for path in change.paths:
        if path not in change.after and change.before[path].data and change.before[path].mode != LINK:
            deleted.setdefault((change.before[path].data, PurePosixPath(path).suffix), []).append(path)
    found = {}
    for path in change.paths:
        if path not in change.before and change.after[path].mode != LINK:
            old = deleted.get((change.after[path].data, PurePosixPath(path).suffix))
            if old:
                found[path] = old.pop(0)
    return found


def _changed_file(change: TreeChange, path: str, old_path: str | None) -> ChangedFile:
    before, after = change.before.get(old_path or path), change.after.get(path)
    if old_path is not None:
        kind = ChangeKind.RENAMED
    elif before is None:
        kind = ChangeKind.ADDED
    else:
        kind = ChangeKind.DELETED if after is None else ChangeKind.CHANGED
    binary = after is not None and b"\0" in after.data
    # What was a link's target, or becomes one, is another thing than the same text in a file.
    comparable = before is not None and (after is None or (before.mode == LINK) == (after.mode == LINK))
    old_lines, new_lines = _lines(before if comparable else None), _lines(after)
    return ChangedFile(
        path=path,
        kind=kind,
        old_path=old_path,
        added=() if binary else tuple(_new_lines(old_lines, new_lines)),
        removed=() if binary else tuple(text for _, text in _new_lines(new_lines, _lines(before))),
        content=None if after is None else after.data,
        before=before.data if before is not None and comparable else None,
        binary=binary,
        mode=None if after is None else after.mode,
    )


def _lines(entry: FileEntry | None) -> list[str]:
    return [] if entry is None else entry.data.decode("utf-8", "surrogateescape").split("\n")


def _new_lines(old: list[str], new: list[str]) -> Iterator[tuple[int, str]]:
    """Lines of `new` beyond those that `old` has too. A moved line is not new. It takes linear time."""
    known = Counter(old)
    for number, text in enumerate(new, 1):
        if known[text] > 0:
            known[text] -= 1
        else:
            yield number, text
