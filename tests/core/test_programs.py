from collections.abc import Callable
from pathlib import Path

import pytest

from proctor.core.programs import (
    ProgramLocation,
    find_aider,
    find_copilot,
    find_kimi,
    find_mini_swe_agent,
    find_qwen,
    native_program,
)


def executable(path: Path, text: str = "#!/bin/sh\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine on which nothing is installed."""
    for name in ("AIDER", "COPILOT", "KIMI", "MINI_SWE_AGENT", "NODE", "QWEN"):
        monkeypatch.delenv(f"{name}_BIN", raising=False)
    for name in ("PIPX_HOME", "UV_TOOL_DIR", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path


@pytest.mark.parametrize(
    ("find", "package", "command"),
    [
        (find_copilot, "@github/copilot", "copilot"),
        (find_qwen, "@qwen-code/qwen-code", "qwen"),
        (find_kimi, "@moonshot-ai/kimi-code", "kimi"),
    ],
)
def test_a_command_of_npm_is_found_beside_node(
    find: Callable[[], ProgramLocation | None],
    package: str,
    command: str,
    bare: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert find() is None
    monkeypatch.setenv("NODE_BIN", str(executable(bare / "node" / "bin" / "node")))
    installed = executable(bare / "node" / "bin" / command)
    (bare / "node" / "lib" / "node_modules" / package).mkdir(parents=True)
    assert find() == ProgramLocation(path=installed, found_via=f"the package {package}")
    on_path = executable(bare / "bin" / command)
    assert find() == ProgramLocation(path=on_path, found_via="PATH")


@pytest.mark.parametrize("folder", [".local/share/pipx/venvs", ".local/pipx/venvs", ".local/share/uv/tools"])
@pytest.mark.parametrize(
    ("find", "package", "command"),
    [(find_aider, "aider-chat", "aider"), (find_mini_swe_agent, "mini-swe-agent", "mini")],
)
def test_a_command_of_pipx_or_uv_is_found_in_its_environment(
    find: Callable[[], ProgramLocation | None], package: str, command: str, folder: str, bare: Path
) -> None:
    assert find() is None
    installed = executable(bare / folder / package / "bin" / command)
    assert find() == ProgramLocation(path=installed, found_via=f"the package {package}")


def test_the_program_behind_a_launcher_is_found_and_a_program_is_itself(tmp_path: Path) -> None:
    launcher = executable(tmp_path / "node_modules" / "tool" / "launcher.js", "#!/usr/bin/env node\n")
    assert native_program(launcher, ("tool-linux-*/tool",)) is None
    native = executable(tmp_path / "node_modules" / "tool-linux-x64" / "tool", "\x7fELF")
    assert native_program(launcher, ("tool-linux-*/tool",)) == native
    assert native_program(native, ()) == native
