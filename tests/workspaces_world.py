"""What the tests of workspaces are built from: real repositories and trees under `tmp_path`."""

import os
import stat
import subprocess
from collections.abc import Mapping
from pathlib import Path

from proctor.core.task import DirectorySource, RepositorySource
from proctor.workspaces import BaseTree, base_of

# A tree as a test writes it: text or bytes are a file, a Path is a symlink to it, None removes.
Files = Mapping[str | bytes, str | bytes | Path | None]


def git(directory: Path, *arguments: str, stdin: bytes = b"", date: int = 1_000_000_000, check: bool = True) -> str:
    """What somebody's own git says in this directory."""
    when = f"{date} +0000"
    done = subprocess.run(
        ["git", *arguments],
        cwd=directory,
        input=stdin,
        capture_output=True,
        check=False,
        env={
            "PATH": os.environ["PATH"],
            "HOME": "/nonexistent",
            "LC_ALL": "C",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_AUTHOR_NAME": "Ada",
            "GIT_AUTHOR_EMAIL": "ada@localhost",
            "GIT_AUTHOR_DATE": when,
            "GIT_COMMITTER_NAME": "Ada",
            "GIT_COMMITTER_EMAIL": "ada@localhost",
            "GIT_COMMITTER_DATE": when,
        },
    )
    if check and done.returncode != 0:
        raise AssertionError(f"git {arguments} failed: {done.stderr.decode()}")
    return done.stdout.decode("utf-8", "surrogateescape").strip()


def write(root: Path, files: Files) -> Path:
    """Write files into a tree."""
    for name, content in files.items():
        place = root / os.fsdecode(name)
        place.parent.mkdir(parents=True, exist_ok=True)
        if content is None or place.is_symlink():
            place.unlink()
        if isinstance(content, Path):
            place.symlink_to(content)
        elif content is not None:
            place.write_bytes(content.encode() if isinstance(content, str) else content)
    return root


def contents(root: Path) -> dict[bytes, tuple[str, bytes]]:
    """Every file and symlink of a tree but git's own: what it is, and its bytes."""
    found = {}
    for directory, directories, files in os.walk(os.fsencode(root)):
        if b".git" in directories:
            directories.remove(b".git")
        for name in [*files, *directories]:
            place = os.path.join(directory, name)  # noqa: PTH118 - names here are bytes
            status = os.lstat(place)
            relative = os.path.relpath(place, os.fsencode(root))
            if stat.S_ISLNK(status.st_mode):
                found[relative] = ("link", os.readlink(place))  # noqa: PTH115 - likewise
            elif stat.S_ISREG(status.st_mode):
                kind = "program" if status.st_mode & stat.S_IXUSR else "file"
                with open(place, "rb") as file:  # noqa: PTH123 - likewise
                    found[relative] = (kind, file.read())
    return found


def snapshot(root: Path) -> dict[str, object]:
    """Everything below a directory, links not followed, to see that nothing was written."""
    found: dict[str, object] = {}
    for place in sorted(root.rglob("*")):
        status = place.lstat()
        content: object = None
        if place.is_symlink():
            content = os.readlink(place)  # noqa: PTH115 - the target as it is
        elif place.is_file():
            content = place.read_bytes()
        found[str(place.relative_to(root))] = (stat.S_IFMT(status.st_mode), stat.S_IMODE(status.st_mode), content)
    return found


class Repository:
    """Somebody's repository, with one commit a day."""

    def __init__(self, path: Path, *, options: tuple[str, ...] = ()) -> None:
        self.path = path
        self.day = 0
        path.mkdir(parents=True)
        git(path, "init", "--quiet", "--initial-branch=main", *options)

    @property
    def date(self) -> int:
        """The day of the last commit, in seconds."""
        return 1_000_000_000 + self.day * 86_400

    def git(self, *arguments: str, date: int | None = None, stdin: bytes = b"") -> str:
        return git(self.path, *arguments, date=self.date if date is None else date, stdin=stdin)

    def commit(self, files: Files, message: str = "change") -> str:
        self.day += 1
        write(self.path, files)
        self.git("add", "--all", "--force")
        self.git("commit", "--quiet", "--allow-empty", "-m", message)
        return self.git("rev-parse", "HEAD")

    def objects(self) -> set[str]:
        """Every object there is, reachable or not."""
        return all_objects(self.path)


def all_objects(directory: Path) -> set[str]:
    """Every object that plumbing finds in a work tree's repository."""
    return set(git(directory, "cat-file", "--batch-all-objects", "--batch-check=%(objectname)").split())


def base_from(tmp_path: Path, files: Files) -> BaseTree:
    """A base of these files, from a plain directory."""
    source = tmp_path / "source"
    source.mkdir(exist_ok=True)
    return base_of(DirectorySource(path=str(write(source, files))), cache=tmp_path / "cache")


def base_at(repository: Repository, commit: str, tmp_path: Path) -> BaseTree:
    """A base of a commit."""
    return base_of(RepositorySource(url=str(repository.path), commit=commit), cache=tmp_path / "cache")
