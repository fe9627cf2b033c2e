"""The Python interpreters of this machine."""

import sys
from pathlib import Path

import pytest

from proctor.benchmarks.python_envs import Interpreter, choose_interpreter, find_interpreter, find_interpreters
from proctor.core.causes import Cause
from proctor.core.errors import InfrastructureError

AVAILABLE = [Interpreter(executable=f"/p{v}", version=v, prefix="/p") for v in ("2.7", "3.6", "3.9", "3.11", "3.12")]
CURRENT = f"{sys.version_info.major}.{sys.version_info.minor}"


@pytest.mark.parametrize(
    ("wanted", "chosen"),
    [("3.9", "3.9"), ("3.7", "3.9"), ("3.10", "3.11"), ("3.13", None), ("2.7", "2.7"), ("2.6", "2.7")],
)
def test_the_same_version_is_taken_or_the_next_newer_one(wanted: str, chosen: str | None) -> None:
    found = choose_interpreter(wanted, AVAILABLE)
    assert (found.version if found else None) == chosen


def test_the_one_that_runs_this_is_among_those_of_the_machine() -> None:
    found = find_interpreters()
    assert CURRENT in {one.version for one in found}
    assert [one.version_tuple for one in found] == sorted(one.version_tuple for one in found)


def test_a_version_that_is_not_on_this_machine_is_reported_as_missing() -> None:
    assert find_interpreter(CURRENT).version == CURRENT
    with pytest.raises(InfrastructureError, match=r"needs Python 3\.99") as raised:
        find_interpreter("3.99")
    assert raised.value.cause is Cause.NOT_RUNNABLE_HERE


def _fake_python(folder: Path, version: str) -> Path:
    """A program that reports itself as a Python of this version."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / f"python{version}"
    program.write_text(f"#!/bin/sh\nprintf '{version}\\n{folder}\\n\\n'\n")
    program.chmod(0o755)
    return program


def test_the_variable_comes_first_then_path_pyenv_uv_and_conda(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    places = [
        tmp_path / "variable",
        tmp_path / "path",
        home / ".pyenv/versions/4.2.10/bin",
        home / ".local/share/uv/python/cpython-4.3.1/bin",
        home / "miniconda3/envs/x/bin",
    ]
    for number, folder in enumerate(places):
        for minor in range(number + 1):
            _fake_python(folder, f"4.{minor}")
    _fake_python(home / ".pyenv/versions/4.2.9/bin", "4.2")  # an older patch release
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PROCTOR_PYTHONS", str(places[0]))
    monkeypatch.setenv("PATH", str(places[1]))
    for name in ("PYENV_ROOT", "UV_PYTHON_INSTALL_DIR"):
        monkeypatch.delenv(name, raising=False)
    find_interpreters.cache_clear()
    try:
        found = {one.version: Path(one.executable).parent for one in find_interpreters() if one.version[0] == "4"}
    finally:
        find_interpreters.cache_clear()
    assert found == {f"4.{number}": folder for number, folder in enumerate(places)}
