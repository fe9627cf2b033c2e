"""What an agent leaves behind cannot become our error: every workspace is unresolved, with a cause, and counted."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from docker_image import IMAGE, need_docker
from proctor.benchmarks.suites.benchmark import SuiteBenchmark
from proctor.benchmarks.suites.load import load_suite
from proctor.core.causes import CONSEQUENCES, Cause
from proctor.core.errors import InfrastructureError, LimitReached, RetryableError
from proctor.runner.errors import collecting_cause, grading_cause
from proctor.workspaces import InvalidSubmission
from sessions import Toys
from suite_world import make_instance, make_suite

PREAMBLE = """
import os, socket, sys, time
def nest(count, name):
    for _ in range(count):
        os.mkdir(name)
        os.chdir(name)
    open("x", "w").close()
def files():
    return [os.path.join(top, name) for top, _, names in os.walk(".") if ".git" not in top for name in names]
"""
ATTACKS = {
    "deep": "nest(3000, 'd')",
    "deep-and-long": "nest(300, 'd' * 255)",
    "longer-than-a-path": "nest(20, 'd' * 255)",
    "sparse": "open('big', 'w').truncate(19 << 30)",
    "sparse-tracked": "[os.truncate(file, 19 << 30) for file in files()]",
    "no-permissions": "[os.chmod(name, 0) for name in (*files(), 'tests', '.')]",
    "special": """
os.mkfifo("pipe")
socket.socket(socket.AF_UNIX).bind("socket")
for file in files():
    os.unlink(file)
    os.mkfifo(file)
""",
    "links": """
for name, target in (("a", "b"), ("b", "a"), ("self", "."), ("root", "/"), ("long", "x" * 4000)):
    os.symlink(target, name)
""",
    "names": """
for name in (b"\\xff", b"a\\nb", b"a\\\\b", b"..a", b" ", b"-n", b":(top)x", b".GIT"):
    open(name, "w").close()
""",
    "folders-for-files": """
for file in files():
    os.unlink(file)
    os.mkdir(file)
    open(file + "/x", "w").close()
""",
    "changing": """
if os.fork() == 0:
    os.setsid()
    while True:
        for size in (0, 1 << 22):
            os.truncate("calc.py", size)
        os.mkdir("there")
        os.rename("there", "away")
        os.rmdir("away")
time.sleep(0.2)
""",
    "odd-git": "os.system('rm -rf .git; mkfifo .git .gitignore')",
    "memory": "held = []\nwhile True: held.append(bytearray(1 << 24))",
    "processes": "while True: os.fork() or time.sleep(100)",
    "disk": """
for number in range(100):
    open(f"{number}", "wb").write(b"x" * (4 << 20))
time.sleep(60)
""",
}
IN_CONTAINERS = {
    "gone": "os.system('rm -rf /workspace')",
    "a-link-to-our-files": "os.system('cd /; rm -rf /workspace; ln -s /etc /workspace')",
    "a-pipe": "os.system('cd /; rm -rf /workspace; mkfifo /workspace')",
}
CAUSES = {
    **dict.fromkeys(("deep", "deep-and-long", "sparse", "sparse-tracked"), Cause.TOO_LARGE),
    **dict.fromkeys(("longer-than-a-path", "no-permissions", "odd-git"), Cause.EMPTY),
    **dict.fromkeys(("memory", "processes", "disk"), Cause.RESOURCE_LIMIT),
    **dict.fromkeys(IN_CONTAINERS, Cause.UNREADABLE),
}


async def causes(folder: Path, attacks: dict[str, str], **options: Any) -> dict[str, Cause]:
    """Let an agent do each of these, and see that none is an error; what each ended with."""
    for name in attacks:
        make_instance(folder, name)
    make_suite(folder, *attacks)
    program = f"{PREAMBLE}\nATTACKS = {attacks!r}\nexec(ATTACKS[os.environ['PROCTOR_TASK_ID']])"
    toys = Toys(folder, SuiteBenchmark(load_suite(folder)))
    ended = await toys.run(agent="command", command=("python3", "-c", program), **options)
    assert (ended.summary.errors, ended.summary.unresolved) == (0, len(attacks)), toys.outcomes()
    results = list(toys.store.results())
    assert [result.attempts for result in results if len(result.attempts) > 1] == []
    return {result.task_id: result.cause for result in results}


LIMITS = {"memory": 200 << 20, "processes": 60, "disk": 20 << 30}


async def test_no_workspace_in_a_local_environment_is_an_error(tmp_path: Path) -> None:
    attacks = {name: attack for name, attack in ATTACKS.items() if name != "disk"}
    ended = await causes(tmp_path, attacks, isolation=True, **LIMITS)
    assert ended == {name: CAUSES.get(name, Cause.TESTS_FAILED) for name in attacks}


async def test_an_agent_that_fills_its_disk_has_failed(tmp_path: Path) -> None:
    ended = await causes(tmp_path, {"disk": ATTACKS["disk"]}, isolation=True, disk=64 << 20)
    assert ended == {"disk": Cause.RESOURCE_LIMIT}


async def test_no_workspace_in_a_container_is_an_error(tmp_path: Path) -> None:
    need_docker()
    chosen = ("deep", "sparse", "special", "changing", "memory")
    attacks = IN_CONTAINERS | {name: ATTACKS[name] for name in chosen}
    ended = await causes(tmp_path, attacks, runner="docker", isolation=True, image=IMAGE, **LIMITS)
    assert ended == {name: CAUSES.get(name, Cause.TESTS_FAILED) for name in attacks}


def passed_on(number: int) -> RetryableError:
    """An error of the system, as an environment reports it."""
    error = RetryableError("cannot copy it out of the environment")
    error.__cause__ = OSError(number, os.strerror(number))
    return error


@pytest.mark.parametrize(
    ("error", "collecting", "grading"),
    [
        (LimitReached("depth of the copied tree", value=2, limit=1), Cause.TOO_LARGE, Cause.TOO_LARGE),
        (LimitReached("size of the copy", value=2, limit=1), Cause.TOO_LARGE, Cause.TOO_LARGE),
        (LimitReached("disk of the environment, in MB,", value=2, limit=1), Cause.RESOURCE_LIMIT, Cause.GRADER_FAILED),
        (OSError(errno.ENAMETOOLONG, "too long"), Cause.UNREADABLE, Cause.UNREADABLE),
        (OSError(errno.ELOOP, "loop"), Cause.UNREADABLE, Cause.UNREADABLE),
        (passed_on(errno.EFBIG), Cause.UNREADABLE, Cause.UNREADABLE),
        (passed_on(errno.EACCES), Cause.UNREADABLE, Cause.ENGINE_GONE),
        (FileNotFoundError("there is no /workspace in the environment"), Cause.UNREADABLE, Cause.ENVIRONMENT_FAILED),
        (InvalidSubmission(Cause.TOO_LARGE, "much"), Cause.TOO_LARGE, Cause.TOO_LARGE),
        # What is ours stays ours.
        (OSError(errno.ENOSPC, "full"), Cause.DISK_FULL, Cause.DISK_FULL),
        (passed_on(errno.ENOSPC), Cause.ENGINE_GONE, Cause.ENGINE_GONE),
        (OSError(errno.EIO, "broken"), Cause.ENVIRONMENT_FAILED, Cause.ENVIRONMENT_FAILED),
        (OSError(errno.EMFILE, "many"), Cause.ENVIRONMENT_FAILED, Cause.ENVIRONMENT_FAILED),
        (RetryableError("the engine did not answer"), Cause.ENGINE_GONE, Cause.ENGINE_GONE),
        (InfrastructureError("none", cause=Cause.NOT_RUNNABLE_HERE), Cause.NOT_RUNNABLE_HERE, Cause.NOT_RUNNABLE_HERE),
    ],
)
def test_what_an_error_means_depends_on_whose_files_were_read(
    error: InfrastructureError | OSError, collecting: Cause, grading: Cause
) -> None:
    assert (collecting_cause(error), grading_cause(error)) == (collecting, grading)


def test_every_cause_of_a_workspace_is_counted_and_not_retried() -> None:
    for cause in (Cause.TOO_LARGE, Cause.UNREADABLE, Cause.RESOURCE_LIMIT):
        assert CONSEQUENCES[cause].counted
        assert not CONSEQUENCES[cause].retry
