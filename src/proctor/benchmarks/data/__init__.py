"""Data sets of benchmarks: brought here from their official places or from a local copy, and kept as they came."""

from proctor.benchmarks.data.origins import from_git, from_hub
from proctor.benchmarks.data.rows import read_rows
from proctor.benchmarks.data.store import fetched, keep

__all__ = ["fetched", "from_git", "from_hub", "keep", "read_rows"]
