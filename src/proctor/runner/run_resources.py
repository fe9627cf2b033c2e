"""What attempts at the trials of one run, and their gradings, are made with on one machine."""

import tempfile
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final

from proctor.core.agent import Agent
from proctor.core.benchmark import Benchmark, GradeOptions, GradingContext
from proctor.core.environment import EnvironmentProvider
from proctor.core.evaluation import Prediction, TaskEvaluation
from proctor.core.request import RunRequest
from proctor.core.run import RunConfig
from proctor.core.task import Task
from proctor.gateway import Gateway, Prices, RunBudget
from proctor.gateway.backend import Backend
from proctor.runner.agents import AgentSource, agent_factory
from proctor.runner.models import ModelChoice, load_prices, requested_model, spoken_dialects
from proctor.runner.scratch import scratch_folder, socket_folder
from proctor.sandboxes.pool import SandboxPool, login_secrets

DEFAULT_GRACE_SECONDS: Final = 20.0


@dataclass
class RunResources:
    """What attempts at the trials of one run, and their gradings, are made with on one machine.

    `open` opens what attempts need; a machine that gives all of them to others leaves it closed.

    Attributes:
        benchmark: the benchmark as this provider and the run's options make it.
        agent: the agent, or the class that makes one for a task.
        model: what responds to the agent's requests; None when there is no model. `backend` responds to them.
        login: a Claude Code configuration whose login agents use; None where the gateway adds a key.
        grace_seconds: how long an agent has to end by itself after the model has been taken away.
        tasks: all of the benchmark's, by id.
        make_agent: makes the agent for a task.
        scratch: where attempts lay out what their environments are made from.
        gateway: the proxy to the model; None when there is no model.
        model_socket: where the gateway listens for environments.
        sandboxes: the pool of agents' sandboxes; None for agents that need none.
    """

    config: RunConfig
    benchmark: Benchmark
    provider: EnvironmentProvider
    agent: AgentSource
    model: ModelChoice | None = None
    backend: Backend | None = None
    login: Path | None = None
    grace_seconds: float = DEFAULT_GRACE_SECONDS
    tasks: Mapping[str, Task] = field(default_factory=dict)
    make_agent: Callable[[Task], Agent] = field(init=False)
    scratch: Path = field(init=False)
    gateway: Gateway | None = field(default=None, init=False)
    model_socket: Path | None = field(default=None, init=False)
    sandboxes: SandboxPool | None = field(default=None, init=False)

    @property
    def grade_options(self) -> GradeOptions:
        """What its gradings have in common."""
        return GradeOptions(image=self.config.image, controls=self.config.controls)

    @property
    def model_id(self) -> str | None:
        """The model's id, as the agent requests it; None when there is no model."""
        return None if self.model is None else requested_model(self.model, self.agent)

    @property
    def dialects(self) -> tuple[str, ...]:
        """Those of the model's provider; empty where any may be."""
        return () if self.model is None else spoken_dialects(self.model)

    @cached_property
    def prices(self) -> Prices:
        """What tokens cost."""
        return load_prices(self.config.prices)

    @cached_property
    def secrets(self) -> tuple[str, ...]:
        """What must never be written down: the model's keys, and the login, where agents use one."""
        known = () if self.backend is None else tuple(self.backend.secrets)
        return (*known, *login_secrets(self.login)) if self.agent.needs_sandbox else known

    async def open(self, stack: AsyncExitStack, budget: RunBudget) -> None:
        """Open what attempts need on this machine, until the stack is closed.

        Raises:
            UsageError: something that the agent needs is missing.
        """
        self.make_agent = agent_factory(self.agent, self.config, self.benchmark)
        self.scratch, sockets = (
            Path(stack.enter_context(tempfile.TemporaryDirectory(dir=folder)))
            for folder in (scratch_folder(), socket_folder())
        )
        if self.backend is not None:
            self.gateway = await stack.enter_async_context(Gateway(self.backend, prices=self.prices, budget=budget))
            self.model_socket = await self.gateway.listen_unix(sockets / "gateway.sock")
        if self.agent.needs_sandbox:
            self.sandboxes = SandboxPool(sockets / "s", preset=self.config.preset, auth_from=self.login)
            stack.push_async_callback(self.sandboxes.close)

    async def grade(self, prediction: Prediction, folder: Path) -> TaskEvaluation:
        """Grade a submission in fresh environments on this machine; the grader's evidence goes into `folder`."""
        context = GradingContext(provider=self.provider, folder=folder, options=self.grade_options)
        return await self.benchmark.grade(self.tasks[prediction.task_id], prediction, context)


def adapt_benchmark(benchmark: Benchmark, provider: EnvironmentProvider, request: RunRequest) -> Benchmark:
    """The benchmark as it is with this provider, and with a run's image and verifier.

    Raises:
        UsageError: it cannot be run in this way.
    """
    return benchmark.for_provider(provider).with_image(request.image).with_verifier(request.verifier)
