from collections.abc import Iterator
from pathlib import Path

import pytest

from cli_jobs import Commands
from cli_world import CliWorld


@pytest.fixture(scope="session")
def commands() -> Iterator[Commands]:
    with Commands() as started:
        yield started


@pytest.fixture
def cli_world(commands: Commands, tmp_path: Path) -> Iterator[CliWorld]:
    place = CliWorld(commands, tmp_path)
    yield place
    place.close()
