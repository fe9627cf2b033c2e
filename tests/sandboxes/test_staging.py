"""A kill -9 just before every single change to the file system that a command makes, one after the other."""

import signal
from pathlib import Path

import pytest

from proctor.core.errors import InfrastructureError, RetryableError, UsageError
from proctor.sandboxes import Sandboxes
from proctor.sandboxes.staging import StagingArea, remove_socket_links
from slow_tests import scaled

from .support import credentials_of, end_of, forked, kill_at, tree_of

WORK = (".proctor/building", ".proctor/ready", ".proctor/trash")


def killed(work: object, step: int) -> bool:
    """Whether the kill came before the work was done."""
    assert callable(work)

    def until_killed() -> None:
        kill_at(step)
        work()

    code = end_of(forked(until_killed))
    assert code in {0, -signal.SIGKILL}
    return code != 0


def assert_no_leftovers(store: Sandboxes) -> None:
    assert [path for work in WORK for path in (store.root / work).glob("*")] == []


@pytest.mark.parametrize("stride", scaled(4, 1))
def test_a_create_that_is_killed_made_a_whole_sandbox_or_none(store: Sandboxes, account: Path, stride: int) -> None:
    whole = store.create("model", preset="opus", auth_from=account)
    step = 0
    while killed(lambda: store.create("b1", preset="opus", auth_from=account), step):
        names = [each.name for each in store.list()]
        if "b1" in names:
            assert tree_of(store.root / "b1") == tree_of(whole.home)
            assert credentials_of(store.root / "b1") == credentials_of(whole.home)
            store.destroy("b1")
        assert_no_leftovers(store)
        assert not (store.root / "b1").exists()
        step += stride
    assert step > 30
    assert [each.name for each in store.list()] == ["b1", "model"]


@pytest.mark.parametrize("stride", scaled(4, 1))
def test_a_reset_that_is_killed_loses_no_credentials(store: Sandboxes, account: Path, stride: int) -> None:
    box = store.create("b1", preset="opus", auth_from=account)
    clean, credentials = tree_of(box.home), credentials_of(box.home)
    assert len(credentials) == 2
    step, finished_by_repair = 0, 0
    while True:
        (box.home / "sessions" / "old").mkdir()
        (box.home / "sessions" / "old" / "events.jsonl").write_text("{}")
        if not killed(lambda: store.reset("b1"), step):
            break
        copies = [credentials_of(store.root / place) for place in ("b1", ".proctor/ready/b1")]
        assert credentials in copies, f"after step {step} no place has all credentials"
        (listed,) = store.list()
        assert (listed.name, listed.preset, listed.auth) == ("b1", "opus", "valid")
        assert credentials_of(box.home) == credentials
        assert_no_leftovers(store)
        finished_by_repair += tree_of(box.home) == clean
        assert tree_of(box.home) - clean in (set(), {"sessions/old", "sessions/old/events.jsonl"})
        store.reset("b1")
        assert tree_of(box.home) == clean
        step += stride
    assert step > 30
    assert finished_by_repair > 5 / stride
    assert tree_of(box.home) == clean
    assert credentials_of(box.home) == credentials


@pytest.mark.parametrize("stride", scaled(4, 1))
def test_a_destroy_that_is_killed_is_finished_by_the_next_command(store: Sandboxes, account: Path, stride: int) -> None:
    step = 0
    while True:
        box = store.create("b1", preset="opus", auth_from=account)
        tree, credentials = tree_of(box.home), credentials_of(box.home)
        if not killed(lambda: store.destroy("b1"), step):
            break
        if store.list():
            assert tree_of(box.home) == tree
            assert credentials_of(box.home) == credentials
            store.destroy("b1")
        assert_no_leftovers(store)
        assert not box.home.exists()
        step += stride
    assert step > 20


def test_a_repair_that_is_killed_is_repaired(store: Sandboxes, account: Path) -> None:
    box = store.create("b1", preset="opus", auth_from=account)
    clean, credentials = tree_of(box.home), credentials_of(box.home)
    places = StagingArea(store.root)
    step = 0
    while True:
        # As a reset leaves it when it is killed between its two last renames, the worst moment.
        store.reset("b1")
        box.home.rename(places.ready("b1"))
        (store.root / ".proctor" / "trash" / "b1" / "old").mkdir(parents=True)
        if not killed(store.repair, step):
            break
        assert credentials in [credentials_of(box.home), credentials_of(places.ready("b1"))]
        assert store.get("b1").preset == "opus"
        assert tree_of(box.home) == clean
        step += 1
    assert step > 2
    assert tree_of(box.home) == clean


def test_a_replacement_that_has_not_happened_is_dropped(store: Sandboxes) -> None:
    """What runs in the old tree by now must not lose it under its feet."""
    box = store.create("b1")
    (box.home / "precious").touch()
    ready = StagingArea(store.root).ready("b1")
    ready.mkdir()
    (ready / "new").touch()
    store.list()
    assert (box.home / "precious").exists()
    assert_no_leftovers(store)


def test_a_symlink_that_blocks_a_repair_is_named(store: Sandboxes, account: Path, tmp_path: Path) -> None:
    box = store.create("b1", auth_from=account)
    credentials = credentials_of(box.home)
    box.home.rename(StagingArea(store.root).ready("b1"))
    box.home.symlink_to(tmp_path)
    with pytest.raises(InfrastructureError, match="cannot be put back in its place"):
        store.get("b1")
    box.home.unlink()
    assert credentials_of(store.get("b1").home) == credentials


def test_foreign_files_in_the_staging_area_are_kept(store: Sandboxes) -> None:
    store.create("b1")
    stranger = store.root / ".proctor" / "building" / ".DS_Store"
    stranger.touch()
    assert [each.name for each in store.list()] == ["b1"]
    assert stranger.exists()


def test_only_one_command_works_on_a_name_and_others_on_others(tmp_path: Path) -> None:
    places = StagingArea(tmp_path)
    with places.lock("a", wait_seconds=0):
        with places.lock("b", wait_seconds=0):
            pass
        with pytest.raises(RetryableError, match="sandbox a is in use"), places.lock("a", wait_seconds=0):
            pass


@pytest.mark.parametrize("planted", [".proctor", ".proctor/locks", ".proctor/trash", ".proctor/building"])
def test_a_symlink_in_the_place_of_our_own_directories_is_refused(tmp_path: Path, planted: str) -> None:
    outside, root = tmp_path / "outside", tmp_path / "root"
    outside.mkdir()
    (root / planted).parent.mkdir(parents=True)
    (root / planted).symlink_to(outside)
    with pytest.raises(UsageError, match="in the way"), StagingArea(root).lock("a", wait_seconds=0):
        pass
    assert list(outside.iterdir()) == []


def test_the_link_of_h2_is_removed_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / ("x" * 60)
    (home / "sockets").mkdir(parents=True)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    from proctor.sandboxes.layout import socket_link

    link, elsewhere = socket_link(home, tmp_path), socket_link(home, tmp_path / "other")
    assert link
    assert elsewhere
    (tmp_path / "other").mkdir()
    link.symlink_to(home / "sockets")
    elsewhere.symlink_to(home / "sockets")
    remove_socket_links(home, frozenset({str(tmp_path / "other")}))
    assert not link.is_symlink()
    assert not elsewhere.is_symlink()
    link.symlink_to(tmp_path)
    remove_socket_links(home)
    assert link.is_symlink(), "it leads elsewhere, so it is not h2's"
