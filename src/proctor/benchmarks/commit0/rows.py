"""The data set's rows, and which of them make up its parts."""

import bz2
import re
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Final

import msgspec

from proctor.core.errors import InvalidData
from proctor.core.record import Record

LITE: Final = frozenset(
    {
        *("babel", "cachetools", "chardet", "cookiecutter", "deprecated", "imapclient", "jinja", "marshmallow"),
        *("minitorch", "parsel", "portalocker", "pyjwt", "simpy", "tinydb", "voluptuous", "wcwidth"),
    }
)
_COMMIT: Final = re.compile(r"[0-9a-f]{40}")


class Commit0Setup(Record):
    """How the library is installed, in the order of the fields.

    Attributes:
        pre_install: shell commands; most are for Debian's package manager.
        packages: requirements files of the repository.
        install: a ``pip install`` of the library itself.
    """

    python: str
    specification: str = ""
    pre_install: list[str] | None = None
    packages: list[str] | str | None = None
    pip_packages: list[str] | None = None
    install: str | None = None

    def requirement_files(self) -> list[str]:
        """Some rows have one name in the place of a list."""
        return [self.packages] if isinstance(self.packages, str) else list(self.packages or ())


class Commit0Tests(Record):
    """How its tests are run."""

    __test__ = False

    test_cmd: str
    test_dir: str


class Commit0Row(Record):
    """One library.

    Attributes:
        base_commit: the stubs.
        reference_commit: what they were made from; may name an annotated tag instead of a commit.
        src_dir: the package that was stubbed.
    """

    instance_id: str
    repo: str
    setup: Commit0Setup
    test: Commit0Tests
    src_dir: str
    original_repo: str = ""
    base_commit: str = ""
    reference_commit: str = ""

    @property
    def name(self) -> str:
        """The repository's name, without its owner."""
        return self.repo.rpartition("/")[2]

    @property
    def package(self) -> str:
        """The name that the library is imported by; of a folder of packages (``src/``), nothing is known."""
        return "" if self.src_dir.strip("/") == "src" else PurePosixPath(self.src_dir).name

    @property
    def is_lite(self) -> bool:
        """Whether it is in the split `lite`."""
        return self.name in LITE

    @property
    def ids_file(self) -> str:
        """The file that lists its tests."""
        return f"{self.name.lower().replace('.', '-')}.bz2"

    def problems(self) -> list[str]:
        """Why it cannot be used."""
        return [f"the row has no {name}" for name in ("base_commit",) if not _COMMIT.fullmatch(getattr(self, name))]


def read_row(raw: Mapping[str, Any], where: object) -> Commit0Row:
    """One row.

    Raises:
        InvalidData: it is not one of this data set's.
    """
    # Columns that other data sets of the same shape need are empty here.
    known = {name: value for name, value in raw.items() if value is not None}
    try:
        return msgspec.convert(known, Commit0Row)
    except msgspec.ValidationError as error:
        raise InvalidData(f"not a row of Commit0: {error}", where=where) from error


def in_split(rows: Iterable[Commit0Row], split: str) -> list[Commit0Row]:
    """The rows of a part, in the order of their ids."""
    chosen = (row for row in rows if split == "all" or row.is_lite)
    return sorted(chosen, key=lambda row: row.instance_id)


def read_test_ids(file: Path) -> tuple[str, ...] | None:
    """The tests of a library; None when they are not there.

    Raises:
        InvalidData: the file is broken.
    """
    if not file.is_file():
        return None
    try:
        text = bz2.decompress(file.read_bytes()).decode()
    except (OSError, ValueError) as error:
        raise InvalidData(f"this is not a list of tests: {error}", where=file) from error
    return tuple(dict.fromkeys(line for line in text.split("\n") if line))
