"""Tasks of our own in real containers: oracle and nop, and the ways in which Harbor could be deceived."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from environment_factory import sh, without_clock
from harbor_world import TASKS, opened, write_task, write_tasks
from proctor.benchmarks.harbor import HarborBenchmark
from proctor.benchmarks.terminal_bench import convert
from proctor.core.benchmark import GradeOptions, GradingContext
from proctor.core.causes import Cause, Status
from proctor.core.environment import Environment
from proctor.core.errors import InfrastructureError
from proctor.core.task import Task
from proctor.core.verdict import Verdict
from proctor.environments.docker import DockerProvider
from proctor.runner.preflight import missing_requirements
from proctor.runner.request import current_machine
from slow_tests import sampled
from waiting import PATIENCE


@pytest.fixture
def bench(tmp_path: Path) -> HarborBenchmark:
    folder = write_tasks(tmp_path / "tasks")
    convert(folder / "sort-names", folder / "sorted-names")
    return opened(folder)


class RunningTask:
    """An environment that an agent works in."""

    def __init__(self, bench: HarborBenchmark, task: Task, environment: Environment, folder: Path) -> None:
        self.bench, self.task, self.environment, self.folder = bench, task, environment, folder

    async def verdict(self) -> Verdict:
        """What the verifier makes of the environment as it is."""
        seen = await self.bench.collect(self.task, self.environment, self.folder)
        context = GradingContext(provider=DockerProvider(), folder=self.folder / "graded", options=GradeOptions())
        return (await self.bench.grade(self.task, seen, context)).verdict

    async def solve(self) -> None:
        """As the oracle does."""
        oracle = self.bench.oracle(self.task)
        assert oracle is not None
        done = await self.environment.exec(["bash", "-s"], stdin=oracle.content, timeout=60)
        assert done.exit_code == 0, done


@asynccontextmanager
async def running_task(
    bench: HarborBenchmark, name: str, provider: DockerProvider, folder: Path
) -> AsyncIterator[RunningTask]:
    task = next(task for task in bench.tasks() if task.id == name)
    folder.mkdir()
    async with (
        await provider.start(without_clock(await bench.prepare(task, folder))) as environment,
        bench.serve(task, environment, folder),
    ):
        yield RunningTask(bench, task, environment, folder)


@pytest.mark.parametrize(
    "name", sampled(["count-words", "proctor/repair", "recover", "serve", "sorted-names"], every=5)
)
async def test_nothing_gets_nothing_and_the_solution_gets_everything(
    name: str, bench: HarborBenchmark, provider: DockerProvider, tmp_path: Path
) -> None:
    async with running_task(bench, name, provider, tmp_path / "it") as it:
        nothing = await it.verdict()
        assert (nothing.status, nothing.score, nothing.official) == (Status.UNRESOLVED, 0.0, None), nothing.reason
        assert nothing.findings == ()
        await it.solve()
        assert (await sh(it.environment, "ls /solution")).exit_code != 0
        solved = await it.verdict()
        assert (solved.status, solved.score, solved.official) == (Status.RESOLVED, 1.0, None), solved.reason
        assert solved.scores == {"reward": 1.0, **({"runs": 1.0} if name == "proctor/repair" else {})}
        # Of what the first verifier left, nothing was there to be seen by the agent but what it makes in the open.
        assert {finding.code for finding in solved.findings} <= {"planted-result"}


async def test_a_reward_that_the_agent_has_written_counts_for_nothing(
    bench: HarborBenchmark, provider: DockerProvider, tmp_path: Path
) -> None:
    async with running_task(bench, "greet", provider, tmp_path / "it") as it:
        await sh(
            it.environment,
            """
            mkdir -p /logs/verifier /tests
            echo '{"reward": 1}' >/logs/verifier/reward.json
            echo 'import sys; sys.exit(0)' >/tests/conftest.py
            nohup setsid sh -c 'while :; do echo 1 >/logs/verifier/reward.json; done' >/dev/null 2>&1 &
            """,
        )
        verdict = await it.verdict()
    assert (verdict.status, verdict.cause, verdict.score) == (Status.UNRESOLVED, Cause.TESTS_FAILED, 0.0)
    assert {"planted-result", "left-running"} <= {finding.code for finding in verdict.findings}
    assert {"/logs/verifier/reward.json", "/tests/conftest.py"} <= {finding.path for finding in verdict.findings}


async def test_a_submission_after_the_time_is_up_counts_for_nothing(
    bench: HarborBenchmark, provider: DockerProvider, tmp_path: Path
) -> None:
    late = "sleep 60; echo hello >/app/greeting.txt"
    async with running_task(bench, "greet", provider, tmp_path / "it") as it:
        script = f"nohup setsid sh -c '{late}' >/dev/null 2>&1 & sh -c '{late}'"
        done = await it.environment.exec(["sh", "-c", script], timeout=0.5)
        assert done.timed_out
        first = await it.verdict()
        left = await sh(it.environment, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '; ls /app")
        assert b"sleep 60" not in left.stdout
        assert b"greeting" not in left.stdout
    assert (first.status, first.score) == (Status.UNRESOLVED, 0.0)


# It listens seconds after the solution has ended, as a server that loads something first.
_SLOW_SERVER = (
    "#!/bin/bash\nmkdir -p site && printf up >site/status && cd site\n"
    "nohup sh -c 'sleep 2; exec python3 -m http.server 8000' >/dev/null 2>&1 &\n"
)


async def test_a_service_that_was_started_last_has_time_to_listen_as_in_harbor(
    provider: DockerProvider, tmp_path: Path
) -> None:
    write_task(tmp_path / "tasks" / "serve", TASKS["serve"] | {"solution/solve.sh": _SLOW_SERVER})
    bench = opened(tmp_path / "tasks", grace_seconds=PATIENCE)
    async with running_task(bench, "serve", provider, tmp_path / "it") as it:
        await it.solve()
        verdict = await it.verdict()
    assert (verdict.status, verdict.official, verdict.findings) == (Status.RESOLVED, None, ()), verdict
    # The solution that proves the altered tests is given the same time.
    assert verdict.controls is not None
    assert (verdict.controls.controlled, verdict.controls.uncontrolled) == (1, ())


# Nothing listens there, so nothing can be pulled from it.
_ABSENT = "localhost:1/proctor-test/absent:1"


async def test_an_image_that_cannot_be_pulled_is_built_where_that_is_forced(
    provider: DockerProvider, image_map: dict[str, str], tmp_path: Path
) -> None:
    ready = TASKS["greet"]["task.toml"].replace("[environment]\n", f'[environment]\ndocker_image = "{_ABSENT}"\n')
    dockerfile = "FROM ubuntu:24.04\nWORKDIR /app\nRUN echo here >built\n"
    write_task(
        tmp_path / "tasks" / "ready", TASKS["greet"] | {"task.toml": ready, "environment/Dockerfile": dockerfile}
    )
    absent = TASKS["greet"] | {"environment/Dockerfile": f"FROM {_ABSENT} AS base\nFROM base\nWORKDIR /app\n"}
    write_task(tmp_path / "tasks" / "unbuildable", absent)
    bench = opened(tmp_path / "tasks")
    forced = DockerProvider(image_map=image_map, force_build=True)
    try:
        why = {
            name: await missing_requirements(
                bench, bench.tasks(), one, image=None, machine=current_machine(), pull=False
            )
            for name, one in (("pulled", provider), ("forced", forced))
        }
        assert why["pulled"].keys() == {"ready", "unbuildable"}
        assert why["forced"].keys() == {"unbuildable"}
        assert "or build it with --force-build" in why["pulled"]["ready"]
        assert _ABSENT in why["forced"]["unbuildable"]
        assert "--force-build" not in why["forced"]["unbuildable"]
        with pytest.raises(InfrastructureError, match=r"cannot be pulled.*; build it with --force-build, or"):
            async with running_task(bench, "ready", provider, tmp_path / "pulled"):
                raise AssertionError("it was started")
        async with running_task(bench, "ready", forced, tmp_path / "forced") as it:
            assert (await sh(it.environment, "cat /app/built")).stdout == b"here\n"
    finally:
        await forced.close()


async def test_a_verifier_that_cannot_start_is_an_error_and_not_the_agent_s_failure(
    provider: DockerProvider, tmp_path: Path
) -> None:
    files = TASKS["greet"] | {
        "tests/test.sh": "#!/bin/bash\necho again >>/app/tries\nuvx-of-the-network pytest /tests/test_outputs.py\n"
        "if [ $? -eq 0 ]; then echo 1 >/logs/verifier/reward.txt; else echo 0 >/logs/verifier/reward.txt; fi\n"
    }
    write_task(tmp_path / "tasks" / "greet", files)
    async with running_task(opened(tmp_path / "tasks"), "greet", provider, tmp_path / "it") as it:
        broken = await it.verdict()
        assert (broken.status, broken.cause, broken.score) == (Status.ERROR, Cause.GRADER_FAILED, None)
        assert broken.official is Status.UNRESOLVED
        assert (await sh(it.environment, "cat /app/tries")).stdout == b"again\n" * 3
        await sh(
            it.environment,
            r"printf '#!/bin/sh\nexit 0\n' >/usr/local/bin/uvx-of-the-network; chmod +x /usr/local/bin/uvx*",
        )
        forged = await it.verdict()
        assert (forged.status, forged.cause) == (Status.UNRESOLVED, Cause.TAMPERED)
        assert (forged.official, forged.score) == (Status.RESOLVED, 0.0)
    assert "nothing shows that tests ran" in forged.reason


async def test_validate_finds_a_task_sound_or_says_what_is_wrong(provider: DockerProvider, tmp_path: Path) -> None:
    tasks = tmp_path / "tasks"
    solution = "#!/bin/bash\necho bye >greeting.txt\nnohup sleep 1234 >/dev/null 2>&1 &\n"
    write_task(tasks / "wrong", TASKS["greet"] | {"solution/solve.sh": solution})
    bench = opened(tasks, grace_seconds=0.2)
    context = GradingContext(provider=provider, folder=tmp_path / "kept", options=GradeOptions(determinism_runs=1))
    (task,) = bench.tasks()
    health = await bench.validate(task, context)
    assert (health.healthy, health.pre_patch_ok, health.oracle_ok) == (False, True, False)
    assert health.problems[0] == (
        "the oracle is not resolved: the verifier gives 0; "
        "killed before it, as they listened on no socket: `sleep 1234`"
    )
    assert health.artifacts == str(tmp_path / "kept" / "wrong")
    for name in ("untouched", "oracle1"):
        assert "1 failed" in (tmp_path / "kept" / "wrong" / name / "verifier.out").read_text()
