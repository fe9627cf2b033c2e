"""The verifier, run where the agent worked, after every process of the agent's that could interfere has ended."""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from proctor.benchmarks.state_graded import blocked_run
from proctor.benchmarks.terminal_bench.harbor_task import HarborTask
from proctor.benchmarks.terminal_bench.verdict_rule import TerminalBenchEvidence, read_rewards, read_tests
from proctor.core.environment import Environment
from proctor.core.errors import InfrastructureError, LimitReached
from proctor.core.trees import is_directory
from proctor.grading.state import (
    GraderMarkers,
    LeftoverPolicy,
    QuarantinedEnvironment,
    quarantine,
    retry_without_leftovers,
    run_in_fresh_shell,
    script_words,
)

RunVerifier = Callable[[HarborTask, Environment, QuarantinedEnvironment], Awaitable[TerminalBenchEvidence]]

LOGS: Final = "/logs/verifier"
TESTS: Final = "/tests"
_MAX_RUNS: Final = 3
_MAX_LOG_BYTES: Final = 50_000_000
_MAX_OUTPUT_CHARS: Final = 60_000
# Says what lay there, then makes it as if nothing had.
_CLEAN_SCRIPT: Final = """
find /logs/verifier /tests /solution -mindepth 1 2>/dev/null | head -n 20
rm -rf /logs/verifier /tests /solution
mkdir -p /logs/verifier /logs/agent /logs/artifacts && chmod 777 /logs/verifier /logs/agent /logs/artifacts
"""


async def verify(
    task: HarborTask, environment: Environment, folder: Path, *, seconds: float, variables: dict[str, str]
) -> TerminalBenchEvidence:
    """Run the task's verifier in an environment of which `folder` holds a snapshot; again, where it broke.

    Raises:
        InfrastructureError: the environment is gone, or cannot be graded in.
    """
    look = partial(
        _quarantine_and_verify,
        task,
        environment,
        folder,
        run=partial(_run_verifier, seconds=seconds, variables=variables),
    )
    return await retry_without_leftovers(environment, look, LeftoverPolicy.SERVICES) or _blocked_evidence(
        task, environment
    )


def verifier_programs(task: HarborTask) -> tuple[str, ...]:
    """The programs that the verifier may call."""
    return script_words(task.test_script(), "bash find rm mkdir chmod head")


async def _quarantine_and_verify(
    task: HarborTask, environment: Environment, folder: Path, policy: LeftoverPolicy, *, run: RunVerifier
) -> TerminalBenchEvidence:
    quarantined = await quarantine(
        environment,
        folder,
        names=verifier_programs(task),
        policy=policy,
        markers=GraderMarkers(strings=(LOGS,), directories=(environment.workdir,)),
    )
    planted = await _clean(environment, quarantined)
    for number in range(1, _MAX_RUNS + 1):
        seen = await run(task, environment, quarantined)
        if not seen.is_inconclusive:
            break
        if number < _MAX_RUNS:
            await _clean(environment, quarantined)
    return msgspec.structs.replace(seen, planted=planted, verifier_runs=number)


async def _run_verifier(
    task: HarborTask,
    environment: Environment,
    quarantine_result: QuarantinedEnvironment,
    *,
    seconds: float,
    variables: dict[str, str],
) -> TerminalBenchEvidence:
    await environment.put(task.path / "tests", TESTS)
    await environment.exec(
        ["chmod", "+x", f"{TESTS}/test.sh"], variables={"PATH": quarantine_result.search_path}, cwd="/"
    )
    ran = await run_in_fresh_shell(
        environment,
        quarantine_result,
        f"({TESTS}/test.sh) 2>&1",
        timeout=seconds,
        cwd=task.workdir,
        program="/bin/bash",
        variables=variables,
    )
    files, log_problem = await _fetch_logs(environment)
    rewards, problem = read_rewards(files)
    script = task.test_script()
    return TerminalBenchEvidence(
        task_id=task.name,
        rewards=rewards,
        problem=log_problem or problem,
        tests=read_tests(files, ran.stdout),
        tests_expected="pytest" in script,
        verifier_run=msgspec.structs.replace(ran, stdout=_shortened(ran.stdout)),
        quarantine_result=quarantine_result,
        environment=environment.digest,
    )


async def _clean(environment: Environment, quarantine_result: QuarantinedEnvironment) -> tuple[str, ...]:
    """Make the verifier's places empty; what was in them."""
    done = await environment.exec(
        ["/bin/sh", "-c", _CLEAN_SCRIPT], variables={"PATH": quarantine_result.search_path}, cwd="/", timeout=120
    )
    if done.exit_code != 0:
        raise InfrastructureError("the verifier's folders cannot be made in the environment")
    return tuple(done.stdout.decode("utf-8", "replace").splitlines())


async def _fetch_logs(environment: Environment) -> tuple[dict[str, bytes], str]:
    """The files that the verifier wrote, read by the engine."""
    with tempfile.TemporaryDirectory(prefix="proctor-logs-") as scratch:
        target = Path(scratch) / "logs"
        try:
            await environment.get(LOGS, target, max_bytes=_MAX_LOG_BYTES)
        except FileNotFoundError:
            return {}, f"{LOGS} is gone"
        except LimitReached:
            return {}, f"{LOGS} is too large"
        return await asyncio.to_thread(_read_logs, target), ""


def _read_logs(target: Path) -> dict[str, bytes]:
    if not is_directory(target):
        return {}  # a link would lead to files of the host
    wanted = (target / name for name in ("reward.json", "reward.txt", "ctrf.json"))
    return {file.name: file.read_bytes() for file in wanted if file.is_file() and not file.is_symlink()}


def _shortened(text: str) -> str:
    if len(text) <= _MAX_OUTPUT_CHARS:
        return text
    half = _MAX_OUTPUT_CHARS // 2
    return f"{text[:half]}\n[… {len(text) - _MAX_OUTPUT_CHARS} characters …]\n{text[-half:]}"


def _blocked_evidence(task: HarborTask, environment: Environment) -> TerminalBenchEvidence:
    killed, quarantined = blocked_run()
    return TerminalBenchEvidence(
        task_id=task.name,
        rewards={"reward": 0.0},
        problem=killed.stderr,
        tests=None,
        tests_expected=False,
        verifier_run=killed,
        quarantine_result=quarantined,
        environment=environment.digest,
    )
