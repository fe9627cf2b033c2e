import os
import stat
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proctor.core.errors import LimitReached
from proctor.core.trees import MAX_DEPTH, disk_bytes, open_parent, remove_tree
from proctor.environments.tree_copy import Copier, CopyStopped, open_target_parent


def copy(source: Path, target: Path, copier: Copier | None = None) -> None:
    with open_parent(source) as inner, open_target_parent(target) as outer:
        (copier or Copier()).copy(inner, outer)


def deep(folder: Path, levels: int) -> None:
    """Make a chain of directories longer than a path may be."""
    here = os.open(folder, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("d", dir_fd=here)
        following = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = following
    os.close(here)


def test_a_tree_is_copied_with_its_links_modes_and_times(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "sub").mkdir(parents=True)
    (source / "sub" / "file").write_text("x")
    (source / "sub" / "file").chmod(0o4751)
    os.utime(source / "sub" / "file", ns=(1, 123_456_789))
    (source / "link").symlink_to("/nowhere")
    os.mkfifo(source / "fifo")
    (source / "sub").chmod(0o555)
    copy(source, tmp_path / "target")
    file = tmp_path / "target" / "sub" / "file"
    assert stat.S_IMODE(file.stat().st_mode) == 0o751  # rights to be another user do not travel
    assert file.stat().st_mtime_ns == 123_456_789
    assert str((tmp_path / "target" / "link").readlink()) == "/nowhere"
    assert not (tmp_path / "target" / "fifo").exists()
    assert stat.S_IMODE((tmp_path / "target" / "sub").stat().st_mode) == 0o555


names = st.sampled_from(["a", "b", "c"])
trees = st.recursive(
    st.one_of(st.binary(max_size=20), st.sampled_from(["LINK a", "LINK ..", "LINK /", "LINK b/c"])),
    lambda inner: st.dictionaries(names, inner, max_size=3),
    max_leaves=12,
)


def build(path: Path, tree: object) -> None:
    if isinstance(tree, bytes):
        path.write_bytes(tree)
    elif isinstance(tree, str):
        path.symlink_to(tree.removeprefix("LINK "))
    elif isinstance(tree, dict):
        path.mkdir()
        for name, inner in tree.items():
            build(path / name, inner)


def read(path: Path) -> object:
    if path.is_symlink():
        return f"LINK {path.readlink()}"
    if path.is_dir():
        return {inner.name: read(inner) for inner in path.iterdir()}
    return path.read_bytes()


def merged(old: object, new: object) -> object:
    """What must be there when `new` has been put over `old`."""
    if isinstance(old, dict) and isinstance(new, dict):
        return {
            name: merged(old[name], new[name]) if name in old and name in new else new.get(name, old.get(name))
            for name in old | new
        }
    return new


@settings(max_examples=200, deadline=None)
@given(trees, trees)
def test_existing_entries_are_replaced_and_nothing_else(
    tmp_path_factory: pytest.TempPathFactory, old: object, new: object
) -> None:
    folder = tmp_path_factory.mktemp("trees")
    (folder / "bystander").write_text("safe")
    build(folder / "source", new)
    build(folder / "target", old)
    copy(folder / "source", folder / "target")
    assert read(folder / "target") == merged(old, new)
    assert read(folder / "source") == new
    assert (folder / "bystander").read_text() == "safe"
    remove_tree(folder / "target")
    assert {path.name for path in folder.iterdir()} == {"bystander", "source"}


def test_a_copy_that_fails_leaves_nothing_unless_something_was_there(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "large").write_bytes(b"x" * 5000)
    with pytest.raises(LimitReached):
        copy(tmp_path / "source", tmp_path / "target", Copier(3000))
    assert not (tmp_path / "target").exists()
    (tmp_path / "target").mkdir()
    with pytest.raises(LimitReached):
        copy(tmp_path / "source", tmp_path / "target", Copier(3000))
    assert (tmp_path / "target").exists()


def test_a_copy_can_be_stopped(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    for number in range(500):
        (tmp_path / "source" / str(number)).write_text("x")
    copier = Copier()
    copier.stop()
    with pytest.raises(CopyStopped):
        copy(tmp_path / "source", tmp_path / "target", copier)
    assert not (tmp_path / "target").exists()


def test_a_tree_too_deep_for_a_path_is_refused_and_can_be_removed(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    deep(tmp_path / "deep", 3000)
    with pytest.raises(LimitReached, match="depth"):
        copy(tmp_path / "deep", tmp_path / "target")
    with pytest.raises(LimitReached, match="depth"):
        disk_bytes(tmp_path / "deep")
    remove_tree(tmp_path / "deep")
    assert not list(tmp_path.iterdir())
    (tmp_path / "fine").mkdir()
    deep(tmp_path / "fine", MAX_DEPTH - 1)
    copy(tmp_path / "fine", tmp_path / "target")
    assert disk_bytes(tmp_path / "fine") > 0


def test_directories_swapped_for_links_while_a_tree_is_written_lead_nowhere(tmp_path: Path) -> None:
    """The target's owner may be hostile too: an environment that files are put into."""
    outside = tmp_path / "outside"
    outside.mkdir()
    source = tmp_path / "source"
    (source / "dir").mkdir(parents=True)
    for number in range(50):
        (source / "dir" / str(number)).write_text("x")
    target = tmp_path / "target"
    target.mkdir()
    done = threading.Event()

    def swap() -> None:
        while not done.is_set():
            try:
                (target / "dir").rename(target / "aside")
                (target / "dir").symlink_to(outside)
                (target / "dir").unlink()
                (target / "aside").rename(target / "dir")
            except OSError:
                continue

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for _ in range(100):
            try:
                copy(source, target)
            except OSError:
                continue
    finally:
        done.set()
        thread.join()
    assert list(outside.iterdir()) == []
