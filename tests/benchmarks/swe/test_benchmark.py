"""The benchmark of the SWE family, below the command line and without an engine."""

from pathlib import Path

from benchmarks.swe.test_tasks import ROW
from proctor.benchmarks.swe.benchmark import SweBenchmark
from proctor.benchmarks.swe.docker_setup import SCRUB_SCRIPT
from proctor.benchmarks.swe.rows import swe_bench_row
from proctor.benchmarks.swe.swe_bench_grader import SweBenchGrader
from proctor.core.benchmark import DatasetInfo, GradeOptions

DATA = DatasetInfo(
    benchmark="swe_bench_verified", split="test", origin="here", revision="", digest="0" * 64, tasks=1, fetched_at=""
)


async def test_an_image_of_one_s_own_loses_the_repository_s_future_too(tmp_path: Path) -> None:
    made = SweBenchmark("swe_bench_verified", DATA, [swe_bench_row(ROW)], [], SweBenchGrader())
    (task,) = made.tasks()
    for image, benchmark in (("swebench", made), ("mirror/own:1", made.with_image("mirror/own:1"))):
        assert benchmark.builds_on_image  # so that the runner leaves what is built on it
        spec = await benchmark.prepare(task, tmp_path)
        assert spec.build is not None
        assert (spec.build / "Dockerfile").read_text().startswith(f"FROM {image}")
        assert SCRUB_SCRIPT in (spec.build / "files/start.sh").read_text()
        assert str(benchmark.environment_spec(task, GradeOptions()).image).startswith(image)
