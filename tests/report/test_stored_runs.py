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
