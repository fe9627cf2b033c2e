"""What answers a task: Claude Code, a pod that h2 runs, any command, the oracle, nobody; and whatever a plugin adds.

Agents are found by name through the entry point group ``proctor.agents``, the built-in ones like a stranger's.
"""

import functools
from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points

from proctor.agents.outcomes import read_outcome
from proctor.core.agent import Agent, AgentFactory, AgentSetup
from proctor.core.errors import UsageError

__all__ = ["agent", "agent_names", "needs_model", "needs_oracle", "needs_sandbox", "read_outcome"]


def agent(name: str, setup: AgentSetup | None = None) -> Agent:
    """Make the agent of this name.

    Raises:
        UsageError: there is none of this name, or it lacks something that it needs.
    """
    return _factory(name)(AgentSetup() if setup is None else setup)


def agent_names() -> list[str]:
    """The agents that are installed."""
    return sorted(_installed())


def needs_oracle(name: str) -> bool:
    """Whether this agent is to be given the task's reference answer: the oracle is, agents under test never are."""
    return getattr(_factory(name), "needs_oracle", False) is True


def needs_sandbox(name: str) -> bool:
    """Whether this agent is to be given a sandbox's home; yes, unless it says no."""
    return getattr(_factory(name), "needs_sandbox", True) is True


def needs_model(name: str) -> bool:
    """Whether this agent cannot do without a model; yes, unless it says no."""
    return getattr(_factory(name), "needs_model", True) is True


@functools.cache
def _installed() -> Mapping[str, EntryPoint]:
    return {point.name: point for point in entry_points(group="proctor.agents")}


@functools.cache
def _factory(name: str) -> AgentFactory:
    point = _installed().get(name)
    if point is None:
        raise UsageError(f"there is no agent {name!r}", fix=f"choose one of {', '.join(agent_names()) or 'none'}")
    try:
        factory: AgentFactory = point.load()
    except (ImportError, AttributeError) as error:
        raise UsageError(f"the agent {name!r} cannot be loaded: {error}", where=point.value) from error
    return factory
