import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proctor.grading import TEST_MACHINERY, is_protected, protected_paths


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("tests/**", "tests/test_a.py", True),
        ("tests/**", "tests/deep/er/test_a.py", True),
        ("tests/**", "src/tests/test_a.py", False),
        ("tests/", "src/tests/test_a.py", True),
        ("tests/", "tests", False),
        ("/tests/", "src/tests/a.py", False),
        ("conftest.py", "conftest.py", True),
        ("conftest.py", "a/b/conftest.py", True),
        ("conftest.py", "a/conftest.py/x", True),
        ("conftest.py", "not_conftest.py", False),
        ("/conftest.py", "a/conftest.py", False),
        ("a/conftest.py", "b/a/conftest.py", False),
        ("**/fixtures/*.json", "fixtures/a.json", True),
        ("**/fixtures/*.json", "x/y/fixtures/a.json", True),
        ("**/fixtures/*.json", "x/fixtures/deep/a.json", False),
        ("a/**/z.py", "a/z.py", True),
        ("a/**/z.py", "a/b/c/z.py", True),
        ("*.pth", "deep/evil.pth", True),
        ("test_?.py", "test_a.py", True),
        ("test_?.py", "test_ab.py", False),
        ("test_[ab].py", "test_b.py", True),
        ("test_[!ab].py", "test_b.py", False),
        (r"\*.py", "a.py", False),
        (r"\*.py", "*.py", True),
        ("Tests/", "tests/a.py", False),
        ("# tests/", "# tests/a", False),
        ("", "a", False),
        ("tests/**", "./tests//a.py", True),
    ],
)
def test_patterns_mean_what_they_mean_to_git(pattern: str, path: str, expected: bool) -> None:
    assert is_protected(path, [pattern]) is expected


def test_the_last_matching_pattern_decides() -> None:
    patterns = ["tests/", "!tests/data/", "tests/data/secret.txt"]
    paths = ["tests/a.py", "tests/data/x.txt", "tests/data/secret.txt", "src/a.py"]
    assert protected_paths(paths, patterns) == ("tests/a.py", "tests/data/secret.txt")


@pytest.mark.parametrize(
    "path",
    [
        "conftest.py",
        "pkg/conftest.py",
        "sitecustomize.py",
        "x.pth",
        "a/__pycache__/b.pyc",
        "_pytest/x.py",
        "pytest.ini",
    ],
)
def test_test_machinery_is_protected(path: str) -> None:
    assert is_protected(path, TEST_MACHINERY)


@pytest.mark.parametrize("path", ["pyproject.toml", "setup.cfg", "src/pytest_helper.py", "lib/unittest/x.py", "a.py"])
def test_ordinary_paths_are_not_protected(path: str) -> None:
    assert not is_protected(path, TEST_MACHINERY)


segments = st.text("ab*?", min_size=1, max_size=4).filter(lambda text: "**" not in text) | st.just("**")
patterns = st.builds(
    lambda start, parts, end: start + "/".join(parts) + end,
    st.sampled_from(["", "/"]),
    st.lists(segments, min_size=1, max_size=3),
    st.sampled_from(["", "/"]),
)
paths = st.lists(st.text("ab", min_size=1, max_size=3), min_size=1, max_size=4).map("/".join)


def test_git_agrees(tmp_path: Path) -> None:
    git = shutil.which("git")
    if git is None:
        pytest.skip("git is not installed")
    subprocess.run([git, "init", "-q", str(tmp_path)], check=True)

    @settings(deadline=None)
    @given(patterns, paths)
    def agree(pattern: str, path: str) -> None:
        (tmp_path / ".git" / "info" / "exclude").write_text(pattern + "\n")
        result = subprocess.run(
            [git, "-C", str(tmp_path), "check-ignore", "-q", "--no-index", path], check=False, capture_output=True
        )
        assert is_protected(path, [pattern]) == (result.returncode == 0), (pattern, path)

    agree()


@given(st.text(max_size=20), st.text(max_size=20))
def test_any_pattern_and_path_are_taken_without_an_exception(pattern: str, path: str) -> None:
    is_protected(path, [pattern, f"!{pattern}"])
