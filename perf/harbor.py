"""Harbor against ours: a no-op agent over the same tasks in containers, at the same parallelism, in one run.

    .venv/bin/python perf/harbor.py [TASKS]

Wall clock, and the CPU time of the tool's own processes, for each task; what the engine and the containers take is the
same for both. Needs Docker with its compose plugin, the set-up image of the tests, and Harbor as a program: on PATH, or
named by HARBOR_BIN.
"""

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from cli_args import number_arguments

WORKERS = 4
SAMPLE = Path(__file__).resolve().parent.parent / "tests" / "samples" / "harbor_tasks" / "report"


class Cost(NamedTuple):
    """What a run took: seconds of the clock, and of the CPU in the tool's own processes."""

    wall: float
    cpu: float


def measured(command: list[str], log: Path) -> Cost:
    """Run a command to its end."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    with log.open("wb") as out:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, check=False)
    after, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic() - started
    if done.returncode not in {0, 12}:
        raise SystemExit(f"{command[0]} ended with {done.returncode}; see {log}:\n{log.read_text()[-2000:]}")
    return Cost(wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def harbor_rewards(jobs: Path) -> list[float]:
    """The rewards of a job's trials."""
    found = [json.loads(file.read_text()) for file in jobs.glob("perf/*/result.json")]
    return [float((one.get("verifier_result") or {"rewards": {"reward": -1}})["rewards"]["reward"]) for one in found]


def main() -> int:
    """Print both, and whether ours takes no more."""
    (count,) = number_arguments(__doc__, count=100)
    harbor = os.environ.get("HARBOR_BIN") or shutil.which("harbor")
    if harbor is None:
        print("Harbor is not installed: nothing to compare with (HARBOR_BIN names its program)")
        return 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.chdir(folder)
        os.environ["PROCTOR_CACHE"] = str(folder / "cache")
        os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
        tasks = folder / "tasks"
        for number in range(1, count + 1):
            shutil.copytree(SAMPLE, tasks / f"task-{number:03}")
        workers = str(WORKERS)
        proctor = [
            str(Path(sys.executable).parent / "proctor"),
            "bench",
            "run",
            "--suite",
            str(tasks),
            "--agent",
            "nop",
        ]
        ours = measured([*proctor, "--runner", "docker", "--concurrency", workers, "--quiet"], folder / "ours.log")
        theirs = measured(
            [
                harbor,
                "run",
                "-p",
                str(tasks),
                "-a",
                "nop",
                "--jobs-dir",
                "jobs",
                "--job-name",
                "perf",
                "-n",
                workers,
                "-q",
                "-y",
            ],
            folder / "theirs.log",
        )
        results = [json.loads(file.read_text()) for file in folder.glob("results/tasks/run-001/trials/*.json")]
        rewards = sorted(one["verdict"]["scores"]["reward"] for one in results)
        assert rewards == sorted(harbor_rewards(folder / "jobs")) == [0.0] * count, (rewards, "rewards differ")
    print(f"{count} tasks, {WORKERS} at a time, no-op agent, reward 0 everywhere")
    for who, cost in (("Proctor", ours), ("Harbor", theirs)):
        print(f"{who:8} {cost.wall / count:6.2f} s wall clock and {cost.cpu / count:6.2f} s CPU for each task")
    print(f"ratio    {ours.wall / theirs.wall:6.2f}   wall clock    {ours.cpu / theirs.cpu:6.2f}   CPU")
    return 0 if ours.wall <= theirs.wall else 1


if __name__ == "__main__":
    sys.exit(main())
