"""Images that tests make for themselves, and whether the engine has one."""

import asyncio
import functools
from concurrent.futures import ThreadPoolExecutor

import pytest


def need_image(image: str, maker: str) -> None:
    """Skip the test where the engine, which is there, has no such image."""
    if not _has(image):
        pytest.skip(f"the engine has no image {image}: run {maker}")


@functools.cache
def _has(image: str) -> bool:
    # In a thread of its own: the test that asks may be running in an event loop.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: asyncio.run(_look(image))).result()


async def _look(image: str) -> bool:
    from aiodocker import DockerError

    from proctor.environments.docker_engine import connect, disconnect

    docker = connect()
    try:
        await docker.images.inspect(image)
    except DockerError:
        return False
    finally:
        await disconnect(docker)
    return True
