"""Applying unified diffs: checked first, applied by git to copies of the files it names, then written as a whole.

Git never sees the workspace. It works on copies in a directory of their own, so that an enclosing repository
cannot swallow the patch, no attribute of the tree changes a byte, and a failure leaves nothing behind.
"""

import os
import signal
import stat
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, Literal, NamedTuple

from proctor.core.causes import Cause
from proctor.core.record import Record
from proctor.core.trees import LINK, FileEntry, read_entry, read_tree, type_at, write_entry
from proctor.workspaces.base import BaseTree
from proctor.workspaces.changes import write_changes
from proctor.workspaces.diff_parser import FileDiff, check_paths, read_diff
from proctor.workspaces.git import GitResult, make_repository, run_git
from proctor.workspaces.invalid_submission import CONTENT_PER_PATCH, LIMIT_BYTES, InvalidSubmission, check_size
from proctor.workspaces.paths import display_path, link_above, link_escapes, parents

Fallback = Literal["whitespace", "3way"]
_DOES_NOT_APPLY: Final = 1
_REPLACEABLE: Final = {None, stat.S_IFREG, stat.S_IFLNK, stat.S_IFDIR}
# Some broken patches run git into its own assertions. Any other death is not the patch's doing.
_EXPECTED_CODES: Final = {*range(256), -signal.SIGABRT, -signal.SIGSEGV}


class ApplyResult(Record):
    """How a submission was applied.

    Attributes:
        applied_with: the fallback that was needed; None when it applied strictly.
        touched: the paths that changed; `os.fsencode` gives their bytes.
    """

    applied_with: Fallback | None
    touched: tuple[str, ...]


class _ApplyStrategy(NamedTuple):
    """One way to apply a patch; the patch may come in pieces, to be applied one after the other."""

    label: Fallback | None
    pieces: tuple[bytes, ...]
    options: tuple[str, ...] = ()


def apply_diff(
    tree: Path, patch: bytes, *, base: BaseTree | None = None, limit_bytes: int = LIMIT_BYTES
) -> ApplyResult:
    """Apply a unified diff to a tree, wholly or not at all.

    Strictly first. Then line ends and other white space in the context may differ. Then, when `base` is given, a
    three-way merge with the blobs that the diff's `index` lines name. Never with fuzz, never in part.

    Raises:
        InvalidSubmission: it is empty, too large, malformed or unsafe, or does not apply.
    """
    if not patch.strip():
        raise InvalidSubmission(Cause.EMPTY, "the patch is empty")
    check_size(len(patch), limit_bytes, "the patch")
    files = read_diff(patch, content_limit=limit_bytes * CONTENT_PER_PATCH)
    check_paths(files)
    before = _files_before(tree, files)
    with tempfile.TemporaryDirectory(prefix="proctor-apply-") as directory:
        strategy, after = _apply_first_matching(Path(directory), _pieces(patch, files, before), before, base)
    changes = {path: after.get(path) for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    _check_changes(changes, before)
    write_changes(tree, changes)
    return ApplyResult(applied_with=strategy.label, touched=tuple(os.fsdecode(path) for path in sorted(changes)))


def _files_before(tree: Path, files: list[FileDiff]) -> dict[bytes, FileEntry | None]:
    """The files that the diff names, as they are in the tree now; None where there is none."""
    removed = {path for file in files for path in file.removed}
    before = {}
    for path in sorted(removed.union(*(file.written for file in files))):
        if (link := link_above(tree, path)) is not None and (link not in removed or path in removed):
            what = f"the path leads through the symlink {display_path(link)}"
            raise InvalidSubmission(Cause.UNSAFE_SUBMISSION, what, where=display_path(path))
        if link is None and type_at(tree, path) not in _REPLACEABLE:
            raise InvalidSubmission(
                Cause.DOES_NOT_APPLY, "neither a file nor a symlink is there", where=display_path(path)
            )
        before[path] = None if link is not None else read_entry(tree, path)
    return before


def _pieces(patch: bytes, files: list[FileDiff], before: Mapping[bytes, FileEntry | None]) -> tuple[bytes, ...]:
    """The patch in the order in which git can apply it.

    In one go it cannot put a directory where a symlink was: it looks for the new files behind the link.
    """
    whole = patch if patch.endswith(b"\n") else patch + b"\n"  # git takes a missing last line end for a torn patch
    above = {parent for file in files for path in file.written for parent in parents(path)}
    in_the_way = {path for path, entry in before.items() if entry and entry.mode == LINK} & above
    first = [file.lines for file in files if file.removed & in_the_way and not file.written]
    if not first:
        return (whole,)
    taken = {number for part in first for number in range(part.start, part.stop)}
    lines = list(enumerate(whole[:-1].split(b"\n")))
    return tuple(b"".join(line + b"\n" for number, line in lines if (number in taken) is now) for now in (True, False))


def _apply_first_matching(
    scratch: Path, pieces: tuple[bytes, ...], before: Mapping[bytes, FileEntry | None], base: BaseTree | None
) -> tuple[_ApplyStrategy, dict[bytes, FileEntry]]:
    refusals: list[GitResult] = []
    for number, strategy in enumerate(_strategies(pieces, merge=base is not None)):
        stage = scratch / str(number)
        result = _try_strategy(strategy, stage, before, base)
        if result.code == 0:
            return strategy, read_tree(stage / "tree")
        refusals.append(result)
    what = f"the patch does not apply: {refusals[0].error_message}"
    if all(refusal.code != _DOES_NOT_APPLY for refusal in refusals):
        raise InvalidSubmission(Cause.MALFORMED_SUBMISSION, what)
    raise InvalidSubmission(Cause.DOES_NOT_APPLY, what)


def _strategies(pieces: tuple[bytes, ...], *, merge: bool) -> Iterator[_ApplyStrategy]:
    """Strict, then the fallbacks in the order in which they are tried."""
    yield _ApplyStrategy(None, pieces)
    if any(b"\r\n" in piece for piece in pieces):
        yield _ApplyStrategy("whitespace", tuple(piece.replace(b"\r\n", b"\n") for piece in pieces))
    yield _ApplyStrategy("whitespace", pieces, ("--ignore-whitespace",))
    if merge:
        yield _ApplyStrategy("3way", pieces, ("--3way",))


def _try_strategy(
    strategy: _ApplyStrategy, stage: Path, before: Mapping[bytes, FileEntry | None], base: BaseTree | None
) -> GitResult:
    tree, git_dir = stage / "tree", stage / "git"
    tree.mkdir(parents=True)
    present = {path: entry for path, entry in before.items() if entry is not None}
    for path, entry in present.items():
        write_entry(tree, path, entry)
    steps = [(["apply", "--whitespace=nowarn", *strategy.options, "-"], piece) for piece in strategy.pieces]
    merging = base is not None and strategy.label == "3way"
    objects = base.git_dir / "objects" if base and merging else None
    make_repository(git_dir, commit=base.commit if base else "", objects=objects, bare=False)
    if merging:
        names = b"".join(path + b"\0" for path in present)
        steps = [(["update-index", "--add", "-z", "--stdin"], names), *steps]
    for arguments, given in steps:
        result = run_git(arguments, git_dir=git_dir, work_tree=tree, stdin=given, expected=_EXPECTED_CODES)
        if result.code != 0:
            break
    return result


def _check_changes(changes: Mapping[bytes, FileEntry | None], before: Mapping[bytes, FileEntry | None]) -> None:
    for path, entry in changes.items():
        if path not in before:
            what = "git reads another path out of the patch than is written there"
            raise InvalidSubmission(Cause.MALFORMED_SUBMISSION, what, where=display_path(path))
        if entry is not None and entry.mode == LINK and link_escapes(path, entry.data):
            what = f"the patch makes a symlink to {display_path(entry.data)}, which leads out of the workspace"
            raise InvalidSubmission(Cause.UNSAFE_SUBMISSION, what, where=display_path(path))
