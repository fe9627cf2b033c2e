import os
from pathlib import Path

from proctor.core.files import file_lock
from proctor.report.stored_runs import is_running
from stored_runs import small_run


def test_a_run_is_running_while_its_lock_is_held(tmp_path: Path) -> None:
    store = small_run(tmp_path)
    assert not is_running(store)
    with file_lock(store.folder / ".lock", what="it", wait_seconds=0):
        assert is_running(store)
    assert not is_running(store)


def test_a_lock_on_a_file_of_the_same_number_on_another_device_is_another_files(tmp_path: Path) -> None:
    store, locks = small_run(tmp_path), tmp_path / "locks"
    (store.folder / ".lock").touch()
    lock = (store.folder / ".lock").stat()

    def held(device: int, pid: int) -> bool:
        place = f"{os.major(device):02x}:{os.minor(device):02x}:{lock.st_ino}"
        locks.write_text(f"1: POSIX  ADVISORY  READ 1 00:01:5 0 EOF\n2: FLOCK  ADVISORY  WRITE {pid} {place} 0 EOF\n")
        return is_running(store, kernel_locks=locks)

    other = os.makedev(os.major(lock.st_dev) + 1, 7)
    assert held(lock.st_dev, 1)
    assert not held(other, os.getpid())
    # A file system whose device has another number in the list of locks: who holds the lock has the file open.
    with (store.folder / ".lock").open("rb"):
        assert held(other, os.getpid())
