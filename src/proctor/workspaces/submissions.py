"""Making a submission: the difference between our base and the tree that the agent left, as a unified diff.

Our git makes it from the files alone. The agent's `.git`, ignore rules, attributes and configuration have no say.
"""

import asyncio
import errno
import io
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from proctor.core.causes import Cause
from proctor.core.environment import Environment, get_tree
from proctor.core.errors import InfrastructureError
from proctor.core.evaluation import Prediction
from proctor.core.formatting import file_size
from proctor.core.record import Record
from proctor.core.submission import PatchKind
from proctor.core.trees import (
    EXECUTABLE,
    FILE,
    LINK,
    SUBMODULE,
    DirectoryEntry,
    FileEntry,
    FileKind,
    git_mode,
    is_directory,
    list_directory,
    on_disk,
    open_file,
    read_entry,
    write_entry,
)
from proctor.workspaces.base import BaseTree
from proctor.workspaces.exclusions import exclusion_reason
from proctor.workspaces.git import make_repository, run_git
from proctor.workspaces.invalid_submission import (
    CONTENT_PER_PATCH,
    LIMIT_BYTES,
    InvalidSubmission,
    check_size,
)
from proctor.workspaces.objects import GitTreeEntry, blob_id, commit_files, list_files, read_objects
from proctor.workspaces.paths import display_path, link_escapes, parents, unsafe_reason

MOST_ENTRIES: Final = 1_000_000
MAX_EXCLUDED: Final = 1000


class ExcludedFile(Record):
    """Something in the tree that is not in the submission, and why."""

    path: str
    reason: str


class WorkspacePatch(Record):
    """A submission made from a tree.

    Attributes:
        patch: a unified diff, binary-safe, without renames; empty when nothing was changed.
        touched: the paths in it; `os.fsencode` gives their bytes.
        left_out: new files and directories that the rules leave out. Of a directory only itself is listed.
    """

    patch: bytes
    touched: tuple[str, ...]
    excluded: tuple[ExcludedFile, ...]


async def collect_patch(
    task_id: str, environment: Environment, base: Callable[[], BaseTree], folder: Path
) -> Prediction:
    """What an agent has changed in the workspace of its environment, which is copied into `folder` for that."""
    left = folder / "left"
    await get_tree(environment, environment.workdir, left)
    made = await asyncio.to_thread(lambda: make_submission(base(), left))
    return Prediction(task_id=task_id, patch_kind=PatchKind.UNIFIED_DIFF, content=made.patch)


def make_submission(base: BaseTree, tree: Path, *, limit_bytes: int = LIMIT_BYTES) -> WorkspacePatch:
    """What was changed in `tree` since `base`.

    The same two trees give the same bytes, and the bytes applied to the base give the tree again, but for what
    is left out.

    Raises:
        InvalidSubmission: the change is too large.
        InfrastructureError: there is no tree.
    """
    if not is_directory(tree):
        raise InfrastructureError("the tree that the agent left is not there", where=tree)
    tracked = list_files(base.git_dir, base.commit)
    with tempfile.TemporaryDirectory(prefix="proctor-submission-") as directory:
        git_dir = Path(directory) / "git"
        make_repository(git_dir, commit=base.commit, objects=base.git_dir / "objects")
        rules = _IgnoreRules(git_dir, Path(directory) / "rules", tracked)
        found = _TreeComparison(tree, tracked, rules, content_limit=limit_bytes * CONTENT_PER_PATCH)
        found.run()
        patch = b""
        if found.changes:
            # Removals first: a file may give way to a directory of its name, or the other way round.
            changes = sorted(found.changes.items(), key=lambda change: (change[1] is not None, change[0]))
            patch = _diff(git_dir, base.commit, commit_files(git_dir, changes, parent=base.commit, durable=False))
    check_size(len(patch), limit_bytes, "the patch")
    return WorkspacePatch(
        patch=patch,
        touched=tuple(os.fsdecode(path) for path in sorted(found.changes)),
        excluded=found.excluded(),
    )


def _diff(git_dir: Path, before: str, after: str) -> bytes:
    form = ["--binary", "--full-index", "--no-renames", "--no-color", "--no-ext-diff", "--no-textconv"]
    exact = ["--unified=3", "--inter-hunk-context=0", "--diff-algorithm=myers", "--indent-heuristic"]
    prefixes = ["--src-prefix=a/", "--dst-prefix=b/"]
    return run_git(["diff-tree", "-r", "-p", *form, *exact, *prefixes, before, after], git_dir=git_dir).output


class _IgnoreRules:
    """The base's `.gitignore` files, asked about new paths. What the agent wrote into its own is not asked."""

    def __init__(self, git_dir: Path, directory: Path, tracked: Mapping[bytes, GitTreeEntry]) -> None:
        self.git_dir = git_dir
        self.directory = directory
        self.sources = {
            path: listed.id
            for path, listed in tracked.items()
            if path.rpartition(b"/")[2] == b".gitignore" and listed.mode in {FILE, EXECUTABLE}
        }

    def ignored(self, candidates: Sequence[DirectoryEntry]) -> set[bytes]:
        """Those of the candidates that the base ignores."""
        if not self.sources or not candidates:
            return set()
        if not self.directory.exists():
            self._write_rules()
        for child in candidates:
            if child.kind is FileKind.DIRECTORY:
                self._make_directory(child.path)
        result = run_git(
            ["check-ignore", "-z", "--stdin", "--no-index"],
            git_dir=self.git_dir,
            work_tree=self.directory,
            stdin=b"".join(b"./%s\0" % child.path for child in candidates),  # a name may start with git's magic ":"
            expected={0, 1},
        )
        return {path.removeprefix(b"./") for path in result.output.split(b"\0")}

    def _make_directory(self, path: bytes) -> None:
        """Some rules are for directories alone, so git must see one."""
        try:
            on_disk(self.directory, path).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            if error.errno != errno.ENAMETOOLONG:  # a path that is too long here is one that no rule is about
                raise

    def _write_rules(self) -> None:
        self.directory.mkdir()
        contents = {found.id: found.data for found in read_objects(self.git_dir, set(self.sources.values()))}
        for path, identity in self.sources.items():
            write_entry(self.directory, path, FileEntry(FILE, contents[identity]))


class _TreeComparison:
    """One walk through a tree, level by level, so that the ignore rules are asked once per level."""

    def __init__(
        self, tree: Path, tracked: Mapping[bytes, GitTreeEntry], rules: _IgnoreRules, *, content_limit: int
    ) -> None:
        self.tree = tree
        self.tracked = tracked
        self.rules = rules
        self.content_limit = content_limit
        self.changes: dict[bytes, FileEntry | None] = {}
        self._directories = {above for path in tracked for above in parents(path)}
        self._seen = {path for path, listed in tracked.items() if listed.mode == SUBMODULE}
        self._unread: list[bytes] = []
        self._excluded: list[ExcludedFile] = []
        self._entries = 0
        self._content = 0

    def run(self) -> None:
        level = [b""]
        while level:
            level = self._visit(level)
        for path in self.tracked.keys() - self._seen:
            if not path.startswith(tuple(self._unread)):
                self._change(path, None)

    def excluded(self) -> tuple[ExcludedFile, ...]:
        """What was left out; of very many, the first."""
        if len(self._excluded) <= MAX_EXCLUDED:
            return tuple(self._excluded)
        more = ExcludedFile(path="", reason=f"and {len(self._excluded) - MAX_EXCLUDED} more")
        return (*self._excluded[:MAX_EXCLUDED], more)

    def _visit(self, level: Sequence[bytes]) -> list[bytes]:
        new: list[DirectoryEntry] = []
        deeper: list[bytes] = []
        for directory in level:
            for child in self._children(directory):
                if child.kind is FileKind.DIRECTORY and child.path in self._directories:
                    deeper.append(child.path)
                elif child.path in self.tracked:
                    self._visit_tracked(child, self.tracked[child.path], new)
                elif child.path != b".git":
                    self._visit_new(child, new)
        ignored = self.rules.ignored(new)
        for child in new:
            if child.path in ignored:
                self._exclude(child.path, "ignored by the base's .gitignore")
            elif child.kind is FileKind.DIRECTORY:
                deeper.append(child.path)
            else:
                self._read(child)
        return deeper

    def _children(self, directory: bytes) -> list[DirectoryEntry]:
        try:
            found = list_directory(self.tree, directory)
        except OSError as error:
            self._exclude(directory, f"cannot be read: {error.strerror}")
            self._unread.append(directory + b"/" if directory else b"")
            return []
        self._entries += len(found)
        if self._entries > MOST_ENTRIES:
            raise InvalidSubmission(Cause.TOO_LARGE, f"the tree holds more than {MOST_ENTRIES} files and directories")
        return found

    def _visit_tracked(self, child: DirectoryEntry, listed: GitTreeEntry, new: list[DirectoryEntry]) -> None:
        if listed.mode == SUBMODULE:
            if child.kind is not FileKind.DIRECTORY or self._children(child.path):
                self._exclude(child.path, "in place of a submodule")
        elif child.kind in {FileKind.FILE, FileKind.LINK}:
            self._seen.add(child.path)
            self._read(child, listed)
        else:
            self._visit_new(child, new)

    def _visit_new(self, child: DirectoryEntry, new: list[DirectoryEntry]) -> None:
        if (reason := exclusion_reason(self.tree, child)) is not None:
            self._exclude(child.path, reason)
        else:
            new.append(child)

    def _read(self, child: DirectoryEntry, listed: GitTreeEntry | None = None) -> None:
        try:
            entry = self._read_link(child, listed) if child.kind is FileKind.LINK else self._read_file(child, listed)
        except OSError as error:
            self._exclude(child.path, f"cannot be read: {error.strerror}")
            return
        if entry is not None:
            self._change(child.path, entry)

    def _read_link(self, child: DirectoryEntry, listed: GitTreeEntry | None) -> FileEntry | None:
        entry = read_entry(self.tree, child.path)
        if entry is None or listed is None:
            return entry
        identity = blob_id(io.BytesIO(entry.data), len(entry.data), like=listed)
        return None if listed == GitTreeEntry(entry.mode, identity) else entry

    def _read_file(self, child: DirectoryEntry, listed: GitTreeEntry | None) -> FileEntry | None:
        """The file as it is now; None when it is as in the base, which is found without holding it in memory."""
        with os.fdopen(open_file(self.tree, child.path), "rb") as file:
            status = os.fstat(file.fileno())
            mode = git_mode(status)
            if listed is not None and listed == GitTreeEntry(mode, blob_id(file, status.st_size, like=listed)):
                return None
            self._check_size(child.path, status.st_size)
            file.seek(0)
            return FileEntry(mode, file.read())

    def _check_size(self, path: bytes, size: int) -> None:
        self._content += size
        if self._content > self.content_limit:
            what = f"the changed files hold more than {file_size(self.content_limit)}"
            raise InvalidSubmission(Cause.TOO_LARGE, what, where=display_path(path))

    def _change(self, path: bytes, entry: FileEntry | None) -> None:
        if (reason := unsafe_reason(path)) is not None:
            self._exclude(path, f"the name {reason}")
        elif entry is not None and entry.mode == LINK and link_escapes(path, entry.data):
            self._exclude(path, "a symlink that may lead out of the workspace")
        else:
            self.changes[path] = entry

    def _exclude(self, path: bytes, reason: str) -> None:
        self._excluded.append(ExcludedFile(path=display_path(path), reason=reason))
