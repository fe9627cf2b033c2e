"""Unified diffs and JSON patch sets: applied, listed by path, and identified, whichever of the two it is."""

import hashlib
import os
from pathlib import Path

from proctor.core.submission import PatchKind
from proctor.workspaces.applying import ApplyResult, apply_diff
from proctor.workspaces.base import BaseTree
from proctor.workspaces.diff_parser import parse_diff
from proctor.workspaces.invalid_submission import LIMIT_BYTES
from proctor.workspaces.patch_sets import apply_patch_set, patch_set_sha256, read_patch_set


def apply_patch(
    tree: Path,
    data: bytes,
    kind: PatchKind,
    *,
    base: BaseTree | None = None,
    limit_bytes: int = LIMIT_BYTES,
) -> ApplyResult:
    """Apply a submission to a tree, wholly or not at all; nothing outside the tree is ever written.

    Args:
        tree: the workspace.
        data: the submission's bytes.
        kind: what they are.
        base: where a diff that does not apply strictly may find the blobs for a three-way merge.
        limit_bytes: the largest submission taken.

    Raises:
        InvalidSubmission: it is empty, too large, malformed or unsafe, or does not apply; `cause` says which.
    """
    if kind is PatchKind.UNIFIED_DIFF:
        return apply_diff(tree, data, base=base, limit_bytes=limit_bytes)
    return apply_patch_set(tree, data, limit_bytes=limit_bytes)


def patch_paths(data: bytes, kind: PatchKind) -> tuple[str, ...]:
    """Every path that a submission names, in its order; `os.fsencode` gives their bytes.

    Raises:
        InvalidSubmission: it is empty, too large or malformed.
    """
    if kind is not PatchKind.UNIFIED_DIFF:
        return tuple(dict.fromkeys(patch.path for patch in read_patch_set(data)))
    paths = (path for file in parse_diff(data).files for path in (file.old_path, file.path) if path)
    return tuple(dict.fromkeys(os.fsdecode(path) for path in paths))


def patch_sha256(data: bytes, kind: PatchKind) -> str:
    """What identifies a submission: the digest of a diff's bytes, or of a patch set's content.

    Raises:
        InvalidSubmission: a patch set that is not JSON.
    """
    if kind is PatchKind.UNIFIED_DIFF:
        return hashlib.sha256(data).hexdigest()
    return patch_set_sha256(data)
