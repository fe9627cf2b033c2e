"""What is looked for in environments before a run, and how often they are started for it."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from toy_benchmark import Toy

from proctor.core.benchmark import GradeOptions
from proctor.core.delegating_provider import DelegatingProvider
from proctor.core.environment import (
    Environment,
    EnvironmentRequirement,
    EnvironmentSpec,
    find_missing_requirements,
    required_program,
)
from proctor.core.errors import InfrastructureError, RetryableError
from proctor.core.task import Task
from proctor.environments.local import LocalProvider
from proctor.runner.environment_requirements import missing_environment_requirements


class Counting(DelegatingProvider):
    """Local environments, counted; some images are not there, some cannot be had, and one breaks the engine."""

    name = "counting"

    def __init__(self, folder: Path) -> None:
        super().__init__(LocalProvider(isolation=False, environments_dir=folder))
        self.started: list[str | None] = []

    async def start(self, spec: EnvironmentSpec) -> Environment:
        self.started.append(spec.image)
        if spec.image == "none":
            raise InfrastructureError("there is no such image")
        if spec.image == "engine":
            raise RetryableError("the engine does not respond")
        return await super().start(spec)

    async def is_available(self, spec: EnvironmentSpec) -> bool:
        return spec.image != "elsewhere"


class Requiring(Toy):
    """Tasks that require programs, each in the image of its name."""

    def __init__(self, **images: str | None) -> None:
        super().__init__(len(images))
        self.images = dict(zip((task.id for task in self.tasks()), images.values(), strict=True))

    def environment_spec(self, task: Task, options: GradeOptions) -> EnvironmentSpec:
        return EnvironmentSpec(image=self.images[task.id], labels={"task": task.id})

    def environment_requirements(self, task: Task) -> Sequence[EnvironmentRequirement]:
        return (required_program("sh"), required_program(f"program-of-{task.id}")) if task.id != "toy-0001" else ()


async def unmet(toys: Toy, provider: Counting, *, pull: bool = True) -> dict[str, str]:
    return await missing_environment_requirements(toys, toys.tasks(), provider, GradeOptions(), pull=pull)


async def test_one_environment_is_started_for_all_tasks_that_share_it(tmp_path: Path) -> None:
    provider = Counting(tmp_path)
    found = await unmet(Requiring(a="x", b="x", c="x", d=None), provider)
    assert sorted(map(str, provider.started)) == ["None", "x"]
    assert found.keys() == {"toy-0002", "toy-0003", "toy-0004"}
    assert found["toy-0003"].startswith("it needs program-of-toy-0003, which the environment does not have; install")
    await provider.close()


async def test_an_environment_that_cannot_be_made_is_the_reason_of_its_tasks(tmp_path: Path) -> None:
    provider = Counting(tmp_path)
    assert await unmet(Requiring(a=None, b="none"), provider) == {"toy-0002": "there is no such image"}
    with pytest.raises(RetryableError, match="the engine does not respond"):
        await unmet(Requiring(a=None, b="engine"), provider)


async def test_without_pulling_only_images_that_are_here_are_looked_into(tmp_path: Path) -> None:
    provider = Counting(tmp_path)
    assert await unmet(Requiring(a=None, b="elsewhere"), provider, pull=False) == {}
    assert provider.started == []


async def test_all_that_an_environment_lacks_is_found_at_once(tmp_path: Path) -> None:
    odd = EnvironmentRequirement(name="a false thing", command=("sh", "-c", "echo 7; echo 8 >&2; read line; exit 1"))
    wanted = [required_program("sh"), odd, required_program("it's not there; echo 0"), required_program("cat")]
    provider = LocalProvider(isolation=False, environments_dir=tmp_path)
    async with await provider.start(EnvironmentSpec()) as environment:
        assert await find_missing_requirements(environment, wanted) == [wanted[1], wanted[2]]
    await provider.close()
