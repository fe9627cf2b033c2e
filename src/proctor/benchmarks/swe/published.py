"""What others have published, from the data that ships with this package."""

from functools import cache
from importlib.resources import files

import msgspec

from proctor.core.published import Published


@cache
def published(benchmark: str) -> tuple[Published, ...]:
    """The published results of a benchmark, each with its scaffold, date and source."""
    data = files("proctor.benchmarks.swe").joinpath("baselines", f"{benchmark}.json").read_bytes()
    return msgspec.json.decode(data, type=tuple[Published, ...])
