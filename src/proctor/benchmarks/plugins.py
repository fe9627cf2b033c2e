"""Benchmarks that packages register, and their published results. Reports import no more than this."""

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from proctor.core.benchmark import BenchmarkSource
    from proctor.core.published_result import PublishedResult

GROUP: Final = "proctor.benchmarks"


def registered_source(name: str) -> "BenchmarkSource | None":
    """The benchmark of this name that a package registers."""
    if not _is_declared(name):
        return None
    from proctor.core.plugins import entry_points

    for entry in entry_points(GROUP, name=name):
        return source_of(entry)
    return None


def source_of(entry: "EntryPoint") -> "BenchmarkSource":
    """What an entry point registers: a source, or a benchmark that needs no data.

    Raises:
        UsageError: it cannot be loaded, or is neither.
    """
    from proctor.core.benchmark import Benchmark, BenchmarkSource, PackagedSource
    from proctor.core.errors import UsageError, plugin_error

    try:
        found = entry.load()
    except Exception as error:
        raise UsageError(
            f"the benchmark {entry.name!r} cannot be loaded: {plugin_error(error)}", where=entry.value
        ) from error
    if isinstance(found, BenchmarkSource):
        return found
    if isinstance(found, type) and issubclass(found, Benchmark):
        return PackagedSource(found)
    fix = "name a subclass of proctor.Benchmark, or an object of a subclass of proctor.BenchmarkSource"
    raise UsageError(f"{entry.name!r} registers no benchmark", where=entry.value, fix=fix)


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
