"""A library of our own in the shape of Commit0's: a tagged oracle, and one commit with stubs on top of it."""

import bz2
import json
import subprocess
import sys
from pathlib import Path

NAME = "abacus"
TASK = "commit-0/abacus"
PYPROJECT = """
[build-system]
requires = ["setuptools>=64"]
build-backend = "setuptools.build_meta"

[project]
name = "abacus"
version = "1.2"

[tool.setuptools.packages.find]
where = ["src"]

[tool.pytest.ini_options]
addopts = "--strict-markers"
"""
SUMS = '''
"""Sums of columns."""

def total(column):
    """The sum of a column."""
    return sum(column)


def mean(column):
    """The mean of a column; None when it is empty."""
    if not column:
        return None
    return total(column) / len(column)
'''
COLUMNS = '''
"""Columns of rows."""

def column(rows, name):
    """The values under one name."""
    return [row[name] for row in rows if name in row]


def names(rows):
    """All names, in the order in which they come up."""
    return list(dict.fromkeys(name for row in rows for name in row))
'''
STUBS = {
    "src/abacus/sums.py": '''
"""Sums of columns."""

def total(column):
    """The sum of a column."""
    pass


def mean(column):
    """The mean of a column; None when it is empty."""
    pass
''',
    "src/abacus/columns.py": '''
"""Columns of rows."""

def column(rows, name):
    """The values under one name."""
    pass


def names(rows):
    """All names, in the order in which they come up."""
    pass
''',
}
TESTS = """
import pytest

from abacus import columns, sums


def test_total():
    assert sums.total([1, 2]) == 3


def test_mean():
    assert sums.mean([1, 2]) == 1.5


def test_nothing_has_no_mean():
    assert sums.mean([]) is None


@pytest.mark.parametrize("rows", [[{"a": 1}, {"b": 2}]])
def test_names(rows):
    assert columns.names(rows) == ["a", "b"]


@pytest.mark.xfail(reason="floats")
def test_thirds():
    assert sums.mean([0.1, 0.2, 0.3]) == 0.2


@pytest.mark.skip(reason="another system")
def test_elsewhere():
    raise AssertionError
"""
ORACLE = {
    "pyproject.toml": PYPROJECT,
    ".gitignore": "*.egg-info/\n",
    "src/abacus/__init__.py": "",
    "src/abacus/sums.py": SUMS,
    "src/abacus/columns.py": COLUMNS,
    "tests/test_abacus.py": TESTS,
}
IDS = tuple(
    f"tests/test_abacus.py::{name}"
    for name in (
        *("test_total", "test_mean", "test_nothing_has_no_mean", "test_names[rows0]", "test_thirds", "test_elsewhere"),
        "test_of_another_day[05:23:50 2024-09-22]",  # as some of the published ids are: it never comes up again
    )
)


def make_origin(folder: Path) -> Path:
    """A folder as `bench fetch --from` takes it: rows, lists of tests, clones."""
    repository = folder / "repos" / NAME
    repository.mkdir(parents=True)
    git(repository, "init", "--quiet", "--initial-branch=main")
    _write(repository, ORACLE)
    oracle = _commit(repository, "the whole library")
    git(repository, "tag", "--annotate", "--message=1.2", "v1.2")
    tag = git(repository, "rev-parse", "refs/tags/v1.2")
    _write(repository, {**STUBS, "spec.pdf.bz2": "the documentation"})
    base = _commit(repository, "Commit 0")
    assert oracle != tag
    row = {
        "instance_id": TASK,
        "repo": TASK,
        "original_repo": "somebody/abacus",
        "base_commit": base,
        "reference_commit": tag,
        "setup": {"python": f"3.{sys.version_info.minor}", "install": "pip install -e .", "packages": None},
        "test": {"test_cmd": "pytest", "test_dir": "tests/"},
        "src_dir": "src/abacus/",
    }
    (folder / "rows.json").write_text(json.dumps([row]))
    (folder / "test_ids").mkdir()
    (folder / "test_ids" / "abacus.bz2").write_bytes(bz2.compress("\n".join(IDS).encode()))
    return folder


def git(repository: Path, *words: str) -> str:
    identity = ["-c", "user.name=A", "-c", "user.email=a@localhost"]
    done = subprocess.run(
        ["git", "-C", str(repository), *identity, *words],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": "/usr/bin:/bin", "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"},
    )
    return done.stdout.strip()


def _commit(repository: Path, message: str) -> str:
    git(repository, "add", "--all", "--force")
    git(repository, "commit", "--quiet", f"--message={message}")
    return git(repository, "rev-parse", "HEAD")


def _write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
