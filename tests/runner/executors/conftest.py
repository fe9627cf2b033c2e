"""A cluster for the tests of this folder, and a provider that keeps its own books."""

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from cluster_runs import TURNS
from cluster_world import BookProvider, ClusterWorld, book_provider, missing


@pytest.fixture(scope="module")
def cluster() -> Iterator[ClusterWorld]:
    if (reason := missing()) is not None:
        if os.environ.get("PROCTOR_TESTS_COMPLETE"):
            pytest.fail(reason)
        pytest.skip(reason)
    # Not among the temporary files: each node has its own.
    with tempfile.TemporaryDirectory(prefix="cluster-", dir="/var/tmp") as folder:
        world = ClusterWorld(Path(folder))
        world.open()
        try:
            asyncio.run(world.start())
            yield world
        finally:
            world.close()


@pytest.fixture
async def world(cluster: ClusterWorld) -> ClusterWorld:
    """The cluster, with all of its nodes."""
    await cluster.restore()
    return cluster


@pytest.fixture
async def provider(world: ClusterWorld) -> AsyncIterator[BookProvider]:
    async with book_provider(turns=TURNS) as provider:
        yield provider
