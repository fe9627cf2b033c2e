"""What installed packages register."""

import functools
import sys
from importlib.metadata import EntryPoints
from importlib.metadata import entry_points as read_entry_points
from pathlib import Path
from typing import Any


def entry_points(group: str, *, name: str | None = None) -> EntryPoints:
    """The entry points of a group, or those of one name in it.

    To read them takes a file for each package, so it is done once, and again only when the folders of packages change.
    """
    found = _read(tuple((place, _modified(place)) for place in sys.path))
    entries: EntryPoints = found.select(group=group) if name is None else found.select(group=group, name=name)
    return entries


@functools.lru_cache(maxsize=2)
def _read(_folders: tuple[tuple[str, int], ...]) -> Any:
    return read_entry_points()  # of another type in Python 3.11 than later


def _modified(place: str) -> int:
    try:
        return Path(place).stat().st_mtime_ns
    except OSError:
        return 0
