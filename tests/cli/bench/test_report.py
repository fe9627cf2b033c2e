"""The reports, as commands over stored runs."""

import itertools
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from documents import checked
from proctor.core.request import Mode
from proctor.results import RunStore
from random_runs import store_run

RUN = "import sys; sys.argv = sys.argv[1:]; from proctor.cli import main\n"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment with three runs, whose tasks are not validated."""
    root = tmp_path_factory.mktemp("world")
    for number in (1, 2):
        store_run(root / "results", f"run-00{number}", tasks=30, seed=number, odds={"rate": 0.3 * number})
    store_run(root / "results", "run-003", tasks=20, seed=3, mode=Mode.H2, trials=2)
    return {**os.environ, "PROCTOR_RESULTS": str(root / "results"), "PROCTOR_CACHE": str(root / "cache")}


def test_a_report_loads_no_more_than_it_needs(world: dict[str, str]) -> None:
    """Its memory is that of its modules; `perf/report.py` compares it with a loop that reads the same files."""
    print_modules = "import atexit; atexit.register(lambda: print(*sys.modules, file=sys.stderr))\n"
    command = [sys.executable, "-c", RUN + print_modules + "main()", "proctor", "bench", "report", "core", "--json"]
    loaded = set(subprocess.run(command, env=world, capture_output=True, text=True, check=True).stderr.split())
    heavy = {"asyncio", "email", "importlib.metadata", "json", "random", "shutil", "statistics", "subprocess"}
    assert not heavy & loaded
    assert "proctor.analysis.runs" in loaded
    ours = sorted(name for name in loaded if name.startswith("proctor"))
    assert len(ours) <= 53, ours


@pytest.mark.parametrize(
    ("arguments", "version"),
    [
        (("report", "core"), "runs_report@2"),
        (("report", "core", "--logs"), "runs_report@2"),
        (("compare", "run-001", "run-002", "--gate", "better, cost <= $1"), "comparison@2"),
        (("compare", "run-001", "run-003"), "comparison@2"),  # a team
        (("pareto", "core"), "pareto@2"),
        (("breakdown", "run-001"), "breakdown@1"),
        (("breakdown", "run-001", "run-002", "--by", "language"), "breakdown@1"),
        (("show", "run-001"), "run_details@1"),
        (("list",), "benchmark_row@1"),
    ],
)
def test_json_output_has_a_schema_version_and_fits_its_schema(
    world: dict[str, str], arguments: tuple[str, ...], version: str
) -> None:
    command = [sys.executable, "-m", "proctor", "bench", *arguments, "--json"]
    done = subprocess.run(command, env=world, capture_output=True, text=True, check=False)
    assert done.returncode in {0, 10}, done.stderr
    document = checked(done.stdout)
    first = document[0] if isinstance(document, list) else document
    assert first["schema_version"] == f"proctor.{version}"
    if arguments[0] == "report":
        assert ("log_stats" in document) == ("--logs" in arguments)


def test_an_unreadable_result_costs_itself_and_not_the_reports(tmp_path: Path, world: dict[str, str]) -> None:
    results = tmp_path / "results"
    shutil.copytree(world["PROCTOR_RESULTS"], results)
    env = {**world, "PROCTOR_RESULTS": str(results)}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", f"{RUN}main()", "proctor", "bench", *arguments]
        return subprocess.run(command, env=env, capture_output=True, text=True, check=False)

    intact = json.loads(run("report", "core", "--json").stdout)["runs"]
    (broken,) = itertools.islice(RunStore(results / "core/run-001").result_files(), 1)
    Path(broken).write_bytes(b'{"schema_version": "proctor.task_result@2", "task_id"')
    (results / "core/run-003/config.json").write_text("{}")
    report = run("report", "core", "--json")
    assert report.returncode == 0, report
    first, second = json.loads(report.stdout)["runs"]
    assert (first["missing"], second) == (intact[0]["missing"] + 1, intact[1])
    assert "core/run-003 is left out: " in report.stderr
    for arguments in (
        ("report", "core"),
        ("compare", "run-001", "run-002"),
        ("pareto", "core"),
        ("breakdown", "run-001"),
        ("show", "run-001"),
    ):
        done = run(*arguments)
        assert done.returncode == 0, done
        assert f"core/run-001: 1 result cannot be read and is left out ({broken}: this is not JSON" in done.stderr
        assert "`proctor bench resume core/run-001` grades or runs such trials again" in done.stderr
