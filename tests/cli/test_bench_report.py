"""The reports, as commands over stored runs."""

import os
import subprocess
import sys

import pytest

from drawn_runs import store_run

RUN = "import sys; sys.argv = sys.argv[1:]; from proctor.cli import main\n"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Where the commands find two runs, and no health of their tasks."""
    root = tmp_path_factory.mktemp("world")
    for number in (1, 2):
        store_run(root / "results", f"run-00{number}", tasks=30, seed=number, odds={"rate": 0.3 * number})
    return {**os.environ, "PROCTOR_RESULTS": str(root / "results"), "PROCTOR_CACHE": str(root / "cache")}


def test_a_report_loads_no_more_than_it_needs(world: dict[str, str]) -> None:
    """Its memory is that of its modules, and is held against a loop that reads the same files (`perf/report.py`)."""
    tell = "import atexit; atexit.register(lambda: print(*sys.modules, file=sys.stderr))\n"
    command = [sys.executable, "-c", RUN + tell + "main()", "proctor", "bench", "report", "core", "--json"]
    loaded = set(subprocess.run(command, env=world, capture_output=True, text=True, check=True).stderr.split())
    heavy = {"asyncio", "email", "importlib.metadata", "json", "random", "shutil", "statistics", "subprocess"}
    assert not heavy & loaded
    assert "proctor.analysis.runs" in loaded
    ours = sorted(name for name in loaded if name.startswith("proctor"))
    assert len(ours) <= 40, ours
