"""Which paths are protected, by patterns. Imports nothing else of Proctor: exported tasks carry this file.

Patterns are those of ``.gitignore``: ``conftest.py`` matches at any depth, ``/setup.py`` only at the top, ``tests/``
a directory and all below it, ``**`` any number of directories; a later ``!pattern`` excludes paths again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Final

TEST_MACHINERY: Final = (
    "conftest.py",
    "pytest.ini",
    ".pytest.ini",
    "pytest.toml",
    ".pytest.toml",
    "sitecustomize.py",
    "sitecustomize/",
    "usercustomize.py",
    "usercustomize/",
    "*.pth",
    "__pycache__/",
    "*.pyc",
    "/pytest.py",
    "/pytest/",
    "/_pytest/",
    "/unittest.py",
    "/unittest/",
)
"""What decides test outcomes in Python without being a test. `pyproject.toml`, `setup.cfg` and `tox.ini` are not
here, since honest work changes them too: our reporter does not read them (see `pytest_config`)."""


def is_protected(path: str, patterns: Sequence[str]) -> bool:
    """Whether the last pattern that matches this path, or a directory above it, protects it."""
    parts = [part for part in path.split("/") if part not in {"", "."}]
    for pattern in reversed(patterns):
        segments, only_directories = _parse_pattern(pattern)
        deepest = len(parts) - 1 if only_directories else len(parts)
        if segments and any(_matches(segments, parts[:depth]) for depth in range(1, deepest + 1)):
            return not pattern.startswith("!")
    return False


def exact_pattern(path: str) -> str:
    """A pattern for this one path."""
    return f"/{_SPECIAL.sub(_ESCAPE, path)}"


def protected_paths(paths: Iterable[str], patterns: Sequence[str]) -> tuple[str, ...]:
    """Those of the paths that are restored."""
    return tuple(path for path in paths if is_protected(path, patterns))


@lru_cache(maxsize=1024)
def _parse_pattern(pattern: str) -> tuple[tuple[str, ...], bool]:
    """A pattern's segments, and whether only directories can match; no segments for a comment or an empty line."""
    text = pattern.strip()
    text = text.removeprefix("!")
    if text.startswith("#"):
        return (), False
    inner = text.rstrip("/")
    segments = [_ESCAPED.sub(r"[\1]", segment) for segment in inner.split("/") if segment]
    if segments and "/" not in inner:
        segments.insert(0, "**")
    return tuple(segments), text.endswith("/")


_SPECIAL: Final = re.compile(r"([*?\[\]\\])")
_ESCAPE: Final = r"\\\1"
_ESCAPED: Final = re.compile(r"\\(.)")


def _matches(pattern: Sequence[str], parts: Sequence[str]) -> bool:
    if not pattern or not parts:
        return not pattern and not parts
    if pattern[0] != "**":
        return fnmatchcase(parts[0], pattern[0]) and _matches(pattern[1:], parts[1:])
    # Last, "**" stands for everything below; elsewhere for any number of directories, also none.
    return len(pattern) == 1 or any(_matches(pattern[1:], parts[skip:]) for skip in range(len(parts)))
