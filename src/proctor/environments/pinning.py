"""Files of a running environment that nothing in it can change, replace or move.

A process of ours enters the environment's mount namespace and lays a read-only file of its own over each of them. The
directories above become mount points too, so that none can be renamed with what is in it. Commands in an environment
have no capability to take mounts away.
"""

import asyncio
import marshal
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Final

from proctor.core.trees import EXECUTABLE, LINK, FileEntry

_SECONDS: Final = 60.0


async def pin_in_namespace(pid: int, workdir: str, files: Mapping[str, FileEntry], *, container: str = "") -> bool:
    """Pin files in the mount namespace of a process; whether that could be done.

    Args:
        pid: a process of the environment, as this machine numbers it.
        workdir: what the paths are relative to.
        files: what is shown at each path; links are passed over.
        container: what its control group must name, for a number that an engine gave.
    """
    if not sys.platform.startswith("linux"):
        return False
    entries = [(path, entry.data, entry.mode == EXECUTABLE) for path, entry in files.items() if entry.mode != LINK]
    return await asyncio.to_thread(_run, marshal.dumps((pid, container, workdir, entries)))


def _run(request: bytes) -> bool:
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-B", "-c", _program()],
            input=request,
            capture_output=True,
            check=False,
            timeout=_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


@cache
def _program() -> str:
    return (resources.files("proctor.environments") / "inside" / "pin.py").read_text(encoding="utf-8")
