from pathlib import Path

import pytest

from proctor.core.programs import ProgramLocation, find_program, native_program


def executable(path: Path, text: str = "#!/bin/sh\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine on which nothing is installed."""
    for name in ("NODE_BIN", "PIPX_HOME", "UV_TOOL_DIR", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path


def test_a_command_of_npm_is_found_beside_node(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def find() -> ProgramLocation | None:
        return find_program("tool", npm_packages=("@old/tool", "@new/tool"))

    assert find() is None
    monkeypatch.setenv("NODE_BIN", str(executable(bare / "node" / "bin" / "node")))
    installed = executable(bare / "node" / "bin" / "tool")
    assert find() is None
    (bare / "node" / "lib" / "node_modules" / "@new/tool").mkdir(parents=True)
    assert find() == ProgramLocation(path=installed, found_via="the package @new/tool")
    on_path = executable(bare / "bin" / "tool")
    assert find() == ProgramLocation(path=on_path, found_via="PATH")


@pytest.mark.parametrize("folder", [".local/share/pipx/venvs", ".local/pipx/venvs", ".local/share/uv/tools"])
def test_a_command_of_pipx_or_uv_is_found_in_its_environment(folder: str, bare: Path) -> None:
    assert find_program("mini", python_package="mini-swe-agent") is None
    installed = executable(bare / folder / "mini-swe-agent" / "bin" / "mini")
    found = find_program("mini", python_package="mini-swe-agent")
    assert found == ProgramLocation(path=installed, found_via="the package mini-swe-agent")


def test_a_variable_outweighs_path_and_packages(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named = executable(bare / "elsewhere" / "mini")
    executable(bare / "bin" / "mini")
    monkeypatch.setenv("MINI_BIN", str(named))
    assert find_program("mini", variable="MINI_BIN") == ProgramLocation(path=named, found_via="$MINI_BIN")
    named.unlink()
    assert find_program("mini", variable="MINI_BIN") is None


def test_the_program_behind_a_launcher_is_found_and_a_program_is_itself(tmp_path: Path) -> None:
    launcher = executable(tmp_path / "node_modules" / "tool" / "launcher.js", "#!/usr/bin/env node\n")
    assert native_program(launcher, ("tool-linux-*/tool",)) is None
    native = executable(tmp_path / "node_modules" / "tool-linux-x64" / "tool", "\x7fELF")
    assert native_program(launcher, ("tool-linux-*/tool",)) == native
    assert native_program(native, ()) == native
