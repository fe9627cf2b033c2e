"""The agent of a run: found by its name, or given by the caller, and made for each task."""

from collections.abc import Callable

import msgspec

from proctor.core.agent import Agent, AgentSetup
from proctor.core.benchmark import Benchmark
from proctor.core.run import RunConfig
from proctor.core.submission import PatchKind
from proctor.core.task import Oracle, Task
from proctor.workspaces import apply_patch

# An agent of the caller's own, or the class that makes one from an `AgentSetup`.
AgentSource = Agent | type[Agent]


def agent_factory(agent: AgentSource, config: RunConfig, benchmark: Benchmark) -> Callable[[Task], Agent]:
    """Makes the agent for a task. One agent serves all tasks, unless it needs their oracles.

    Raises:
        UsageError: something that the agent needs is missing.
    """
    if isinstance(agent, Agent):
        return lambda _: agent
    setup = AgentSetup(
        program=config.program,
        command=config.command,
        agent_options=config.agent_options,
        in_place=not config.isolation,
        apply_patch=apply_patch,
        h2_program=config.h2_program,
        pod_template=config.pod_template,
        pod_variables=config.variables,
        pod_start_timeout=config.pod_start_timeout,
    )
    if agent.needs_oracle:
        return lambda task: agent(msgspec.structs.replace(setup, oracle=_oracle(benchmark, task)))
    one = agent(setup)
    return lambda _: one


def _oracle(benchmark: Benchmark, task: Task) -> Oracle | None:
    """The reference solution; some are too large, or too far away, to be read with the tasks."""
    if task.private.oracle is not None:
        return task.private.oracle
    known = benchmark.oracle(task)
    if known is None:
        return None
    # Without a kind, the solution is the script that the oracle agent runs.
    kind = None if known.patch_kind is PatchKind.SHELL_SCRIPT else known.patch_kind
    return Oracle(text=known.content.decode("utf-8", "surrogateescape"), patch_kind=kind)
