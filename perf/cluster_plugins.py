"""Plugins that make attempts cheap: no environment, and an agent that is a few requests to its model."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from proctor.agents.outcomes import not_started_outcome, write_outcome
from proctor.core.agent import Agent, AgentOutcome, AgentRequest, ProgressCallback
from proctor.core.benchmark import Benchmark, GradeOptions, GradingContext
from proctor.core.causes import Cause, Status
from proctor.core.environment import Environment, EnvironmentProvider, EnvironmentSpec
from proctor.core.evaluation import Prediction, TaskEvaluation
from proctor.core.submission import PatchKind
from proctor.core.task import DirectorySource, PrivatePart, PublicPart, Task
from proctor.core.verdict import Verdict


class Idle(Benchmark):
    """As many tasks as IDLE_TASKS says, which take no work."""

    name = "idle"
    source = "idle"
    grader = "idle/1"

    def __init__(self) -> None:
        self._tasks = [
            Task(
                id=f"idle-{number:05}",
                benchmark=self.name,
                public=PublicPart(instruction=f"task: idle-{number:05}\n", source=DirectorySource(path="/")),
                private=PrivatePart(),
            )
            for number in range(int(os.environ.get("IDLE_TASKS", "2000")))
        ]

    def digest(self) -> str:
        return "idle"  # nodes have all tasks, and a run takes some of them

    def environment_spec(self, task: Task, options: GradeOptions) -> EnvironmentSpec:
        return EnvironmentSpec()

    def tasks(self) -> Sequence[Task]:
        return self._tasks

    async def prepare(self, task: Task, folder: Path) -> EnvironmentSpec:
        return EnvironmentSpec()

    async def collect(self, task: Task, environment: Environment, folder: Path) -> Prediction:
        return Prediction(task_id=task.id, patch_kind=PatchKind.UNIFIED_DIFF, content=b"")

    async def grade(self, task: Task, prediction: Prediction, context: GradingContext) -> TaskEvaluation:
        verdict = Verdict(task_id=task.id, status=Status.UNRESOLVED, cause=Cause.EMPTY, reason="nothing was done")
        return TaskEvaluation(task_id=task.id, verdict=verdict)


class NoEnvironment:
    """An environment in which nothing runs."""

    workdir = "/workspace"
    digest = "none"
    model_url = None

    async def __aenter__(self) -> "NoEnvironment":
        return self

    async def __aexit__(self, *_: object) -> None: ...


class NoEnvironments(EnvironmentProvider):
    """Makes such environments."""

    name = "none"

    def __init__(self, **_: object) -> None:
        pass

    async def start(self, spec: EnvironmentSpec) -> Any:
        return NoEnvironment()

    async def digest(self, spec: EnvironmentSpec) -> str:
        return "none"


class Talker(Agent):
    """Asks its model as often as it may."""

    name = "talker"
    needs_sandbox = False

    def prepare_spec(self, spec: EnvironmentSpec, request: AgentRequest) -> EnvironmentSpec:
        self._socket = spec.model_socket
        return spec

    async def solve(
        self, request: AgentRequest, environment: Environment, on_progress: ProgressCallback
    ) -> AgentOutcome:
        from aiohttp import ClientSession, UnixConnector

        messages = [{"role": "user", "content": request.instruction}]
        async with ClientSession(connector=UnixConnector(str(self._socket))) as http:
            for turn in range(request.max_turns or 1):
                body = {"model": request.model, "max_tokens": 10, "messages": messages}
                async with http.post(f"http://gateway{request.model_path}/v1/messages", json=body) as response:
                    text = (await response.json())["content"][0]["text"]
                messages += [{"role": "assistant", "content": text}, {"role": "user", "content": f"and then? ({turn})"}]
        return write_outcome(request, not_started_outcome(None, "it has said all"))
