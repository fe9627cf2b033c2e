"""Attacks on separate verifiers, in real containers: none is resolved."""

from pathlib import Path

import pytest

from cheats.harbor_artifacts import ANSWER, ATTACKS, SOLUTION, TASK, ArtifactAttack
from harbor_world import opened, write_task
from proctor.core.benchmark import GradeOptions, GradingContext
from proctor.core.causes import Status
from proctor.core.errors import LimitReached
from proctor.core.evaluation import Prediction
from proctor.core.submission import PatchKind
from proctor.core.verdict import Verdict
from proctor.environments.docker import DockerProvider
from slow_tests import sampled


async def verdict_on(files: dict[str, str], script: str, provider: DockerProvider, folder: Path) -> Verdict:
    """What is made of a machine on which this was run."""
    write_task(folder / "tasks" / "answer", files)
    bench = opened(folder / "tasks")
    (task,) = bench.tasks()
    context = GradingContext(provider=provider, folder=folder / "kept", options=GradeOptions())
    prediction = Prediction(task_id=task.id, patch_kind=PatchKind.SHELL_SCRIPT, content=script.encode())
    return (await bench.grade(task, prediction, context)).verdict


@pytest.mark.parametrize("attack", sampled(ATTACKS, every=6), ids=lambda attack: attack.name)
async def test_no_attack_on_a_separate_verifier_is_resolved(
    attack: ArtifactAttack, provider: DockerProvider, tmp_path: Path
) -> None:
    try:
        verdict = await verdict_on(attack.task, attack.script, provider, tmp_path)
    except LimitReached:
        assert attack.name in {"a large hole", "a deep tree of short names"}
        return
    assert verdict.status is Status.UNRESOLVED, verdict


async def test_honest_files_are_resolved_with_altered_tests_failed(provider: DockerProvider, tmp_path: Path) -> None:
    verdict = await verdict_on(TASK, ANSWER + SOLUTION, provider, tmp_path)
    assert verdict.status is Status.RESOLVED, verdict
    assert verdict.controls is not None
    assert verdict.controls.controlled == 2
    assert verdict.findings == ()
