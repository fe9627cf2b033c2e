"""One world for all tests of local set-ups: what is installed for one of them is there for the others."""

from collections.abc import Iterator

import pytest

from swe_local_world import World, make_wheels


@pytest.fixture(scope="package")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("swe-local")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PROCTOR_CACHE", str(folder / "cache"))
        patch.setenv("PROCTOR_REPOSITORIES", str(folder / "repositories"))
        patch.setenv("PIP_NO_INDEX", "1")
        patch.setenv("PIP_FIND_LINKS", str(make_wheels(folder / "wheels")))
        yield World(folder)
