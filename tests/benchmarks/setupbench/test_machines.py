"""Real tasks on real machines: set up, half set up, bare, and set up to deceive."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from docker_image import IMAGE, need_docker
from proctor.benchmarks.setupbench import SetupBench
from proctor.core.benchmark import GradeOptions, Place
from proctor.core.causes import Cause, Status
from proctor.core.environment import Environment, EnvironmentSpec
from proctor.core.errors import InfrastructureError, UsageError
from proctor.core.evaluation import Prediction
from proctor.core.submission import PatchKind
from proctor.core.task import Task
from proctor.core.verdict import Verdict
from proctor.environments.docker import DockerProvider
from proctor.environments.local import LocalProvider
from rooms import sh
from setup_world import IMAGES, SET_UPS, need_machines, setupbench

__all__ = ["setupbench"]

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
    """A machine that an agent is at work on."""

    def __init__(
        self, bench: SetupBench, task: Task, room: Environment, folder: Path, provider: DockerProvider
    ) -> None:
        self.bench, self.task, self.room, self.folder, self.provider = bench, task, room, folder, provider

    async def verdict(self) -> Verdict:
        """What the grader says of the machine as it stands."""
        seen = await self.bench.collect(self.task, self.room, self.folder)
        return await graded(self.bench, self.task, seen, self.provider)


async def graded(bench: SetupBench, task: Task, seen: Prediction, provider: DockerProvider) -> Verdict:
    place = Place(provider=provider, folder=Path("unused"), options=GradeOptions())
    return (await bench.grade(task, seen, place)).verdict


@asynccontextmanager
async def machine(bench: SetupBench, task_id: str, provider: DockerProvider, folder: Path) -> AsyncIterator[Machine]:
    task = next(task for task in bench.tasks() if task.id == task_id)
    folder.mkdir()
    async with await provider.start(await bench.prepare(task, folder)) as room:
        await bench.arrange(task, room, folder)
        yield Machine(bench, task, room, folder, provider)


@pytest.mark.parametrize("task_id", SET_UPS)
async def test_a_task_passes_when_it_is_done_and_fails_when_it_is_half_done(
    task_id: str, setupbench: SetupBench, provider: DockerProvider, tmp_path: Path
) -> None:
    async with machine(setupbench, task_id, provider, tmp_path / "it") as it:
        await sh(it.room, SET_UPS[task_id].half)
        half = await it.verdict()
        assert (half.status, half.cause) == (Status.UNRESOLVED, Cause.TESTS_FAILED), half.reason
        assert half.official is (Status.RESOLVED if task_id in TOO_KIND else None)
        done = await sh(it.room, SET_UPS[task_id].rest)
        whole = await it.verdict()
        assert (whole.status, whole.official) == (Status.RESOLVED, None), (whole.reason, done)
        assert whole.findings == ()


async def test_a_bare_machine_fails(setupbench: SetupBench, bare: DockerProvider, tmp_path: Path) -> None:
    names = ("autossh-reverse-tunnel", "gunicorn-nginx-socket", "postgresql-1", "redis-2", "sqlite-1")
    tasks = [task for task in setupbench.tasks() if task.id.endswith(names)]
    assert len(tasks) == len(names)
    async with await bare.start(EnvironmentSpec(image="ubuntu:22.04", workdir="/testbed")) as room:
        for task in tasks:
            folder = tmp_path / task.id
            folder.mkdir()
            await setupbench.arrange(task, room, folder)
            verdict = await graded(setupbench, task, await setupbench.collect(task, room, folder), bare)
            assert (verdict.status, verdict.official, verdict.findings) == (Status.UNRESOLVED, None, ()), task.id
            assert "not found" in verdict.reason or "autossh" in task.id


KILLER = """
nohup python3 -c '
import glob, os, signal
while True:
    for file in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            if open(file, "rb").read().split(b"\\0")[0].endswith(b"WHAT"):
                os.kill(int(file.split("/")[2]), signal.SIGKILL)
        except OSError:
            pass
' >/dev/null 2>&1 &
"""
CHEATS: dict[str, tuple[str, Cause, set[str]]] = {
    "the words in a profile": (
        "echo 'echo Setup successful' | tee -a /root/.bashrc /root/.profile /etc/profile >/dev/null",
        Cause.TESTS_FAILED,
        {"grader-words"},
    ),
    "a file with the words": ("echo 'Setup successful' >/testbed/result.log", Cause.TESTS_FAILED, {"grader-words"}),
    "a client that says what is asked for": (
        r"printf '#!/bin/sh\necho done\n' >/usr/local/bin/redis-cli; chmod +x /usr/local/bin/redis-cli",
        Cause.TAMPERED,
        {"fake-program"},
    ),
    "a packaged client exchanged": (
        r"""
        cd /tmp && mkdir -p pack/DEBIAN pack/usr/bin && cp /bin/true pack/usr/bin/redis-cli
        printf 'Package: tools\nVersion: 1\nArchitecture: all\nMaintainer: a\nDescription: b\n' >pack/DEBIAN/control
        (cd pack && md5sum usr/bin/redis-cli >DEBIAN/md5sums) && dpkg-deb -b pack >/dev/null && dpkg -i pack.deb
        printf '#!/bin/sh\necho done\n' >/usr/bin/redis-cli
        """,
        Cause.TAMPERED,
        {"fake-program"},
    ),
    "a client that prints the words": (
        r"printf '#!/bin/sh\necho Setup successful >&2\n' >/usr/local/bin/redis-cli; chmod +x /usr/local/bin/redis-cli",
        Cause.TAMPERED,
        {"fake-program", "grader-words"},
    ),
    "a search that always finds": (
        r"printf '#!/bin/sh\nexit 0\n' >/usr/local/bin/grep; chmod +x /usr/local/bin/grep",
        Cause.TESTS_FAILED,
        {"program-replaced"},
    ),
    "shells that say what is asked for": (
        r"""
        cp /bin/sh /bin/keep
        for shell in bash dash; do
          printf '#!/bin/keep\necho 12; echo Setup successful\n' >/usr/bin/$shell.new
          chmod +x /usr/bin/$shell.new; mv /usr/bin/$shell.new /usr/bin/$shell
        done
        """,
        Cause.TESTS_FAILED,
        {"shell-replaced"},
    ),
    "a process that kills every search": (KILLER.replace("WHAT", "grep"), Cause.TESTS_FAILED, {"left-running"}),
    "a process that kills every shell": (KILLER.replace("WHAT", "sh"), Cause.TESTS_FAILED, set()),
}


@pytest.mark.parametrize("name", CHEATS)
async def test_a_machine_that_only_looks_set_up_is_not_resolved_and_named(
    name: str, setupbench: SetupBench, bare: DockerProvider, tmp_path: Path
) -> None:
    script, cause, codes = CHEATS[name]
    async with machine(setupbench, "dbsetup-redis-1", bare, tmp_path / "it") as it:
        await sh(it.room, script)
        verdict = await it.verdict()
        assert (verdict.status, verdict.cause) == (Status.UNRESOLVED, cause), verdict.reason
        assert {finding.code for finding in verdict.findings} >= codes
        if cause is Cause.TAMPERED:
            assert verdict.official is Status.RESOLVED


async def test_a_script_is_graded_by_what_it_makes_of_a_fresh_machine(
    setupbench: SetupBench, provider: DockerProvider, tmp_path: Path
) -> None:
    task = next(task for task in setupbench.tasks() if task.id == "dbsetup-sqlite-1")
    place = Place(provider=provider, folder=tmp_path / "kept", options=GradeOptions())
    made = SET_UPS[task.id]
    script = f"echo at work\n{made.half}\n{made.rest}\n".encode()
    answer = Prediction(task_id=task.id, patch_kind=PatchKind.SHELL_SCRIPT, content=script, model="somebody")
    evaluated = await setupbench.grade(task, answer, place)
    assert (evaluated.verdict.status, evaluated.model) == (Status.RESOLVED, "somebody")
    assert (tmp_path / "kept" / task.id / "script.out").read_text() == "at work\n"
    health = await setupbench.validate(task, place)
    assert health.healthy, health.problems


async def test_tasks_need_a_machine_of_their_own(setupbench: SetupBench, tmp_path: Path) -> None:
    task = next(task for task in setupbench.tasks() if task.id == "dbsetup-sqlite-1")
    local = LocalProvider(isolation=True, rooms=tmp_path / "rooms")
    place = Place(provider=local, folder=tmp_path / "kept", options=GradeOptions())
    with pytest.raises(InfrastructureError, match="--runner docker"):
        await setupbench.validate(task, place)
    with pytest.raises(UsageError, match="a machine's state"):
        await setupbench.grade(task, Prediction(task_id=task.id, patch_kind=PatchKind.UNIFIED_DIFF, content=b""), place)
    await local.close()
