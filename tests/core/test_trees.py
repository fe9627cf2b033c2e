import os
from pathlib import Path

import pytest

from proctor.core.trees import file_paths, has_foreign_files, make_readable, read_entry, read_regular_file, remove_tree


def test_a_plain_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "file").write_bytes(b"content")
    assert read_regular_file(tmp_path, "a", "b", "file") == b"content"
    assert read_regular_file(tmp_path, "a", "b", "other") is None
    assert read_regular_file(tmp_path, "a", "b") is None
    assert read_regular_file(tmp_path / "nowhere", "file") is None


def test_no_symlink_is_read_through_wherever_it_is(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    home = tmp_path / "home"
    home.mkdir()
    (home / "link").symlink_to(outside / "secret")
    (home / "folder").symlink_to(outside)
    (tmp_path / "linked-home").symlink_to(outside)
    assert read_regular_file(home, "link") is None
    assert read_regular_file(home, "folder", "secret") is None
    assert read_regular_file(tmp_path / "linked-home", "secret") is None


@pytest.mark.timeout(10)
def test_a_pipe_in_the_place_of_a_file_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert read_regular_file(tmp_path, "pipe") is None


def test_descriptors_are_closed(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "file").touch()
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(10):
        read_regular_file(tmp_path, "a", "file")
        read_regular_file(tmp_path, "a", "none")
        read_regular_file(tmp_path, "none", "file")
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_removing_follows_no_link(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").write_text("x")
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "link").symlink_to(tmp_path / "kept")
    remove_tree(tmp_path / "tree")
    remove_tree(tmp_path / "tree")
    assert (tmp_path / "kept" / "file").read_text() == "x"


def test_a_file_of_another_owner_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "file").write_text("x")
    (tmp_path / "sub" / "link").symlink_to("/etc/passwd")
    assert not has_foreign_files(tmp_path)
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    os.chown(tmp_path / "sub" / "link", 12345, -1, follow_symlinks=False)
    assert has_foreign_files(tmp_path)


def test_a_tree_is_walked_without_following_links(tmp_path: Path) -> None:
    (tmp_path / "tree" / "folder").mkdir(parents=True)
    (tmp_path / "tree" / "folder" / "file").write_text("x")
    (tmp_path / "tree" / "link").symlink_to(tmp_path)
    assert sorted(file_paths(tmp_path / "tree")) == [b"folder/file", b"link"]
    assert read_entry(tmp_path / "tree", b"link") == (0o120000, os.fsencode(tmp_path))
    assert read_entry(tmp_path / "tree", b"folder") is None


def test_a_tree_is_made_readable_for_its_owner(tmp_path: Path) -> None:
    (tmp_path / "tree/closed/inner").mkdir(parents=True)
    (tmp_path / "tree/closed/inner/file").write_text("1")
    (tmp_path / "outside").write_text("2")
    (tmp_path / "outside").chmod(0)
    (tmp_path / "tree/link").symlink_to(tmp_path / "outside")
    (tmp_path / "tree/loop").symlink_to("loop")
    (tmp_path / "tree/program").write_text("3")
    (tmp_path / "tree/program").chmod(0o555)
    for path in ("closed/inner/file", "closed/inner", "closed", "."):
        (tmp_path / "tree" / path).chmod(0)
    make_readable(tmp_path / "tree")
    modes = {path: (tmp_path / "tree" / path).stat().st_mode & 0o777 for path in ("closed/inner/file", "closed", ".")}
    assert modes == {"closed/inner/file": 0o600, "closed": 0o700, ".": 0o700}
    assert (tmp_path / "tree/program").stat().st_mode & 0o777 == 0o555
    assert (tmp_path / "outside").stat().st_mode & 0o777 == 0, "through no link"
