"""What belongs to a workspace's code and what does not: traces of tools, things that are not files, git's own.

The same rules hold for a directory taken as a starting tree and for the tree that an agent leaves behind.
"""

import stat
from pathlib import Path
from typing import Final

from proctor.workspaces.paths import is_git_name, why_unsafe
from proctor.workspaces.trees import Child, Kind, type_at

# Caches and build leftovers that running the code leaves behind, in repositories that forgot to ignore them.
_LITTER_DIRECTORIES: Final = frozenset(
    {
        b"__pycache__",
        b".pytest_cache",
        b".mypy_cache",
        b".ruff_cache",
        b".hypothesis",
        b".tox",
        b".nox",
    }
)
_LITTER_SUFFIXES: Final = (b".pyc", b".pyo")
# Directories that an installer filled, known by the file that it signs them with.
_INSTALLED: Final = (b"/pyvenv.cfg", b"/conda-meta/history")
_INSTALLED_NODE_MODULES: Final = (b"/.package-lock.json", b"/.yarn-integrity", b"/.modules.yaml")


def why_left_out(root: Path, child: Child) -> str | None:
    """Why this new file or directory is not part of the code; None when it is."""
    if is_git_name(child.name):
        return "git's own"
    if child.kind is Kind.SPECIAL:
        return "neither file, directory nor symlink"
    if child.kind is Kind.DIRECTORY:
        return _why_directory_left_out(root, child)
    if (reason := why_unsafe(child.path)) is not None:
        return f"the name {reason}"
    if child.name.endswith(_LITTER_SUFFIXES):
        return "build litter"
    return None


def _why_directory_left_out(root: Path, child: Child) -> str | None:
    if child.name in _LITTER_DIRECTORIES or child.name.endswith(b".egg-info"):
        return "build litter"
    markers = _INSTALLED_NODE_MODULES if child.name == b"node_modules" else _INSTALLED
    if any(type_at(root, child.path + marker) == stat.S_IFREG for marker in markers):
        return "installed packages"
    return None
