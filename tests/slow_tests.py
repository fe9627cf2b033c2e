"""Tests of the long proof: they run with `make proof`, and some of each kind with `make test` too."""

from collections.abc import Sequence

import pytest


def sampled(values: Sequence[object], *, every: int) -> list[object]:
    """Parameters of a test: each `every`-th value is tried in all test runs, the others in the long proof."""
    return [
        value if number % every == 0 else pytest.param(value, marks=pytest.mark.long)
        for number, value in enumerate(values)
    ]


def scaled(usual: object, full: object) -> list[object]:
    """Parameters of a test that is made small in all test runs, and at its full size in the long proof."""
    return [usual, pytest.param(full, marks=pytest.mark.long)]
