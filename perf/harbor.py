"""Harbor against ours: a no-op agent over the same tasks in containers, at the same parallelism, in one run.

    .venv/bin/python perf/harbor.py [TASKS] [PIECES]

Both run the tasks in pieces, in turns, so that what else the machine does meets both. Wall clock, CPU time of the
program's own processes, and CPU time of the machine (the engine and the containers too), for each task. Needs Docker
with its compose plugin, the set-up image of the tests, and Harbor as a program: on PATH, or named by HARBOR_BIN.
"""

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import NamedTuple

import psutil
from cli_args import number_arguments

WORKERS = 4
SAMPLE = Path(__file__).resolve().parent.parent / "tests" / "samples" / "harbor_tasks" / "report"


class Cost(NamedTuple):
    """What a run took: seconds of the clock, of the CPU in the tool's own processes, and of all CPUs of the machine."""

    wall: float
    cpu: float
    machine: float

    def __add__(self, other: tuple[object, ...]) -> "Cost":
        """The sum of both."""
        assert isinstance(other, Cost)
        return Cost(*(mine + its for mine, its in zip(self, other, strict=True)))


def measured(command: list[str], log: Path) -> Cost:
    """Run a command to its end."""
    before, started, busy = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic(), machine_seconds()
    with log.open("wb") as out:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, check=False)
    after, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic() - started
    if done.returncode not in {0, 12}:
        raise SystemExit(f"{command[0]} ended with {done.returncode}; see {log}:\n{log.read_text()[-2000:]}")
    own = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(wall, own, machine_seconds() - busy)


def machine_seconds() -> float:
    """What all CPUs have worked since the machine was started."""
    times = psutil.cpu_times()
    return float(times.user + times.nice + times.system + times.irq + times.softirq)


def harbor_rewards(job: Path) -> list[float]:
    """The rewards of a job's trials."""
    found = [json.loads(file.read_text()) for file in job.glob("*/result.json")]
    return [float((one.get("verifier_result") or {"rewards": {"reward": -1}})["rewards"]["reward"]) for one in found]


def proctor_piece(tasks: Path, folder: Path) -> tuple[Cost, list[float]]:
    """Proctor over a folder of tasks: what it took, and the rewards."""
    words = [str(Path(sys.executable).parent / "proctor"), "bench", "run", "--suite", str(tasks), "--agent", "nop"]
    words += ["--runner", "docker", "--concurrency", str(WORKERS), "--quiet"]
    took = measured(words, folder / f"proctor-{tasks.name}.log")
    results = [json.loads(file.read_text()) for file in folder.glob(f"results/{tasks.name}/run-001/trials/*.json")]
    return took, [one["verdict"]["scores"]["reward"] for one in results]


def harbor_piece(harbor: str, tasks: Path, folder: Path) -> tuple[Cost, list[float]]:
    """Harbor over a folder of tasks: what it took, and the rewards."""
    words = [harbor, "run", "-p", str(tasks), "-a", "nop", "--jobs-dir", "jobs", "--job-name", tasks.name]
    took = measured([*words, "-n", str(WORKERS), "-q", "-y"], folder / f"harbor-{tasks.name}.log")
    return took, harbor_rewards(folder / "jobs" / tasks.name)


def main() -> int:
    """Print both, and whether ours takes no more."""
    count, pieces = number_arguments(__doc__, tasks=100, pieces=4)
    harbor = os.environ.get("HARBOR_BIN") or shutil.which("harbor")
    if harbor is None:
        print("Harbor is not installed: nothing to compare with (HARBOR_BIN names its program)")
        return 0
    ours = theirs = Cost(0, 0, 0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.chdir(folder)
        os.environ["PROCTOR_CACHE"] = str(folder / "cache")
        os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
        for number in range(1, count + 1):
            shutil.copytree(SAMPLE, folder / f"piece-{number % pieces}" / f"task-{number:03}")
        for number in range(pieces):
            tasks = folder / f"piece-{number}"
            turns = [partial(proctor_piece, tasks, folder), partial(harbor_piece, harbor, tasks, folder)]
            # Each of them is first as often as the other.
            seen = {turn.func: turn() for turn in (turns if number % 2 == 0 else turns[::-1])}
            (own, own_rewards), (their, their_rewards) = seen[proctor_piece], seen[harbor_piece]
            here = len(list(tasks.iterdir()))
            assert own_rewards == their_rewards == [0.0] * here, (own_rewards, their_rewards, "rewards differ")
            print(f"piece of {here}: Proctor {own.wall:.0f} s, Harbor {their.wall:.0f} s", flush=True)
            ours, theirs = ours + own, theirs + their
    print(f"{count} tasks, {WORKERS} at a time, no-op agent, reward 0 everywhere; seconds for each task")
    for who, cost in (("Proctor", ours), ("Harbor", theirs)):
        wall, cpu, machine = (one / count for one in cost)
        print(f"{who:8} {wall:6.2f} wall clock {cpu:6.2f} CPU of its own {machine:6.2f} CPU of the machine")
    ratios = [own / their for own, their in zip(ours, theirs, strict=True)]
    print(f"ratio    {ratios[0]:6.2f}            {ratios[1]:6.2f}                {ratios[2]:6.2f}")
    return 0 if ours.wall <= theirs.wall else 1


if __name__ == "__main__":
    sys.exit(main())
