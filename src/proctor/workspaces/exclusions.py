"""What belongs to a workspace's code and what does not: traces of tools, things that are not files, git's own.

The same rules hold for a directory taken as a starting tree and for the tree that an agent leaves behind.
"""

import stat
from pathlib import Path
from typing import Final

from proctor.core.trees import DirectoryEntry, FileKind, type_at
from proctor.workspaces.paths import is_git_name, unsafe_reason

# Caches and build leftovers that running the code leaves behind, in repositories that forgot to ignore them.
_BUILD_ARTIFACT_DIRECTORIES: Final = frozenset(
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
_BUILD_ARTIFACT_SUFFIXES: Final = (b".pyc", b".pyo")
# Directories that an installer filled, known by the file that it signs them with.
_INSTALLED: Final = (b"/pyvenv.cfg", b"/conda-meta/history")
_INSTALLED_NODE_MODULES: Final = (b"/.package-lock.json", b"/.yarn-integrity", b"/.modules.yaml")


def exclusion_reason(root: Path, child: DirectoryEntry) -> str | None:
    """Why this new file or directory is not part of the code; None when it is."""
    if is_git_name(child.name):
        return "git metadata"
    if child.kind is FileKind.SPECIAL:
        return "neither file, directory nor symlink"
    if child.kind is FileKind.DIRECTORY:
        return _directory_exclusion_reason(root, child)
    if (reason := unsafe_reason(child.path)) is not None:
        return f"the name {reason}"
    if child.name.endswith(_BUILD_ARTIFACT_SUFFIXES):
        return "build artifact"
    return None


def _directory_exclusion_reason(root: Path, child: DirectoryEntry) -> str | None:
    if child.name in _BUILD_ARTIFACT_DIRECTORIES or child.name.endswith(b".egg-info"):
        return "build artifact"
    markers = _INSTALLED_NODE_MODULES if child.name == b"node_modules" else _INSTALLED
    if any(type_at(root, child.path + marker) == stat.S_IFREG for marker in markers):
        return "installed packages"
    return None
