import os
import subprocess
import sys
from pathlib import Path

import pytest

from proctor.cli.dispatch import dispatch

KINDS = ("agent", "benchmark", "environment")


def run_pytest(folder: Path, *names: str) -> str:
    env = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *names]
    done = subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.mark.parametrize("kind", KINDS)
def test_a_plugin_passes_its_own_tests_as_it_is_made(kind: str, tmp_path: Path) -> None:
    name = f"my_{kind}"
    assert dispatch(["plugin", "new", kind, name, "--folder", str(tmp_path / name)]) == 0
    assert "passed" in run_pytest(tmp_path / name)


def test_plugins_are_tested_by_their_folders(tmp_path: Path) -> None:
    """As the tutorial says it, and what `plugin new` prints."""
    names = [f"my_{kind}" for kind in KINDS]
    for kind, name in zip(KINDS, names, strict=True):
        assert dispatch(["plugin", "new", kind, name, "--folder", str(tmp_path / name)]) == 0
    assert "passed" in run_pytest(tmp_path, *names)
    assert "passed" in run_pytest(tmp_path, "my_benchmark")


def test_a_name_that_python_cannot_import_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("my-agent", "class", "proctor", "1st"):
        assert dispatch(["plugin", "new", "agent", name, "--folder", str(tmp_path / "x")]) == 2
        assert "cannot be a plugin's name" in capsys.readouterr().err
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("kind", "name"),
    [("agent", "json"), ("agent", "click"), ("agent", "tests"), ("agent", "codex"), ("benchmark", "core")],
)
def test_a_name_that_something_has_already_is_refused(
    kind: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert dispatch(["plugin", "new", kind, name, "--folder", str(tmp_path / "x")]) == 2
    assert f"{name!r} already" in capsys.readouterr().err
    assert not (tmp_path / "x").exists()
