"""Every right answer is resolved, and nothing is found in it, however it is written.

An answer is a diff in ``answers/``, called after its task and what is special about it. Many use what dishonest
answers use too: traps, locks, exit hooks, comparisons of their own, forks, frames, tracing, native code.
"""

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from cheats.harness import variable
from proctor.benchmarks import suite_benchmark
from proctor.core.benchmark import Benchmark, GradeOptions, GradingContext
from proctor.core.causes import Status
from proctor.core.evaluation import Prediction
from proctor.core.submission import PatchKind
from proctor.environments import local_unavailable_reason
from proctor.environments.local import LocalProvider
from proctor.runner.evaluate import evaluate
from slow_tests import sampled

ANSWERS = sorted(Path(__file__).with_name("answers").glob("*.diff"))


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Benchmark]:
    if (reason := asyncio.run(local_unavailable_reason())) is not None:
        pytest.skip(reason)
    with variable("PROCTOR_CACHE", str(tmp_path_factory.mktemp("cache"))):
        yield suite_benchmark("core")


def test_there_are_answers_in_every_language() -> None:
    languages = [answer.name.partition("_")[0] for answer in ANSWERS]
    assert len(ANSWERS) >= 30
    assert all(languages.count(language) >= 5 for language in ("py", "js", "sh"))


@pytest.mark.parametrize("answer", sampled(ANSWERS, every=7), ids=lambda answer: answer.stem)
async def test_a_right_answer_is_resolved_without_a_finding(answer: Path, core: Benchmark, tmp_path: Path) -> None:
    name = answer.name.partition(".")[0]
    if name.startswith("js_") and shutil.which("node") is None:
        pytest.skip("needs node")
    (task,) = [task for task in core.tasks() if task.id == name]
    provider = LocalProvider(environments_dir=tmp_path / "environments")
    (graded,) = await evaluate(
        core,
        [task],
        {name: Prediction(task_id=name, patch_kind=PatchKind.UNIFIED_DIFF, content=answer.read_bytes())},
        GradingContext(provider, tmp_path / "artifacts", GradeOptions()),
    )
    await provider.close()
    verdict = graded.verdict
    assert (verdict.status, verdict.findings) == (Status.RESOLVED, ()), verdict.reason
