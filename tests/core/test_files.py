import multiprocessing
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from proctor.core.errors import RetryableError
from proctor.core.files import file_lock, write_atomic


def test_a_write_replaces_the_file_with_the_given_mode(tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_text("old")
    write_atomic(target, "new", mode=0o600)
    assert target.read_text() == "new"
    assert target.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [target]


def test_a_symlink_planted_under_the_temporary_name_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / ".file.tmp").symlink_to(victim)
    write_atomic(tmp_path / "file", "new")
    assert victim.read_text() == "precious"
    assert (tmp_path / "file").read_text() == "new"


def _write_for_ever(target: Path) -> None:
    content = 0
    while True:
        content ^= 1
        write_atomic(target, str(content) * 100_000)


def test_a_killed_writer_leaves_the_old_file_or_the_new_one(tmp_path: Path) -> None:
    target = tmp_path / "file"
    for delay in (0.01, 0.02, 0.03, 0.05, 0.08):
        writer = multiprocessing.get_context("fork").Process(target=_write_for_ever, args=(target,))
        writer.start()
        while not target.exists():
            time.sleep(0.001)
        time.sleep(delay)
        assert writer.pid is not None
        os.kill(writer.pid, signal.SIGKILL)
        writer.join()
        content = target.read_text()
        assert len(content) == 100_000
        assert len(set(content)) == 1


def test_a_lock_that_is_held_is_refused_after_the_wait(tmp_path: Path) -> None:
    with (
        file_lock(tmp_path / "lock", what="sandbox b1"),
        pytest.raises(RetryableError, match="sandbox b1 is in use"),
        file_lock(tmp_path / "lock", what="sandbox b1", wait_seconds=0.05),
    ):
        pass


def test_a_lock_is_free_again_after_its_block(tmp_path: Path) -> None:
    for _ in range(2):
        with file_lock(tmp_path / "lock", what="it", wait_seconds=0):
            pass


def test_a_program_that_inherits_the_lock_keeps_it_after_its_block(tmp_path: Path) -> None:
    with file_lock(tmp_path / "lock", what="it") as descriptor:
        program = subprocess.Popen(["sleep", "60"], pass_fds=[descriptor])
    try:
        with pytest.raises(RetryableError, match="in use"), file_lock(tmp_path / "lock", what="it", wait_seconds=0):
            pass
    finally:
        program.kill()
        program.wait()
    with file_lock(tmp_path / "lock", what="it", wait_seconds=0):
        pass


def test_waiting_for_a_lock_is_reported_once(tmp_path: Path) -> None:
    calls: list[str] = []
    with (
        file_lock(tmp_path / "lock", what="it"),
        pytest.raises(RetryableError),
        file_lock(tmp_path / "lock", what="it", wait_seconds=0.1, on_wait=lambda: calls.append("waiting")),
    ):
        pass
    assert calls == ["waiting"]


def test_what_is_not_a_regular_file_is_never_replaced_by_one(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    link = tmp_path / "link"
    link.symlink_to(pipe)
    for target in (pipe, link):
        with pytest.raises(OSError, match="not a regular file"):
            write_atomic(target, "x")
    assert pipe.is_fifo()
    assert link.is_symlink()
