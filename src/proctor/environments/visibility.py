"""What of the host a local environment shows, and what it hides.

An environment starts empty. It is shown the system's directories and nothing else, so that a home, a cache, a project
or a key is out of sight wherever the user has put it. What is secret inside those directories is covered.
"""

import functools
import os
import pwd
import stat
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from proctor.core.environment import Mount
from proctor.core.errors import UsageError
from proctor.core.files import cache_root

SYSTEM_DIRS: Final = tuple(
    map(Path, ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix/store"))
)
PATH: Final = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
# Where somebody may keep a directory to himself; to look through all of /usr would take too long.
_SHALLOW_DIRS: Final = ("/opt", "/usr/local")
_OPEN_FILE: Final = 0o004
_OPEN_DIRECTORY: Final = 0o005
_PACKAGE: Final = Path(__file__).resolve().parents[1]


def system_mounts() -> tuple[list[Mount], list[tuple[str, str]]]:
    """The system's directories, and the symlinks among them as (text, path)."""
    mounts, links = [], []
    for path in SYSTEM_DIRS:
        if path.is_symlink():
            links.append((str(path.readlink()), str(path)))
        elif path.is_dir():
            mounts.append(Mount(source=str(path), target=str(path)))
    return mounts, links


@functools.cache
def interpreter() -> tuple[Path, tuple[Mount, ...]]:
    """The Python that runs the environment's first process, and what must be shown for it to run.

    A Python under a hidden directory (pyenv, uv, conda) is shown at its own path, so that virtual environments
    made from it work when they are mounted too.
    """
    executable = Path(getattr(sys, "_base_executable", None) or sys.executable).resolve()
    if is_visible(executable):
        return executable, ()
    shown: list[Path] = []
    for place in (Path(sys.base_prefix).resolve(), Path(sys.base_exec_prefix).resolve(), executable):
        if not is_visible(place) and not any(place.is_relative_to(other) for other in shown):
            shown.append(place)
    return executable, tuple(Mount(source=str(place), target=str(place)) for place in shown)


@functools.lru_cache
def is_visible(path: Path) -> bool:
    """Whether a path, symlinks resolved, lies in a system directory."""
    return any(path.is_relative_to(directory) for directory in SYSTEM_DIRS)


def hidden_paths(requested: Iterable[str]) -> tuple[Path, ...]:
    """All paths that must not be seen: those of the spec, and those hidden in every environment.

    Raises:
        UsageError: a path to hide holds a directory that every environment needs.
    """
    return (*_always_hidden(Path.home(), cache_root(), Path.cwd()), *private_paths(), *_validated(tuple(requested)))


@functools.cache
def _validated(requested: tuple[str, ...]) -> tuple[Path, ...]:
    real = tuple(Path(path).resolve() for path in requested)
    for path in real:
        if _contains_system(path):
            raise UsageError(
                f"an environment cannot hide {path}", fix="hide directories inside the system's, not those"
            )
    return real


def masked_paths(mount: Mount, to_hide: Iterable[Path]) -> Iterator[tuple[str, bool]]:
    """The paths inside an environment that must be covered under a mount, and whether they are directories.

    A mount of something inside a hidden directory was asked for, and shows it.
    """
    source = Path(mount.source).resolve()
    for path in to_hide:
        if path != source and path.is_relative_to(source) and path.exists():
            yield str(Path(mount.target) / path.relative_to(source)), path.is_dir()


@functools.cache
def private_paths() -> tuple[Path, ...]:
    """What in the system's directories we may read and not everybody: /etc/shadow, host keys, and the like.

    An environment has the rights on files of the user who runs Proctor.
    """
    return (
        *_private_entries("/etc", deep=True),
        *(path for place in _SHALLOW_DIRS for path in _private_entries(place, deep=False)),
    )


@functools.cache
def _always_hidden(home: Path, cache: Path, current: Path) -> tuple[Path, ...]:
    """Homes, caches, results, and Proctor's own package, which carries oracles."""
    own = Path(pwd.getpwuid(os.getuid()).pw_dir)
    places = (home, own, cache, own / ".cache" / "proctor", current / "results", _PACKAGE)
    # A home of "/", as daemons have, hides nothing: what matters of it is out of sight already.
    return tuple(place.resolve() for place in places if not _contains_system(place.resolve()))


def _private_entries(directory: str, *, deep: bool) -> Iterator[Path]:
    try:
        entries = list(os.scandir(directory))
    except OSError:
        return
    for entry in entries:
        mode = entry.stat(follow_symlinks=False).st_mode
        if stat.S_ISLNK(mode):
            continue
        is_directory = stat.S_ISDIR(mode)
        needed = _OPEN_DIRECTORY if is_directory else _OPEN_FILE
        if mode & needed != needed:
            if os.access(entry.path, os.R_OK | os.X_OK if is_directory else os.R_OK):
                yield Path(entry.path)
        elif deep and is_directory:
            yield from _private_entries(entry.path, deep=True)


def _contains_system(path: Path) -> bool:
    return any(directory.is_relative_to(path) for directory in _real_system_dirs())


@functools.cache
def _real_system_dirs() -> tuple[Path, ...]:
    return tuple(directory.resolve() for directory in SYSTEM_DIRS if directory.is_dir())
