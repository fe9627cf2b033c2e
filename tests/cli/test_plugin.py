import os
import subprocess
import sys
from pathlib import Path

import pytest

from proctor.cli.dispatch import dispatch


@pytest.mark.parametrize("kind", ["agent", "benchmark", "environment"])
def test_a_plugin_passes_its_own_tests_as_it_is_made(kind: str, tmp_path: Path) -> None:
    name = f"my_{kind}"
    assert dispatch(["plugin", "new", kind, name, "--folder", str(tmp_path / name)]) == 0
    env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=tmp_path / name,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "passed" in done.stdout


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
