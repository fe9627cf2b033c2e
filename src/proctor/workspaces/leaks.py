"""The proof that an oracle is not within an agent's reach: not in git, not in a file, not in a package.

Whatever the base commit reaches is the past and may be known. Any other object in the workspace's repository must
hold no distinctive line of the oracle, however it is stored: under a ref, a reflog or a stash, in the index, loose,
packed, in an alternate, or unreachable. Files must not hold enough of them to be more than chance; files that are as
the base has them are the task itself, and count only when they hold the oracle as a patch or in JSON.
"""

import bz2
import gzip
import lzma
import os
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Final, Literal, Protocol

from proctor.core.errors import UsageError
from proctor.core.record import Record
from proctor.core.submission import PatchKind
from proctor.core.trees import FileKind, list_directory, on_disk, open_file
from proctor.workspaces.git import GitFailed, make_repository, run_git, stream_git
from proctor.workspaces.leak_signature import LeakSignature, MatchForm, SignatureHit, oracle_files
from proctor.workspaces.objects import GitTreeEntry, blob_id, list_files, read_objects
from proctor.workspaces.paths import display_path

_BLOCK: Final = 32 << 20
_OVERLAP: Final = 64 << 10
_MAX_UNPACKED_BYTES: Final = 2 << 30
_MOST_SHOWN: Final = 5
_BUNDLE: Final = (b"# v2 git bundle\n", b"# v3 git bundle\n")
_PACK: Final = (b"PACK\0\0\0\2", b"PACK\0\0\0\3")
_ARCHIVE_ERRORS: Final = (
    OSError,
    EOFError,
    zlib.error,
    lzma.LZMAError,
    zipfile.BadZipFile,
    NotImplementedError,
    RuntimeError,
)


class Leak(Record):
    """A place within the agent's reach that holds the oracle, or enough of it; `lines` are some of those found."""

    location: str
    kind: Literal["object", "file"]
    lines: tuple[str, ...]


class LeakProof(Record):
    """What was searched for, where, and what was found.

    Attributes:
        signature_lines: distinctive lines of the oracle that were searched for. With none, only the whole oracle was.
        locations: files and git objects that were read.
        stray_objects: objects in the workspace's repository that the base commit does not reach, tags aside.
        unread: what could not be read, so that nothing is proved about it.
    """

    signature_lines: int
    locations: int
    stray_objects: int
    leaks: tuple[Leak, ...]
    unread: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether the oracle is proved to be out of reach."""
        return not self.leaks and not self.unread

    @property
    def descriptions(self) -> tuple[str, ...]:
        """Where each leak is, and what shows it."""
        return tuple(f"{leak.location}: {leak.lines[0] if leak.lines else leak.kind}" for leak in self.leaks)


def prove_no_leak(
    oracle: bytes,
    workspace: Path,
    *,
    commit: str,
    kind: PatchKind = PatchKind.UNIFIED_DIFF,
    extra: Sequence[Path] = (),
) -> LeakProof:
    """Search for an oracle in a workspace and in whatever else its agent will be able to read.

    Args:
        oracle: the reference solution.
        workspace: the tree as the agent will get it, with its ``.git`` if it has one.
        commit: the base commit there; what it reaches is the past.
        kind: the form of the oracle.
        extra: files and directories besides: installed packages, caches.

    Raises:
        InvalidSubmission: the oracle is not of this kind.
        UsageError: something to be searched is not there.
    """
    parts = oracle_files(oracle, kind)
    for place in (workspace, *extra):
        if not place.exists():
            raise UsageError("there is nothing to search for leaks", where=place)
    with tempfile.TemporaryDirectory(prefix="proctor-leaks-") as scratch:
        tracked: dict[bytes, GitTreeEntry] = {}
        there: dict[bytes, bytes] = {}
        repository = None
        if _is_repository(workspace / ".git"):
            repository = _alternate_repository(workspace / ".git", Path(scratch) / "workspace", commit)
            tracked = list_files(repository, commit)
            named = {path: tracked[path].id for part in parts for path in part.paths if path in tracked}
            contents = {found.id: found.data for found in read_objects(repository, set(named.values()))}
            there = {path: contents[identity] for path, identity in named.items()}
        search = _LeakSearch(LeakSignature(oracle, parts, there), Path(scratch))
        if repository is not None:
            search.search_stray_objects(repository, commit)
        search.search_tree(workspace, tracked, own=repository is not None)
        for place in extra:
            search.search_tree(place, {})
    return LeakProof(
        signature_lines=len(search.signature),
        locations=search.locations,
        stray_objects=search.stray_objects,
        leaks=tuple(search.leaks),
        unread=tuple(search.unread),
    )


def _is_repository(path: Path) -> bool:
    return (path / "HEAD").exists() and (path / "objects").is_dir() and (path / "refs").is_dir()


def _alternate_repository(git_dir: Path, scratch: Path, commit: str = "") -> Path:
    """A repository of ours that reads the objects of another, and nothing else of it: no configuration, no refs."""
    make_repository(scratch, commit=commit, objects=git_dir / "objects")
    if (git_dir / "shallow").is_file():
        (scratch / "shallow").write_bytes((git_dir / "shallow").read_bytes())
    return scratch


class _LeakSearch:
    """Reads every place once and keeps what it finds."""

    def __init__(self, signature: LeakSignature, scratch: Path) -> None:
        self.signature = signature
        self.scratch = scratch
        self.locations = 0
        self.stray_objects = 0
        self.leaks: list[Leak] = []
        self.unread: list[str] = []

    def search_stray_objects(self, repository: Path, commit: str) -> None:
        """The workspace's own repository: beyond the past, one distinctive line is one too many."""
        with stream_git(["rev-list", "--objects", "--no-object-names", commit], git_dir=repository) as lines:
            past = {line.strip() for line in lines}
        strays = _objects(repository, past)
        self.stray_objects = sum(kind != "tag" for kind in strays.values())
        self._search_objects(repository, strays, "", enough=bool)

    def search_tree(self, root: Path, tracked: Mapping[bytes, GitTreeEntry], *, own: bool = False) -> None:
        """Every file below `root`, and the objects of every repository there; with `own`, but for its own."""
        if not root.is_dir():
            self._search_file(root.parent, os.fsencode(root.name), {})
            return
        waiting = [b""]
        while waiting:
            directory = waiting.pop()
            place = on_disk(root, directory)
            try:
                found = list_directory(root, directory)
            except OSError as error:
                self._mark_unread(place, error.strerror)
                continue
            is_repository = _is_repository(place)
            if is_repository and not (own and directory == b".git"):
                self._search_repository(place)
            for child in found:
                if child.kind is FileKind.FILE:
                    self._search_file(root, child.path, tracked)
                elif child.kind is FileKind.DIRECTORY and not (is_repository and child.name == b"objects"):
                    waiting.append(child.path)

    def _search_repository(self, git_dir: Path) -> None:
        """Somebody else's repository, where a line may be by chance, as in any file."""
        try:
            borrowed = _alternate_repository(git_dir, Path(tempfile.mkdtemp(dir=self.scratch)) / "git")
            self._search_objects(
                borrowed, _objects(borrowed), f"{_display(git_dir)}: ", enough=self.signature.is_significant
            )
        except GitFailed as error:
            self._mark_unread(git_dir, error.what)

    def _search_pack(self, path: Path, packed: bytes) -> None:
        """Objects that lie about in a file: a pack, or a bundle, which is one with a list of refs before it."""
        repository = Path(tempfile.mkdtemp(dir=self.scratch)) / "git"
        try:
            make_repository(repository)
            run_git(["index-pack", "--stdin", "--fix-thin"], git_dir=repository, stdin=packed, timeout=600.0)
            self._search_objects(
                repository, _objects(repository), f"{_display(path)}: ", enough=self.signature.is_significant
            )
        except GitFailed as error:
            self._mark_unread(path, error.what)

    def _search_objects(
        self, repository: Path, objects: Mapping[str, str], prefix: str, *, enough: Callable[[set[SignatureHit]], bool]
    ) -> None:
        wanted = [identity for identity, kind in objects.items() if kind != "tree"]  # trees hold names, not lines
        for found in read_objects(repository, wanted, largest=_MAX_UNPACKED_BYTES):
            self.locations += 1
            hits = {hit for _, hit in self.signature.find(found.data)}
            if enough(hits) or self.signature.contains_oracle(found.data):
                self._report(f"{prefix}git object {found.id} ({found.type})", "object", hits)

    def _search_file(self, root: Path, path: bytes, tracked: Mapping[bytes, GitTreeEntry]) -> None:
        self.locations += 1
        found: set[tuple[MatchForm, SignatureHit]] = set()
        whole = False
        try:
            with os.fdopen(open_file(root, path), "rb") as file:
                for block in _unpacked_blocks(file):
                    found |= self.signature.find(block)
                    whole = whole or self.signature.contains_oracle(block)
                packed = _pack_in(file)
                if (found or packed) and path in tracked and _is_unchanged(file, tracked[path]):
                    found = {(form, hit) for form, hit in found if form is MatchForm.EMBEDDED}
                elif packed:
                    self._search_pack(on_disk(root, path), packed)
        except OSError as error:
            self._mark_unread(on_disk(root, path), error.strerror)
        except _UnpackedTooLarge:
            self._mark_unread(on_disk(root, path), f"unfolds to more than {_MAX_UNPACKED_BYTES >> 20} MiB")
        hits = {hit for _, hit in found}
        if whole or self.signature.is_significant(hits):
            self._report(_display(on_disk(root, path)), "file", hits)

    def _mark_unread(self, path: Path, reason: object) -> None:
        self.unread.append(f"{_display(path)}: {reason}")

    def _report(self, location: str, kind: Literal["object", "file"], hits: set[SignatureHit]) -> None:
        lines = sorted({hit.line for hit in hits}, key=lambda line: (-len(line), line))[:_MOST_SHOWN]
        self.leaks.append(
            Leak(location=location, kind=kind, lines=tuple(line.decode("utf-8", "replace") for line in lines))
        )


def _display(path: Path) -> str:
    return display_path(os.fsencode(path))


def _objects(repository: Path, past: Container[bytes] = ()) -> dict[str, str]:
    """The types of all objects that are not the past, by id."""
    form = "--batch-check=%(objectname) %(objecttype)"
    with stream_git(["cat-file", "--batch-all-objects", "--unordered", form], git_dir=repository) as lines:
        pairs = (line.split() for line in lines)
        return {identity.decode(): kind.decode() for identity, kind in pairs if identity not in past}


def _is_unchanged(file: IO[bytes], entry: GitTreeEntry) -> bool:
    size = os.fstat(file.fileno()).st_size
    file.seek(0)
    return blob_id(file, size, like=entry) == entry.id


def _pack_in(file: IO[bytes]) -> bytes:
    """The pack that a file is, or that a bundle holds; nothing in any other file."""
    file.seek(0)
    start = file.read(16)
    if start.startswith(_BUNDLE):
        file.seek(0)
        _, _, rest = file.read(_MAX_UNPACKED_BYTES).partition(b"\n\n")
        return rest
    if start.startswith(_PACK):
        return start + file.read(_MAX_UNPACKED_BYTES)
    return b""


class _ReadableStream(Protocol):
    def read(self, size: int, /) -> bytes: ...


class _UnpackedTooLarge(Exception):
    """An archive unfolds to more than anyone reads."""


def _unpacked_blocks(file: IO[bytes]) -> Iterator[bytes]:
    """A file's content in blocks, and what it holds compressed."""
    start = file.read(6)
    file.seek(0)
    yield from _blocks(file)
    file.seek(0)
    try:
        if start.startswith(b"PK\x03\x04"):
            with zipfile.ZipFile(file) as archive:
                for member in archive.infolist():
                    with archive.open(member) as unpacked:
                        yield from _blocks(unpacked)
        elif start.startswith(b"\x1f\x8b"):
            with gzip.open(file) as unpacked:
                yield from _blocks(unpacked)
        elif start.startswith(b"BZh"):
            with bz2.open(file) as unpacked:
                yield from _blocks(unpacked)
        elif start == b"\xfd7zXZ\0":
            with lzma.open(file) as unpacked:
                yield from _blocks(unpacked)
    except _ARCHIVE_ERRORS:
        return  # not an archive after all, and as a plain file it has been read


def _blocks(file: _ReadableStream) -> Iterator[bytes]:
    """Blocks that overlap, so that a line cut at the end of one is whole in the next."""
    tail = b""
    total = 0
    while block := file.read(_BLOCK):
        yield tail + block
        tail = block[-_OVERLAP:]
        total += len(block)
        if total > _MAX_UNPACKED_BYTES:
            raise _UnpackedTooLarge
