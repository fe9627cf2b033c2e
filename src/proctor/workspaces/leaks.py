"""The proof that a gold answer is not within an agent's reach: not in git, not in a file, not in a package.

Whatever the base commit reaches is the past and may be known. Any other object in the workspace's repository must
hold no telling line of the answer, however it is kept: under a ref, a reflog or a stash, in the index, loose, packed,
borrowed from another repository, or unreachable. Files must not hold enough of them to be more than chance; files
that are as the base has them are the task itself, and count only when they hold the answer as a patch or in JSON.
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
from proctor.workspaces.git import GitFailed, make_repository, reading_git, run_git
from proctor.workspaces.objects import Listed, blob_id, files_of, read_objects
from proctor.workspaces.paths import shown
from proctor.workspaces.telling import Form, Hit, TellingLines, parts_of
from proctor.workspaces.trees import Kind, children, on_disk, open_file

_BLOCK: Final = 32 << 20
_OVERLAP: Final = 64 << 10
_MOST_UNFOLDED: Final = 2 << 30
_MOST_SHOWN: Final = 5
_BUNDLE: Final = (b"# v2 git bundle\n", b"# v3 git bundle\n")
_PACK: Final = (b"PACK\0\0\0\2", b"PACK\0\0\0\3")
_BROKEN: Final = (OSError, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, NotImplementedError, RuntimeError)


class Leak(Record):
    """A place within the agent's reach that holds the gold answer, or enough of it; `lines` are some of those found."""

    place: str
    kind: Literal["object", "file"]
    lines: tuple[str, ...]


class LeakProof(Record):
    """What was looked for, where, and what was found.

    Attributes:
        telling_lines: lines of the answer that were looked for. With none, only the answer word for word was.
        places: files and git objects that were read.
        stray_objects: objects in the workspace's repository that the base commit does not reach, tags aside.
        unread: what could not be read, so that nothing is proved about it.
    """

    telling_lines: int
    places: int
    stray_objects: int
    leaks: tuple[Leak, ...]
    unread: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether the answer is proved to be out of reach."""
        return not self.leaks and not self.unread


def prove_no_leak(
    gold: bytes,
    workspace: Path,
    *,
    commit: str,
    kind: PatchKind = PatchKind.UNIFIED_DIFF,
    extra: Sequence[Path] = (),
) -> LeakProof:
    """Look for a gold answer in a workspace and in whatever else its agent will be able to read.

    Args:
        gold: the answer.
        workspace: the tree as the agent will get it, with its ``.git`` if it has one.
        commit: the base commit there; what it reaches is the past.
        kind: the form of the answer.
        extra: files and directories besides: installed packages, caches.

    Raises:
        UnfitSubmission: the gold answer is not of this kind.
        UsageError: something to be searched is not there.
    """
    parts = parts_of(gold, kind)
    for place in (workspace, *extra):
        if not place.exists():
            raise UsageError("there is nothing to search for leaks", where=place)
    with tempfile.TemporaryDirectory(prefix="proctor-leaks-") as scratch:
        tracked: dict[bytes, Listed] = {}
        there: dict[bytes, bytes] = {}
        repository = None
        if _is_repository(workspace / ".git"):
            repository = _borrow(workspace / ".git", Path(scratch) / "workspace", commit)
            tracked = files_of(repository, commit)
            named = {path: tracked[path].id for part in parts for path in part.paths if path in tracked}
            contents = {found.id: found.data for found in read_objects(repository, set(named.values()))}
            there = {path: contents[identity] for path, identity in named.items()}
        search = _Search(TellingLines(gold, parts, there), Path(scratch))
        if repository is not None:
            search.strays(repository, commit)
        search.tree(workspace, tracked, own=repository is not None)
        for place in extra:
            search.tree(place, {})
    return LeakProof(
        telling_lines=len(search.telling),
        places=search.places,
        stray_objects=search.stray_objects,
        leaks=tuple(search.leaks),
        unread=tuple(search.unread),
    )


def _is_repository(path: Path) -> bool:
    return (path / "HEAD").exists() and (path / "objects").is_dir() and (path / "refs").is_dir()


def _borrow(git_dir: Path, scratch: Path, commit: str = "") -> Path:
    """A repository of ours that reads the objects of another, and nothing else of it: no configuration, no refs."""
    make_repository(scratch, commit=commit, objects=git_dir / "objects")
    if (git_dir / "shallow").is_file():
        (scratch / "shallow").write_bytes((git_dir / "shallow").read_bytes())
    return scratch


class _Search:
    """Reads every place once and keeps what it finds."""

    def __init__(self, telling: TellingLines, scratch: Path) -> None:
        self.telling = telling
        self.scratch = scratch
        self.places = 0
        self.stray_objects = 0
        self.leaks: list[Leak] = []
        self.unread: list[str] = []

    def strays(self, repository: Path, commit: str) -> None:
        """The workspace's own repository: beyond the past, one telling line is one too many."""
        with reading_git(["rev-list", "--objects", "--no-object-names", commit], git_dir=repository) as lines:
            past = {line.strip() for line in lines}
        strays = _objects(repository, past)
        self.stray_objects = sum(kind != "tag" for kind in strays.values())
        self._read_objects(repository, strays, "", enough=bool)

    def tree(self, root: Path, tracked: Mapping[bytes, Listed], *, own: bool = False) -> None:
        """Every file below `root`, and the objects of every repository there; with `own`, but for its own."""
        if not root.is_dir():
            self._file(root.parent, os.fsencode(root.name), {})
            return
        waiting = [b""]
        while waiting:
            directory = waiting.pop()
            place = on_disk(root, directory)
            try:
                found = children(root, directory)
            except OSError as error:
                self._give_up(place, error.strerror)
                continue
            is_repository = _is_repository(place)
            if is_repository and not (own and directory == b".git"):
                self._repository(place)
            for child in found:
                if child.kind is Kind.FILE:
                    self._file(root, child.path, tracked)
                elif child.kind is Kind.DIRECTORY and not (is_repository and child.name == b"objects"):
                    waiting.append(child.path)

    def _repository(self, git_dir: Path) -> None:
        """Somebody else's repository, where a line may be by chance, as in any file."""
        try:
            borrowed = _borrow(git_dir, Path(tempfile.mkdtemp(dir=self.scratch)) / "git")
            self._read_objects(borrowed, _objects(borrowed), f"{_shown(git_dir)}: ", enough=self.telling.are_enough)
        except GitFailed as error:
            self._give_up(git_dir, error.what)

    def _pack(self, place: Path, packed: bytes) -> None:
        """Objects that lie about in a file: a pack, or a bundle, which is one with a list of refs before it."""
        repository = Path(tempfile.mkdtemp(dir=self.scratch)) / "git"
        try:
            make_repository(repository)
            run_git(["index-pack", "--stdin", "--fix-thin"], git_dir=repository, stdin=packed, timeout=600.0)
            self._read_objects(repository, _objects(repository), f"{_shown(place)}: ", enough=self.telling.are_enough)
        except GitFailed as error:
            self._give_up(place, error.what)

    def _read_objects(
        self, repository: Path, objects: Mapping[str, str], prefix: str, *, enough: Callable[[set[Hit]], bool]
    ) -> None:
        wanted = [identity for identity, kind in objects.items() if kind != "tree"]  # trees hold names, not lines
        for found in read_objects(repository, wanted, largest=_MOST_UNFOLDED):
            self.places += 1
            hits = {hit for _, hit in self.telling.find(found.data)}
            if enough(hits) or self.telling.find_whole(found.data):
                self._report(f"{prefix}git object {found.id} ({found.type})", "object", hits)

    def _file(self, root: Path, path: bytes, tracked: Mapping[bytes, Listed]) -> None:
        self.places += 1
        found: set[tuple[Form, Hit]] = set()
        whole = False
        try:
            with os.fdopen(open_file(root, path), "rb") as file:
                for block in _unfolded(file):
                    found |= self.telling.find(block)
                    whole = whole or self.telling.find_whole(block)
                packed = _pack_in(file)
                if (found or packed) and path in tracked and _is_as_listed(file, tracked[path]):
                    found = {(form, hit) for form, hit in found if form is Form.ANSWER}
                elif packed:
                    self._pack(on_disk(root, path), packed)
        except OSError as error:
            self._give_up(on_disk(root, path), error.strerror)
        except _TooMuch:
            self._give_up(on_disk(root, path), f"unfolds to more than {_MOST_UNFOLDED >> 20} MiB")
        hits = {hit for _, hit in found}
        if whole or self.telling.are_enough(hits):
            self._report(_shown(on_disk(root, path)), "file", hits)

    def _give_up(self, place: Path, reason: object) -> None:
        self.unread.append(f"{_shown(place)}: {reason}")

    def _report(self, place: str, kind: Literal["object", "file"], hits: set[Hit]) -> None:
        lines = sorted({hit.line for hit in hits}, key=lambda line: (-len(line), line))[:_MOST_SHOWN]
        self.leaks.append(Leak(place=place, kind=kind, lines=tuple(line.decode("utf-8", "replace") for line in lines)))


def _shown(place: Path) -> str:
    return shown(os.fsencode(place))


def _objects(repository: Path, past: Container[bytes] = ()) -> dict[str, str]:
    """The types of all objects that are not the past, by id."""
    form = "--batch-check=%(objectname) %(objecttype)"
    with reading_git(["cat-file", "--batch-all-objects", "--unordered", form], git_dir=repository) as lines:
        pairs = (line.split() for line in lines)
        return {identity.decode(): kind.decode() for identity, kind in pairs if identity not in past}


def _is_as_listed(file: IO[bytes], listed: Listed) -> bool:
    size = os.fstat(file.fileno()).st_size
    file.seek(0)
    return blob_id(file, size, like=listed) == listed.id


def _pack_in(file: IO[bytes]) -> bytes:
    """The pack that a file is, or that a bundle holds; nothing in any other file."""
    file.seek(0)
    start = file.read(16)
    if start.startswith(_BUNDLE):
        file.seek(0)
        _, _, rest = file.read(_MOST_UNFOLDED).partition(b"\n\n")
        return rest
    if start.startswith(_PACK):
        return start + file.read(_MOST_UNFOLDED)
    return b""


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


class _TooMuch(Exception):
    """An archive unfolds to more than anyone reads."""


def _unfolded(file: IO[bytes]) -> Iterator[bytes]:
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
    except _BROKEN:
        return  # not an archive after all, and as a plain file it has been read


def _blocks(file: _Readable) -> Iterator[bytes]:
    """Blocks that overlap, so that a line cut at the end of one is whole in the next."""
    tail = b""
    total = 0
    while block := file.read(_BLOCK):
        yield tail + block
        tail = block[-_OVERLAP:]
        total += len(block)
        if total > _MOST_UNFOLDED:
            raise _TooMuch
