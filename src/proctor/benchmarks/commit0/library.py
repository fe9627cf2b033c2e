"""A library on this machine: its row, its tests, its trees."""

import hashlib
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from proctor.benchmarks.commit0.rows import Commit0Row
from proctor.benchmarks.data import download_from_git, repository_url
from proctor.core.files import cache_root, file_lock, whole_folder
from proctor.core.record import to_json
from proctor.grading import TEST_MACHINERY
from proctor.workspaces.git import make_repository, run_git

_FETCH_SECONDS: Final = 3600.0
# The documentation that was scraped for the agent. The official patch leaves it out, too.
SPECIFICATION: Final = "spec.pdf.bz2"


@dataclass(frozen=True, slots=True)
class Commit0Library:
    """One library.

    Attributes:
        trees: where `bench fetch` has put its trees, by commit.
    """

    row: Commit0Row
    test_ids: tuple[str, ...]
    trees: Path

    def stub_tree(self) -> Path:
        """The tree with the stubs. Nothing of its history: the commit before it is the oracle."""
        return self._tree(self.row.base_commit)

    def oracle_tree(self) -> Path | None:
        """The tree that the stubs were made from; None where the row does not say which it is."""
        return self._tree(self.row.reference_commit) if self.row.reference_commit else None

    def oracle_tag(self) -> str | None:
        """The tag of the oracle, from which some libraries take their version when they are installed."""
        oracle = self.oracle_tree()
        file = None if oracle is None else _tag_file(oracle)
        return file.read_text(encoding="utf-8") if file is not None and file.is_file() else None

    def digest(self) -> str:
        """Identifies all that a verdict depends on."""
        return hashlib.sha256(to_json(self.row) + "\n".join(self.test_ids).encode()).hexdigest()

    def protected(self) -> tuple[str, ...]:
        """Which paths a submission cannot change for good: its tests, and what decides how they end."""
        return (*TEST_MACHINERY, *protected_test_patterns(self.row, self.test_ids), f"/{SPECIFICATION}", "/.venv/")

    def _tree(self, commit: str) -> Path:
        """A tree of the library, brought here from its repository if need be.

        Raises:
            InfrastructureError: it cannot be reached.
        """
        kept = self.trees / self.row.name / commit
        if kept.is_dir():
            return kept
        cached = cache_root() / "commit0" / "trees" / self.row.name / commit
        if cached.is_dir():
            return cached
        cached.parent.mkdir(parents=True, exist_ok=True)
        with file_lock(cached.with_name(f".{commit}.lock"), what=f"the tree {commit}", wait_seconds=_FETCH_SECONDS):
            if not cached.is_dir():
                fetch_tree(repository_url(self.row.repo), commit, cached)
        return cached


def fetch_tree(url: str, commit: str, tree: Path) -> None:
    """Make `tree` the tree of a commit, with the name of its tag, if it has one, beside it. Whole, or not at all.

    Raises:
        InfrastructureError: it cannot be fetched.
    """
    with whole_folder(tree) as partial:
        download_from_git(url, partial, revision=commit)
        tag = _tag_of(url, commit)
        if tag is not None:
            _tag_file(tree).write_text(tag, encoding="utf-8")


def _tag_of(url: str, commit: str) -> str | None:
    """The tag that is this object, or points at it."""
    with tempfile.TemporaryDirectory(prefix="proctor-tags-") as scratch:
        git_dir = Path(scratch) / "git"
        make_repository(git_dir, commit="")
        listed = run_git(["ls-remote", "--tags", "--", url], git_dir=git_dir, network=True).output.decode()
    refs = [line.split("\t") for line in listed.splitlines()]
    found = (ref.removeprefix("refs/tags/").removesuffix("^{}") for identity, ref in refs if identity == commit)
    return next(found, None)


def _tag_file(tree: Path) -> Path:
    return tree.with_name(f"{tree.name}.tag")


def protected_test_patterns(row: Commit0Row, test_ids: Sequence[str]) -> tuple[str, ...]:
    """Patterns of where the tests are: the files that hold them, and the folders that are for tests alone."""
    files = {PurePosixPath(test.partition("::")[0]) for test in test_ids}
    folders = {parent for file in files for parent in file.parents if _is_test_dir(parent.name)}
    own = PurePosixPath(row.test.test_dir)
    if own.parts and not PurePosixPath(row.src_dir).is_relative_to(own):
        folders.add(own)
    return (*(f"/{file}" for file in sorted(files)), *(f"/{folder}/" for folder in sorted(folders)))


def _is_test_dir(name: str) -> bool:
    return name in {"test", "tests"} or name.endswith(("_test", "_tests"))
