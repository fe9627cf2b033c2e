"""What is made once, however many workers, lanes and runs on this machine want it at the same time."""

import fcntl
import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def one_at_a_time(name: str) -> Iterator[None]:
    """Wait until nobody else on this machine makes what has this name."""
    folder = Path(tempfile.gettempdir()) / f"proctor-tests-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    with (folder / f"{hashlib.sha256(name.encode()).hexdigest()[:32]}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """A folder that the first worker of this run makes, and the others find."""
    base = factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder, whole = shared / f"once-{name}", shared / f"once-{name}.whole"
    with one_at_a_time(str(folder)):
        if not whole.exists():
            make(folder)
            whole.touch()
    return folder
