"""Where tests find things that are not theirs."""

import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
# The interpreter itself, behind the virtual environment that the tests run in.
PYTHON = Path(getattr(sys, "_base_executable", sys.executable)).resolve()


# What a skip begins with that hides nothing: the same test has passed on a sample of our own.
REAL_SAMPLES = "tried on the real samples when present"
# Likewise: the program of an agent that CI does not install; it has others that cover the same code and dialects.
OPTIONAL_AGENT = "tried where this agent is installed, which CI does not do"
# Likewise: Debian has no package of it, and CI builds it only where Go is new enough. What is decided about compose
# files is tried without it.
OPTIONAL_PLUGIN = "tried where the compose plugin of Docker is installed"


def sample_data(*parts: str) -> Path:
    """A small sample in a benchmark's format, made for these tests."""
    return REPOSITORY.joinpath("tests", "samples", *parts)


def shared_data(*parts: str) -> Path:
    """The same as it is published, in a folder beside the repository; the test is skipped where there is none."""
    path = REPOSITORY.parent.joinpath("shared", "data", *parts)
    if not path.exists():
        pytest.skip(f"{REAL_SAMPLES}: there is no {path}")
    return path


# Where a test finds its data, for tests that are tried on both.
SAMPLES = [pytest.param(sample_data, id="our-sample"), pytest.param(shared_data, id="real-sample")]
