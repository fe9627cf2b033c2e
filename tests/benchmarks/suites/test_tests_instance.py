"""What an instance must find in its environment."""

from pathlib import Path
from typing import Any

import pytest

from proctor.benchmarks.suites.benchmark import SuiteBenchmark
from proctor.benchmarks.suites.load import load_suite
from suite_world import make_instance, make_suite

TAP = {"format": "tap", "arguments": []}
CASES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "the reporter's Python": ({}, ["python3"]),
    "what the instance says, once": ({"requires": ["awk", "python3"]}, ["awk", "python3"]),
    "pytest": ({"eval": {"format": "pytest"}}, ["python3", "pytest for python3"]),
    "the program of a command": ({"eval": {**TAP, "command": ["node", "tests"]}}, ["node"]),
    "a program of the workspace": ({"eval": {**TAP, "command": ["./run", "tests"]}}, []),
    "a program that a setup may bring": ({"eval": {**TAP, "command": ["tap"], "setup": [["npm", "ci"]]}}, ["npm"]),
    "a program on a path of its own": ({"eval": {**TAP, "command": ["tap"], "variables": {"PATH": "/opt"}}}, []),
    "pytest of its own": ({"eval": {"format": "pytest", "variables": {"PYTHONPATH": "lib"}}}, ["python3"]),
}


@pytest.mark.parametrize(("changes", "names"), CASES.values(), ids=CASES)
def test_an_instance_requires_what_it_says_and_what_starts_its_tests(
    tmp_path: Path, changes: dict[str, Any], names: list[str]
) -> None:
    make_instance(tmp_path, **changes)
    suite = SuiteBenchmark(load_suite(make_suite(tmp_path)))
    (task,) = suite.tasks()
    assert [one.name for one in suite.environment_requirements(task)] == names
