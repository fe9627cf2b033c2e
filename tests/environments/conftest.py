"""Rooms made by every provider in turn, and gone when the test is."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rooms import Rooms, make_provider


async def _rooms(kind: str, folder: Path) -> AsyncIterator[Rooms]:
    made = Rooms(kind, make_provider(kind, folder))
    yield made
    await made.stop()


@pytest.fixture(params=["local", "docker", "plain"])
async def rooms(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Rooms]:
    """Rooms of every kind; "plain" is local with isolation off."""
    async for made in _rooms(request.param, tmp_path):
        yield made


@pytest.fixture(params=["local", "docker"])
async def sealed(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Rooms]:
    """Rooms of the kinds that isolate."""
    async for made in _rooms(request.param, tmp_path):
        yield made


@pytest.fixture
async def local(tmp_path: Path) -> AsyncIterator[Rooms]:
    async for made in _rooms("local", tmp_path):
        yield made


@pytest.fixture
async def docker(tmp_path: Path) -> AsyncIterator[Rooms]:
    async for made in _rooms("docker", tmp_path):
        yield made
