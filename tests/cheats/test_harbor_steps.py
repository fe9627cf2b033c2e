"""Attacks on tasks of several steps, in real containers: none is resolved."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from cheats.harbor_steps import (
    ATTACKS,
    FIRST,
    GATED,
    SECOND,
    SEPARATE,
    SERVED,
    SERVING_FIRST,
    TASK,
    StepAttack,
)
from environment_factory import sh, without_clock
from harbor_world import opened, verdict_of, write_task
from proctor.core.benchmark import GradeOptions
from proctor.core.causes import Status
from proctor.core.verdict import Verdict
from proctor.environments.docker import DockerProvider
from slow_tests import sampled


async def verdict_on(
    files: dict[str, str], scripts: Mapping[str, str], provider: DockerProvider, folder: Path
) -> Verdict:
    """What is made of a machine on which a script was run in each step, as far as the steps are begun."""
    write_task(folder / "tasks" / "steps", files)
    bench = opened(folder / "tasks").for_provider(provider)
    (task,) = bench.tasks()
    kept = folder / "kept"
    kept.mkdir()
    async with (
        await provider.start(without_clock(await bench.prepare(task, kept))) as environment,
        bench.serve(task, environment, kept),
    ):
        for step in task.public.steps:
            if not await bench.begin_step(task, step.name, environment, kept):
                break
            await sh(environment, scripts[step.name])
            if not await bench.finish_step(task, step.name, environment, kept, GradeOptions()):
                break
        prediction = await bench.collect_with(task, environment, kept, GradeOptions())
    return await verdict_of(bench, task, prediction, provider, kept)


@pytest.mark.parametrize("attack", sampled(ATTACKS, every=16), ids=lambda attack: attack.name)
async def test_no_attack_on_several_steps_is_resolved(
    attack: StepAttack, provider: DockerProvider, tmp_path: Path
) -> None:
    scripts = {"first": attack.first, "second": attack.second}
    verdict = await verdict_on(attack.task, scripts, provider, tmp_path)
    assert verdict.status is Status.UNRESOLVED, verdict


@pytest.mark.parametrize("files", sampled([TASK, GATED, SEPARATE], every=3), ids=["shared", "gated", "separate"])
async def test_honest_steps_are_resolved_without_findings(
    files: dict[str, str], provider: DockerProvider, tmp_path: Path
) -> None:
    verdict = await verdict_on(files, {"first": FIRST, "second": SECOND}, provider, tmp_path)
    assert (verdict.status, verdict.findings) == (Status.RESOLVED, ()), verdict
    assert verdict.controls is not None
    assert verdict.controls.controlled == 4


@pytest.mark.long
async def test_a_service_of_a_step_with_a_verifier_of_its_own_stays_for_the_next_one(
    provider: DockerProvider, tmp_path: Path
) -> None:
    verdict = await verdict_on(SERVED, {"first": f"cd /app; {SERVING_FIRST}", "second": SECOND}, provider, tmp_path)
    assert (verdict.status, verdict.findings) == (Status.RESOLVED, ()), verdict
