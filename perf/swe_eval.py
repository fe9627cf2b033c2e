"""SWE-bench's own harness and a bare script against ours: the same trivial instances, graded in the same image.

    .venv/bin/python perf/swe_eval.py [INSTANCES]

Theirs asks every container to stop and waits 15 s for it to obey; ours kills an environment that has nothing to lose.
The script starts a container, applies the patch, runs the tests and removes the container; it is what our grading
without controls is held against. All grade oracles at the same parallelism. Needs Docker, the base image of the tests,
and swebench.
"""

import asyncio
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from cli_args import number_arguments

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

import swe_official
from proctor.benchmarks.swe.benchmark import SweBenchmark
from proctor.benchmarks.swe.rows import read_swe_rows, swe_bench_row
from proctor.benchmarks.swe.swe_bench_grader import SweBenchGrader
from proctor.core.benchmark import DatasetInfo, GradeOptions, GradingContext
from proctor.environments.docker import DockerProvider
from proctor.runner.evaluate import evaluate
from swe_verified_world import VerifiedWorld
from swe_world import python_image

WORKERS = 4
TARGET = 0.2
BARE_TARGET = 1.3
ROUNDS = 3


def instances(world: VerifiedWorld, count: int) -> list[dict[str, Any]]:
    return [world.rows["gold"] | {"instance_id": f"calc__gold-{number}"} for number in range(1, count + 1)]


def time_theirs(folder: Path, rows: list[dict[str, Any]]) -> float:
    started = time.monotonic()
    answers = {row["instance_id"]: row["patch"] for row in rows}
    report = swe_official.evaluate(folder, rows, answers, timeout=120, workers=WORKERS)
    assert report["resolved_instances"] == len(rows), report
    return time.monotonic() - started


def grade_by_script(row: dict[str, Any]) -> None:
    def docker(*words: str, text: str = "") -> str:
        done = subprocess.run(["docker", *words], input=text, capture_output=True, text=True, check=True)
        return done.stdout

    name = docker("run", "--detach", "--network", "none", row["image"], "sleep", "600").strip()
    try:
        docker("exec", "-i", "--workdir", "/testbed", name, "git", "apply", text=row["patch"])
        log = docker("exec", "-i", "--workdir", "/testbed", name, "bash", text=row["eval_script"])
        assert "test_triple" in log, log
    finally:
        docker("rm", "--force", name)


def time_script(rows: list[dict[str, Any]]) -> float:
    started = time.monotonic()
    with ThreadPoolExecutor(WORKERS) as pool:
        list(pool.map(grade_by_script, rows))
    return time.monotonic() - started


async def time_ours(folder: Path, rows: list[dict[str, Any]], *, controls: int) -> float:
    # Runs of the oracle that are known are used again; verdicts are not.
    shutil.rmtree(Path(os.environ["PROCTOR_CACHE"], "evaluations"), ignore_errors=True)
    started = time.monotonic()
    good, bad = read_swe_rows(rows, swe_bench_row)
    data = DatasetInfo(benchmark="x", split="x", origin="", revision="", digest="", tasks=len(good), fetched_at="")
    benchmark = SweBenchmark("swe_bench_verified", data, good, bad, SweBenchGrader())
    oracles = {task.id: benchmark.oracle(task) for task in benchmark.tasks()}
    provider = DockerProvider()
    try:
        done = await evaluate(
            benchmark,
            benchmark.tasks(),
            {identity: oracle for identity, oracle in oracles.items() if oracle is not None},
            GradingContext(
                provider, folder, GradeOptions(timeout_seconds=120, controls=controls), use_cache=controls == 0
            ),
            jobs=WORKERS,
        )
    finally:
        await provider.close()
    assert all(evaluated.verdict.status == "resolved" for evaluated in done), done
    return time.monotonic() - started


def main() -> int:
    (count,) = number_arguments(__doc__, count=8)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["PROCTOR_CACHE"] = str(folder / "cache")
        rows = instances(VerifiedWorld(folder / "world", python_image(folder / "python")), count)
        rounds = [
            (asyncio.run(time_ours(folder / f"plain{number}", rows, controls=0)), time_script(rows))
            for number in range(ROUNDS)
        ]
        ours = asyncio.run(time_ours(folder / "ours", rows, controls=1))
        theirs = time_theirs(folder / "theirs", rows)
    plain, script = (statistics.median(times) for times in zip(*rounds, strict=True))
    print(f"{count} instances, {WORKERS} at a time, without controls: ours {plain:.1f} s, a bare script {script:.1f} s")
    print(f"ratio {plain / script:.2f} (target: at most {BARE_TARGET})")
    print("    why: the script runs the tests once. Ours does so as the official grader, and by a reporter of its own:")
    print("    for the submission and, the first time, for the oracle, each in a container of its own.")
    ratio = ours / theirs
    print(f"{count} instances, {WORKERS} at a time: ours {ours:.1f} s, the official harness {theirs:.1f} s")
    print(f"ratio {ratio:.2f} (target: at most {TARGET})")
    return 0 if ratio <= TARGET and plain / script <= BARE_TARGET else 1


if __name__ == "__main__":
    sys.exit(main())
