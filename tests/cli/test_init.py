import os
import subprocess
import sys
from pathlib import Path

import pytest

from proctor.cli.dispatch import dispatch


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """Of a shell in which `proctor` is a program, and there is no key."""
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin/proctor"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m proctor "$@"\n')
    program.chmod(0o755)
    return {
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }


def test_what_init_makes_runs_as_it_is_without_a_key(tmp_path: Path, env: dict[str, str]) -> None:
    assert dispatch(["init", str(tmp_path / "mine")]) == 0
    done = subprocess.run(
        [tmp_path / "mine/run.sh"], env=env, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "mine: 1 of 1 tasks are healthy on this machine" in done.stdout
    assert "mine/run-001 (nothing)" in done.stdout
    assert "mine/run-002 (solution)" in done.stdout


def test_nothing_is_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "run.sh").write_text("mine")
    assert dispatch(["init", str(tmp_path)]) == 2
    assert "already exists" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["run.sh"]


def test_nothing_is_made_in_part(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "suite").mkdir()
    (tmp_path / "suite/suite.json").write_text("mine")
    assert dispatch(["init", str(tmp_path)]) == 2
    assert "already exists; not overwritten" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["suite"]
    assert dispatch(["init", "/proc/nothing"]) == 2
    assert "no folder can be made here" in capsys.readouterr().err
