"""The image that container tests run in; `tests/make_base_image.sh` makes it."""

import asyncio
import functools
import secrets
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

IMAGE = "proctor-test/base:bookworm"


def need_docker() -> None:
    """Skip the test where there is no engine, or not our image on it."""
    reason = _missing()
    if reason is not None:
        pytest.skip(reason)


@contextmanager
def own_base(image: str = IMAGE) -> Iterator[str]:
    """An image under a name of one's own. What is built on it inherits its label, and goes with it."""
    need_docker()
    name = secrets.token_hex(6)
    tag = f"proctor-test/own:{name}"
    change_base(tag, f"FROM {image}\nLABEL proctor-test.own={name}\n")
    try:
        yield tag
    finally:
        _remove(f"label=proctor-test.own={name}")


def _remove(which: str) -> None:
    """Remove images of which some stand on others: those that nothing stands on first, as often as it takes."""
    while ids := set(_docker("image", "ls", "--quiet", "--filter", which).split()):
        removed = subprocess.run(["docker", "image", "rm", "--force", *ids], capture_output=True, check=False)
        assert removed.stdout, removed.stderr.decode()


def change_base(tag: str, dockerfile: str) -> None:
    """Give a name to another image."""
    _docker("build", "--quiet", "--tag", tag, "-", said=dockerfile)


def _docker(*words: str, said: str = "") -> str:
    return subprocess.run(["docker", *words], input=said, text=True, check=True, capture_output=True).stdout


@functools.cache
def _missing() -> str | None:
    # In a thread of its own: the test that asks may be running in an event loop.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: asyncio.run(_look())).result()


async def _look() -> str | None:
    from aiodocker import DockerError

    from proctor.environments import docker_unavailable_reason
    from proctor.environments.docker_engine import connect, disconnect

    reason = await docker_unavailable_reason()
    if reason is not None:
        return reason
    docker = connect()
    try:
        await docker.images.inspect(IMAGE)
    except DockerError:
        return f"the engine has no image {IMAGE}: run tests/make_base_image.sh"
    finally:
        await disconnect(docker)
    return None
