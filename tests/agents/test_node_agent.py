from pathlib import Path

import pytest

from proctor.agents.gemini import Gemini
from proctor.core.agent import AgentRequest, AgentSetup
from proctor.core.environment import EnvironmentSpec, Network
from proctor.core.errors import InfrastructureError

REQUEST = AgentRequest(task_id="t", instruction="x", logs="/tmp", model="m")


def package(folder: Path, described: str = "{}") -> Path:
    """A package with a script; gives npm's link to it."""
    script = folder / "cli" / "main.js"
    script.parent.mkdir(parents=True)
    script.write_text("#!/usr/bin/env node\n")
    script.chmod(0o755)
    (folder / "package.json").write_text(described)
    link = folder.parent / "link"
    link.symlink_to(script)
    return link


def fake_node(folder: Path, monkeypatch: pytest.MonkeyPatch, version: str = "v22.1.0") -> Path:
    node = folder / "node"
    node.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo {version} || echo 1.2.3\n')
    node.chmod(0o755)
    monkeypatch.setenv("NODE_BIN", str(node))
    return node


def mounts(agent: Gemini) -> dict[str, str]:
    spec = agent.prepare_spec(EnvironmentSpec(network=Network.MODEL), REQUEST)
    return {mount.target: mount.source for mount in spec.mounts}


def test_a_package_that_has_what_it_imports_is_mounted_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = fake_node(tmp_path, monkeypatch)
    modules = tmp_path / "lib" / "node_modules"
    link = package(modules / "it", '{"dependencies": {"other": "1"}}')
    (modules / "it" / "node_modules").mkdir()
    agent = Gemini(AgentSetup(program=str(link)))
    assert mounts(agent)["/proctor/gemini-package"] == str(modules / "it")
    assert mounts(agent)["/proctor/gemini"] == str(node)
    assert "/proctor/gemini-package/cli/main.js" in agent.arguments(REQUEST)
    assert agent.versions() == {"gemini": "1.2.3", "node": "v22.1.0"}


def test_a_package_whose_imports_are_beside_it_is_mounted_with_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_node(tmp_path, monkeypatch)
    modules = tmp_path / "node_modules"
    link = package(modules / ".store" / "it@1" / "node_modules" / "it", '{"dependencies": {"other": "1"}}')
    agent = Gemini(AgentSetup(program=str(link)))
    target = "/proctor/gemini-package/node_modules"
    assert mounts(agent)[target] == str(modules)
    assert f"{target}/.store/it@1/node_modules/it/cli/main.js" in agent.arguments(REQUEST)


def test_a_node_that_is_too_old_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_node(tmp_path, monkeypatch, "v18.19.0")
    agent = Gemini(AgentSetup(program=str(package(tmp_path / "it"))))
    with pytest.raises(InfrastructureError, match=r"Gemini CLI needs Node 20\.0 or newer, and this is v18\.19\.0"):
        agent.versions()


def test_a_launcher_that_is_no_script_for_node_is_refused(tmp_path: Path) -> None:
    launcher = tmp_path / "gemini"
    launcher.write_text("#!/bin/sh\n")
    launcher.chmod(0o755)
    with pytest.raises(InfrastructureError, match="not Gemini CLI from its npm package"):
        Gemini(AgentSetup(program=str(launcher))).find_program()


def test_a_package_beside_node_is_found_though_it_is_not_on_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    fake_node(tmp_path / "bin", monkeypatch)
    monkeypatch.delenv("GEMINI_BIN", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    link = package(tmp_path / "lib" / "node_modules" / "@google" / "gemini-cli")
    link.rename(tmp_path / "hidden")
    with pytest.raises(InfrastructureError, match="Gemini CLI is not installed here"):
        Gemini().find_program()
    monkeypatch.setenv("PATH", "/nonexistent")
    (tmp_path / "bin" / "gemini").symlink_to(tmp_path / "hidden")
    assert "/proctor/gemini-package" in mounts(Gemini())
