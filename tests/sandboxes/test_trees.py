import os
from pathlib import Path

from proctor.sandboxes.trees import remove_unmounted_tree

from .support import end_of, forked, with_mount


def test_removing_a_tree_leaves_what_its_symlinks_point_to(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").touch()
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "link").symlink_to(outside)
    (tree / "dangling").symlink_to("nowhere")
    remove_unmounted_tree(tree)
    assert not tree.exists()
    assert (outside / "precious").exists()


def test_removing_a_symlink_removes_the_symlink_only(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "outside")
    remove_unmounted_tree(tmp_path / "link")
    assert (tmp_path / "outside").exists()
    assert not (tmp_path / "link").is_symlink()
    remove_unmounted_tree(tmp_path / "nothing")


def test_directories_without_permissions_are_removed_by_their_owner(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o755)

    def as_nobody() -> None:
        if os.geteuid() == 0:
            os.setuid(65534)
        tree = tmp_path / "tree"
        (tree / "cache" / "deep").mkdir(parents=True)
        (tree / "cache" / "deep" / "file").touch()
        (tree / "cache" / "link").symlink_to(outside)
        (tree / "cache" / "deep").chmod(0o000)
        (tree / "cache").chmod(0o555)
        remove_unmounted_tree(tree)

    for parent in (tmp_path, *tmp_path.parents):
        if parent != Path("/") and parent.stat().st_uid == os.geteuid():
            parent.chmod(parent.stat().st_mode | 0o711)
    assert end_of(forked(as_nobody)) == 0
    assert not (tmp_path / "tree").exists()
    assert outside.stat().st_mode & 0o777 == 0o755


def test_a_tree_with_a_mount_in_it_is_not_touched(tmp_path: Path) -> None:
    outside, inside = tmp_path / "outside", tmp_path / "tree" / "with space" / "mount"
    outside.mkdir()
    (outside / "precious").touch()
    inside.mkdir(parents=True)
    code = "import sys; from pathlib import Path; "
    code += "from proctor.sandboxes.trees import check_no_mounts, remove_unmounted_tree; "
    refused = with_mount(outside, inside, f"{code}remove_unmounted_tree(Path({str(tmp_path / 'tree')!r}))")
    assert refused.stderr.splitlines()[-1] == (
        "proctor.core.errors.InfrastructureError: "
        f"{inside}: another file system is mounted inside the sandbox; unmount it first"
    )
    assert (outside / "precious").exists()
    neighbour = with_mount(outside, inside, f"{code}check_no_mounts(Path({str(tmp_path / 'tre')!r}))")
    assert neighbour.returncode == 0
