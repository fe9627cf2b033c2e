"""Copies of a library that this machine happens to have, where a local environment would show them."""

import sys
import sysconfig
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from proctor.benchmarks.commit0.rows import Commit0Row
from proctor.benchmarks.python_envs import Interpreter

_ROOTS: Final = ("/usr/lib", "/usr/local/lib")
_SITES: Final = ("site-packages", "dist-packages")
# A library is thousands of lines, and any Python file has some of them by chance. Short ones say nothing; a copy of a
# module has a good part of the others.
_MIN_LINE_LENGTH: Final = 20
_MIN_SHARED_LINES: Final = 10
_MIN_SHARE_DIVISOR: Final = 5


def installed_copy_paths(row: Commit0Row, python: Interpreter) -> tuple[str, ...]:
    """Everything installed on this machine that holds the library, or a package manager's copies of others'.

    Environments show the system's packages, and the Python that they run on.
    """
    names = {name.lower() for name in (row.package, row.name, row.name.replace("-", "_")) if name}
    return tuple(str(place) for site in sorted(_site_dirs(python)) for place in _installed_copies(site, names))


def _site_dirs(python: Interpreter) -> set[Path]:
    roots = [Path(root) for root in _ROOTS] + [Path(python.prefix, "lib"), Path(sys.base_prefix) / "lib"]
    found = {Path(sysconfig.get_path("stdlib"))}
    for root in roots:
        for folder in root.glob("python3*"):
            found.add(folder)
            found.update(folder / site for site in _SITES)
    return {folder.resolve() for folder in found if folder.is_dir()}


def _installed_copies(site: Path, names: set[str]) -> Iterator[Path]:
    for entry in site.iterdir():
        stem = entry.name.lower()
        if entry.name == "ensurepip" or (entry.name == "pip" and entry.is_dir()):
            yield entry  # both carry whole copies of libraries, requests among them
        elif site.name in _SITES and (stem.removesuffix(".py") in names or stem.partition("-")[0] in names):
            yield entry


def signature_lines(row: Commit0Row, base: Path, oracle: Path) -> dict[str, frozenset[bytes]]:
    """Of each module of the oracle, the lines that the stubs do not have."""
    found = {}
    for file in sorted((oracle / row.src_dir).rglob("*.py")):
        name = file.relative_to(oracle).as_posix()
        stub = base / name
        lines = _significant_lines(file.read_bytes()) - (
            _significant_lines(stub.read_bytes()) if stub.is_file() else frozenset()
        )
        if len(lines) >= _MIN_SHARED_LINES:
            found[name] = lines
    return found


def find_copies(root: Path, signature: Mapping[str, frozenset[bytes]]) -> Iterator[str]:
    """The files below a folder, or in its archives, that hold a good part of a module."""
    for where, content in _python_files(root):
        lines = _significant_lines(content)
        for name, wanted in signature.items():
            shared = len(wanted & lines)
            if shared >= max(_MIN_SHARED_LINES, len(wanted) // _MIN_SHARE_DIVISOR):
                yield f"{where}: {shared} lines of {name}"


def _python_files(root: Path) -> Iterator[tuple[str, bytes]]:
    for file in sorted(root.rglob("*")):
        if file.suffix == ".py" and file.is_file():
            yield str(file), file.read_bytes()
        elif file.suffix in {".whl", ".zip", ".egg"} and zipfile.is_zipfile(file):
            with zipfile.ZipFile(file) as archive:
                for name in archive.namelist():
                    if name.endswith(".py"):
                        yield f"{file}!{name}", archive.read(name)


def _significant_lines(content: bytes) -> frozenset[bytes]:
    return frozenset(line for raw in content.splitlines() if len(line := raw.strip()) >= _MIN_LINE_LENGTH)
