"""A report over many runs, beside bare loops that read the same files with the standard library's JSON.

    python perf/report.py [RUNS] [TASKS]       100 1000 by default

Each row is a process of its own, files in the page cache, modules compiled before as an installation has them. `bare`
decodes every file and counts what is resolved; it keeps nothing, and so could not tell a median. `report` is `proctor
bench report --json`, which does all that a report does, and is held against `bare` in time and in memory, which is the
most that the process held. For information: `bare, by run` holds the results of one run at a time, as a plain program
would for a median; `start` is what Python and the command line take before any file is read.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from cli_args import number_arguments

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from random_runs import store_run

TARGET = 2.0
BARE = """
import json, os, sys
resolved = 0
for folder, _, files in os.walk(sys.argv[1]):
    for name in files:
        if name.endswith(".json") and name != "config.json":
            with open(os.path.join(folder, name), "rb") as file:
                resolved += json.load(file)["status"] == "resolved"
print(resolved)
"""
BARE_BY_RUN = """
import json, os, sys
for run in os.scandir(sys.argv[1]):
    results = []
    for name in os.listdir(run.path + "/trials"):
        with open(run.path + "/trials/" + name, "rb") as file:
            results.append(json.load(file))
    print(sum(result["status"] == "resolved" for result in results))
"""
OURS = """
from proctor.cli import main
main()
"""
# A process tells its own peak: what the kernel tells of a child counts its parent's pages too, from before the exec.
PEAK = """
import atexit, os
def tell():
    with open("/proc/self/status") as status:
        peak = next(line for line in status if line.startswith("VmHWM"))
    os.write(2, f"{sum(os.times()[:2])} {int(peak.split()[1]) / 1024}".encode())
atexit.register(tell)
"""


ROUNDS = 3


def once(program: str, *arguments: str, results: Path) -> tuple[float, float, float]:
    """CPU seconds, wall seconds, and the most memory in MB."""
    environment = {
        **{name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
        "PROCTOR_RESULTS": str(results),
        "PROCTOR_CACHE": str(results / ".cache"),
        "PYTHONPYCACHEPREFIX": str(results / ".compiled"),
    }
    clock = time.monotonic()
    command = [sys.executable, "-c", PEAK + program, *arguments]
    done = subprocess.run(command, env=environment, check=True, capture_output=True)
    wall = time.monotonic() - clock
    cpu, memory = map(float, done.stderr.split())
    return cpu, wall, memory


def make(results: Path, runs: int, tasks: int) -> int:
    """Write the runs; files are those of one run, drawn, and the same bytes in every other."""
    first = store_run(results, "run-001", tasks=tasks, seed=1, odds={"tests": 30})
    size = sum(file.stat().st_size for file in (first.folder / "trials").iterdir())
    for number in range(2, runs + 1):
        folder = first.folder.with_name(f"run-{number:03}")
        (folder / "trials").mkdir(parents=True)
        config = json.loads((first.folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, "run_id": folder.name}))
        for file in (first.folder / "trials").iterdir():
            (folder / "trials" / file.name).write_bytes(file.read_bytes())
    return size * runs


def main() -> int:
    runs, tasks = number_arguments(__doc__, runs=100, tasks=1000)
    with tempfile.TemporaryDirectory(prefix="perf-report-") as folder:
        results = Path(folder)
        size = make(results, runs, tasks)
        print(f"{runs} runs of {tasks} tasks, {size / 1e6:.0f} MB")
        programs = {
            "start": (OURS, "bench", "report", "--help"),
            "bare": (BARE, str(results / "core")),
            "bare, by run": (BARE_BY_RUN, str(results / "core")),
            "report": (OURS, "bench", "report", "core", "--json"),
        }
        once(*programs["report"], results=results)  # compiles
        tries: dict[str, list[tuple[float, float, float]]] = {name: [] for name in programs}
        for _ in range(ROUNDS):  # in turn, so that all of them meet the same machine
            for name, (program, *arguments) in programs.items():
                tries[name].append(once(program, *arguments, results=results))
    best = {name: tuple(map(min, zip(*some, strict=True))) for name, some in tries.items()}
    print(f"{'':14}{'CPU s':>9}{'wall s':>9}{'MB':>8}")
    for name, row in best.items():
        print(f"{name:14}{row[0]:9.2f}{row[1]:9.2f}{row[2]:8.1f}")
    for name in ("bare", "bare, by run"):
        cpu, wall, memory = _ratios(best["report"], best[name])
        print(f"report / {name}: {cpu:.2f} in CPU time, {wall:.2f} in wall time, {memory:.2f} in memory")
    print(f"target: at most {TARGET:g} of `bare` in each")
    return int(max(_ratios(best["report"], best["bare"])) > TARGET)


def _ratios(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    return [one / other for one, other in zip(ours, theirs, strict=True)]


if __name__ == "__main__":
    sys.exit(main())
