"""Where tests find things that are not theirs."""

import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
# The interpreter itself, behind the virtual environment that the tests run in.
PYTHON = Path(getattr(sys, "_base_executable", sys.executable)).resolve()


def shared_data(*parts: str) -> Path:
    """A sample of published benchmark data beside the repository; the test is skipped where there is none."""
    path = REPOSITORY.parent.joinpath("shared", "data", *parts)
    if not path.exists():
        pytest.skip(f"no sample data at {path}")
    return path
