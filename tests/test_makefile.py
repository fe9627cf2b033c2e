"""The Makefile on machines that lack something at first."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from paths import REPOSITORY

# A Python as Debian has it: `venv` makes half of an environment and fails, until python3-venv is installed.
PYTHON = f"""#!/bin/sh
[ "$1" = -m ] && [ "$2" = venv ] || exec {sys.executable} "$@"
for venv; do :; done
mkdir -p "$venv/bin"
printf '#!/bin/sh\\necho "$@" >> "$0.calls"\\n' > "$venv/bin/python"
chmod +x "$venv/bin/python"
[ -e "$0-venv" ] || {{ echo 'ensurepip is not available' >&2; exit 1; }}
cp "$venv/bin/python" "$venv/bin/pip"
"""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(REPOSITORY / name, tmp_path)
    python = tmp_path / "python3"
    python.write_text(PYTHON)
    python.chmod(0o755)
    return tmp_path


def setup(clone: Path) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    command = ["make", "setup", f"PYTHON={clone / 'python3'}", "WORKERS=1"]
    return subprocess.run(command, cwd=clone, env=env, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("left", ["nothing", "half of an environment"])
def test_setup_succeeds_once_the_missing_venv_package_is_installed(clone: Path, left: str) -> None:
    failed = setup(clone)
    assert failed.returncode == 2
    assert "apt-get install python3-venv" in failed.stdout
    assert not (clone / ".venv").exists()
    if left != "nothing":  # as a kill, or an older Makefile, leaves one
        (clone / ".venv/bin").mkdir(parents=True)
        shutil.copy(sys.executable, clone / ".venv/bin/python")
    (clone / "python3-venv").touch()
    done = setup(clone)
    assert done.returncode == 0, done.stdout + done.stderr
    calls = clone / ".venv/bin/python.calls"
    assert calls.read_text().split()[-3:] == ["install", "--editable", ".[languages]"]
    before = calls.read_text()
    assert setup(clone).returncode == 0
    assert calls.read_text() == before  # nothing is installed twice
