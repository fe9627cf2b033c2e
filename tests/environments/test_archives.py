import io
import os
import tarfile
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proctor.core.errors import LimitReached, RetryableError
from proctor.environments.archives import ChunkPipe, pack, unpack
from proctor.environments.tree_copy import CopyStopped


def unpacked(data: bytes, target: Path, max_bytes: int = 10_000_000) -> None:
    chunks = ChunkPipe()
    feeder = threading.Thread(target=feed, args=(chunks, data))
    feeder.start()
    try:
        unpack(chunks, target, max_bytes)
    finally:
        while not chunks._pieces.empty():
            chunks._pieces.get()
        feeder.join()


def feed(chunks: ChunkPipe, data: bytes) -> None:
    for start in range(0, len(data), 1000):
        chunks._pieces.put(data[start : start + 1000])
    chunks._pieces.put(b"")


def archive(*entries: tuple[str, bytes, str]) -> bytes:
    """A tar of (name, type, content or link)."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as made:
        for name, kind, content in entries:
            entry = tarfile.TarInfo(name)
            entry.type = kind
            entry.mode = 0o755
            if kind in {tarfile.SYMTYPE, tarfile.LNKTYPE}:
                entry.linkname = content
                made.addfile(entry)
            else:
                entry.size = len(content) if kind == tarfile.REGTYPE else 0
                made.addfile(entry, io.BytesIO(content.encode()))
    return file.getvalue()


def test_compressed_bodies_are_decoded(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "sub").mkdir(parents=True)
    (source / "sub" / "file").write_bytes(os.urandom(3_000_000))
    (source / ("n" * 200)).write_text("a long name")
    (source / os.fsdecode(b"\xff\xfe")).write_text("not text")
    (source / "link").symlink_to("x" * 300)
    packed = b"".join(pack(source, "/source", None))
    unpacked(packed, tmp_path / "out")
    for path in source.rglob("*"):
        twin = tmp_path / "out" / path.relative_to(source)
        if path.is_symlink():
            assert twin.readlink() == path.readlink()
        elif path.is_file():
            assert twin.read_bytes() == path.read_bytes()
            assert twin.stat().st_mode == path.stat().st_mode


def test_an_archive_puts_things_where_they_are_asked_for() -> None:
    with tarfile.open(fileobj=io.BytesIO(b"".join(pack(b"data", "/a/b/c", 0o600)))) as made:
        (entry,) = made.getmembers()
        assert (entry.name, entry.mode, entry.uid, entry.gid) == ("a/b/c", 0o600, 0, 0)


@pytest.mark.parametrize(
    "entries",
    [
        [("t/../../escape", tarfile.REGTYPE, "x")],
        [("../escape", tarfile.REGTYPE, "x")],
        [("/tmp/escape", tarfile.REGTYPE, "x")],
        [("t/link", tarfile.SYMTYPE, ".."), ("t/link/escape", tarfile.REGTYPE, "x")],
        [("t/link", tarfile.SYMTYPE, "/tmp"), ("t/link/escape", tarfile.REGTYPE, "x")],
        [("t", tarfile.SYMTYPE, ".."), ("t/escape", tarfile.REGTYPE, "x")],
        [("t/a", tarfile.SYMTYPE, "/etc/passwd"), ("t/escape", tarfile.LNKTYPE, "t/a")],
        [("t/escape", tarfile.LNKTYPE, "../../../etc/passwd")],
        [("t/escape", tarfile.LNKTYPE, "t/missing")],
        [("t/node", tarfile.CHRTYPE, ""), ("t/fifo", tarfile.FIFOTYPE, "")],
    ],
)
def test_an_archive_that_points_elsewhere_leads_nowhere(tmp_path: Path, entries: list[tuple[str, bytes, str]]) -> None:
    (tmp_path / "in").mkdir()
    unpacked(archive(*entries), tmp_path / "in" / "out")
    outside = [path for path in tmp_path.rglob("*") if "out" not in path.relative_to(tmp_path).parts]
    assert outside == [tmp_path / "in"]
    assert not Path("/tmp/escape").exists()
    for path in (tmp_path / "in").rglob("*"):
        assert path.is_symlink() or path.is_dir() or path.read_text() == "x"


parts = st.sampled_from(["t", "a", "b", "..", ".", ""])
paths = st.lists(parts, min_size=1, max_size=4).map("/".join)
kinds = st.sampled_from([tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(paths, kinds, paths), max_size=8))
def test_no_archive_writes_outside_its_target(
    tmp_path_factory: pytest.TempPathFactory, entries: list[tuple[str, bytes, str]]
) -> None:
    folder = tmp_path_factory.mktemp("archives")
    (folder / "inner").mkdir()
    (folder / "inner" / "bystander").write_text("safe")
    data = archive(*entries)
    try:
        unpacked(data, folder / "inner" / "out")
    except (OSError, RetryableError):
        assert not (folder / "inner" / "out").exists()
    assert {path.name for path in folder.iterdir()} == {"inner"}
    assert {path.name for path in (folder / "inner").iterdir()} <= {"bystander", "out"}
    assert (folder / "inner" / "bystander").read_text() == "safe"


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=2000), st.integers(0, 2000), st.binary(max_size=30))
def test_a_broken_archive_is_an_error_and_leaves_nothing(
    tmp_path_factory: pytest.TempPathFactory, noise: bytes, place: int, patch: bytes
) -> None:
    folder = tmp_path_factory.mktemp("broken")
    good = archive(("t", tarfile.DIRTYPE, ""), ("t/file", tarfile.REGTYPE, "content"))
    for number, data in enumerate((noise, good[:place], good[:place] + patch + good[place + len(patch) :])):
        target = folder / str(number)
        try:
            unpacked(data, target)
        except (RetryableError, LimitReached, OSError):
            assert not target.exists()
    assert {path.name for path in folder.iterdir()} <= {"0", "1", "2"}


def test_the_reader_can_be_stopped(tmp_path: Path) -> None:
    chunks = ChunkPipe()
    caught: list[CopyStopped] = []

    def run() -> None:
        try:
            unpack(chunks, tmp_path / "out", 1000)
        except CopyStopped as error:
            caught.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    chunks.stop()
    thread.join(5)
    assert len(caught) == 1
    assert not (tmp_path / "out").exists()
