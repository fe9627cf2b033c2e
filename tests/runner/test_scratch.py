import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from proctor.runner.scratch import remove_abandoned, scratch_dir

HOLDER = """
import sys, tempfile, time
from proctor.runner import scratch
folder = scratch.scratch_folder()
assert scratch.scratch_folder() is folder
(folder / "tree").mkdir()
(folder / "tree" / "file").write_text("x")
with scratch.tempfiles_in_scratch():
    made = tempfile.mkdtemp(prefix="proctor-grade-")
    assert made.startswith(str(folder)), made
    assert scratch.scratch_folder() is folder
assert not tempfile.mkdtemp(prefix="other-").startswith(str(folder))
print(folder, scratch.socket_folder(), flush=True)
if sys.argv[1] == "stay":
    time.sleep(600)
"""


def start(place: Path, what: str) -> "subprocess.Popen[str]":
    env = {**os.environ, "TMPDIR": str(place)}
    return subprocess.Popen([sys.executable, "-c", HOLDER, what], env=env, stdout=subprocess.PIPE, text=True)


def test_a_process_has_one_folder_and_removes_it_in_the_end(tmp_path: Path) -> None:
    done = start(tmp_path, "go")
    out, _ = done.communicate()
    assert done.returncode == 0
    assert Path(out.split()[0]).parent == tmp_path
    assert [path.name for path in tmp_path.iterdir() if not path.name.startswith("other-")] == []


def test_a_killed_process_is_cleared_up_after_by_the_next_and_a_living_one_is_not(tmp_path: Path) -> None:
    living, killed = start(tmp_path, "stay"), start(tmp_path, "stay")
    folders = {}
    for process in (living, killed):
        assert process.stdout is not None
        folders[process.pid] = Path(process.stdout.readline().split()[0])
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    try:
        assert folders[killed.pid].exists()
        assert remove_abandoned(tmp_path) == [folders[killed.pid]]
        assert not folders[killed.pid].exists()
        assert (folders[living.pid] / "tree" / "file").exists()
    finally:
        living.kill()
        for process in (living, killed):
            process.communicate()


def test_other_files_in_the_scratch_folder_are_kept(tmp_path: Path) -> None:
    (tmp_path / "proctor-scratch-file").write_text("a file")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "kept").write_text("x")
    (tmp_path / "proctor-scratch-link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "proctor-grade-x").mkdir()
    assert remove_abandoned(tmp_path) == []
    assert (tmp_path / "elsewhere" / "kept").exists()
    assert (tmp_path / "proctor-grade-x").exists()


def test_sockets_have_a_place_with_a_short_name_wherever_temporary_files_lie(tmp_path: Path) -> None:
    deep = tmp_path / ("x" * 100)
    deep.mkdir()
    done = start(deep, "go")
    out, _ = done.communicate()
    folder, sockets = map(Path, out.split())
    assert folder.parent == deep
    assert len(str(sockets)) <= 60
    assert not sockets.exists()


def test_many_at_once_do_not_take_each_others_folders_away(tmp_path: Path) -> None:
    processes = [start(tmp_path, "stay") for _ in range(6)]
    try:
        folders = [Path(process.stdout.readline().split()[0]) for process in processes if process.stdout is not None]
        time.sleep(0.1)
        remove_abandoned(tmp_path)
        assert all((folder / "tree" / "file").exists() for folder in folders)
        assert len(set(folders)) == 6
    finally:
        for process in processes:
            process.kill()
            process.communicate()


async def test_a_folder_that_cannot_be_emptied_is_not_used_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scratch_dir(tmp_path) as first:
        (first / "tree").mkdir()
        (first / "link").symlink_to("/")
        (first / "file").touch()
    async with scratch_dir(tmp_path) as second:
        assert (second, list(second.iterdir())) == (first, [])
        (second / "tree").mkdir()
        monkeypatch.setattr(shutil, "rmtree", lambda *_, **__: None)
    async with scratch_dir(tmp_path) as third:
        assert third != second
