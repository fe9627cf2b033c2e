"""A plain directory as a starting tree: read without following links, and committed once."""

import hashlib
import stat
from pathlib import Path

from proctor.core.errors import InvalidData
from proctor.core.record import Record
from proctor.core.trees import EXECUTABLE, LINK, FileEntry, FileKind, list_directory, on_disk, read_entry
from proctor.workspaces.base import BaseTreeInfo
from proctor.workspaces.exclusions import exclusion_reason
from proctor.workspaces.objects import commit_files
from proctor.workspaces.paths import display_path, link_escapes


class DirectorySnapshot(Record):
    """What a directory holds: the paths of its files and symlinks, what git would lose, and a digest of it all."""

    digest: str
    files: tuple[bytes, ...]
    modes: tuple[tuple[bytes, int], ...]
    empty: tuple[bytes, ...]
    outward_links: tuple[bytes, ...]


def snapshot_directory(root: Path) -> DirectorySnapshot:
    """Read a directory through. What `rules` leaves out of submissions is left out here too.

    Raises:
        InvalidData: something in it cannot be read.
    """
    digest = hashlib.sha256()
    files, modes, empty, outward_links = [], [], [], []
    waiting = [b""]
    while waiting:
        directory = waiting.pop()
        try:
            inside = [child for child in list_directory(root, directory) if exclusion_reason(root, child) is None]
            if not inside and directory:
                empty.append(directory)
                digest.update(b"empty %d %s\n" % (len(directory), directory))
            for child in inside:
                permissions = stat.S_IMODE(on_disk(root, child.path).lstat().st_mode) & 0o777
                if child.kind is FileKind.DIRECTORY:
                    waiting.append(child.path)
                    usual = 0o755
                else:
                    entry = _read(root, child.path)
                    files.append(child.path)
                    if entry.mode == LINK and link_escapes(child.path, entry.data):
                        outward_links.append(child.path)
                    usual = {LINK: permissions, EXECUTABLE: 0o755}.get(entry.mode, 0o644)
                    digest.update(b"%o %d %d %s\n" % (entry.mode, len(child.path), len(entry.data), child.path))
                    digest.update(entry.data)
                if permissions != usual:
                    modes.append((child.path, permissions))
                    digest.update(b"mode %o %d %s\n" % (permissions, len(child.path), child.path))
        except OSError as error:
            raise InvalidData(f"cannot read it: {error.strerror}", where=on_disk(root, directory)) from error
    return DirectorySnapshot(
        digest=digest.hexdigest(),
        files=tuple(files),
        modes=tuple(modes),
        empty=tuple(empty),
        outward_links=tuple(outward_links),
    )


def commit_directory(root: Path, snapshot: DirectorySnapshot, git_dir: Path) -> BaseTreeInfo:
    """Fill the empty repository `git_dir` with one commit of the surveyed files."""
    commit = commit_files(git_dir, ((path, _read(root, path)) for path in snapshot.files), durable=True)
    packs = sorted(file.stem for file in (git_dir / "objects" / "pack").glob("*.pack"))
    return BaseTreeInfo(
        commit=commit,
        history=tuple(packs),
        modes=snapshot.modes,
        empty=snapshot.empty,
        outward_links=snapshot.outward_links,
    )


def _read(root: Path, path: bytes) -> FileEntry:
    entry = read_entry(root, path)
    if entry is None:
        raise InvalidData(f"{display_path(path)} went away while it was read", where=root)
    return entry
