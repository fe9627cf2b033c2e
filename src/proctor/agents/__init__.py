"""Agents: Claude Code, a pod that h2 runs, any command, the oracle, one that does nothing, and those of plugins.

They are found by name through the entry point group ``proctor.agents``.
"""

import functools
from collections.abc import Mapping
from importlib.metadata import EntryPoint

from proctor.agents.outcomes import read_outcome
from proctor.core.agent import Agent
from proctor.core.errors import UsageError, plugin_error
from proctor.core.plugins import entry_points
from proctor.core.suggestions import suggest

__all__ = ["agent_class", "agent_names", "read_outcome"]


def agent_names() -> list[str]:
    """The agents that are installed."""
    return sorted(_installed())


@functools.cache
def agent_class(name: str) -> type[Agent]:
    """The class of the agent of this name, which says what it needs.

    Raises:
        UsageError: there is none of this name, or it cannot be loaded.
    """
    point = _installed().get(name)
    if point is None:
        names = agent_names()
        fix = suggest(name, names, f"choose one of {', '.join(names) or 'none'}")
        raise UsageError(f"there is no agent {name!r}", fix=fix)
    try:
        found = point.load()
    except Exception as error:
        raise UsageError(f"the agent {name!r} cannot be loaded: {plugin_error(error)}", where=point.value) from error
    if not (isinstance(found, type) and issubclass(found, Agent)):
        raise UsageError(f"the agent {name!r} is not a subclass of proctor.Agent", where=point.value)
    return found


@functools.cache
def _installed() -> Mapping[str, EntryPoint]:
    return {point.name: point for point in entry_points("proctor.agents")}
