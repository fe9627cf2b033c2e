"""What one attempt does, in which order."""

import asyncio
import errno
import gc
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from toy_benchmark import Toy

from observations import config
from proctor.agents.nop import Nop
from proctor.agents.outcomes import not_started_outcome, write_outcome
from proctor.core.agent import Agent, AgentOutcome, AgentRequest, ProgressCallback
from proctor.core.causes import Cause
from proctor.core.environment import Environment, EnvironmentSpec, ExecResult
from proctor.core.errors import InfrastructureError
from proctor.core.run import Trial
from proctor.core.task import Task
from proctor.environments.local import LocalProvider
from proctor.gateway.events import ExchangeFinished
from proctor.gateway.model_call import Role
from proctor.runner.attempt import AttemptRunner, AttemptSpec, _exchange_failure
from proctor.runner.run_resources import RunResources
from sessions import Toys, script


class Served(Toy):
    """A toy that serves its environments from inside."""

    def __init__(self, refusal: str = "") -> None:
        super().__init__(1)
        self.refusal = refusal
        self.folders: list[Path] = []
        self.left: ExecResult | None = None

    @asynccontextmanager
    async def serve(self, task: Task, environment: Environment, folder: Path) -> AsyncIterator[None]:
        if self.refusal:
            raise InfrastructureError(self.refusal)
        assert (folder / "workspace").is_dir()
        self.folders.append(folder)
        await environment.exec(["sh", "-c", "echo right >served.txt"])
        yield
        self.left = await environment.exec(["cat", "answer.txt"])


async def test_a_benchmark_serves_the_environment_before_the_agent_starts_and_after_it_has_ended(
    tmp_path: Path,
) -> None:
    benchmark = Served()
    toys = Toys(tmp_path, benchmark)
    command = script(tmp_path, "open('answer.txt', 'w').write(open('served.txt').read())")
    ended = await toys.run(agent="command", command=command)
    assert ended.summary.resolved == 1
    assert len(benchmark.folders) == 1
    assert benchmark.left is not None
    assert benchmark.left.stdout == b"right\n"


async def test_an_environment_that_cannot_be_served_starts_no_agent(tmp_path: Path) -> None:
    toys = Toys(tmp_path, Served("there is no such service here"))
    agent = script(tmp_path, f"open({str(tmp_path / 'ran')!r}, 'w')")
    await toys.run(agent="command", command=agent)
    ((status, cause, _),) = toys.outcomes().values()
    assert (status, cause) == ("error", "environment_failed")
    assert not (tmp_path / "ran").exists()


class Stubborn(Nop):
    """An agent whose disk is full when it is stopped."""

    async def solve(
        self, request: AgentRequest, environment: Environment, on_progress: ProgressCallback
    ) -> AgentOutcome:
        on_progress("waiting")
        try:
            await asyncio.sleep(60)
        finally:
            raise OSError(errno.ENOSPC, "No space left on device")


def make_attempt(
    toy: Toy,
    folder: Path,
    provider: LocalProvider,
    agent: Agent,
    progress: Callable[[str], None] = lambda _: None,
    *,
    grace_seconds: float = 20,
    **changes: Any,
) -> AttemptRunner:
    (task,) = toy.tasks()
    resources = RunResources(config(**changes), toy, provider, agent, grace_seconds=grace_seconds)
    resources.tasks, resources.make_agent, resources.scratch = {task.id: task}, lambda _: agent, folder / "scratch"
    spec = AttemptSpec(Trial(task_id=task.id, number=1), 1, folder / "logs", progress=progress)
    return AttemptRunner(resources, spec)


@pytest.fixture
async def provider(tmp_path: Path) -> AsyncIterator[LocalProvider]:
    provider = LocalProvider(isolation=False, environments_dir=tmp_path / "environments")
    yield provider
    await provider.close()


async def test_an_agent_that_breaks_while_it_is_stopped_leaves_no_traceback(
    tmp_path: Path, provider: LocalProvider
) -> None:
    toy = Toy(1)
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    running = asyncio.Event()

    def on_progress(message: str) -> None:
        if message == "waiting":
            running.set()

    attempt = make_attempt(toy, tmp_path, provider, Stubborn(), on_progress)
    making = asyncio.create_task(attempt.run())
    await running.wait()
    making.cancel()
    with pytest.raises(asyncio.CancelledError):
        await making
    del making, attempt
    gc.collect()
    assert complaints == []


async def test_the_image_of_the_run_replaces_the_one_that_a_task_builds(
    tmp_path: Path, provider: LocalProvider
) -> None:
    built = EnvironmentSpec(build=tmp_path)
    attempt = make_attempt(Toy(1), tmp_path, provider, Nop(), image="own")
    spec = attempt._environment_spec(built)
    assert (spec.image, spec.build) == ("own", None)
    assert make_attempt(Toy(1), tmp_path, provider, Nop())._environment_spec(built).build == tmp_path
    on_top = Toy(1)
    on_top.builds_on_image = True
    attempt = make_attempt(on_top, tmp_path, provider, Nop(), image="own")
    assert attempt._environment_spec(built).build == tmp_path


@pytest.mark.parametrize(
    ("malformed", "gave_up", "cause"), [(1, True, Cause.PROVIDER_ERROR), (1, False, None), (0, True, None)]
)
def test_an_agent_that_gives_up_at_a_malformed_response_has_not_failed_itself(
    malformed: int, gave_up: bool, cause: Cause | None
) -> None:
    last = ExchangeFinished(
        conversation="main", role=Role.MAIN, model="m", status=200, seconds=1.0, malformed=malformed
    )
    failure = _exchange_failure(last, gave_up=gave_up, responses=1)
    assert (failure and failure[0]) == cause


@pytest.mark.parametrize(("responses", "cause"), [(0, Cause.PROVIDER_ERROR), (1, Cause.AGENT_CRASHED)])
def test_an_agent_whose_every_request_was_refused_has_not_been_tested(responses: int, cause: Cause) -> None:
    last = ExchangeFinished(conversation="main", role=Role.MAIN, model="m", status=400, seconds=1.0)
    failure = _exchange_failure(last, gave_up=True, responses=responses)
    assert failure is not None
    assert failure[0] is cause


class Asking(Nop):
    """An agent that asks its model for ever."""

    ends_by_gateway = True

    async def solve(
        self, request: AgentRequest, environment: Environment, on_progress: ProgressCallback
    ) -> AgentOutcome:
        on_progress("asking")
        try:
            await asyncio.Event().wait()
        finally:
            write_outcome(request, not_started_outcome(Cause.INTERRUPTED, "it was stopped from outside"))
        raise AssertionError


@pytest.mark.parametrize(
    ("status", "cut", "cause"),
    [
        (200, "the stream ended too early", Cause.PROVIDER_ERROR),
        (None, None, Cause.PROVIDER_ERROR),
        (529, None, Cause.PROVIDER_ERROR),
        (429, None, Cause.RATE_LIMITED),
        (400, None, Cause.AGENT_CRASHED),
    ],
)
async def test_an_agent_that_asks_for_ever_is_ended_once_its_requests_have_failed_in_a_row(
    status: int | None, cut: str | None, cause: Cause, tmp_path: Path, provider: LocalProvider
) -> None:
    failed = ExchangeFinished(conversation="main", role=Role.MAIN, model="m", status=status, seconds=1.0, cut=cut)
    answered = msgspec.structs.replace(failed, status=200, cut=None)

    def on_progress(message: str) -> None:
        if message == "asking":
            for event in (failed, failed, failed, answered, failed, failed, failed):
                attempt._on_session_event(event)
            assert not attempt._model_closed.is_set()
            attempt._on_session_event(failed)

    attempt = make_attempt(Toy(1), tmp_path, provider, Asking(), on_progress, grace_seconds=0.01)
    made = await attempt.run()
    assert made.record.cause is cause, made.record.detail
