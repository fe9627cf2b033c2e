"""Where tests find things that are not theirs."""

from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent


def shared_data(*parts: str) -> Path:
    """A sample of published benchmark data beside the repository; the test is skipped where there is none."""
    path = REPOSITORY.parent.joinpath("shared", "data", *parts)
    if not path.exists():
        pytest.skip(f"no sample data at {path}")
    return path
