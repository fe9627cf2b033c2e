"""The verifier, run where the agent worked, after everything of the agent's that could answer for it has gone."""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from proctor.benchmarks.terminal_bench.format import HarborTask
from proctor.benchmarks.terminal_bench.rule import Verified, read_rewards, read_tests
from proctor.core.environment import Environment
from proctor.core.errors import InfrastructureError, LimitReached
from proctor.core.verdict import Finding
from proctor.grading.live import (
    Leftovers,
    Ran,
    RoomCode,
    Settled,
    Telltale,
    run_fresh,
    settle,
    unless_hindered,
    words_of,
)

Once = Callable[[HarborTask, Environment, Settled], Awaitable[Verified]]

LOGS: Final = "/logs/verifier"
TESTS: Final = "/tests"
_TRIES: Final = 3
_LARGEST: Final = 50_000_000
_KEPT: Final = 60_000
# Says what lay there, then makes it as if nothing had.
_CLEAN: Final = """
find /logs/verifier /tests /solution -mindepth 1 2>/dev/null | head -n 20
rm -rf /logs/verifier /tests /solution
mkdir -p /logs/verifier /logs/agent /logs/artifacts && chmod 777 /logs/verifier /logs/agent /logs/artifacts
"""


async def verify(
    task: HarborTask, environment: Environment, folder: Path, *, seconds: float, variables: dict[str, str]
) -> Verified:
    """Run the task's verifier in a room that `remember` has noted in `folder`; again, where it broke.

    Raises:
        InfrastructureError: the room is gone, or cannot be graded in.
    """
    look = partial(_look, task, environment, folder, run=partial(_once, seconds=seconds, variables=variables))
    return await unless_hindered(environment, look, Leftovers.SERVICES) or _hindered(task, environment)


def verifier_words(task: HarborTask) -> tuple[str, ...]:
    """The programs that the verifier may call."""
    return words_of(task.test_script(), "bash find rm mkdir chmod head")


async def _look(task: HarborTask, environment: Environment, folder: Path, policy: Leftovers, *, run: Once) -> Verified:
    settled = await settle(
        environment,
        folder,
        words=verifier_words(task),
        policy=policy,
        telltale=Telltale(words=(LOGS,), places=(environment.workdir,)),
    )
    planted = await _clean(environment, settled)
    for number in range(1, _TRIES + 1):
        seen = await run(task, environment, settled)
        if not seen.broke:
            break
        if number < _TRIES:
            await _clean(environment, settled)
    return msgspec.structs.replace(seen, planted=planted, tries=number)


async def _once(
    task: HarborTask, environment: Environment, settled: Settled, *, seconds: float, variables: dict[str, str]
) -> Verified:
    await environment.put(task.path / "tests", TESTS)
    await environment.exec(["chmod", "+x", f"{TESTS}/test.sh"], variables={"PATH": settled.path}, cwd="/")
    ran = await run_fresh(
        environment,
        settled,
        f"({TESTS}/test.sh) 2>&1",
        timeout=seconds,
        cwd=task.workdir,
        program="/bin/bash",
        variables=variables,
    )
    files, trouble = await _logs(environment)
    rewards, problem = read_rewards(files)
    script = task.test_script()
    return Verified(
        task_id=task.name,
        rewards=rewards,
        problem=trouble or problem,
        tests=read_tests(files, ran.stdout),
        tests_expected="pytest" in script,
        ran=msgspec.structs.replace(ran, stdout=_shortened(ran.stdout)),
        settled=settled,
        environment=environment.digest,
    )


async def _clean(environment: Environment, settled: Settled) -> tuple[str, ...]:
    """Make the verifier's places empty; what was in them."""
    done = await environment.exec(["/bin/sh", "-c", _CLEAN], variables={"PATH": settled.path}, cwd="/", timeout=120)
    if done.exit_code != 0:
        raise InfrastructureError("the verifier's folders cannot be made in the room")
    return tuple(done.stdout.decode("utf-8", "replace").splitlines())


async def _logs(environment: Environment) -> tuple[dict[str, bytes], str]:
    """The files that the verifier wrote, read by the engine."""
    with tempfile.TemporaryDirectory(prefix="proctor-logs-") as scratch:
        target = Path(scratch) / "logs"
        try:
            await environment.get(LOGS, target, max_bytes=_LARGEST)
        except FileNotFoundError:
            return {}, f"{LOGS} is gone"
        except LimitReached:
            return {}, f"{LOGS} is too large"
        return await asyncio.to_thread(_read, target), ""


def _read(target: Path) -> dict[str, bytes]:
    wanted = (target / name for name in ("reward.json", "reward.txt", "ctrf.json"))
    return {file.name: file.read_bytes() for file in wanted if file.is_file() and not file.is_symlink()}


def _shortened(text: str) -> str:
    if len(text) <= _KEPT:
        return text
    half = _KEPT // 2
    return f"{text[:half]}\n[… {len(text) - _KEPT} characters …]\n{text[-half:]}"


def _hindered(task: HarborTask, environment: Environment) -> Verified:
    finding = Finding(code=RoomCode.HINDERED.value, path="", detail=RoomCode.HINDERED.meaning)
    return Verified(
        task_id=task.name,
        rewards={"reward": 0.0},
        problem=RoomCode.HINDERED.meaning,
        tests=None,
        tests_expected=False,
        ran=Ran(exit_code=137, stdout="", stderr="", seconds=0.0),
        settled=Settled(folder="", path="", findings=(finding,)),
        environment=environment.digest,
    )
