"""What the chosen tasks need and a machine lacks."""

from pathlib import Path

from toy_benchmark import Toy

from proctor.core.benchmark import GradeOptions
from proctor.core.environment import Environment, EnvironmentProvider, EnvironmentSpec
from proctor.core.run import Machine
from proctor.core.task import Task
from proctor.runner.preflight import environment_digest, missing_requirements
from proctor.runner.selection import Selection, select_tasks

MACHINE = Machine(platform="linux", python="3.11", cpus=2, memory_mb=4096)


class Shelf(EnvironmentProvider):
    """A provider that has some images and cannot pull any."""

    name = "docker"
    uses_images = True

    def __init__(self, *images: str) -> None:
        self.images = images
        self.asked: list[str | None] = []

    async def digest(self, spec: EnvironmentSpec) -> str:
        return f"docker:{spec.image}"

    async def is_available(self, spec: EnvironmentSpec) -> bool:
        self.asked.append(spec.image)
        return spec.image in self.images

    async def unavailable_reason(self, spec: EnvironmentSpec | None = None) -> str | None:
        assert spec is not None
        return None if spec.image in self.images else f"there is no {spec.image}"

    async def start(self, spec: EnvironmentSpec) -> Environment:
        raise NotImplementedError


class Needy(Toy):
    """Odd tasks need one image, even ones another; the third needs a licence."""

    def environment_spec(self, task: Task, options: GradeOptions) -> EnvironmentSpec:
        return EnvironmentSpec(image=options.image or task.categories["parity"])

    def missing_requirement(self, task: Task, machine: Machine, runner: str) -> str | None:
        assert (machine, runner) == (MACHINE, "docker")
        return "it needs a licence" if task.id == "toy-0003" else None


async def test_what_is_lacking_is_found_once_for_each_image_and_task() -> None:
    toys, shelf = Needy(5), Shelf("odd")
    missing = await missing_requirements(toys, toys.tasks(), shelf, image=None, machine=MACHINE)
    assert missing == {
        "toy-0002": "there is no even",
        "toy-0003": "it needs a licence",
        "toy-0004": "there is no even",
    }
    assert sorted(map(str, shelf.asked)) == ["even", "odd"]
    assert (await missing_requirements(toys, toys.tasks()[:2], Shelf("own"), image="own", machine=MACHINE)) == {}


async def test_a_run_s_environment_is_what_its_tasks_bring_or_what_was_asked_for() -> None:
    toys = Needy(4)
    assert await environment_digest(toys, toys.tasks(), Shelf(), GradeOptions()) == "docker: 2 images of the tasks"
    assert await environment_digest(toys, toys.tasks()[:1], Shelf(), GradeOptions()) == "docker: one image of the tasks"
    assert await environment_digest(toys, [], Shelf("own"), GradeOptions(image="own")) == "docker:own"


def test_tasks_are_chosen_by_category(tmp_path: Path) -> None:
    toy = Toy(4)

    def chosen(*categories: str) -> list[str]:
        return [task.id for task in select_tasks(toy, Selection(categories=categories)).tasks]

    assert chosen("odd") == chosen("parity=odd") == ["toy-0001", "toy-0003"]
    assert chosen("odd", "even") == chosen("colour=odd") == []
    assert len(chosen()) == 4


async def test_nothing_is_pulled_to_say_what_a_run_would_be() -> None:
    shelf, tasks = Shelf("here"), Toy(1).tasks()
    for image, environment in (
        ("here", "docker:here"),
        ("elsewhere", "docker: an image that is not on this machine yet"),
    ):
        assert await environment_digest(Toy(1), tasks, shelf, GradeOptions(image=image), pull=False) == environment
    assert await environment_digest(Toy(1), tasks, shelf, GradeOptions(image="elsewhere")) == "docker:elsewhere"
