"""Environments made by every provider in turn, and gone when the test is."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from environment_factory import Environments, make_provider


async def _environments(kind: str, folder: Path) -> AsyncIterator[Environments]:
    made = Environments(kind, make_provider(kind, folder))
    yield made
    await made.stop()


@pytest.fixture(params=["local", "docker", "plain"])
async def environments(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Environments]:
    """Environments of every kind; "plain" is local with isolation off."""
    async for made in _environments(request.param, tmp_path):
        yield made


@pytest.fixture(params=["local", "docker"])
async def sealed(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Environments]:
    """Environments of the kinds that isolate."""
    async for made in _environments(request.param, tmp_path):
        yield made


@pytest.fixture
async def local(tmp_path: Path) -> AsyncIterator[Environments]:
    async for made in _environments("local", tmp_path):
        yield made


@pytest.fixture
async def docker(tmp_path: Path) -> AsyncIterator[Environments]:
    async for made in _environments("docker", tmp_path):
        yield made
