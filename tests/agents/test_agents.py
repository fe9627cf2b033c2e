import re
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from paths import REPOSITORY
from plain_environment import PlainEnvironment
from proctor import agents
from proctor.agents import agent_class, agent_names
from proctor.core.agent import Agent, AgentRequest, AgentSetup
from proctor.core.errors import UsageError


def declared_agents() -> list[str]:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    return sorted(project["entry-points"]["proctor.agents"])


def test_the_built_in_agents_are_found_by_name() -> None:
    assert agent_names() == declared_agents()
    setup = AgentSetup(command=("true",))
    made: list[Agent] = [agent_class(name)(setup) for name in agent_names()]
    assert [one.name for one in made] == agent_names()


def test_only_the_oracle_is_given_the_oracle() -> None:
    assert [name for name in agent_names() if agent_class(name).needs_oracle] == ["oracle"]


def test_an_unknown_agent_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match=", ".join(declared_agents())):
        agent_class("claude")


def test_a_plugin_that_cannot_be_loaded_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = EntryPoint(name="broken", value="no_such_module:Agent", group="proctor.agents")
    monkeypatch.setattr(agents, "_installed", lambda: {"broken": broken})
    with pytest.raises(UsageError, match="no_such_module"):
        agent_class("broken")


async def test_the_agent_in_the_guide_works(tmp_path: Path) -> None:
    guide = (REPOSITORY / "docs/agents.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", guide, re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)
    fixer: Agent = names["Fixer"](AgentSetup())
    environment = PlainEnvironment(tmp_path)
    (tmp_path / "workspace/main.py").write_text("bug\n")
    request = AgentRequest(task_id="t", instruction="x", logs=str(tmp_path))
    assert (await fixer.solve(request, environment, lambda _: None)).cause is None
    assert (tmp_path / "workspace/main.py").read_text() == "fix\n"
