import json
import os
import random
import signal
import socket
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from proctor.core.errors import RetryableError, UsageError
from proctor.sandboxes import Sandboxes
from proctor.sandboxes.layout import socket_link
from proctor.sandboxes.staging import StagingArea
from slow_tests import scaled
from waiting import until

from .support import (
    CREDENTIALS,
    credentials_of,
    end_of,
    forked,
    launch_pod,
    running_in,
    tree_of,
    with_mount,
)


def snapshot_of(folder: Path) -> dict[str, bytes | str | None]:
    """All there is below a folder."""
    found: dict[str, bytes | str | None] = {}
    for path in folder.rglob("*"):
        content = str(path.readlink()) if path.is_symlink() else path.read_bytes() if path.is_file() else None
        found[path.relative_to(folder).as_posix()] = content
    return found


def test_a_new_sandbox_is_a_whole_h2_directory(store: Sandboxes, account: Path) -> None:
    before = datetime.now(UTC)
    box = store.create("b1", preset="opus", auth_from=account)
    assert box.home == store.root / "b1"
    assert (box.home / ".h2-dir.txt").is_file()
    for directory in ("roles", "pods", "sessions", "sockets", "messages", "logs", "worktrees", "h2-root"):
        assert (box.home / directory).is_dir()
    assert (box.home / "pods" / "benchmark.yaml.tmpl").is_file()
    manifest = json.loads((box.home / "sandbox.json").read_bytes())
    assert (manifest["preset"], manifest["model"]) == ("opus", "opus")
    assert manifest["schema_version"] == "proctor.sandbox@1"
    assert timedelta(seconds=-1) <= datetime.fromisoformat(manifest["created"]) - before < timedelta(minutes=1)
    (listed,) = store.list()
    assert (listed.name, listed.preset, listed.auth, listed.agents) == ("b1", "opus", "valid", 0)


def test_nobody_else_can_look_into_a_sandbox(store: Sandboxes, account: Path) -> None:
    box = store.create("b1", preset="opus", auth_from=account)
    modes = {path.stat().st_mode & 0o077 for path in (store.root, box.home, *box.home.rglob("*"))}
    assert modes == {0}


def test_the_model_is_filled_in_and_kept(store: Sandboxes) -> None:
    box = store.create("b1", preset="opus", model="sonnet")
    role = box.home / "roles" / "coder.yaml.tmpl"
    assert 'agent_model: "sonnet"' in role.read_text()
    assert "@MODEL@" not in "".join(path.read_text() for path in box.home.rglob("*") if path.is_file())
    assert store.reset("b1").model == "sonnet"
    assert 'agent_model: "sonnet"' in role.read_text()
    assert store.reset("b1", preset="haiku").model == "haiku"
    assert store.reset("b1", preset="opus").model == "opus"
    assert store.reset("b1", model="sonnet").model == "sonnet"
    assert store.reset("b1", preset="hooks").model is None


def test_an_existing_name_is_refused_and_nothing_touched(store: Sandboxes, account: Path) -> None:
    store.create("b1", preset="opus", auth_from=account)
    before = snapshot_of(store.root)
    with pytest.raises(UsageError, match="sandbox b1 already exists"):
        store.create("b1", preset="empty")
    assert snapshot_of(store.root) == before


def test_a_create_that_cannot_be_done_leaves_nothing(store: Sandboxes, tmp_path: Path) -> None:
    for wrong in ({"preset": "nope"}, {"preset": "opus", "model": "a b"}, {"auth_from": tmp_path / "nowhere"}):
        with pytest.raises(UsageError):
            store.create("b1", **wrong)
    assert store.list() == ()
    assert not (store.root / "b1").exists()


def test_a_reset_wipes_all_but_the_credentials(store: Sandboxes, account: Path) -> None:
    box = store.create("b1", preset="opus", auth_from=account)
    clean = snapshot_of(box.home)
    (box.home / "claude-config/default/ratelimit.json").write_text("{}")
    (box.home / "claude-config/default/projects").mkdir()
    (box.home / "claude-config/default/settings.json").write_text("{}")
    (box.home / "roles/evil.yaml").write_text("role_name: evil")
    (box.home / "messages/worker").mkdir()
    (box.home / "new").mkdir()
    again = store.reset("b1")
    assert snapshot_of(box.home) == clean
    assert again == box


def test_a_reset_to_another_preset(store: Sandboxes, account: Path) -> None:
    box = store.create("b1", preset="opus", auth_from=account)
    credentials = credentials_of(box.home)
    store.reset("b1", preset="empty")
    assert not (box.home / "pods/benchmark.yaml.tmpl").exists()
    assert "hooks" not in json.loads((box.home / "claude-config/default/settings.json").read_text())
    assert store.get("b1").preset == "empty"
    assert credentials_of(box.home) == credentials
    with pytest.raises(UsageError, match="no preset is called"):
        store.reset("b1", preset="nope")
    assert store.get("b1").preset == "empty"


def test_a_preset_given_by_its_path_is_read_again_at_a_reset(store: Sandboxes, tmp_path: Path) -> None:
    preset = tmp_path / "mine"
    preset.mkdir()
    (preset / "preset.toml").write_text('extends = "hooks"')
    (preset / "note").write_text("one")
    box = store.create("b1", preset=preset)
    assert (box.preset, box.preset_path) == ("mine", str(preset))
    (preset / "note").write_text("two")
    store.reset("b1")
    assert (box.home / "note").read_text() == "two"
    (preset / "preset.toml").unlink()
    with pytest.raises(UsageError, match="is not a preset"):
        store.reset("b1")
    assert (box.home / "note").read_text() == "two"
    assert store.reset("b1", preset="hooks").preset_path is None


@pytest.mark.parametrize("damage", ["", "{", '{"preset": 3}', None])
def test_a_damaged_sandbox_is_listed_reset_and_destroyed(store: Sandboxes, account: Path, damage: str | None) -> None:
    box = store.create("b1", preset="opus", auth_from=account)
    credentials = credentials_of(box.home)
    if damage is None:
        (box.home / "sandbox.json").unlink()
    else:
        (box.home / "sandbox.json").write_text(damage)
    (listed,) = store.list()
    assert (listed.preset, listed.created, listed.auth) == (None, None, "valid")
    with pytest.raises(UsageError, match="give --preset"):
        store.reset("b1")
    assert store.reset("b1", preset="haiku").preset == "haiku"
    assert credentials_of(box.home) == credentials
    store.destroy("b1")
    assert store.list() == ()


@pytest.mark.parametrize("sign", ["thesis.tex", ".h2-dir.txt"])
def test_a_directory_that_is_no_sandbox_is_left_alone(store: Sandboxes, sign: str) -> None:
    (store.root / "project").mkdir(parents=True)
    (store.root / "project" / sign).write_text("v0.3.2-ddaa856\n")
    assert store.list() == ()
    for action in (store.reset, store.destroy, store.stop, store.get):
        with pytest.raises(UsageError, match="not a sandbox"):
            action("project")
    with pytest.raises(UsageError, match="is taken"):
        store.create("project")
    assert (store.root / "project" / sign).exists()


@pytest.mark.parametrize("name", ["../x", "a/b", "", "x" * 200, ".proctor", ".", "/etc"])
def test_no_name_leads_out_of_the_root(store: Sandboxes, tmp_path: Path, name: str) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "sandbox.json").write_text("{}")
    before = snapshot_of(tmp_path)
    for action in (store.create, store.reset, store.destroy, store.stop, store.get):
        with pytest.raises(UsageError):
            action(name)
    assert snapshot_of(tmp_path) == before


def test_a_symlink_in_the_place_of_a_sandbox_is_refused(store: Sandboxes, tmp_path: Path) -> None:
    other = Sandboxes(tmp_path / "elsewhere")
    outside = other.create("b1", preset="opus")
    store.root.mkdir()
    (store.root / "b1").symlink_to(outside.home)
    (store.root / "b2").symlink_to("nowhere")
    (store.root / "b3").touch()
    before = snapshot_of(outside.home)
    assert store.list() == ()
    for name in ("b1", "b2", "b3"):
        for action in (store.reset, store.destroy, store.stop, store.get):
            with pytest.raises(UsageError, match="not a sandbox"):
                action(name)
        with pytest.raises(UsageError, match="is taken"):
            store.create(name)
    assert snapshot_of(outside.home) == before
    assert os.path.lexists(store.root / "b2")


def test_symlinks_planted_inside_are_wiped_and_not_followed(store: Sandboxes, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (outside / "default").mkdir(parents=True)
    (outside / "default" / ".credentials.json").write_text("not yours")
    before = snapshot_of(outside)
    for action in (store.reset, store.destroy):
        box = store.create("b1", preset="opus")
        for name in ("sessions", "sockets", "roles", "claude-config"):
            (box.home / name).rename(box.home / f"old-{name}")
            (box.home / name).symlink_to(outside)
        (box.home / "sandbox.json").unlink()
        (box.home / "sandbox.json").symlink_to(outside / "default" / ".credentials.json")
        assert store.list()[0].auth == "none"
        if action == store.reset:
            store.reset("b1", preset="opus")
            assert not (box.home / "claude-config").is_symlink()
            assert credentials_of(box.home).keys() == {CREDENTIALS[0]}
            store.destroy("b1")
        else:
            store.destroy("b1")
        assert snapshot_of(outside) == before


def test_a_root_behind_a_symlink_is_the_users_choice(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "root").symlink_to(tmp_path / "disk")
    box = Sandboxes(tmp_path / "root").create("b1")
    assert box.home == tmp_path / "disk" / "b1"


def test_a_root_that_cannot_be_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for root in (tmp_path / "file", tmp_path / "file" / "below", tmp_path / ("x" * 300)):
        with pytest.raises(UsageError):
            Sandboxes(root).create("b1")
        for action in (Sandboxes(root).reset, Sandboxes(root).destroy, Sandboxes(root).get):
            with pytest.raises(UsageError):
                action("b1")
    with pytest.raises(UsageError):
        Sandboxes(tmp_path / "file").list()
    assert Sandboxes(tmp_path / "nowhere").list() == ()
    assert not (tmp_path / "nowhere").exists()


def test_agents_are_counted_by_their_answers(store: Sandboxes, tmp_path: Path) -> None:
    box = store.create("b1", preset="opus")
    store.create("b2", preset="opus")
    launch_pod(box, tmp_path, coders="3")
    listener = socket.socket(socket.AF_UNIX)
    directory = os.open(box.home / "sockets", os.O_RDONLY)
    listener.bind(f"/proc/self/fd/{directory}/agent.stale.sock")
    os.close(directory)
    listener.close()
    assert [(each.name, each.agents) for each in store.list()] == [("b1", 5), ("b2", 0)]
    store.reset("b1")
    assert [(each.name, each.agents) for each in store.list()] == [("b1", 0), ("b2", 0)]


def test_a_reset_stops_what_runs_and_says_what_does_not(store: Sandboxes, tmp_path: Path) -> None:
    box = store.create("b1", preset="opus")
    launch_pod(box, tmp_path)
    store.reset("b1")
    assert running_in(box.home) == []
    assert list((box.home / "sessions").iterdir()) == []


def test_destroy_leaves_nothing_behind(store: Sandboxes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "a-name-long-enough-for-h2-to-reach-its-sockets-by-a-symlink"
    with tempfile.TemporaryDirectory(dir="/tmp") as elsewhere:
        monkeypatch.setenv("TMPDIR", elsewhere)
        box = store.create(name, preset="opus")
        launch_pod(box, tmp_path)
        link = socket_link(box.home, Path(elsewhere))
        assert link
        assert link.is_symlink()
        assert store.list()[0].agents == 4
        monkeypatch.setenv("TMPDIR", "/tmp")
        store.destroy(name)
        assert running_in(box.home) == []
        assert not box.home.exists()
        assert not link.is_symlink(), "found through the environment of what was stopped"


@pytest.mark.parametrize("action", ["reset", "destroy"])
def test_a_mount_inside_is_not_removed(store: Sandboxes, tmp_path: Path, action: str) -> None:
    box = store.create("b1")
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").touch()
    code = f"from pathlib import Path; from proctor.sandboxes import Sandboxes; Sandboxes(Path({str(store.root)!r}))"
    refused = with_mount(tmp_path / "precious", box.home / "projects", f"{code}.{action}('b1')")
    assert "mounted inside the sandbox" in refused.stderr
    assert (tmp_path / "precious" / "file").exists()
    assert store.get("b1") == box


def test_a_command_runs_in_the_sandbox(store: Sandboxes) -> None:
    box = store.create("b1")
    shown = box.run(["sh", "-c", "echo $H2_DIR $X; cat; exit 3"], stdin="input", variables={"X": "y", "H2_ACTOR": "me"})
    assert shown.returncode == 3
    assert shown.stdout == f"{box.home} y\ninput"
    assert box.run(["h2", "version"], check=True).stdout.startswith("v0.3")


def test_the_list_is_in_natural_order(store: Sandboxes) -> None:
    for name in ("bench-10", "bench-9", "a", "bench-1", "bench"):
        store.create(name)
    assert [each.name for each in store.list()] == ["a", "bench", "bench-1", "bench-9", "bench-10"]


@pytest.mark.parametrize("resets", scaled(20, 100))
def test_credentials_are_the_same_bytes_after_many_resets(store: Sandboxes, account: Path, resets: int) -> None:
    (account / ".credentials.json").write_bytes(bytes(random.Random(1).randbytes(4096)))
    box = store.create("b1", preset="opus", auth_from=account)
    credentials = credentials_of(box.home)
    assert credentials[CREDENTIALS[1]] == (account / ".credentials.json").read_bytes()
    for i in range(resets):
        store.reset("b1", preset=["opus", "haiku", "hooks", "empty"][i % 4])
    assert credentials_of(box.home) == credentials
    assert all((box.home / name).stat().st_mode & 0o777 == 0o600 for name in CREDENTIALS)


@pytest.mark.slow
@pytest.mark.parametrize("kills", scaled(40, 200))
def test_credentials_are_the_same_bytes_after_kills_at_random_points_in_resets(
    store: Sandboxes, account: Path, kills: int
) -> None:
    box = store.create("b1", preset="opus", auth_from=account)
    clean, credentials = tree_of(box.home), credentials_of(box.home)
    chance = random.Random(2)

    def reset_for_ever() -> None:
        while True:
            store.reset("b1")

    interrupted = 0
    for turn in range(kills):
        child = forked(reset_for_ever)
        if turn % 2:
            until(lambda: StagingArea(store.root).unfinished() != set(), pause=0)
        time.sleep(chance.uniform(0, 0.02))
        os.kill(child, signal.SIGKILL)
        assert end_of(child) == -signal.SIGKILL
        interrupted += "b1" in StagingArea(store.root).unfinished()
        assert credentials in [credentials_of(box.home), credentials_of(StagingArea(store.root).ready("b1"))]
        (listed,) = store.list()
        assert (listed.preset, listed.auth) == ("opus", "valid")
        assert credentials_of(box.home) == credentials
        assert tree_of(box.home) == clean
    assert interrupted > kills / 10, "most kills came between two resets, which proves nothing"


def test_a_reset_killed_while_it_stops_agents_is_done_by_the_next(
    store: Sandboxes, account: Path, tmp_path: Path
) -> None:
    box = store.create("b1", preset="opus", auth_from=account)
    clean, credentials = tree_of(box.home), credentials_of(box.home)

    def reset() -> None:
        store.reset("b1")

    for delay in (0.0, 0.005, 0.01, 0.03, 0.06, 0.1):
        launch_pod(box, tmp_path, coders="1")
        child = forked(reset)
        time.sleep(delay)
        os.kill(child, signal.SIGKILL)
        end_of(child)
        store.reset("b1")
        assert running_in(box.home) == []
        assert tree_of(box.home) == clean
        assert credentials_of(box.home) == credentials


@pytest.mark.parametrize("number", scaled(20, 100))
def test_many_sandboxes(store: Sandboxes, account: Path, number: int) -> None:
    names = [f"bench-{i}" for i in range(1, number + 1)]
    for name in names:
        store.create(name, preset="opus", auth_from=account)
    listed = store.list()
    assert [each.name for each in listed] == names
    assert {(each.preset, each.auth, each.agents) for each in listed} == {("opus", "valid", 0)}
    credentials = credentials_of(store.root / "bench-15")
    for name in names:
        store.reset(name)
    assert all(credentials_of(store.root / name) == credentials for name in names)
    for name in names:
        store.destroy(name)
    assert store.list() == ()
    assert [path.name for path in store.root.iterdir()] == [".proctor"]


def test_two_commands_at_once_never_mix(store: Sandboxes, account: Path) -> None:
    """Six processes work on one name; whatever is seen in between is a whole sandbox of one preset, or none."""
    trees: dict[str | None, set[str]] = {}
    for preset in ("opus", "haiku", "empty"):
        trees[preset] = tree_of(store.create(preset, preset=preset, auth_from=account).home)

    def work(seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(15):
            preset = chance.choice(["opus", "haiku", "empty"])
            try:
                match chance.choice(["create", "reset", "reset", "destroy"]):
                    case "create":
                        store.create("b1", preset=preset, auth_from=account)
                    case "reset":
                        store.reset("b1", preset=preset)
                    case "destroy":
                        store.destroy("b1")
            except UsageError as error:
                if "already exists" not in error.sentence and "there is no sandbox" not in error.sentence:
                    raise

    children = [forked(lambda seed=seed: work(seed)) for seed in range(6)]  # type: ignore[misc]
    assert [end_of(child) for child in children] == [0] * 6
    for listed in store.list():
        assert tree_of(Path(listed.home)) == trees[listed.preset]
        assert listed.auth == "valid"
    assert StagingArea(store.root).unfinished() == set()


def test_a_list_during_resets_always_shows_the_sandbox(store: Sandboxes, account: Path, tmp_path: Path) -> None:
    store.create("b1", preset="opus", auth_from=account)
    begun, enough = tmp_path / "begun", tmp_path / "enough"

    def reset() -> None:
        while not enough.exists():
            store.reset("b1")
            begun.touch()

    child = forked(reset)
    until(begun.exists)
    for _ in range(100):
        (listed,) = store.list()
        assert (listed.name, listed.preset, listed.auth) == ("b1", "opus", "valid")
    enough.touch()
    assert end_of(child) == 0


def test_waiting_for_a_lock_is_reported(store: Sandboxes) -> None:
    store.create("b1")
    told: list[str] = []
    other = Sandboxes(store.root, report=told.append, wait_seconds=0.1)
    with (
        StagingArea(store.root).lock("b1", wait_seconds=0),
        pytest.raises(RetryableError, match="sandbox b1 is in use by another command"),
    ):
        other.reset("b1")
    assert told == ["waiting for another command on sandbox b1 to end"]
    other.reset("b1")


def test_a_list_waits_for_nobody(store: Sandboxes) -> None:
    store.create("b1")
    with StagingArea(store.root).lock("b1", wait_seconds=0):
        StagingArea(store.root).building("b1").mkdir()
        started = time.monotonic()
        assert [each.name for each in store.list()] == ["b1"]
        assert time.monotonic() - started < 20  # the lock is waited for three times as long
        assert StagingArea(store.root).building("b1").exists(), "it belongs to the command that holds the lock"


def test_a_failed_repair_is_reported_and_other_sandboxes_work(
    store: Sandboxes, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.create("b1")
    told: list[str] = []
    watching = Sandboxes(store.root, report=told.append)
    (store.root / ".proctor" / "trash" / "b2").mkdir()
    (store.root / ".proctor" / "locks" / "b2").mkdir()
    assert [each.name for each in watching.list()] == ["b1"]
    assert told
    assert told[0].startswith("cannot finish what was left of sandbox b2")


def test_checks_of_several_names_touch_nothing(store: Sandboxes, account: Path) -> None:
    store.create("b1", auth_from=account)
    before = snapshot_of(store.root)
    for names in (["b2", "b1"], ["b2", "../x"], ["b2", "b2"]):
        with pytest.raises(UsageError):
            store.check_create(names, preset="hooks", model=None, auth_from=None)
    with pytest.raises(UsageError):
        store.check_create(["b2"], preset="nope", model=None, auth_from=None)
    for names in (["b1", "b2"], ["b1", "b1"]):
        with pytest.raises(UsageError):
            store.check_reset(names, preset=None, model=None)
        with pytest.raises(UsageError):
            store.check_destroy(names)
    with pytest.raises(UsageError):
        store.check_reset(["b1"], preset=None, model="opus")
    assert snapshot_of(store.root) == before
