"""Missing requirements, and what identifies environments, before anything is pulled."""

from toy_benchmark import Toy

from proctor.core.benchmark import GradeOptions
from proctor.core.environment import Environment, EnvironmentProvider, EnvironmentSpec
from proctor.core.errors import InfrastructureError
from proctor.core.machine import Machine
from proctor.core.task import Task
from proctor.runner.preflight import check_runnable, environment_digest, missing_requirements

MACHINE = Machine(platform="linux", python="3.11", cpus=2, memory_mb=4096)


class ImageProvider(EnvironmentProvider):
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


async def test_a_missing_requirement_is_found_once_for_each_image_and_task() -> None:
    toys, provider = Needy(5), ImageProvider("odd")
    missing = await missing_requirements(toys, toys.tasks(), provider, image=None, machine=MACHINE, pull=True)
    assert missing == {
        "toy-0002": "there is no even",
        "toy-0003": "it needs a licence",
        "toy-0004": "there is no even",
    }
    assert sorted(map(str, provider.asked)) == ["even", "odd"]
    assert (
        await missing_requirements(
            toys, toys.tasks()[:2], ImageProvider("own"), image="own", machine=MACHINE, pull=True
        )
    ) == {}


class NoToolchain(Toy):
    """The environment of one task shows a program that this machine does not have."""

    def environment_spec(self, task: Task, options: GradeOptions) -> EnvironmentSpec:
        if task.id == "toy-0002":
            raise InfrastructureError("x07 was not found", fix="set X07_BIN")
        return EnvironmentSpec()


async def test_an_environment_that_cannot_be_described_is_a_missing_requirement() -> None:
    toys = NoToolchain(2)
    missing = await missing_requirements(toys, toys.tasks(), ImageProvider(), image=None, machine=MACHINE)
    assert missing == {"toy-0002": "x07 was not found; set X07_BIN"}


class OwnImages(Toy):
    """Every task has an image of its own."""

    def environment_spec(self, task: Task, options: GradeOptions) -> EnvironmentSpec:
        return EnvironmentSpec(image=f"images/{task.id}")


async def test_images_that_cannot_be_had_are_one_reason_and_few_requests() -> None:
    toys, provider = OwnImages(80), ImageProvider()
    missing = await missing_requirements(toys, toys.tasks(), provider, image=None, machine=MACHINE, pull=True)
    (line,) = check_runnable(missing, {"another"})
    assert line == (
        "80 tasks (toy-0001, …): its image is not on this machine; none of the 8 requested images is available: "
        "there is no images/toy-0001"
    )


async def test_a_run_s_environment_is_what_its_tasks_bring_or_what_was_asked_for() -> None:
    toys = Needy(4)
    assert (
        await environment_digest(toys, toys.tasks(), ImageProvider(), GradeOptions()) == "docker: 2 images of the tasks"
    )
    assert (
        await environment_digest(toys, toys.tasks()[:1], ImageProvider(), GradeOptions())
        == "docker: one image of the tasks"
    )
    assert await environment_digest(toys, [], ImageProvider("own"), GradeOptions(image="own")) == "docker:own"


async def test_nothing_is_pulled_to_say_what_a_run_would_be() -> None:
    provider, tasks = ImageProvider("here"), Toy(1).tasks()
    for image, environment in (
        ("here", "docker:here"),
        ("elsewhere", "docker: an image that is not on this machine yet"),
    ):
        assert await environment_digest(Toy(1), tasks, provider, GradeOptions(image=image), pull=False) == environment
    assert await environment_digest(Toy(1), tasks, provider, GradeOptions(image="elsewhere")) == "docker:elsewhere"
