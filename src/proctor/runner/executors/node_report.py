"""What `proctor cluster` finds out about a node, and does there: functions that run on the node itself."""

import asyncio
import os
import shutil
from pathlib import Path

from proctor.benchmarks import benchmark_table, fetch_dataset, reopen
from proctor.benchmarks.data import stored_dataset
from proctor.core import VERSION
from proctor.core.benchmark import GradeOptions
from proctor.core.errors import ProctorError
from proctor.core.files import cache_root
from proctor.core.formatting import file_size
from proctor.core.machine import Machine
from proctor.core.record import Record
from proctor.environments import docker_images
from proctor.environments import provider as find_provider
from proctor.runner.executors.spool import Spool
from proctor.runner.request import current_machine


class NodeReport(Record):
    """A node, as `cluster doctor` shows it.

    Attributes:
        data: the digest of each data set that was fetched to it, by benchmark and split.
        images: the id of each container image that it has, by its tag; None where it has no Docker engine.
        token: whether its Ray asks for a token.
        spooled: attempts of which it has something that no driver has taken over yet.
    """

    name: str
    address: str
    proctor: str
    machine: Machine
    free_bytes: int
    data: dict[str, str]
    images: dict[str, str] | None
    token: bool
    spooled: int


def report_node(name: str, address: str) -> NodeReport:
    """What this machine has."""
    data = {}
    for row in benchmark_table():
        for split in row.splits:
            try:
                data[f"{row.name} {split}"] = stored_dataset(row.name, split)[0].digest[:16]
            except ProctorError:
                continue  # it was not fetched
    there = next(path for path in (cache_root(), *cache_root().parents) if path.exists())
    return NodeReport(
        name=name,
        address=address,
        proctor=VERSION,
        machine=current_machine(),
        free_bytes=shutil.disk_usage(there).free,
        data=data,
        images=_images(),
        token=os.environ.get("RAY_AUTH_MODE", "").lower() == "token",
        spooled=len(Spool().entries()),
    )


def _images() -> dict[str, str] | None:
    try:
        return asyncio.run(docker_images())
    except ProctorError:
        return None


def fetch_on_node(benchmark: str, split: str | None, origin: str | None, image_bytes: int | None) -> tuple[bool, str]:
    """Bring a data set to this machine, and, within this disk space, the images of its tasks; whether, and in words."""
    try:
        return True, asyncio.run(_fetch(benchmark, split, None if origin is None else Path(origin), image_bytes))
    except ProctorError as error:
        return False, error.sentence


async def _fetch(name: str, split: str | None, origin: Path | None, image_bytes: int | None) -> str:
    found = await fetch_dataset(name, split, origin, lambda _: None)
    done = f"{found.tasks} tasks, {found.digest[:16]}"
    if image_bytes is None:
        return done
    provider = find_provider("docker", isolation=True, image_disk=image_bytes)
    free = shutil.disk_usage(cache_root()).free
    images = 0
    try:
        benchmark = reopen(name, found.origin, split).for_provider(provider)
        found_specs = [benchmark.environment_spec(task, GradeOptions()) for task in benchmark.tasks()]
        specs = {spec.image: spec for spec in found_specs}
        for spec in specs.values():
            if free - shutil.disk_usage(cache_root()).free >= image_bytes:
                break
            await provider.digest(spec)
            images += 1
    finally:
        await provider.close()
    return f"{done}; {images} of {len(specs)} images within {file_size(image_bytes)}"
