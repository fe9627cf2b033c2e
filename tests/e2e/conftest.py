from collections.abc import Iterator
from pathlib import Path

import pytest

from cli_jobs import Commands
from hall import Hall


@pytest.fixture(scope="session")
def commands() -> Iterator[Commands]:
    with Commands() as started:
        yield started


@pytest.fixture
def hall(commands: Commands, tmp_path: Path) -> Iterator[Hall]:
    place = Hall(commands, tmp_path)
    yield place
    place.close()
