"""A plain directory as a starting tree: read without following links, and committed once."""

import hashlib
import stat
from pathlib import Path

from proctor.core.errors import InvalidData
from proctor.core.record import Record
from proctor.workspaces.base import BaseFacts
from proctor.workspaces.objects import commit_files
from proctor.workspaces.paths import link_leaves, shown
from proctor.workspaces.rules import why_left_out
from proctor.workspaces.trees import LINK, PROGRAM, Entry, Kind, children, on_disk, read_entry


class Survey(Record):
    """What a directory holds: the paths of its files and symlinks, what git would lose, and a digest of it all."""

    digest: str
    files: tuple[bytes, ...]
    modes: tuple[tuple[bytes, int], ...]
    empty: tuple[bytes, ...]
    outward_links: tuple[bytes, ...]


def survey(root: Path) -> Survey:
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
            inside = [child for child in children(root, directory) if why_left_out(root, child) is None]
            if not inside and directory:
                empty.append(directory)
                digest.update(b"empty %d %s\n" % (len(directory), directory))
            for child in inside:
                permissions = stat.S_IMODE(on_disk(root, child.path).lstat().st_mode) & 0o777
                if child.kind is Kind.DIRECTORY:
                    waiting.append(child.path)
                    usual = 0o755
                else:
                    entry = _read(root, child.path)
                    files.append(child.path)
                    if entry.mode == LINK and link_leaves(child.path, entry.data):
                        outward_links.append(child.path)
                    usual = {LINK: permissions, PROGRAM: 0o755}.get(entry.mode, 0o644)
                    digest.update(b"%o %d %d %s\n" % (entry.mode, len(child.path), len(entry.data), child.path))
                    digest.update(entry.data)
                if permissions != usual:
                    modes.append((child.path, permissions))
                    digest.update(b"mode %o %d %s\n" % (permissions, len(child.path), child.path))
        except OSError as error:
            raise InvalidData(f"cannot read it: {error.strerror}", where=on_disk(root, directory)) from error
    return Survey(
        digest=digest.hexdigest(),
        files=tuple(files),
        modes=tuple(modes),
        empty=tuple(empty),
        outward_links=tuple(outward_links),
    )


def commit_directory(root: Path, found: Survey, git_dir: Path) -> BaseFacts:
    """Fill the empty repository `git_dir` with one commit of the surveyed files."""
    commit = commit_files(git_dir, ((path, _read(root, path)) for path in found.files), lasting=True)
    packs = sorted(file.stem for file in (git_dir / "objects" / "pack").glob("*.pack"))
    return BaseFacts(
        commit=commit,
        history=tuple(packs),
        modes=found.modes,
        empty=found.empty,
        outward_links=found.outward_links,
    )


def _read(root: Path, path: bytes) -> Entry:
    entry = read_entry(root, path)
    if entry is None:
        raise InvalidData(f"{shown(path)} went away while it was read", where=root)
    return entry
