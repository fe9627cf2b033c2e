"""The Pythons on this machine."""

import sys

import pytest

from proctor.benchmarks.swe.local.interpreters import SweInterpreter, choose_interpreter, find_interpreters

THERE = [SweInterpreter(executable=f"/p{v}", version=v, prefix="/p") for v in ("2.7", "3.6", "3.9", "3.11", "3.12")]


@pytest.mark.parametrize(
    ("wanted", "chosen"),
    [("3.9", "3.9"), ("3.7", "3.9"), ("3.10", "3.11"), ("3.13", None), ("2.7", "2.7"), ("2.6", "2.7")],
)
def test_the_same_version_is_taken_or_the_next_newer_one(wanted: str, chosen: str | None) -> None:
    found = choose_interpreter(wanted, THERE)
    assert (found.version if found else None) == chosen


def test_the_one_that_runs_this_is_among_those_of_the_machine() -> None:
    there = find_interpreters()
    assert f"{sys.version_info.major}.{sys.version_info.minor}" in {one.version for one in there}
    assert [one.version_tuple for one in there] == sorted(one.version_tuple for one in there)
