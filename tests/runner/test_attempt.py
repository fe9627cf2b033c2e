"""What one attempt does, in which order."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from toy_benchmark import Toy

from proctor.agents.nop import Nop
from proctor.core.environment import Environment, EnvironmentSpec, ExecResult
from proctor.core.errors import InfrastructureError
from proctor.core.task import Task
from proctor.environments.local import LocalProvider
from proctor.runner.attempt import Way, Workplaces, _furnished
from sittings import Toys, script


class Arranged(Toy):
    """A toy whose rooms are seen to from inside."""

    def __init__(self, refusal: str = "") -> None:
        super().__init__(1)
        self.refusal = refusal
        self.folders: list[Path] = []
        self.left: ExecResult | None = None

    @asynccontextmanager
    async def attend(self, task: Task, environment: Environment, folder: Path) -> AsyncIterator[None]:
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


async def test_the_image_that_was_asked_for_takes_the_place_of_the_one_that_a_task_builds(tmp_path: Path) -> None:
    toy = Toy(1)
    (task,) = toy.tasks()
    rooms = LocalProvider(isolation=False, rooms=tmp_path / "rooms")
    places = Workplaces(tmp_path)
    way = Way(run_id="r", benchmark=toy, provider=rooms, agent=lambda _: Nop(), workplaces=places, image="own")
    built = EnvironmentSpec(build=tmp_path)
    given = _furnished(way, task, built)
    assert (given.image, given.build) == ("own", None)
    assert _furnished(replace(way, image=None), task, built).build == tmp_path
    await rooms.close()
