"""SWE-bench's own harness against ours: the same trivial instances, graded in the same image, side by side.

    .venv/bin/python perf/swe_eval.py [INSTANCES]

Theirs asks every container to stop and waits 15 s for it to obey; ours kills an environment that has nothing to lose.
Both grade oracles at the same parallelism. Needs Docker, the base image of the tests, and swebench.
"""

import asyncio
import sys
import tempfile
import time
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


def instances(world: VerifiedWorld, count: int) -> list[dict[str, Any]]:
    return [world.rows["gold"] | {"instance_id": f"calc__gold-{number}"} for number in range(1, count + 1)]


def time_theirs(folder: Path, rows: list[dict[str, Any]]) -> float:
    started = time.monotonic()
    answers = {row["instance_id"]: row["patch"] for row in rows}
    report = swe_official.evaluate(folder, rows, answers, timeout=120, workers=WORKERS)
    assert report["resolved_instances"] == len(rows), report
    return time.monotonic() - started


async def time_ours(folder: Path, rows: list[dict[str, Any]]) -> float:
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
            GradingContext(provider, folder, GradeOptions(timeout_seconds=120), use_cache=False),
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
        rows = instances(VerifiedWorld(folder / "world", python_image(folder / "python")), count)
        ours = asyncio.run(time_ours(folder / "ours", rows))
        theirs = time_theirs(folder / "theirs", rows)
    ratio = ours / theirs
    print(f"{count} instances, {WORKERS} at a time: ours {ours:.1f} s, the official harness {theirs:.1f} s")
    print(f"ratio {ratio:.2f} (target: at most {TARGET})")
    return 0 if ratio <= TARGET else 1


if __name__ == "__main__":
    sys.exit(main())
