"""Benchmarks that packages register, and what others have published of them. A report needs no more of this room."""

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from proctor.core.benchmark import BenchmarkSource
    from proctor.core.published_result import PublishedResult

GROUP: Final = "proctor.benchmarks"


def registered_source(name: str) -> "BenchmarkSource | None":
    """The benchmark of this name that a package registers."""
    if not _is_declared(name):
        return None
    from importlib.metadata import entry_points  # noqa: PLC0415 - a tenth of what a report holds, if it were needed

    for entry in entry_points(group=GROUP, name=name):
        source: BenchmarkSource = entry.load()
        return source
    return None


def published_rows(name: str) -> "tuple[PublishedResult, ...]":
    """What others have published of a benchmark; nothing for a suite."""
    source = registered_source(name)
    return tuple(source.published()) if source else ()


def _is_declared(name: str) -> bool:
    """Whether an installed package names anything so, and it is worth asking what."""
    line = re.compile(rf"^\s*{re.escape(name)}\s*=", re.MULTILINE)
    for place in map(Path, sys.path):
        if place.is_file():
            return True  # an archive, which others know how to read
        for file in (*place.glob("*-info/entry_points.txt"), *place.glob("EGG-INFO/entry_points.txt")):
            if line.search(file.read_text(encoding="utf-8", errors="replace")):
                return True
    return False
