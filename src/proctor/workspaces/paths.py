"""Which names a change may write, whatever their spelling, and how names are shown.

Paths are bytes here, as they are on disk and in git: a name need not be text.
"""

import re
import stat
from pathlib import Path
from typing import Final

from proctor.core.trees import MAX_DEPTH, type_at

MAX_PATH_BYTES: Final = 3000
"""So that it can be written below any folder of ours: a system takes 4096."""
MAX_NAME_BYTES: Final = 255
_SHOWN: Final = 300
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
    if len(path) > MAX_PATH_BYTES:
        return f"is longer than {MAX_PATH_BYTES} bytes"
    if b"\0" in path:
        return "holds a NUL byte"
    if path[:1] in {b"/", b"\\"} or _DRIVE.match(path):
        return "is absolute"
    names = _SEPARATORS.split(path)
    if len(names) > MAX_DEPTH:
        return f"is nested deeper than {MAX_DEPTH} levels"
    if max(map(len, names)) > MAX_NAME_BYTES:
        return f"has a name of more than {MAX_NAME_BYTES} bytes"
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
    """A path for people and for JSON: what is not UTF-8 is written with a backslash, and a page of it is cut."""
    text = path.decode("utf-8", "backslashreplace")
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def parents(path: bytes) -> list[bytes]:
    """The directories above a path, outermost first, without the root."""
    names = path.split(b"/")
    return [b"/".join(names[:depth]) for depth in range(1, len(names))]


def link_above(root: Path, path: bytes) -> bytes | None:
    """The outermost directory of `path` that is a symlink in this tree; None when there is none."""
    return next((above for above in parents(path) if type_at(root, above) == stat.S_IFLNK), None)
