"""What keeps a suite, which is untrusted input, to its own folder: no link leads out of it, and its trees are plain."""

import os
from pathlib import Path
from typing import Final

from proctor.core.errors import InvalidData
from proctor.core.trees import MAX_DEPTH, FileKind, list_directory, on_disk

MAX_ENTRIES: Final = 1_000_000
MAX_TREE_BYTES: Final = 2_000_000_000


class UntrustedSuite(InvalidData):
    """A suite that reaches out of its folder, or holds what no suite may."""


def require_inside(folder: Path, path: Path) -> None:
    """See that a path is below a folder, whatever links are on its way.

    Raises:
        UntrustedSuite: it is not.
    """
    if not _is_inside(Path(os.path.realpath(path)), folder):
        raise UntrustedSuite("a link leads out of the suite", where=path, fix="put the file itself there")


def require_plain_tree(tree: Path) -> None:
    """See that a tree can be copied and read: plain files, directories, and links that stay in it.

    Raises:
        UntrustedSuite: it cannot.
    """
    root = Path(os.path.realpath(tree))
    entries = size = 0
    waiting = [b""]
    while waiting:
        directory = waiting.pop()
        if directory.count(b"/") >= MAX_DEPTH:
            raise UntrustedSuite(f"the tree is nested deeper than {MAX_DEPTH} levels", where=tree)
        try:
            children = list_directory(tree, directory)
        except OSError as error:
            raise UntrustedSuite(f"cannot be read: {error.strerror}", where=on_disk(tree, directory)) from error
        for child in children:
            place = on_disk(tree, child.path)
            if child.kind is FileKind.DIRECTORY:
                waiting.append(child.path)
            elif child.kind is FileKind.LINK:
                _require_link_inside(place, root)
            elif child.kind is FileKind.SPECIAL:
                raise UntrustedSuite("a suite holds plain files, folders and links only", where=place)
            else:
                size += place.lstat().st_size
        entries += len(children)
        if entries > MAX_ENTRIES or size > MAX_TREE_BYTES:
            most = f"{MAX_ENTRIES} files" if entries > MAX_ENTRIES else f"{MAX_TREE_BYTES // 10**9} GB"
            raise UntrustedSuite(f"the tree holds more than {most}", where=tree)


def _require_link_inside(link: Path, root: Path) -> None:
    # An absolute target leads out of every copy of the tree.
    target = os.readlink(link)  # noqa: PTH115 - as it is written
    if os.path.isabs(target) or not _is_inside(Path(os.path.realpath(link)), root):  # noqa: PTH117 - a text
        raise UntrustedSuite("a link leads out of its tree", where=link, fix="put the file itself there")


def _is_inside(path: Path, folder: Path) -> bool:
    return path.is_relative_to(os.path.realpath(folder))
