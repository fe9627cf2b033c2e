"""A task passes few calls of our own: from the command to its agent, and from grading to its tests."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from call_chains import MOST_CALLS


@pytest.fixture(scope="module")
def calls() -> dict[str, int]:
    done = subprocess.run(
        [sys.executable, "-m", "call_chains"], cwd=Path(__file__).parent, capture_output=True, text=True, check=False
    )
    found = re.findall(r"^(.+): (-?\d+) calls", done.stdout, flags=re.MULTILINE)
    return {title: int(count) for title, count in found}


def test_from_the_command_to_the_agent(calls: dict[str, int]) -> None:
    assert 0 < calls["bench run to the agent"] <= MOST_CALLS


def test_from_grading_to_the_test_process(calls: dict[str, int]) -> None:
    assert 0 < calls["grading to the test process"] <= MOST_CALLS
