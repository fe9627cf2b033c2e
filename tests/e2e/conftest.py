from collections.abc import Iterator
from pathlib import Path

import pytest

from cli_world import CliWorld


@pytest.fixture
def cli_world(tmp_path: Path) -> Iterator[CliWorld]:
    place = CliWorld(tmp_path)
    yield place
    place.close()
