import os
from pathlib import Path

import pytest

from proctor.core.causes import Cause
from proctor.core.trees import EXECUTABLE, FILE, LINK, FileEntry
from proctor.workspaces import InvalidSubmission
from proctor.workspaces.changes import write_changes
from workspaces_world import contents, snapshot, write


def _text(text: str) -> FileEntry:
    return FileEntry(FILE, text.encode())


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return write(tmp_path / "tree", {"keep": "k", "old": "o", "dir/a": "a", "dir/b": "b", "link": Path("keep")})


def test_files_are_written_replaced_and_removed(tree: Path) -> None:
    write_changes(
        tree,
        {
            b"new/deep/file": _text("n"),
            b"old": FileEntry(EXECUTABLE, b"o2"),
            b"dir/a": None,
            b"dir/b": None,
            b"link": FileEntry(LINK, b"old"),
        },
    )
    assert contents(tree) == {
        b"keep": ("file", b"k"),
        b"new/deep/file": ("file", b"n"),
        b"old": ("program", b"o2"),
        b"link": ("link", b"old"),
    }
    assert not (tree / "dir").exists()


def test_a_file_gives_way_to_a_directory_and_a_directory_to_a_file(tree: Path) -> None:
    write_changes(tree, {b"old/inner": _text("x"), b"old": None, b"dir": _text("d"), b"dir/a": None, b"dir/b": None})
    assert contents(tree)[b"old/inner"] == ("file", b"x")
    assert contents(tree)[b"dir"] == ("file", b"d")


def test_permissions_stay_but_for_the_executable_bits(tree: Path) -> None:
    (tree / "old").chmod(0o640)
    (tree / "keep").chmod(0o750)
    write_changes(tree, {b"old": FileEntry(EXECUTABLE, b"x"), b"keep": _text("y")})
    assert (tree / "old").stat().st_mode & 0o777 == 0o750
    assert (tree / "keep").stat().st_mode & 0o777 == 0o640


def test_a_directory_that_is_still_needed_is_not_made_anew(tree: Path) -> None:
    (tree / "dir").chmod(0o711)
    write_changes(tree, {b"dir/a": _text("new"), b"dir/b": None})
    assert (tree / "dir").stat().st_mode & 0o777 == 0o711


def test_a_hard_link_elsewhere_keeps_its_content(tree: Path, tmp_path: Path) -> None:
    os.link(tree / "old", tmp_path / "elsewhere")
    write_changes(tree, {b"old": _text("new")})
    assert (tmp_path / "elsewhere").read_text() == "o"


@pytest.mark.parametrize(
    "blocked",
    [
        {b"dir": _text("a directory with other files is there")},
        {b"keep/inner": _text("a file is there")},
        {b"link/inner": _text("a symlink is there")},
        {b"x" * 300: _text("no name is that long")},
    ],
)
def test_when_one_change_cannot_be_made_none_is(tree: Path, blocked: dict[bytes, FileEntry]) -> None:
    before = snapshot(tree)
    changes: dict[bytes, FileEntry | None] = {
        b"old": _text("changed"),
        b"dir/a": None,
        b"brand/new": _text("n"),
        **blocked,
    }
    with pytest.raises(InvalidSubmission, match="cannot be written") as caught:
        write_changes(tree, changes)
    assert caught.value.cause is Cause.DOES_NOT_APPLY
    assert snapshot(tree) == before


def test_removals_are_undone_too_with_the_directories_that_they_emptied(tree: Path) -> None:
    (tree / "dir").chmod(0o711)
    before = snapshot(tree)
    with pytest.raises(InvalidSubmission):
        write_changes(tree, {b"dir/a": None, b"dir/b": None, b"keep/inner": _text("x")})
    assert snapshot(tree) == before


def test_nothing_is_written_through_a_symlink(tree: Path, tmp_path: Path) -> None:
    outside = write(tmp_path / "outside", {"victim": "precious"})
    (tree / "way").symlink_to(outside)
    before = snapshot(tree)
    for path, entry in ((b"way/new", _text("x")), (b"way/victim", _text("x"))):
        with pytest.raises(InvalidSubmission):
            write_changes(tree, {path: entry})
    write_changes(tree, {b"way/victim": None})
    assert snapshot(outside) == {"victim": snapshot(outside)["victim"]}
    assert (outside / "victim").read_text() == "precious"
    assert snapshot(tree) == before


def test_a_full_disk_leaves_the_tree_as_it_was(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = snapshot(tree)
    real = os.rename

    def rename(source: bytes, target: bytes, **descriptors: int) -> None:
        if target == b"new":
            raise OSError(28, "No space left on device")
        real(source, target, **descriptors)

    monkeypatch.setattr(os, "rename", rename)
    with pytest.raises(OSError, match="No space left"):
        write_changes(tree, {b"old": _text("x"), b"dir/a": None, b"new": _text("y")})
    monkeypatch.undo()
    assert snapshot(tree) == before
