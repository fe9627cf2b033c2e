"""The Python that a library asks for, on this machine."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from proctor.core.causes import Cause
from proctor.core.errors import InfrastructureError
from proctor.core.record import Record

_PROBE: Final = (
    "import sys; print('%d.%d' % sys.version_info[:2], sys.base_prefix, getattr(sys, '_base_executable', ''))"
)
_PROBE_SECONDS: Final = 20.0


class Commit0Interpreter(Record):
    """A Python, and the folder that holds all of it."""

    executable: str
    prefix: str


@cache
def find_interpreter(version: str) -> Commit0Interpreter:
    """The Python of this minor version.

    Raises:
        InfrastructureError: there is none.
    """
    for candidate in _candidates(version):
        found = _probe(candidate, version)
        if found is not None:
            return found
    raise InfrastructureError(
        f"it needs Python {version}, which is not on this machine",
        fix=f"install it (`uv python install {version}`, pyenv, or your system's packages), or use --runner docker",
        cause=Cause.NOT_RUNNABLE_HERE,
    )


def _candidates(version: str) -> Iterator[Path]:
    name, home = f"python{version}", Path.home()
    yield Path(sys.executable)
    on_path = shutil.which(name)
    if on_path is not None:
        yield Path(on_path)
    yield Path("/usr/bin", name)
    pyenv = Path(os.environ.get("PYENV_ROOT") or home / ".pyenv")
    managed = Path(os.environ.get("UV_PYTHON_INSTALL_DIR") or home / ".local/share/uv/python")
    yield from sorted(pyenv.glob(f"versions/{version}.*/bin/{name}"))
    yield from sorted(managed.glob(f"cpython-{version}.*/bin/{name}"))


def _probe(candidate: Path, version: str) -> Commit0Interpreter | None:
    """What a program says that it is; None when it is not what we look for."""
    try:
        done = subprocess.run(
            [candidate, "-I", "-c", _PROBE], capture_output=True, text=True, check=False, timeout=_PROBE_SECONDS
        )
        said, prefix, own = done.stdout.rstrip("\n").split(" ", 2)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    if said != version:
        return None
    return Commit0Interpreter(executable=str(Path(own or candidate).resolve()), prefix=str(Path(prefix).resolve()))
