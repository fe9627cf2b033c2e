"""The reports, as commands over stored runs."""

import os
import subprocess
import sys

import pytest

from documents import checked
from drawn_runs import store_run
from proctor.core.run import Mode

RUN = "import sys; sys.argv = sys.argv[1:]; from proctor.cli import main\n"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Where the commands find three runs, and no health of their tasks."""
    root = tmp_path_factory.mktemp("world")
    for number in (1, 2):
        store_run(root / "results", f"run-00{number}", tasks=30, seed=number, odds={"rate": 0.3 * number})
    store_run(root / "results", "run-003", tasks=20, seed=3, mode=Mode.H2, samples=2)
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
    assert len(ours) <= 43, ours


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        (("report", "core"), "runs_report"),
        (("report", "core", "--logs"), "runs_report"),
        (("compare", "run-001", "run-002", "--gate", "better, cost <= $1"), "comparison"),
        (("compare", "run-001", "run-003"), "comparison"),  # a team
        (("pareto", "core"), "pareto"),
        (("breakdown", "run-001"), "breakdown"),
        (("breakdown", "run-001", "run-002", "--by", "language"), "breakdown"),
        (("show", "run-001"), "shown_run"),
        (("list",), "benchmark_row"),
    ],
)
def test_what_is_printed_for_programs_says_what_it_is_and_fits_its_schema(
    world: dict[str, str], arguments: tuple[str, ...], kind: str
) -> None:
    command = [sys.executable, "-m", "proctor", "bench", *arguments, "--json"]
    done = subprocess.run(command, env=world, capture_output=True, text=True, check=False)
    assert done.returncode in {0, 10}, done.stderr
    document = checked(done.stdout)
    first = document[0] if isinstance(document, list) else document
    assert first["schema_version"] == f"proctor.{kind}@1"
    if kind == "runs_report":
        assert ("logs" in document) == ("--logs" in arguments)
