"""JSON patch sets: RFC 6902 patches of several files, applied to all of them or to none.

A file that is missing is the document ``null``, so that adding or replacing at the empty pointer creates it. Every file
is written back with sorted keys, two spaces and a final newline.
"""

import hashlib
import os
import stat
from collections.abc import Collection
from pathlib import Path
from typing import Final, Never

from proctor.core.causes import Cause
from proctor.core.record import Record
from proctor.core.trees import FILE, FileEntry, read_entry, type_at
from proctor.workspaces.applying import ApplyResult
from proctor.workspaces.changes import write_changes
from proctor.workspaces.invalid_submission import CONTENT_PER_PATCH, LIMIT_BYTES, InvalidSubmission, check_size
from proctor.workspaces.json_patch import CopyBudget, JsonPatchOperation, PatchConflict, apply_operation
from proctor.workspaces.lossless_json import InvalidJson, Json, compact, parse_json, pretty
from proctor.workspaces.paths import display_path, link_above, unsafe_reason

SCHEMA_VERSION: Final = "x07.arch.patchset@0.1.0"
MOST_OPERATIONS: Final = 10_000
_LONGEST_PATH: Final = 1024
_LONGEST_POINTER: Final = 2048
_KEYS: Final = {
    "add": {"value"},
    "remove": set[str](),
    "replace": {"value"},
    "move": {"from"},
    "copy": {"from"},
    "test": {"value"},
}


class FilePatch(Record):
    """The operations on one file."""

    path: str
    operations: tuple[JsonPatchOperation, ...]


def read_patch_set(data: bytes, *, limit_bytes: int = LIMIT_BYTES) -> tuple[FilePatch, ...]:
    """A patch set, checked against its schema.

    Raises:
        InvalidSubmission: it is empty, too large or malformed; says at which JSON pointer.
    """
    if not data.strip():
        raise InvalidSubmission(Cause.EMPTY, "the patch set is empty")
    check_size(len(data), limit_bytes, "the patch set")
    document = _parse(data)
    _check_keys(document, "", required={"schema_version", "patches"})
    if document["schema_version"] != SCHEMA_VERSION:
        _malformed("/schema_version", f"must be {SCHEMA_VERSION!r}")
    patches = tuple(
        _file_patch(target, f"/patches/{number}")
        for number, target in enumerate(_array(document["patches"], "/patches"))
    )
    if sum(len(patch.operations) for patch in patches) > MOST_OPERATIONS:
        raise InvalidSubmission(Cause.TOO_LARGE, f"the patch set has more than {MOST_OPERATIONS} operations")
    if not patches:
        raise InvalidSubmission(Cause.EMPTY, "the patch set changes no file")
    return patches


def apply_patch_set(tree: Path, data: bytes, *, limit_bytes: int = LIMIT_BYTES) -> ApplyResult:
    """Apply a patch set to a tree, wholly or not at all.

    Args:
        tree: the workspace.
        data: the patch set.
        limit_bytes: the largest patch set taken.

    Raises:
        InvalidSubmission: it is empty, too large, malformed or unsafe, or does not apply; says at which operation.
    """
    budget = CopyBudget(limit_bytes * CONTENT_PER_PATCH)
    documents: dict[bytes, Json] = {}
    for patch in read_patch_set(data, limit_bytes=limit_bytes):
        path = _checked_path(tree, patch.path)
        document = documents[path] if path in documents else _read(tree, path, limit_bytes * CONTENT_PER_PATCH)
        documents[path] = _apply_operations(document, patch, budget)
    changes = {}
    for path, document in documents.items():
        before = read_entry(tree, path)
        after = FileEntry(before.mode if before else FILE, pretty(document))
        if after != before:
            changes[path] = after
    write_changes(tree, changes)
    return ApplyResult(applied_with=None, touched=tuple(os.fsdecode(path) for path in sorted(changes)))


def patch_set_sha256(data: bytes) -> str:
    """The digest of a patch set's content, whatever its layout: of its compact form with sorted keys."""
    return hashlib.sha256(compact(_parse(data))).hexdigest()


def _apply_operations(document: Json, patch: FilePatch, budget: CopyBudget) -> Json:
    for number, operation in enumerate(patch.operations):
        try:
            document = apply_operation(document, operation, budget)
        except PatchConflict as misfit:
            what = f"operation {number} ({operation}) does not apply: {misfit}"
            raise InvalidSubmission(Cause.DOES_NOT_APPLY, what, where=patch.path) from misfit
        except InvalidJson as bad:
            what = f"operation {number} ({operation}): {bad}"
            raise InvalidSubmission(Cause.MALFORMED_SUBMISSION, what, where=patch.path) from bad
    return document


def _checked_path(tree: Path, spelled: str) -> bytes:
    path = b"/".join(name for name in spelled.encode().split(b"/") if name not in {b"", b"."})
    reason = "holds a backslash" if "\\" in spelled else unsafe_reason(spelled.encode())
    if reason is None and not path:
        reason = "names no file"
    if reason is None and (link := link_above(tree, path)) is not None:
        reason = f"leads through the symlink {display_path(link)}"
    if reason is None and type_at(tree, path) == stat.S_IFLNK:
        reason = "is a symlink"
    if reason is not None:
        raise InvalidSubmission(Cause.UNSAFE_SUBMISSION, f"the path {reason}", where=spelled)
    return path


def _read(tree: Path, path: bytes, limit: int) -> Json:
    entry = read_entry(tree, path)
    if entry is None:
        return None
    check_size(len(entry.data), limit, f"the file {display_path(path)}")
    try:
        return parse_json(entry.data)
    except InvalidJson as bad:
        what = f"the file cannot be patched as JSON: {bad}"
        raise InvalidSubmission(Cause.DOES_NOT_APPLY, what, where=display_path(path)) from bad


def _parse(data: bytes) -> Json:
    try:
        return parse_json(data)
    except InvalidJson as bad:
        raise InvalidSubmission(Cause.MALFORMED_SUBMISSION, f"the patch set cannot be read: {bad}") from bad


def _file_patch(target: Json, where: str) -> FilePatch:
    _check_keys(target, where, required={"path", "patch"}, optional={"note"})
    _text(target.get("note", ""), f"{where}/note", longest=_LONGEST_PATH)
    return FilePatch(
        path=_text(target["path"], f"{where}/path", shortest=1, longest=_LONGEST_PATH),
        operations=tuple(
            _operation(step, f"{where}/patch/{number}")
            for number, step in enumerate(_array(target["patch"], f"{where}/patch"))
        ),
    )


def _operation(step: Json, where: str) -> JsonPatchOperation:
    op = step.get("op") if isinstance(step, dict) else None
    if not isinstance(op, str) or op not in _KEYS:
        _malformed(where, f"must be an object whose op is one of {', '.join(sorted(_KEYS))}")
    _check_keys(step, where, required={"op", "path", *_KEYS[op]})
    return JsonPatchOperation(
        op=op,
        path=_text(step["path"], f"{where}/path", longest=_LONGEST_POINTER),
        value=step.get("value"),
        source=_text(step.get("from", ""), f"{where}/from", longest=_LONGEST_POINTER),
    )


def _check_keys(value: Json, where: str, *, required: set[str], optional: Collection[str] = ()) -> None:
    if not isinstance(value, dict):
        _malformed(where, "must be an object")
    for key in sorted(required - value.keys()):
        _malformed(where, f"has no {key!r}")
    for key in sorted(value.keys() - required - set(optional)):
        _malformed(where, f"has the unknown key {key[:100]!r}")


def _array(value: Json, where: str) -> list[Json]:
    if not isinstance(value, list):
        _malformed(where, "must be an array")
    return value


def _text(value: Json, where: str, *, shortest: int = 0, longest: int) -> str:
    if not isinstance(value, str) or not shortest <= len(value) <= longest:
        _malformed(where, f"must be a string of {shortest} to {longest} characters")
    return value


def _malformed(where: str, what: str) -> Never:
    raise InvalidSubmission(Cause.MALFORMED_SUBMISSION, f"the patch set {what}", where=where or "/")
