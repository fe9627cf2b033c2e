"""Images that are brought ahead, within a budget, from a registry on loopback by a real engine."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiodocker import Docker, DockerError
from image_registry import Registry, random_layer, shell_layer

from docker_image import IMAGE, need_docker
from proctor.core.environment import EnvironmentSpec
from proctor.core.errors import InfrastructureError
from proctor.environments.docker import DockerProvider
from proctor.environments.docker_engine import connect, disconnect
from slow_tests import scaled
from waiting import PATIENCE, eventually

OWN_BYTES = 1_000_000


class CliWorld:
    """A registry with images, and what the engine has of them."""

    def __init__(self, registry: Registry, docker: Docker, images: list[str]) -> None:
        self.registry = registry
        self.docker = docker
        self.images = images

    async def sizes(self) -> dict[str, int]:
        """What the engine has of our images, and how large each is."""
        filters = {"reference": [f"{self.images[0].partition('/')[0]}/*"]}
        listed = await self.docker.images.list(filters=filters)
        return {str(one["RepoTags"][0]): int(one["Size"]) for one in listed if one["RepoTags"]}

    async def clear(self) -> None:
        for image in await self.sizes():
            await self.docker.images.delete(image, force=True)


@pytest.fixture(scope="module")
def layers() -> list[bytes]:
    return [shell_layer(), *(random_layer(OWN_BYTES) for _ in range(10))]


@asynccontextmanager
async def cli_world(layers: list[bytes], count: int, *, delay: float = 0.0) -> AsyncIterator[CliWorld]:
    need_docker()
    docker = connect()
    try:
        async with Registry(delay=delay) as registry:
            images = [registry.add(f"image-{n}", [layers[0], layers[n + 1]]) for n in range(count)]
            made = CliWorld(registry, docker, images)
            try:
                yield made
            finally:
                await made.clear()
    finally:
        await disconnect(docker)


def spec(image: str) -> EnvironmentSpec:
    return EnvironmentSpec(image=image)


async def size_of_one(layers: list[bytes], folder: Path) -> int:
    async with cli_world(layers, 1) as one:
        provider = DockerProvider(image_index_dir=folder)
        await provider.digest(spec(one.images[0]))
        await provider.close()
        return (await one.sizes())[one.images[0]]


@pytest.mark.parametrize("number", scaled(6, 10))
async def test_tasks_over_many_images_stay_within_a_budget_for_four(
    layers: list[bytes], tmp_path: Path, number: int
) -> None:
    size = await size_of_one(layers, tmp_path / "first")
    budget = 4 * size + size // 2
    async with cli_world(layers, number, delay=0.05) as world:
        provider = DockerProvider(image_disk=budget, image_index_dir=tmp_path / "brought")
        tasks = [image for image in world.images for _ in range(3)]
        provider.prefetch([spec(image) for image in tasks])
        most = 0

        async def watch() -> None:
            nonlocal most
            while True:
                most = max(most, sum((await world.sizes()).values()))
                await asyncio.sleep(0.02)

        watching = asyncio.create_task(watch())
        queue = iter(tasks)

        async def worker() -> None:
            for image in queue:
                async with await provider.start(spec(image)) as environment:
                    assert (await environment.exec(["/bin/sh", "-c", "echo $0"])).stdout == b"/bin/sh\n"
                provider.release(spec(image))

        await asyncio.gather(worker(), worker())
        watching.cancel()
        await asyncio.wait({watching})
        await provider.close()
        assert 3 * size <= most <= budget
        assert len(world.registry.pulled) == number


async def test_an_image_is_there_before_it_is_asked_for(layers: list[bytes], tmp_path: Path) -> None:
    async with cli_world(layers, 3) as world:
        provider = DockerProvider(image_index_dir=tmp_path)
        provider.prefetch([spec(image) for image in world.images])
        async with asyncio.timeout(PATIENCE):
            while len(await world.sizes()) < 3:
                await asyncio.sleep(0.05)
        await provider.close()


async def test_only_images_that_proctor_pulled_are_evicted(layers: list[bytes], tmp_path: Path) -> None:
    async with cli_world(layers, 4) as world:
        theirs, first, second, third = world.images
        await world.docker.images.pull(theirs)
        earlier = DockerProvider(image_index_dir=tmp_path)
        for image in (theirs, first, second):
            await earlier.digest(spec(image))
        await earlier.close()
        size = (await world.sizes())[first]
        later = DockerProvider(image_disk=2 * size + size // 2, image_index_dir=tmp_path)
        await later.digest(spec(third))
        assert set(await world.sizes()) == {theirs, second, third}
        async with await later.start(spec(second)):
            await later.digest(spec(first))
            assert set(await world.sizes()) == {theirs, first, second}
        await later.close()


async def test_an_image_that_an_environment_stands_on_is_waited_for(layers: list[bytes], tmp_path: Path) -> None:
    async with cli_world(layers, 2) as world:
        first, second = world.images
        probe = DockerProvider(image_index_dir=tmp_path)
        await probe.digest(spec(first))
        await probe.close()
        size = (await world.sizes())[first]
        provider = DockerProvider(image_disk=size + size // 2, image_index_dir=tmp_path)
        environment = await provider.start(spec(first))
        coming = asyncio.create_task(provider.digest(spec(second)))
        await asyncio.sleep(0.5)
        assert not coming.done()
        assert set(await world.sizes()) == {first}
        await environment.stop()
        await coming
        assert set(await world.sizes()) == {second}
        await provider.close()


async def test_an_image_larger_than_the_whole_budget_is_said_so_and_not_kept(
    layers: list[bytes], tmp_path: Path
) -> None:
    async with cli_world(layers, 1) as world:
        provider = DockerProvider(image_disk=100_000, image_index_dir=tmp_path)
        with pytest.raises(InfrastructureError, match="--image-disk"):
            await provider.start(spec(world.images[0]))
        assert await world.sizes() == {}
        await provider.close()


async def test_an_image_that_cannot_be_had_ahead_is_told_to_who_needs_it(layers: list[bytes], tmp_path: Path) -> None:
    async with cli_world(layers, 1) as world:
        missing = world.images[0].replace("image-0", "no-such")
        provider = DockerProvider(image_index_dir=tmp_path)
        provider.prefetch([spec(missing), spec(world.images[0])])
        await provider.digest(spec(world.images[0]))
        with pytest.raises(InfrastructureError, match="cannot be pulled"):
            await provider.digest(spec(missing))
        await provider.close()


async def test_an_image_that_vanished_is_brought_again(layers: list[bytes], tmp_path: Path) -> None:
    async with cli_world(layers, 1) as world:
        provider = DockerProvider(image_index_dir=tmp_path)
        await provider.digest(spec(world.images[0]))
        await world.docker.images.delete(world.images[0], force=True)
        await provider.digest(spec(world.images[0]))
        assert set(await world.sizes()) == set(world.images)
        await provider.close()


async def test_images_built_on_an_image_are_counted_and_evicted_with_it(layers: list[bytes], tmp_path: Path) -> None:
    async with cli_world(layers, 2) as world:
        first, second = world.images
        context = tmp_path / "context"
        context.mkdir()
        (context / "more").write_bytes(b"x" * OWN_BYTES)
        (context / "Dockerfile").write_text(f"FROM {first}\nCOPY more /more\n")
        environment = EnvironmentSpec(build=context)
        probe = DockerProvider(image_index_dir=tmp_path / "probe")
        await probe.digest(spec(second))
        await probe.close()
        size = (await world.sizes())[second]
        await world.clear()
        # Environment for two images, not for two and what is built on one of them.
        provider = DockerProvider(image_disk=2 * size + OWN_BYTES // 2, image_index_dir=tmp_path / "brought")
        provider.prefetch([environment, spec(second)])
        async with await provider.start(environment) as standing:
            assert (await standing.exec(["/bin/sh", "-c", "read -r line </more; echo ${#line}"])).exit_code < 126
            made = standing.digest.removeprefix("docker:")
            coming = asyncio.create_task(provider.digest(spec(second)))
            await asyncio.sleep(0.5)
            assert first in await world.sizes()
        provider.release(environment)
        await coming
        assert set(await world.sizes()) == {second}
        with pytest.raises(DockerError):
            await world.docker.images.inspect(made)
        await provider.close()


async def test_a_provider_closed_in_the_middle_of_a_pull_leaves_nothing_running(
    layers: list[bytes], tmp_path: Path
) -> None:
    async with cli_world(layers, 2, delay=40) as world:
        provider = DockerProvider(image_index_dir=tmp_path)
        provider.prefetch([spec(image) for image in world.images])
        await eventually(lambda: world.registry.pulled, "the pull")
        await asyncio.wait_for(provider.close(), 20)
        with pytest.raises(DockerError):
            await world.docker.images.inspect(world.images[0])


async def test_an_image_of_the_machine_needs_no_registry(tmp_path: Path) -> None:
    need_docker()
    provider = DockerProvider(image_disk=1, image_index_dir=tmp_path)
    provider.prefetch([spec(IMAGE)])
    async with await provider.start(spec(IMAGE)) as environment:
        assert (await environment.exec(["true"])).exit_code == 0
    await provider.close()
    assert not list(tmp_path.iterdir())
