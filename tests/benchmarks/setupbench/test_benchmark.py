"""Real tasks on real machines: set up, half set up, bare, and set up to deceive."""

import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from docker_image import IMAGE, need_docker
from environment_factory import sh, without_clock
from paths import SAMPLES
from proctor.benchmarks.setupbench import SetupBench
from proctor.core.benchmark import GradeOptions, GradingContext
from proctor.core.causes import Cause, Status
from proctor.core.environment import Environment, EnvironmentSpec
from proctor.core.errors import InfrastructureError, UsageError
from proctor.core.evaluation import Prediction
from proctor.core.submission import PatchKind
from proctor.core.task import Task
from proctor.core.verdict import Verdict
from proctor.environments.docker import DockerProvider
from proctor.environments.local import LocalProvider
from setup_world import IMAGES, SET_UPS, make_benchmark, need_machines, setupbench
from slow_tests import sampled

__all__ = ["setupbench"]

TRIED = (
    "bgsetup-autossh-reverse-tunnel",
    "bgsetup-gunicorn-nginx-socket",
    "dbsetup-postgresql-1",
    "dbsetup-redis-2",
    "dbsetup-redis-3",
    "dbsetup-sqlite-1",
)
# The published grader passes an empty table, or a user who is not there, and ours does not.
TOO_KIND = {"dbsetup-postgresql-1", "dbsetup-redis-2"}


@pytest.fixture
async def bare() -> AsyncIterator[DockerProvider]:
    """Machines with nothing on them, as the published images are."""
    need_docker()
    made = DockerProvider(image_map={"ubuntu:22.04": IMAGE})
    yield made
    await made.close()


@pytest.fixture
async def provider() -> AsyncIterator[DockerProvider]:
    need_machines()
    made = DockerProvider(image_map=IMAGES)
    yield made
    await made.close()


class Machine:
    """A machine that an agent works on."""

    def __init__(
        self, bench: SetupBench, task: Task, environment: Environment, folder: Path, provider: DockerProvider
    ) -> None:
        self.bench, self.task, self.environment, self.folder, self.provider = bench, task, environment, folder, provider

    async def verdict(self) -> Verdict:
        """What the grader says of the machine as it stands."""
        seen = await self.bench.collect(self.task, self.environment, self.folder)
        return await graded(self.bench, self.task, seen, self.provider)


async def graded(bench: SetupBench, task: Task, seen: Prediction, provider: DockerProvider) -> Verdict:
    with tempfile.TemporaryDirectory() as kept:
        context = GradingContext(provider=provider, folder=Path(kept), options=GradeOptions())
        return (await bench.grade(task, seen, context)).verdict


@asynccontextmanager
async def machine(bench: SetupBench, task_id: str, provider: DockerProvider, folder: Path) -> AsyncIterator[Machine]:
    task = next(task for task in bench.tasks() if task.id == task_id)
    folder.mkdir()
    async with (
        await provider.start(without_clock(await bench.prepare(task, folder))) as environment,
        bench.serve(task, environment, folder),
    ):
        yield Machine(bench, task, environment, folder, provider)


@pytest.mark.parametrize("data", SAMPLES)
@pytest.mark.parametrize("task_id", sampled(list(TRIED), every=3))
async def test_a_task_passes_when_it_is_done_and_fails_when_it_is_half_done(
    task_id: str, data: Callable[..., Path], provider: DockerProvider, tmp_path: Path
) -> None:
    bench = make_benchmark(tmp_path / "copy", data("setupbench"))
    async with machine(bench, task_id, provider, tmp_path / "it") as it:
        await sh(it.environment, SET_UPS[task_id].half)
        half = await it.verdict()
        assert (half.status, half.cause) == (Status.UNRESOLVED, Cause.TESTS_FAILED), half.reason
        assert half.official is (Status.RESOLVED if task_id in TOO_KIND else None)
        done = await sh(it.environment, SET_UPS[task_id].rest)
        whole = await it.verdict()
        assert (whole.status, whole.official) == (Status.RESOLVED, None), (whole.reason, done)
        assert whole.findings == ()


async def test_a_bare_machine_fails(setupbench: SetupBench, bare: DockerProvider, tmp_path: Path) -> None:
    names = ("autossh-reverse-tunnel", "postgresql-1", "redis-2")
    tasks = [task for task in setupbench.tasks() if task.id.endswith(names)]
    assert len(tasks) == len(names)
    async with await bare.start(EnvironmentSpec(image="ubuntu:22.04", workdir="/testbed")) as environment:
        for task in tasks:
            folder = tmp_path / task.id
            folder.mkdir()
            async with setupbench.serve(task, environment, folder):
                pass
            verdict = await graded(setupbench, task, await setupbench.collect(task, environment, folder), bare)
            assert (verdict.status, verdict.official, verdict.findings) == (Status.UNRESOLVED, None, ()), task.id
            assert "not found" in verdict.reason or "autossh" in task.id


# Each is refused and named in the same environment: they do not get in each other's way.
DISGUISES = r"""
echo 'echo Setup successful' | tee -a /root/.bashrc /root/.profile /etc/profile >/dev/null
echo 'Setup successful' >/testbed/result.log
printf '#!/bin/sh\nexit 0\n' >/usr/local/bin/grep; chmod +x /usr/local/bin/grep
cp /bin/sh /bin/keep
for shell in bash dash; do
  printf '#!/bin/keep\necho 12; echo Setup successful\n' >/usr/bin/$shell.new
  chmod +x /usr/bin/$shell.new; mv /usr/bin/$shell.new /usr/bin/$shell
done
"""
FAKES = {
    "dbsetup-redis-1": ("redis-cli", "done"),
    "dbsetup-postgresql-1": ("psql", "1"),
    "bgsetup-gunicorn-systemd-socket": ("curl", "Hello"),
    "dbsetup-sqlite-1": ("sqlite3", "Setup successful"),
}
EXCHANGED = r"""
cd /tmp && mkdir -p pack/DEBIAN pack/usr/bin && cp /bin/true pack/usr/bin/redis-cli
printf 'Package: tools\nVersion: 1\nArchitecture: all\nMaintainer: a\nDescription: b\n' >pack/DEBIAN/control
(cd pack && md5sum usr/bin/redis-cli >DEBIAN/md5sums) && dpkg-deb -b pack >/dev/null && dpkg -i pack.deb
"""
KILLER = """
nohup python3 -c '
import glob, os, signal
while True:
    for file in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            if open(file, "rb").read().split(b"\\0")[0].endswith(b"{what}"):
                os.kill(int(file.split("/")[2]), signal.SIGKILL)
        except OSError:
            pass
' >/dev/null 2>&1 &
"""


def codes(verdict: Verdict) -> set[str]:
    return {finding.code for finding in verdict.findings}


async def test_words_files_and_programs_that_were_planted_do_not_pass_and_are_named(
    setupbench: SetupBench, bare: DockerProvider, tmp_path: Path
) -> None:
    async with machine(setupbench, "dbsetup-redis-1", bare, tmp_path / "it") as it:
        await sh(it.environment, DISGUISES)
        verdict = await it.verdict()
    assert (verdict.status, verdict.cause, verdict.official) == (Status.UNRESOLVED, Cause.TESTS_FAILED, None)
    assert codes(verdict) == {"grader-words", "program-replaced", "shell-replaced"}
    named = {finding.path for finding in verdict.findings}
    assert named >= {"/root/.bashrc", "/testbed/result.log", "/bin/sh", "/bin/bash"}


async def test_clients_that_say_what_is_asked_for_are_not_believed(
    setupbench: SetupBench, bare: DockerProvider, tmp_path: Path
) -> None:
    tasks = [task for task in setupbench.tasks() if task.id in FAKES]
    async with await bare.start(EnvironmentSpec(image="ubuntu:22.04", workdir="/testbed")) as environment:
        for task in tasks:
            (tmp_path / task.id).mkdir()
            async with setupbench.serve(task, environment, tmp_path / task.id):
                pass
        for name, says in FAKES.values():
            script = f"#!/bin/sh\necho {says}\n".encode()
            await environment.put(script, f"/usr/local/bin/{name}", mode=0o755)
        for task in tasks:
            seen = await setupbench.collect(task, environment, tmp_path / task.id)
            verdict = await graded(setupbench, task, seen, bare)
            if task.id == "dbsetup-sqlite-1":  # prints the words, which the command's own search keeps to itself
                assert (verdict.status, verdict.official) == (Status.UNRESOLVED, None), verdict.reason
            else:
                assert (verdict.status, verdict.cause) == (Status.UNRESOLVED, Cause.TAMPERED), verdict.reason
                assert verdict.official is Status.RESOLVED
            assert "fake-program" in codes(verdict)


async def test_a_packaged_client_that_was_exchanged_is_not_believed(
    setupbench: SetupBench, bare: DockerProvider, tmp_path: Path
) -> None:
    async with machine(setupbench, "dbsetup-redis-1", bare, tmp_path / "it") as it:
        await sh(it.environment, EXCHANGED)
        honest = await it.verdict()
        assert (honest.cause, codes(honest)) == (Cause.TESTS_FAILED, set())
        await it.environment.put(b"#!/bin/sh\necho done\n", "/usr/bin/redis-cli", mode=0o755)
        verdict = await it.verdict()
    assert (verdict.cause, verdict.official) == (Cause.TAMPERED, Status.RESOLVED)
    assert codes(verdict) == {"fake-program"}


async def test_killing_the_grader_is_a_failure_and_no_error_that_is_tried_again(
    setupbench: SetupBench, bare: DockerProvider, tmp_path: Path
) -> None:
    async with machine(setupbench, "dbsetup-redis-1", bare, tmp_path / "it") as it:
        for what in ("grep", "sh"):
            await sh(it.environment, KILLER.format(what=what))
            verdict = await it.verdict()
            assert (verdict.status, verdict.cause) == (Status.UNRESOLVED, Cause.TESTS_FAILED), verdict.reason
            assert codes(verdict) & {"left-running", "hindered", "restarted"}


async def test_a_script_is_graded_by_what_it_makes_of_a_fresh_machine(
    setupbench: SetupBench, provider: DockerProvider, tmp_path: Path
) -> None:
    task = next(task for task in setupbench.tasks() if task.id == "dbsetup-sqlite-1")
    context = GradingContext(provider=provider, folder=tmp_path / "kept", options=GradeOptions())
    made = SET_UPS[task.id]
    script = f"echo working\n{made.half}\n{made.rest}\n".encode()
    prediction = Prediction(task_id=task.id, patch_kind=PatchKind.SHELL_SCRIPT, content=script, model="somebody")
    evaluated = await setupbench.grade(task, prediction, context)
    assert (evaluated.verdict.status, evaluated.model) == (Status.RESOLVED, "somebody")
    assert (tmp_path / "kept" / task.id / "script.out").read_text() == "working\n"
    health = await setupbench.validate(task, context)
    assert health.healthy, health.problems


async def test_tasks_need_a_machine_of_their_own(setupbench: SetupBench, tmp_path: Path) -> None:
    task = next(task for task in setupbench.tasks() if task.id == "dbsetup-sqlite-1")
    local = LocalProvider(isolation=True, environments_dir=tmp_path / "environments")
    context = GradingContext(provider=local, folder=tmp_path / "kept", options=GradeOptions())
    with pytest.raises(InfrastructureError, match="--runner docker"):
        await setupbench.validate(task, context)
    with pytest.raises(UsageError, match="a machine's state"):
        await setupbench.grade(
            task, Prediction(task_id=task.id, patch_kind=PatchKind.UNIFIED_DIFF, content=b""), context
        )
    await local.close()
