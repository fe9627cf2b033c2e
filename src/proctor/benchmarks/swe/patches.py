"""What a diff touches, how large it is, and which of its files decide test outcomes."""

import re
from collections.abc import Sequence
from typing import Final

from proctor.benchmarks.swe.rows import SweRow
from proctor.core.submission import PatchKind
from proctor.grading import TEST_MACHINERY, is_protected
from proctor.workspaces import patch_paths
from proctor.workspaces.diff_parser import parse_diff

# What configures test programs. Honest work changes these files too, so they are protected only where the oracle leaves
# them alone.
_CONFIGURATION: Final = (
    "tox.ini",
    "setup.cfg",
    "pyproject.toml",
    "jest.config.*",
    "vitest.config.*",
    "karma.conf.*",
    ".mocharc*",
    "phpunit.xml*",
)
_NON_TEST_SUFFIXES: Final = (".json", ".png", "csv", ".txt", ".md", ".jpg", ".jpeg", ".pkl", ".yml", ".yaml", ".toml")
_HEADER: Final = re.compile(r"^diff --git a/.* b/(.*)$", re.MULTILINE)
_DELETED: Final = re.compile(r"^diff --git a/.* b/(.*)\ndeleted file mode", re.MULTILINE)
_FILES: Final = ((1, "1"), (3, "2-3"), (9, "4-9"))
_LINES: Final = ((10, "1-10"), (50, "11-50"), (200, "51-200"))


def touched_paths(patch: bytes) -> tuple[str, ...]:
    """Every path that a diff names, in its order."""
    return patch_paths(patch, PatchKind.UNIFIED_DIFF)


def patch_size_categories(patch: str) -> dict[str, str]:
    """How many files and lines a diff changes, in classes that reports can break results down by."""
    files = parse_diff(patch.encode("utf-8", "surrogateescape")).files
    lines = sum(len(file.lines_of("add", "del")) for file in files)
    return {"oracle_files": _bucket(len(files), _FILES, "10+"), "oracle_lines": _bucket(lines, _LINES, "201+")}


def _bucket(number: int, classes: Sequence[tuple[int, str]], rest: str) -> str:
    return next((name for most, name in classes if number <= most), rest)


def protected_patterns(row: SweRow, oracle_patch: bytes, *, program: Sequence[str] = ()) -> tuple[str, ...]:
    """What a submission cannot change for good: test machinery, the task's test files, and the program that runs them.

    What the oracle itself changes is not protected, nor is a whole directory that it works in.
    """
    tests = {f"/{path}" for path in touched_paths(row.test_patch.encode("utf-8", "surrogateescape"))}
    oracle_paths = [path for path in touched_paths(oracle_patch) if f"/{path}" not in tests]
    general = [
        pattern
        for pattern in (*TEST_MACHINERY, *_CONFIGURATION)
        if not (pattern.endswith("/") and any(is_protected(path, (pattern,)) for path in oracle_paths))
        and not (row.repo == "pytest-dev/pytest" and pattern in {"/pytest.py", "/pytest/", "/_pytest/"})
    ]
    programs = (f"/{path}" for path in program)
    return (*general, *programs, *(f"!/{path}" for path in oracle_paths), *sorted(tests))


def files_to_test(test_patch: str, *, deleted: bool = True) -> tuple[str, ...]:
    """The files of a test patch that a test program is given, as SWE-bench picks them."""
    gone = set() if deleted else set(_DELETED.findall(test_patch))
    return tuple(
        path for path in _HEADER.findall(test_patch) if not path.endswith(_NON_TEST_SUFFIXES) and path not in gone
    )


def with_final_newline(patch: bytes) -> bytes:
    """A diff with a line end at its end, without which git takes it for torn."""
    return patch if not patch or patch.endswith(b"\n") else patch + b"\n"
