"""A repository's history as a list of changes: each commit of the main line against its first parent."""

import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal

from proctor.core.errors import InvalidData, UsageError
from proctor.core.files import cache_root
from proctor.core.record import Record
from proctor.workspaces.git import make_repository, run_git
from proctor.workspaces.mirrors import canonical_url, is_remote, public_url, update_mirror

_FIELDS: Final = ("%H", "%P", "%aI", "%cI", "%an", "%ae", "%B")
_SEPARATOR: Final = "\x1e"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_GIT_SECONDS: Final = 600.0


class ChangedPath(Record):
    """One path that a change touches; `added` and `deleted` count lines, and are 0 for a binary file."""

    path: str
    status: Literal["A", "D", "M"]
    added: int = 0
    deleted: int = 0
    is_link: bool = False

    @property
    def lines(self) -> int:
        """Lines added and deleted."""
        return self.added + self.deleted


class HistoryChange(Record):
    """One commit of the main line, whatever it merges, against its first parent. Times are in UTC."""

    commit: str
    parent: str
    parents: int
    authored_at: str
    committed_at: str
    author: str
    email: str
    message: str

    @property
    def subject(self) -> str:
        """The first line of its message."""
        return self.message.strip().partition("\n")[0]

    @property
    def day(self) -> str:
        """When it was committed."""
        return self.committed_at[:10]


class HistoryRange(Record):
    """Which part of the history: days, in UTC, both included; and where the main line ends."""

    since: str | None = None
    until: str | None = None
    branch: str | None = None


class RepositoryHistory:
    """A repository, read through a repository of our own: none of its configuration, hooks or attributes is used.

    Attributes:
        name: of its folder or address.
        address: without any login; of a local repository, that of its remote `origin`, or its folder's name.
        head: the commit at which the main line ends.
    """

    def __init__(self, git_dir: Path, *, name: str, address: str, head: str) -> None:
        self.name = name
        self.address = address
        self.head = head
        self._git_dir = git_dir

    def changes(self, wanted: HistoryRange) -> Iterator[HistoryChange]:
        """The changes of the main line, newest first."""
        form = "%x00".join(_FIELDS) + "%x1e"
        arguments = ["log", "--first-parent", f"--format={form}", self.head]
        output = run_git(arguments, git_dir=self._git_dir, timeout=_GIT_SECONDS).output.decode("utf-8", "replace")
        for text in output.split(_SEPARATOR):
            fields = text.lstrip("\n").split("\0")
            if len(fields) != len(_FIELDS):
                continue
            commit, parents, authored, committed, author, email, message = fields
            change = HistoryChange(
                commit=commit,
                parent=parents.split(" ")[0],
                parents=len(parents.split()),
                authored_at=_utc(authored),
                committed_at=_utc(committed),
                author=author,
                email=email,
                message=message,
            )
            # Dates need not fall along the line, so that none of them ends it.
            if (wanted.since is None or change.day >= wanted.since) and (
                wanted.until is None or change.day <= wanted.until
            ):
                yield change

    def changed_paths(self, change: HistoryChange) -> tuple[ChangedPath, ...]:
        """What a change touches; a renamed file is a deleted one and a new one."""
        arguments = ["diff-tree", "-r", "-z", "--no-renames", "--raw", "--numstat", change.parent, change.commit]
        fields = run_git(arguments, git_dir=self._git_dir).output.decode("utf-8", "surrogateescape").split("\0")
        statuses: dict[str, tuple[str, bool]] = {}
        counts: dict[str, tuple[int, int]] = {}
        place = 0
        while place < len(fields) - 1:
            field = fields[place]
            if field.startswith(":"):
                words = field[1:].split(" ")
                status = words[4][:1]
                statuses[fields[place + 1]] = ("M" if status == "T" else status, words[1] == "120000")
                place += 2
            else:
                added, deleted, path = field.split("\t", 2)
                counts[path] = (int(added) if added.isdigit() else 0, int(deleted) if deleted.isdigit() else 0)
                place += 1
        return tuple(
            ChangedPath(
                path=path,
                status=status if status in {"A", "D"} else "M",  # type: ignore[arg-type]
                added=counts.get(path, (0, 0))[0],
                deleted=counts.get(path, (0, 0))[1],
                is_link=is_link,
            )
            for path, (status, is_link) in sorted(statuses.items())
        )

    def diff(self, change: HistoryChange, paths: Sequence[str], *, context: int = 3) -> bytes:
        """What a change does to these paths, as a unified diff with full object ids."""
        if not paths:
            return b""
        options = ["--no-renames", "--binary", "--full-index", "--no-ext-diff", "--no-textconv", f"-U{context}"]
        literal = [f":(literal,top){path}" for path in paths]
        return run_git(
            ["diff-tree", "-p", *options, change.parent, change.commit, "--", *literal], git_dir=self._git_dir
        ).output

    def write_tree(self, commit: str, target: Path, paths: Sequence[str] = ()) -> None:
        """Write the files of a commit, or some of them, below a new folder: the bytes that git has.

        Submodules are empty folders, files kept in Git LFS their pointers.
        """
        target.mkdir(parents=True)
        with tempfile.TemporaryDirectory(prefix="proctor-mine-") as scratch:
            git_dir = Path(scratch) / "git"
            make_repository(git_dir, commit=commit, objects=self._git_dir / "objects", bare=False)
            if not paths:
                run_git(["read-tree", "-m", "-u", commit], git_dir=git_dir, work_tree=target, timeout=_GIT_SECONDS)
                return
            run_git(["read-tree", commit], git_dir=git_dir, work_tree=target)
            stdin = b"".join(os.fsencode(path) + b"\0" for path in paths)
            run_git(["checkout-index", "-z", "--stdin"], git_dir=git_dir, work_tree=target, stdin=stdin)

    def read(self, commit: str, path: str) -> bytes | None:
        """One file of a commit; None when there is none."""
        done = run_git(["cat-file", "blob", f"{commit}:{path}"], git_dir=self._git_dir, expected={0, 128})
        return done.output if done.code == 0 else None

    def paths(self, commit: str) -> tuple[str, ...]:
        """The paths of a commit's files."""
        output = run_git(["ls-tree", "-r", "-z", "--name-only", commit], git_dir=self._git_dir).output
        return tuple(path for path in output.decode("utf-8", "surrogateescape").split("\0") if path)

    def nearest_version(self, commit: str) -> str | None:
        """The version in the name of the last tag before a commit, as in 1.4.2."""
        done = run_git(["describe", "--tags", "--abbrev=0", commit], git_dir=self._git_dir, expected={0, 128})
        found = re.search(r"\d+(?:[._]\d+)+", done.output.decode("utf-8", "replace")) if done.code == 0 else None
        return found[0].replace("_", ".") if found else None

    def merged_messages(self, change: HistoryChange) -> str:
        """The messages of the commits that a merge brings, oldest first; empty for another commit."""
        if change.parents < 2:  # noqa: PLR2004 - a merge has two
            return ""
        arguments = [
            "log",
            "--reverse",
            "--no-merges",
            "--max-count=20",
            "--format=%B",
            f"{change.parent}..{change.commit}",
        ]
        return run_git(arguments, git_dir=self._git_dir).output.decode("utf-8", "replace").strip()

    def is_ancestor(self, earlier: str) -> bool:
        """Whether a commit is in the history of the head."""
        arguments = ["merge-base", "--is-ancestor", earlier, self.head]
        return run_git(arguments, git_dir=self._git_dir, expected={0, 1, 128}).code == 0


@contextmanager
def open_history(where: str, *, branch: str | None = None, name: str | None = None) -> Iterator[RepositoryHistory]:
    """The history of a repository on this machine, or of one that is fetched into the cache.

    Raises:
        UsageError: there is no repository, or no such branch; or the name is none that a suite can have.
        RetryableError: it cannot be fetched.
    """
    if name is not None and not _NAME.fullmatch(name):
        raise UsageError("a suite's name has letters, digits, '.', '_' and '-'", where=name, fix="give another --name")
    try:
        url = canonical_url(where)
    except InvalidData as error:
        raise UsageError(error.what, where=where, fix="give a repository's folder or its URL") from error
    if is_remote(url):
        git_dir, default = update_mirror(url, cache=cache_root().absolute())
        address = public_url(url)
    else:
        git_dir, default = _git_dir(Path(url)), "HEAD"
        address = _origin(git_dir) or Path(url).name
    head = _resolve(git_dir, branch or default, where)
    with tempfile.TemporaryDirectory(prefix="proctor-history-") as scratch:
        own = Path(scratch) / "git"
        make_repository(own, commit=head, objects=git_dir / "objects")
        if (git_dir / "shallow").is_file():
            shutil.copyfile(git_dir / "shallow", own / "shallow")
        _copy_tags(git_dir, own)
        yield RepositoryHistory(own, name=name or _name(url), address=address, head=head)


def _git_dir(folder: Path) -> Path:
    """Where the objects of a repository are: its folder, `.git` in it, or the place that a work tree's file names."""
    inner = folder / ".git"
    if inner.is_file():
        named = inner.read_text(encoding="utf-8", errors="replace").partition("gitdir:")[2].strip()
        inner = (folder / named).resolve()
        common = inner / "commondir"
        if common.is_file():
            inner = (inner / common.read_text(encoding="utf-8").strip()).resolve()
    for place in (inner, folder):
        if (place / "HEAD").exists() and (place / "objects").is_dir():
            return place
    raise UsageError("there is no git repository", where=folder, fix="give a repository's folder or its URL")


def _resolve(git_dir: Path, name: str, where: object) -> str:
    for reference in (name, f"refs/remotes/origin/{name}"):
        arguments = ["rev-parse", "--verify", "--quiet", "--end-of-options", f"{reference}^{{commit}}"]
        done = run_git(arguments, git_dir=git_dir, expected={0, 1, 128})
        if done.code == 0:
            return done.output.decode().strip()
    if name == "HEAD":
        raise UsageError("the repository has no commit yet, or its HEAD names none", where=where, fix="give --branch")
    raise UsageError(f"there is no branch or commit {name!r}", where=where, fix="name one with --branch")


def _copy_tags(git_dir: Path, own: Path) -> None:
    listed = run_git(["for-each-ref", "--format=create %(refname) %(objectname)", "refs/tags"], git_dir=git_dir).output
    if listed.strip():
        run_git(["update-ref", "--stdin"], git_dir=own, stdin=listed)


def _origin(git_dir: Path) -> str | None:
    done = run_git(["config", "--get", "remote.origin.url"], git_dir=git_dir, expected={0, 1})
    url = done.output.decode("utf-8", "replace").strip()
    return public_url(url) if done.code == 0 and is_remote(url) else None


def _name(url: str) -> str:
    parts = [part for part in re.split(r"[/:\\]", url.removesuffix("/").removesuffix(".git")) if part]
    name = re.sub(r"[^a-z0-9._-]+", "-", parts[-1].lower()).strip("-._") if parts else ""
    if not name:
        raise InvalidData("the repository has no name that a suite can have", where=url, fix="give one with --name")
    return name


def _utc(text: str) -> str:
    return datetime.fromisoformat(text).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
