"""One world for all tests of local set-ups, in all workers: what is installed for one is there for the others."""

from collections.abc import Iterator

import pytest

from shared_fixture import made_once
from swe_local_world import World, make_world


@pytest.fixture(scope="package")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = made_once(tmp_path_factory, "swe-local", make_world)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PROCTOR_CACHE", str(folder / "cache"))
        patch.setenv("PROCTOR_REPOSITORIES", str(folder / "repositories"))
        patch.setenv("PIP_NO_INDEX", "1")
        patch.setenv("PIP_FIND_LINKS", str(folder / "wheels"))
        yield World(folder)
