"""Images brought ahead, against images brought when they are asked for: 30 tasks over 10 images, disk for 4.

Real pulls by the Docker engine from a registry on loopback that takes its time; real environments that stay a while.

    python perf/prefetch.py [--tasks 30] [--images 10] [--environment 4] [--pull 0.6] [--work 0.3]
"""

import argparse
import asyncio
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from aiodocker import DockerError

from proctor.core.environment import EnvironmentSpec
from proctor.environments.docker import DockerProvider
from proctor.environments.docker_engine import connect, disconnect


async def run_in_order(order: list[str], *, budget: int, work: float, ahead: bool) -> tuple[float, float, int]:
    """Wall clock, time spent waiting for environments, and the most bytes that were on the disk at once."""
    docker, waited, most = connect(), 0.0, 0
    with tempfile.TemporaryDirectory() as folder:
        provider = DockerProvider(image_disk=budget, image_index_dir=Path(folder))
        specs = [EnvironmentSpec(image=image) for image in order]

        async def watch() -> None:
            nonlocal most
            filters = {"reference": [f"{order[0].partition('/')[0]}/*"]}
            while True:
                listed = await docker.images.list(filters=filters)
                most = max(most, sum(int(one["Size"]) for one in listed))
                await asyncio.sleep(0.05)

        watching = asyncio.create_task(watch())
        started = time.monotonic()
        if ahead:
            provider.prefetch(specs)
        for spec in specs:
            asked = time.monotonic()
            async with await provider.start(spec):
                waited += time.monotonic() - asked
                await asyncio.sleep(work)
            provider.release(spec)
        seconds = time.monotonic() - started
        watching.cancel()
        await asyncio.wait({watching})
        await provider.close()
    for image in set(order):
        with suppress(DockerError):  # it has been let go already
            await docker.images.delete(image, force=True)
    await disconnect(docker)
    return seconds, waited, most


async def main() -> None:
    """Measure both ways and print them side by side."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=30)
    parser.add_argument("--images", type=int, default=10)
    parser.add_argument("--environment", type=int, default=4)
    parser.add_argument("--pull", type=float, default=0.6)
    parser.add_argument("--work", type=float, default=0.3)
    given = parser.parse_args()
    sys.path.append(str(Path(__file__).parents[1] / "tests" / "standins"))
    from image_registry import Registry, random_layer, shell_layer

    shell = shell_layer()
    print(f"{'':12}{'wall':>8}{'waiting':>10}{'pulls':>8}{'disk, most':>14}{'budget':>14}")
    for ahead in (False, True):
        async with Registry(delay=given.pull) as registry:
            images = [registry.add(f"image-{n}", [shell, random_layer(1_000_000)]) for n in range(given.images)]
            each = 3_300_000
            budget = given.environment * each
            order = [images[number * given.images // given.tasks] for number in range(given.tasks)]
            wall, waited, most = await run_in_order(order, budget=budget, work=given.work, ahead=ahead)
            name = "ahead" if ahead else "when asked"
            print(f"{name:12}{wall:7.1f}s{waited:9.1f}s{len(registry.pulled):8}{most:14,}{budget:14,}")


asyncio.run(main())
