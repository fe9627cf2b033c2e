"""What git repositories hold: the files of a commit, objects by id, and commits made from files."""

import hashlib
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Final, NamedTuple

from proctor.core.trees import FileEntry
from proctor.workspaces.git import SHA1_LENGTH, GitFailed, quote_path, run_git, stream_git

# Everything that we commit ourselves has one author and one moment: the same files give the same commit.
_SIGNATURE: Final = b"Proctor <proctor@localhost> 946684800 +0000"


class GitTreeEntry(NamedTuple):
    """A file, symlink or submodule of a commit."""

    mode: int
    id: str


class GitObject(NamedTuple):
    """One object of a repository."""

    id: str
    type: str
    data: bytes


def list_files(git_dir: Path, commit: str) -> dict[bytes, GitTreeEntry]:
    """What a commit holds, by path."""
    listed = run_git(["ls-tree", "-r", "-z", "--full-tree", commit], git_dir=git_dir).output
    files = {}
    for line in listed.split(b"\0")[:-1]:
        facts, path = line.split(b"\t", 1)
        mode, _, identity = facts.split(b" ")
        files[path] = GitTreeEntry(int(mode, 8), identity.decode())
    return files


def read_objects(git_dir: Path, ids: Iterable[str], *, largest: int | None = None) -> Iterator[GitObject]:
    """Objects by id, in the order asked for; of one larger than `largest` only the first bytes."""
    questions = "".join(f"{identity}\n" for identity in ids).encode()
    if not questions:
        return
    with stream_git(["cat-file", "--batch", "--buffer"], git_dir=git_dir, stdin=questions) as output:
        for header in output:
            identity, kind, *size = header.decode().split()
            if not size:
                raise GitFailed(f"object {identity} is {kind}", where=git_dir)
            rest = int(size[0]) + 1  # each object is followed by a newline
            data = output.read(rest - 1 if largest is None else min(rest - 1, largest))
            rest -= len(data)
            while rest and (skipped := output.read(min(rest, 1 << 20))):
                rest -= len(skipped)
            if rest:
                return  # git was stopped, and closing it raises why
            yield GitObject(identity, kind, data)


def blob_id(file: IO[bytes], size: int, *, like: GitTreeEntry) -> str:
    """The id that git gives to a file's content, in the repository that `like` is from."""
    kind = hashlib.sha1 if len(like.id) == SHA1_LENGTH else hashlib.sha256
    digest = kind(b"blob %d\0" % size, usedforsecurity=False)
    while chunk := file.read(1 << 20):
        digest.update(chunk)
    return digest.hexdigest()


def commit_files(
    git_dir: Path, changes: Iterable[tuple[bytes, FileEntry | None]], *, parent: str | None = None, durable: bool
) -> str:
    """Make a commit out of `parent`'s files with these changes (None removes), and give its id.

    A `lasting` commit is on disk when this returns, and survives a power cut.
    """
    with tempfile.TemporaryFile() as stream:
        stream.write(b"commit refs/heads/main\ncommitter " + _SIGNATURE + b"\ndata 5\nbase\n")
        if parent:
            stream.write(b"from " + parent.encode() + b"\n")
        for path, entry in changes:
            if entry is None:
                stream.write(b"D " + quote_path(path) + b"\n")
            else:
                stream.write(b"M %o inline " % entry.mode + quote_path(path) + b"\ndata %d\n" % len(entry.data))
                stream.write(entry.data + b"\n")
        stream.seek(0)
        # One pack, whatever the number of files.
        options = ["-c", "fastimport.unpackLimit=1", *([] if durable else ["-c", "core.fsync=none"])]
        run_git([*options, "fast-import", "--quiet", "--force", "--date-format=raw"], git_dir=git_dir, stdin=stream)
    return (git_dir / "refs" / "heads" / "main").read_text().strip()
