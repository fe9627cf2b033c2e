"""The image that container tests run in; `tests/make_base_image.sh` makes it."""

import asyncio
import functools
from concurrent.futures import ThreadPoolExecutor

import pytest

IMAGE = "proctor-test/base:bookworm"


def need_docker() -> None:
    """Skip the test where there is no engine, or not our image on it."""
    reason = _missing()
    if reason is not None:
        pytest.skip(reason)


@functools.cache
def _missing() -> str | None:
    # In a thread of its own: the test that asks may be running in an event loop.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: asyncio.run(_look())).result()


async def _look() -> str | None:
    from aiodocker import DockerError

    from proctor.environments import docker_available
    from proctor.environments.engine import connect, disconnect

    reason = await docker_available()
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
