"""Which names a change may write, whatever their spelling, and how names are shown.

Paths are bytes here, as they are on disk and in git: a name need not be text.
"""

import re
import stat
from pathlib import Path
from typing import Final

from proctor.core.trees import type_at

_SEPARATORS: Final = re.compile(rb"[/\\]")
_DRIVE: Final = re.compile(rb"[A-Za-z]:[/\\]")
# Characters that HFS+ ignores when it compares names.
_IGNORABLE: Final = re.compile("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")
_GIT_NAME: Final = re.compile(rb"(\.git|git~[0-9]+)[ .]*(:.*)?", re.IGNORECASE | re.DOTALL)


def is_git_name(name: bytes) -> bool:
    """Whether some file system takes this name for ``.git``: other case, trailing dots, streams, short names."""
    visible = _IGNORABLE.sub("", name.decode("utf-8", "surrogateescape"))
    return _GIT_NAME.fullmatch(visible.encode("utf-8", "surrogateescape")) is not None


def unsafe_reason(path: bytes) -> str | None:
    """Why this path may not be written inside a workspace; None when it may.

    Backslashes separate names too, as far as safety goes: what is harmless here must be harmless elsewhere.
    """
    if not path:
        return "is empty"
    if b"\0" in path:
        return "holds a NUL byte"
    if path[:1] in {b"/", b"\\"} or _DRIVE.match(path):
        return "is absolute"
    names = _SEPARATORS.split(path)
    if b".." in names:
        return "leaves the workspace through .."
    if any(map(is_git_name, names)):
        return "leads into .git"
    return None


def link_escapes(path: bytes, target: bytes) -> bool:
    """Whether a symlink at `path` may lead out of the workspace.

    A target is taken to stay inside when it is relative, climbs no higher than the workspace from where the
    link is, and never climbs after it has named something: the thing named could be a link as well.
    """
    if target.startswith(b"/"):
        return True
    names = [name for name in target.split(b"/") if name not in {b"", b"."}]
    climbs = 0
    while climbs < len(names) and names[climbs] == b"..":
        climbs += 1
    return climbs > path.count(b"/") or b".." in names[climbs:]


def display_path(path: bytes) -> str:
    """A path for people and for JSON: what is not UTF-8 is written with a backslash."""
    return path.decode("utf-8", "backslashreplace")


def parents(path: bytes) -> list[bytes]:
    """The directories above a path, outermost first, without the root."""
    names = path.split(b"/")
    return [b"/".join(names[:depth]) for depth in range(1, len(names))]


def link_above(root: Path, path: bytes) -> bytes | None:
    """The outermost directory of `path` that is a symlink in this tree; None when there is none."""
    return next((above for above in parents(path) if type_at(root, above) == stat.S_IFLNK), None)
