"""Which module proposes the alterations of a test file, by the file's language."""

from collections.abc import Callable, Sequence
from pathlib import PurePosixPath
from typing import Final

from proctor.grading.controls import python_tests
from proctor.grading.controls.alteration import Alteration

Finder = Callable[[str, bytes, Sequence[str]], dict[str, tuple[Alteration, ...]]]

FINDERS: Final[dict[str, Finder]] = {".py": python_tests.find_alterations}


def find_alterations(path: str, source: bytes, tests: Sequence[str]) -> dict[str, tuple[Alteration, ...]]:
    """Alterations of those of the tests that this file defines, by test id, the least conspicuous first.

    A file that cannot be parsed, or is in no known language, has none.
    """
    finder = FINDERS.get(PurePosixPath(path).suffix)
    return finder(path, source, tests) if finder is not None else {}


def has_finder(path: str, source: bytes) -> bool:
    """Whether the tests of such a file can be altered."""
    del source
    return PurePosixPath(path).suffix in FINDERS
