"""SWE-bench without Docker, on a small repository of flask's shape: built, given out, collected, graded, validated."""

import asyncio
import sys
from pathlib import Path

import pytest

from environment_factory import sh
from proctor.benchmarks.python_envs import find_interpreters
from proctor.core.benchmark import GradeOptions, GradingContext
from proctor.core.causes import Cause, Status
from proctor.core.errors import InfrastructureError
from proctor.core.evaluation import Prediction, TaskEvaluation
from proctor.core.submission import PatchKind
from proctor.environments.local import LocalProvider
from proctor.runner.request import current_machine
from shared_fixture import one_at_a_time
from swe_local_world import CHEAT, FIXED, PYTHON, World, environment
from waiting import until
from workspaces_world import git

pytestmark = pytest.mark.slow
# What is installed for these tests is shared with others that run at the same time.
PLANTING = "an installed package of the world of local set-ups"


async def graded(world: World, patch: bytes, folder: Path) -> TaskEvaluation:
    benchmark = world.benchmark()
    (task,) = benchmark.tasks()
    context = GradingContext(provider=LocalProvider(), folder=folder, options=GradeOptions(controls=0))
    prediction = Prediction(task_id=task.id, patch_kind=PatchKind.UNIFIED_DIFF, content=patch, model="m")
    return await benchmark.grade(task, prediction, context)


async def test_the_oracle_resolves_the_instance(world: World, tmp_path: Path) -> None:
    verdict = (await graded(world, world.gold.encode(), tmp_path)).verdict
    assert (verdict.status, verdict.official) == (Status.RESOLVED, None), verdict.reason
    assert verdict.deviations == ()


async def test_a_wrong_or_empty_patch_is_unresolved(world: World, tmp_path: Path) -> None:
    other = b"--- a/README\n+++ b/README\n@@ -1 +1 @@\n-base\n+other\n"
    wrong = (await graded(world, other, tmp_path / "wrong")).verdict
    assert (wrong.status, wrong.cause) == (Status.UNRESOLVED, Cause.TESTS_FAILED)
    empty = (await graded(world, b"", tmp_path / "empty")).verdict
    assert (empty.status, empty.cause) == (Status.UNRESOLVED, Cause.EMPTY)


async def test_a_conftest_that_reports_passes_fools_the_official_grader_and_not_ours(
    world: World, tmp_path: Path
) -> None:
    verdict = (await graded(world, CHEAT, tmp_path)).verdict
    assert (verdict.official, verdict.status, verdict.cause) == (Status.RESOLVED, Status.UNRESOLVED, Cause.TAMPERED)
    assert {finding.path for finding in verdict.findings} == {"conftest.py"}
    assert "test-machinery" in {finding.code for finding in verdict.findings}


async def test_an_agent_gets_the_past_the_project_installed_and_nothing_later(world: World, tmp_path: Path) -> None:
    benchmark = world.benchmark()
    (task,) = benchmark.tasks()
    spec = await benchmark.prepare(task, tmp_path)
    async with await LocalProvider().start(spec) as environment:
        assert environment.workdir == "/testbed"
        assert (await sh(environment, "cd /tmp && python -c 'import blue; print(blue.__file__)'")).stdout == (
            b"/testbed/src/blue.py\n"
        )
        if sum(mount.private for mount in spec.mounts) > 1:  # not where a distribution keeps packages in its own way
            linked = await sh(
                environment, "ln -s /venv/bin/python /tmp/python && cd /tmp && ./python -c 'import blue, pytest'"
            )
            assert linked.exit_code == 0, linked.stderr
        assert (await sh(environment, "git log --all --format=%s")).stdout == b"SWE-bench\nchange\nchange\n"
        assert (await sh(environment, "git tag")).stdout == b"v1.0\n"
        assert (
            await sh(environment, "git fsck --unreachable --no-reflogs 2>/dev/null; git status --short")
        ).stdout == b""
        assert (await sh(environment, f"git cat-file -e {world.fix}")).exit_code
        assert (await sh(environment, "grep -c edited tox.ini")).stdout == b"1\n"
        written = await sh(
            environment, "pip --version && touch /venv/written && rm -r /venv/lib/*/site-packages/pytest"
        )
        assert written.exit_code == 0, written.stderr
        await environment.put(FIXED.encode(), "/testbed/src/blue.py")
        await environment.put(b"new\n", "/testbed/NEWS")
        submission = await benchmark.collect(task, environment, tmp_path)
    assert submission.content.decode().count("diff --git") == 2
    assert "tox.ini" not in submission.content.decode()
    verdict = (await graded(world, submission.content, tmp_path / "grading")).verdict
    assert verdict.status is Status.RESOLVED, verdict.reason


async def test_the_instance_proves_sound_here(world: World, tmp_path: Path) -> None:
    benchmark = world.benchmark()
    (task,) = benchmark.tasks()
    context = GradingContext(
        provider=LocalProvider(), folder=tmp_path, options=GradeOptions(determinism_runs=1, controls=0)
    )
    with one_at_a_time(PLANTING):
        health = await benchmark.validate(task, context)
    assert health.healthy, health


async def test_another_python_version_is_a_deviation_of_verdict_and_health(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tuple(one for one in find_interpreters() if one.version == PYTHON)
    monkeypatch.setattr("proctor.benchmarks.swe.local.local_setup.find_interpreters", lambda: here)
    wanted = f"3.{sys.version_info.minor - 1}"
    benchmark = world.benchmark(world.row(environment_yml=environment(wanted)))
    (task,) = benchmark.tasks()
    context = GradingContext(
        provider=LocalProvider(), folder=tmp_path, options=GradeOptions(determinism_runs=1, controls=0)
    )
    gold = benchmark.oracle(task)
    assert gold is not None
    verdict = (await benchmark.grade(task, gold, context)).verdict
    said = (f"Python {PYTHON} instead of {wanted}",)
    assert (verdict.status, verdict.deviations) == (Status.RESOLVED, said)
    assert (await benchmark.validate(task, context)).deviations == said


def test_running_tests_in_ascii_is_a_deviation(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proctor.benchmarks.swe.local.local_setup.locale_deviations", lambda script: (script[:11],))
    benchmark = world.benchmark()
    (task,) = benchmark.tasks()
    assert benchmark.setup_of(task.id).deviations() == ("#!/bin/bash",)


async def test_the_oracle_in_an_installed_package_is_a_leak(world: World, tmp_path: Path) -> None:
    benchmark = world.benchmark()
    (task,) = benchmark.tasks()
    spec = await benchmark.prepare(task, tmp_path)
    env = next(Path(mount.source) for mount in spec.mounts if mount.private)
    (packages,) = env.glob("lib/python*/site-packages")
    planted = packages / "blue_later.py"
    context = GradingContext(
        provider=LocalProvider(), folder=tmp_path, options=GradeOptions(determinism_runs=1, controls=0)
    )
    with one_at_a_time(PLANTING):
        planted.write_text(FIXED)
        try:
            health = await benchmark.validate(task, context)
        finally:
            planted.unlink()
    assert any("blue_later.py" in leak for leak in health.leaks)


async def test_instances_with_the_same_pins_share_an_environment_that_is_built_once(
    world: World, tmp_path: Path
) -> None:
    other = world.row(instance_id="acme__blue-2", base_commit=git(world.repository, "rev-parse", f"{world.base}^"))
    benchmark = world.benchmark(world.row(), other)
    specs = await asyncio.gather(*(benchmark.prepare(task, tmp_path) for task in benchmark.tasks()))
    assert len({str(spec.workspace) for spec in specs}) == 2
    (home,) = {Path(str(spec.workspace)).parents[1].with_name("venvs") for spec in specs}
    assert len([path for path in home.iterdir() if path.is_dir() and not path.name.startswith(".")]) == 1


def test_missing_requirements_of_an_instance_are_named(world: World) -> None:
    rows = {
        "its pins are not in the data": world.row(environment_yml=""),
        "it needs Python 4.7 or a newer one; this machine has": world.row(
            environment_yml=world.row()["environment_yml"].replace(f"python={PYTHON}.10", "python=4.7.1")
        ),
        "it needs cdms2, which conda has": world.row(
            environment_yml=world.row()["environment_yml"].replace("  - pip:", "  - cdms2=3.1=py311_0\n  - pip:")
        ),
        "test_requests.py::TestTimeout::test_connect_timeout waits for packets": world.row(
            PASS_TO_PASS=["test_requests.py::TestTimeout::test_connect_timeout"]
        ),
        "test_requests.py::RequestsTestCase::test_HTTP_200_OK_HEAD asks httpbin.org": world.row(
            repo="psf/requests", PASS_TO_PASS=["test_requests.py::RequestsTestCase::test_HTTP_200_OK_HEAD"]
        ),
        "it needs the system packages no-such-package-at-all": world.row(
            dockerfile=world.row()["dockerfile"].replace("sed", "apt-get install -y no-such-package-at-all\nsed")
        ),
    }
    for expected, row in rows.items():
        benchmark = world.benchmark(row)
        (task,) = benchmark.tasks()
        assert str(benchmark.missing_requirement(task, current_machine(), "local")).startswith(expected)
        with pytest.raises(InfrastructureError) as raised:
            benchmark.environment_spec(task, GradeOptions())
        assert raised.value.cause is Cause.NOT_RUNNABLE_HERE
    benchmark = world.benchmark()
    assert benchmark.missing_requirement(benchmark.tasks()[0], current_machine(), "local") is None


async def test_pins_that_cannot_be_installed_are_said_and_leave_nothing(world: World, tmp_path: Path) -> None:
    text = world.row()["environment_yml"].replace(
        "      - pytest==", "      - no-such-package-at-all==1.0\n      - pytest=="
    )
    benchmark = world.benchmark(world.row(environment_yml=text))
    (task,) = benchmark.tasks()
    with pytest.raises(InfrastructureError, match="no-such-package-at-all") as raised:
        await benchmark.prepare(task, tmp_path)
    assert raised.value.cause is Cause.NOT_RUNNABLE_HERE
    spec = await world.benchmark().prepare(task, tmp_path)
    home = Path(str(spec.workspace)).parents[2]
    # Others may be building there, and end.
    until(lambda: not list(home.glob("*/.*.partial")), "the end of everything half-made")
