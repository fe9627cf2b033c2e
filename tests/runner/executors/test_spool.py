"""What a node keeps of attempts until the driver has all of it."""

import os
import time
from pathlib import Path

from proctor.core.run import Trial
from proctor.results.attempt_record import RECORDING_FILE
from proctor.runner.executors.messages import attempt_key
from proctor.runner.executors.spool import Spool, file_digest

TRIAL = Trial(task_id="a/b c", number=2)


def test_an_attempt_is_kept_until_it_is_removed(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    logs = spool.create("run-001", TRIAL, 3)
    (logs / RECORDING_FILE).write_bytes(b"one\ntwo\n")
    assert Spool(tmp_path).entries() == []  # it is being made
    spool.close()
    (entry,) = Spool(tmp_path).entries()
    key = attempt_key("run-001", TRIAL, 3)
    assert (entry.key, entry.run, entry.trial, entry.number, entry.size) == (key, "run-001", TRIAL, 3, 8)
    assert spool.read(key, 4) == b"two\n"
    assert spool.digest(key, 4) == file_digest(logs / RECORDING_FILE, 4) != ""
    spool.remove(key)
    assert spool.entries() == []


def test_old_and_unreadable_spool_entries_are_removed(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    old = spool.create("run-001", TRIAL, 1).parent
    spool.close()
    long_ago = time.time() - 40 * 86400
    os.utime(old, (long_ago, long_ago))
    (tmp_path / "broken").mkdir()
    assert spool.entries() == []
    assert list(tmp_path.iterdir()) == []


def test_more_than_there_is_has_no_digest(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"abc")
    assert file_digest(tmp_path / "file", 4) == ""
    assert file_digest(tmp_path / "missing", 0) == file_digest(tmp_path / "file", 0) != ""
