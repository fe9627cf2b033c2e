"""A real browser, for all tests of a module."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from chromium import Chromium, chromium, program


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Chromium]:
    if program() is None:
        pytest.skip("there is no chromium on this machine")
    async with chromium() as started:
        yield started
