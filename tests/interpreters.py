"""The Pythons of this machine."""

import os
import subprocess
import sys
from pathlib import Path


def interpreters() -> list[str]:
    """Every Python 3.6 or later on this machine, one of each minor version, this one first."""
    found = {sys.version_info[:2]: sys.executable}
    homes = sorted(Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")).glob("versions/3.*/bin/python3"))
    for candidate in [*map(str, homes), *(f"/usr/bin/python3.{minor}" for minor in range(6, 20))]:
        if not Path(candidate).exists():
            continue
        answer = subprocess.run(
            [candidate, "-I", "-c", "import sys; print(*sys.version_info[:2])"],
            capture_output=True,
            text=True,
            check=False,
        )
        if answer.returncode == 0:
            major, minor = map(int, answer.stdout.split())
            if (major, minor) >= (3, 6):
                found.setdefault((major, minor), candidate)
    return list(found.values())
