"""What one attempt does, in which order."""

import asyncio
import errno
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from toy_benchmark import Toy

from proctor.agents.nop import Nop
from proctor.core.agent import AgentOutcome, AgentRequest, ProgressCallback
from proctor.core.environment import Environment, EnvironmentSpec, ExecResult
from proctor.core.errors import InfrastructureError
from proctor.core.task import Task
from proctor.environments.local import LocalProvider
from proctor.runner.attempt import (
    AttemptCallbacks,
    AttemptSpec,
    RunContext,
    ScratchPool,
    _attempt_environment_spec,
    run_attempt,
)
from sittings import Toys, script


class Arranged(Toy):
    """A toy whose rooms are seen to from inside."""

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
        await environment.exec(["sh", "-c", "echo right >arranged.txt"])
        yield
        self.left = await environment.exec(["cat", "answer.txt"])


async def test_a_benchmark_sees_to_the_room_before_the_agent_comes_and_when_it_has_ended(tmp_path: Path) -> None:
    benchmark = Arranged()
    toys = Toys(tmp_path, benchmark)
    command = script(tmp_path, "open('answer.txt', 'w').write(open('arranged.txt').read())")
    ending = await toys.run(agent="command", command=command)
    assert ending.summary.resolved == 1
    assert len(benchmark.folders) == 1
    assert benchmark.left is not None
    assert benchmark.left.stdout == b"right\n"


async def test_a_room_that_cannot_be_arranged_costs_no_answer(tmp_path: Path) -> None:
    toys = Toys(tmp_path, Arranged("there is no such service here"))
    agent = script(tmp_path, f"open({str(tmp_path / 'ran')!r}, 'w')")
    await toys.run(agent="command", command=agent)
    ((status, cause, _),) = toys.outcomes().values()
    assert (status, cause) == ("error", "environment_failed")
    assert not (tmp_path / "ran").exists()


class Stubborn(Nop):
    """An agent whose disk is full when it is told to stop."""

    async def solve(
        self, request: AgentRequest, environment: Environment, on_progress: ProgressCallback
    ) -> AgentOutcome:
        on_progress("waiting")
        try:
            await asyncio.sleep(60)
        finally:
            raise OSError(errno.ENOSPC, "No space left on device")


async def test_an_agent_that_breaks_while_it_is_stopped_leaves_no_traceback(tmp_path: Path) -> None:
    toy = Toy(1)
    (task,) = toy.tasks()
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    rooms = LocalProvider(isolation=False, environments_dir=tmp_path / "rooms")
    places = ScratchPool(tmp_path / "places")
    way = RunContext(run_id="r", benchmark=toy, provider=rooms, make_agent=lambda _: Stubborn(), scratch=places)
    at_work = asyncio.Event()

    def doing(what: str) -> None:
        if what == "waiting":
            at_work.set()

    this = AttemptSpec(task=task, trial=1, number=1, logs=tmp_path / "logs")
    making = asyncio.create_task(
        run_attempt(
            way, this, AttemptCallbacks(on_progress=doing, on_response=lambda _: None, on_fatal_error=lambda _: None)
        )
    )
    await at_work.wait()
    making.cancel()
    with pytest.raises(asyncio.CancelledError):
        await making
    await rooms.close()
    del making
    gc.collect()
    assert complaints == []


async def test_the_image_that_was_asked_for_takes_the_place_of_the_one_that_a_task_builds(tmp_path: Path) -> None:
    toy = Toy(1)
    (task,) = toy.tasks()
    rooms = LocalProvider(isolation=False, environments_dir=tmp_path / "rooms")
    places = ScratchPool(tmp_path)
    way = RunContext(run_id="r", benchmark=toy, provider=rooms, make_agent=lambda _: Nop(), scratch=places, image="own")
    built = EnvironmentSpec(build=tmp_path)
    given = _attempt_environment_spec(way, task, built)
    assert (given.image, given.build) == ("own", None)
    assert _attempt_environment_spec(replace(way, image=None), task, built).build == tmp_path
    await rooms.close()
