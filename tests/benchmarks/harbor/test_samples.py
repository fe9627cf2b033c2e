"""The sample tasks, one for each part of the format, in real containers: the oracle is resolved, and nothing is not."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from paths import OPTIONAL_PLUGIN, sample_data
from proctor.benchmarks import suite_benchmark
from proctor.core.benchmark import GradeOptions, GradingContext
from proctor.core.causes import Status
from proctor.core.evaluation import Prediction
from proctor.core.request import VerifierMode
from proctor.core.submission import PatchKind
from proctor.core.verdict import Verdict
from proctor.environments.docker import DockerProvider
from proctor.environments.docker_compose import compose_version
from setup_world import need_machines
from slow_tests import sampled

NAMES = [
    *("collect", "separate", "shared", "named-metrics", "report", "separate-image", "settings"),
    *("steps-final", "steps", "tools", "no-network", "allowlist"),
    *("compose", "compose-separate"),
]


@pytest.fixture
async def provider() -> AsyncIterator[DockerProvider]:
    need_machines()
    made = DockerProvider()
    yield made
    await made.close()


async def verdict_on(
    name: str, provider: DockerProvider, folder: Path, *, solved: bool, mode: VerifierMode = "task"
) -> Verdict:
    if name.startswith("compose") and await compose_version() is None:
        pytest.skip(OPTIONAL_PLUGIN)
    bench = suite_benchmark(str(sample_data("harbor_tasks"))).with_verifier(mode)
    task = next(task for task in bench.tasks() if task.id == name)
    oracle = bench.oracle(task)
    assert oracle is not None
    nothing = Prediction(task_id=task.id, patch_kind=PatchKind.SHELL_SCRIPT, content=b"true\n")
    context = GradingContext(provider=provider, folder=folder, options=GradeOptions(controls=0))
    return (await bench.grade(task, oracle if solved else nothing, context)).verdict


@pytest.mark.parametrize("name", sampled(NAMES, every=6))
async def test_the_oracle_of_a_sample_is_resolved_and_nothing_is_not(
    name: str, provider: DockerProvider, tmp_path: Path
) -> None:
    solved = await verdict_on(name, provider, tmp_path / "oracle", solved=True)
    assert (solved.status, solved.score) == (Status.RESOLVED, 1.0), solved
    empty = await verdict_on(name, provider, tmp_path / "nop", solved=False)
    assert (empty.status, empty.score) == (Status.UNRESOLVED, 0.0), empty


@pytest.mark.long
async def test_a_shared_task_is_verified_in_an_environment_of_its_own(provider: DockerProvider, tmp_path: Path) -> None:
    for solved, status in ((True, Status.RESOLVED), (False, Status.UNRESOLVED)):
        folder = tmp_path / str(solved)
        verdict = await verdict_on("shared", provider, folder, solved=solved, mode="separate")
        assert verdict.status is status, verdict
        assert verdict.grader.endswith(" separate")
