"""What attempts at the trials of one run, and their gradings, are made with on one machine."""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

from proctor.core.agent import Agent
from proctor.core.benchmark import Benchmark, GradeOptions
from proctor.core.environment import EnvironmentProvider
from proctor.core.run import RunConfig, Trial
from proctor.core.task import Task
from proctor.gateway import Gateway, RunBudget
from proctor.gateway.backend import Backend
from proctor.results.store import CountedResult
from proctor.runner.agents import AgentSource, agent_factory
from proctor.runner.models import ModelChoice, load_prices, requested_model, spoken_dialects
from proctor.runner.resume import TrialState
from proctor.runner.run_cost import RunCost
from proctor.runner.sandbox_pool import SandboxPool, login_secrets
from proctor.runner.scratch import ScratchPool, scratch_folder, socket_folder


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """A run that can be worked on: nothing that it needs is missing.

    Attributes:
        pending: the trials that are to be worked on.
        trial_states: where each trial stands that an earlier session has started.
        cost: what earlier sessions have spent.
        results: what a summary counts of the results that stay as they are, by their files.
    """

    config: RunConfig
    agent: AgentSource
    model: ModelChoice | None
    backend: Backend | None
    pending: Sequence[Trial] = ()
    trial_states: Mapping[Trial, TrialState] = field(default_factory=dict)
    cost: RunCost = field(default_factory=RunCost)
    results: Mapping[str, CountedResult] = field(default_factory=dict)

    def finished(self) -> list[TrialState]:
        """The trials that are not worked on any more."""
        unfinished = set(self.pending)
        return [state for trial, state in self.trial_states.items() if trial not in unfinished]

    def secrets(self, login: Path | None) -> tuple[str, ...]:
        """What must never be written down: the model's keys, and the login, where agents use one."""
        known = () if self.backend is None else tuple(self.backend.secrets)
        return (*known, *login_secrets(login)) if self.agent.needs_sandbox else known


@dataclass(frozen=True, slots=True)
class MachineResources:
    """What the runs of a session share on one machine.

    Attributes:
        login: a Claude Code configuration whose login agents use; None where the gateway adds a key.
        grace_seconds: how long an agent has to end by itself after the model has been taken away.
    """

    benchmark: Benchmark
    provider: EnvironmentProvider
    tasks: Mapping[str, Task]
    grade_options: GradeOptions
    grace_seconds: float
    login: Path | None = None


@dataclass(frozen=True, slots=True)
class RunResources:
    """What one run has on one machine.

    Attributes:
        make_agent: makes the agent for a task.
        scratch: folders in which attempts lay out what their environments are made from.
        gateway: the proxy to the model; None when there is no model.
        model: the model's id, as the agent requests it.
        dialects: those of its provider; empty where any may be.
        model_socket: where the gateway listens for environments.
        sandboxes: the pool of agents' sandboxes; None for agents that need none.
        secrets: what must never be written down.
    """

    machine: MachineResources
    config: RunConfig
    make_agent: Callable[[Task], Agent]
    scratch: ScratchPool
    gateway: Gateway | None = None
    model: str | None = None
    dialects: tuple[str, ...] = ()
    model_socket: Path | None = None
    sandboxes: SandboxPool | None = None
    secrets: tuple[str, ...] = ()


async def open_resources(
    stack: AsyncExitStack, machine: MachineResources, run: PlannedRun, budget: RunBudget
) -> RunResources:
    """Open what a run needs on this machine, until the stack is closed."""
    config = run.config
    scratch, sockets = (
        Path(stack.enter_context(tempfile.TemporaryDirectory(dir=folder)))
        for folder in (scratch_folder(), socket_folder())
    )
    gateway, socket = None, None
    if run.backend is not None:
        gateway = await stack.enter_async_context(
            Gateway(run.backend, prices=load_prices(config.prices), budget=budget)
        )
        socket = await gateway.listen_unix(sockets / "gateway.sock")
    sandboxes = None
    if run.agent.needs_sandbox:
        sandboxes = SandboxPool(sockets / "s", preset=config.preset, auth_from=machine.login)
        stack.push_async_callback(sandboxes.close)
    return RunResources(
        machine=machine,
        config=config,
        make_agent=agent_factory(run.agent, config, machine.benchmark),
        scratch=ScratchPool(scratch),
        gateway=gateway,
        model=requested_model(run.model, run.agent) if run.model else None,
        dialects=spoken_dialects(run.model) if run.model else (),
        model_socket=socket,
        sandboxes=sandboxes,
        secrets=run.secrets(machine.login),
    )
