"""Small repositories with a history, and what is mined from them."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from cli_jobs import Done
from suite_world import proctor

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
# Nothing is fetched: tests of the standard library's unittest, in an empty virtual environment.
SETTINGS = f"""
[setup]
python = "{PYTHON}"
commands = ['"$PYTHON" -m venv --without-pip /deps/venv']

[test]
format = "unittest"
timeout_seconds = 60
"""
BUGGY = "def add(a, b):\n    return a - b\n"
FIXED = "def add(a, b):\n    return a + b\n"
LICENCE = "Permission is hereby granted, free of charge, to any person obtaining\na copy of this software\n"


def module_of_tests(*cases: str, imports: str = "add") -> str:
    body = "\n\n".join(f"    def {case}" for case in cases)
    return f"import unittest\n\nfrom calc import {imports}\n\n\nclass CalcTest(unittest.TestCase):\n{body}\n"


ZERO = "test_zero(self):\n        self.assertEqual(add(0, 0), 0)"
SUMS = "test_sums(self):\n        self.assertEqual(add(2, 3), 5)"
DOUBLES = "test_doubles(self):\n        self.assertEqual(double(4), 8)"


class Repository:
    """A repository that is made commit by commit; each is a day after the one before."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._day = 0
        folder.mkdir(parents=True)
        self.git("init", "--quiet", "--initial-branch=main")

    def git(self, *arguments: str, **variables: str) -> str:
        fixed = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "PATH": os.environ["PATH"]}
        command = ["git", "-c", "user.name=Ada", "-c", "user.email=ada@example.com", *arguments]
        done = subprocess.run(
            command, cwd=self.folder, env={**fixed, **variables}, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    def commit(self, message: str, files: dict[str, str | None], *, author: str = "") -> str:
        """Write, or remove, files and commit; gives the commit."""
        for name, text in files.items():
            path = self.folder / name
            if text is None:
                path.unlink()
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
        self.git("add", "--all")
        self._day += 1
        date = f"2026-03-{self._day:02d}T12:00:00+00:00"
        extra = ["--author", author] if author else []
        self.git(
            *("commit", "--quiet", "--allow-empty", "--message", message, *extra),
            GIT_AUTHOR_DATE=date,
            GIT_COMMITTER_DATE=date,
        )
        return self.git("rev-parse", "HEAD")


def calculator(folder: Path) -> Repository:
    """A repository with two changes that become tasks, and one of each kind that does not."""
    made = Repository(folder)
    made.commit(
        "Start",
        {
            "calc.py": BUGGY,
            "LICENSE": LICENCE,
            "tests/__init__.py": "",
            "tests/test_calc.py": module_of_tests(ZERO),
            "proctor-mine.toml": SETTINGS,
        },
    )
    made.commit("Describe it", {"README.md": "A calculator.\n"})
    made.commit(
        "Fix sums (#7)\n\n"
        "Adding two numbers gives their difference, so that every sum of positive numbers is too small."
        "\n\nFixes #3\nSigned-off-by: Ada",
        {"calc.py": FIXED, "tests/test_calc.py": module_of_tests(ZERO, SUMS), "CHANGELOG.md": "- sums\n"},
    )
    made.commit("Test more", {"tests/test_calc.py": module_of_tests(ZERO, SUMS, ZERO.replace("zero", "nothing"))})
    made.commit("Bump", {"calc.py": FIXED + "# 2\n"}, author="dependabot[bot] <bot@example.com>")
    made.commit(
        "Add doubling\n\nThere is a function `double` now, which gives a number twice, for callers that need no sum.",
        {
            "calc.py": FIXED + "# 2\n\n\ndef double(a):\n    return add(a, a)\n",
            "tests/test_calc.py": module_of_tests(ZERO, SUMS, DOUBLES, imports="add, double"),
        },
    )
    made.commit(
        "Rename\n\nNothing changes for users of the calculator, and the tests only get other names than before.",
        {
            "calc.py": FIXED + "# 2\n\n\ndef double(a):\n    total = add(a, a)\n    return total\n",
            "tests/test_calc.py": module_of_tests(
                ZERO, SUMS, DOUBLES.replace("doubles", "twice"), imports="add, double"
            ),
        },
    )
    return made


def mine(folder: Path, repository: Path, *arguments: str | Path, **options: Any) -> Done:
    """`suite mine` in a folder."""
    return proctor(folder, "suite", "mine", repository, "--out", folder / "suite", *arguments, **options)


def files_of(suite: Path) -> dict[str, bytes]:
    """The bytes of a suite, without what mining keeps beside it."""
    found = [path for path in sorted(suite.rglob("*")) if path.is_file() and ".mining" not in path.parts]
    return {str(path.relative_to(suite)): path.read_bytes() for path in found}
