"""The verifier, run where the agent worked, after every process of the agent's that could interfere has ended."""

import asyncio
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from proctor.benchmarks.harbor.task import TEST_SCRIPT, HarborStep, HarborTask
from proctor.benchmarks.harbor.verdict_rule import (
    HarborEvidence,
    read_rewards,
    read_statuses,
    read_tests,
)
from proctor.benchmarks.state_graded import blocked_run
from proctor.core.environment import Checkpoint, Environment
from proctor.core.errors import InfrastructureError, LimitReached
from proctor.core.trees import is_directory
from proctor.grading.state import (
    GraderMarkers,
    LeftoverPolicy,
    QuarantinedEnvironment,
    ServiceStartupWait,
    quarantine,
    retry_without_leftovers,
    run_in_fresh_shell,
    script_words,
)

LOGS: Final = "/logs/verifier"
TESTS: Final = "/tests"
_MAX_RUNS: Final = 3
_CACHE_VARIABLES: Final = ("UV_CACHE_DIR", "UV_TOOL_DIR", "UV_PYTHON_INSTALL_DIR", "PYTHONPYCACHEPREFIX")
_MAX_LOG_BYTES: Final = 50_000_000
_MAX_OUTPUT_CHARS: Final = 60_000
# Says what lay there, then makes it as if nothing had.
_CLEAN_SCRIPT: Final = """
find /logs/verifier /tests /solution -mindepth 1 2>/dev/null | head -n 20
rm -rf /logs/verifier /tests /solution
mkdir -p /logs/verifier /logs/agent /logs/artifacts && chmod 777 /logs/verifier /logs/agent /logs/artifacts
"""


class CopyState(StrEnum):
    """Where the verifier runs. KNOWN: on a copy of files that had nothing to be set aside on another copy."""

    NO_COPY = "no_copy"
    NEW = "new"
    KNOWN = "known"


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifierSetup:
    """How the verifier of a step is run: `folder` holds the snapshot of its environment.

    Attributes:
        grace: the time that what was started has to become a service.
        user: whom it runs as; None: as who may do all.
    """

    task: HarborTask
    step: HarborStep
    folder: Path
    seconds: float
    variables: dict[str, str]
    checkpoint: Checkpoint | None
    grace: ServiceStartupWait | None = None
    user: str | None = None


async def make_ready(setup: VerifierSetup, environment: Environment) -> QuarantinedEnvironment | None:
    """Make the agent's own environment ready for the verifier; None: nothing can be run there any more.

    Raises:
        InfrastructureError: the environment is gone.
    """
    return await retry_without_leftovers(
        environment, partial(_quarantine, setup, environment, state=CopyState.NO_COPY), LeftoverPolicy.SERVICES
    )


async def verify(
    setup: VerifierSetup, environment: Environment, quarantined: QuarantinedEnvironment | None
) -> HarborEvidence:
    """Run the task's verifier where the agent worked; again, where it broke.

    Args:
        setup: of the verifier.
        environment: the agent's.
        quarantined: what `make_ready` has made of it.

    Raises:
        InfrastructureError: the environment is gone, or cannot be graded in.
    """
    if quarantined is None:
        return _blocked_evidence(setup.task, environment)
    ready = [quarantined]

    async def look(policy: LeftoverPolicy) -> HarborEvidence:
        state = CopyState.NO_COPY
        place = ready.pop() if ready else await _quarantine(setup, environment, policy, state=state)
        return await _verify_in(setup, environment, place, {}, state=state)

    return await retry_without_leftovers(environment, look, LeftoverPolicy.SERVICES) or _blocked_evidence(
        setup.task, environment
    )


async def verify_variant(
    setup: VerifierSetup,
    environment: Environment,
    files: Mapping[str, bytes],
    state: CopyState,
) -> HarborEvidence:
    """Run the verifier with these files in place of its tests', in a copy of the machine, or on the machine again.

    Raises:
        InfrastructureError: the environment is gone, or cannot be graded in.
    """
    quarantined = await _quarantine(setup, environment, LeftoverPolicy.SERVICES, state=state)
    return await _verify_in(setup, environment, quarantined, files, state=state)


def verifier_programs(step: HarborStep) -> tuple[str, ...]:
    """The programs that the verifier may call."""
    return script_words(step.test_script(), "bash find rm mkdir chmod head")


async def _quarantine(
    setup: VerifierSetup, environment: Environment, policy: LeftoverPolicy, *, state: CopyState
) -> QuarantinedEnvironment:
    is_copy = state is not CopyState.NO_COPY
    return await quarantine(
        environment,
        setup.folder,
        names=verifier_programs(setup.step),
        policy=policy,
        markers=_markers(environment, is_copy=is_copy),
        is_copy=is_copy,
        is_known=state is CopyState.KNOWN,
        guard_settings=True,
        task_text=setup.step.instruction,
        checkpoint=setup.checkpoint,
        grace=setup.grace,
    )


async def _verify_in(
    setup: VerifierSetup,
    environment: Environment,
    quarantined: QuarantinedEnvironment,
    files: Mapping[str, bytes],
    *,
    state: CopyState,
) -> HarborEvidence:
    planted = await clean(environment, quarantined.search_path)
    for number in range(1, _MAX_RUNS + 1):
        seen = await run_verifier(setup, environment, quarantined, files)
        if not seen.is_inconclusive:
            break
        if number < _MAX_RUNS:
            await clean(environment, quarantined.search_path)
    return msgspec.structs.replace(seen, planted=planted if state is CopyState.NO_COPY else (), verifier_runs=number)


def _markers(environment: Environment, *, is_copy: bool) -> GraderMarkers:
    if is_copy:
        return GraderMarkers()
    places = () if environment.workdir == "/" else (environment.workdir,)
    return GraderMarkers(strings=(LOGS,), directories=places)


async def run_verifier(
    setup: VerifierSetup,
    environment: Environment,
    quarantine_result: QuarantinedEnvironment,
    files: Mapping[str, bytes],
) -> HarborEvidence:
    """Put the tests in place, with these files in place of their own, run them, and read what they left."""
    task, step = setup.task, setup.step
    with tempfile.TemporaryDirectory(prefix="proctor-tests-") as scratch:
        if files or not step.verifier.has_tests:
            folders = () if step.verifier.has_tests else step.verifier.tests
            await asyncio.to_thread(_lay_out_tests, folders, files, Path(scratch))
            await environment.put(Path(scratch), TESTS)
    ran = await run_in_fresh_shell(
        environment,
        quarantine_result,
        f"({TESTS}/{TEST_SCRIPT}) 2>&1",
        timeout=setup.seconds,
        cwd=environment.workdir,
        program="/bin/bash",
        variables={**_own_caches(quarantine_result.grader_dir, setup.user), **setup.variables},
        user=setup.user,
    )
    logs, log_problem = await _fetch_logs(environment)
    rewards, problem = read_rewards(logs)
    script = step.test_script()
    return HarborEvidence(
        task_id=task.name,
        rewards=rewards,
        problem=log_problem or problem,
        tests=read_tests(logs, ran.stdout),
        tests_expected="pytest" in script,
        verifier_run=msgspec.structs.replace(ran, stdout=_shortened(ran.stdout)),
        quarantine_result=quarantine_result,
        environment=environment.digest,
        statuses=read_statuses(logs, ran.stdout),
        refused_hosts=environment.refused_hosts,
    )


def _lay_out_tests(folders: Sequence[str], files: Mapping[str, bytes], target: Path) -> None:
    """The files of a verifier, with these in place of its own. What starts it can be started."""
    for folder in folders:
        shutil.copytree(folder, target, symlinks=True, dirs_exist_ok=True)
    for name, content in files.items():
        (target / name).unlink(missing_ok=True)
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        (target / name).write_bytes(content)
    for script in {TEST_SCRIPT, *(name for name in files if name.endswith(".sh"))}:
        if (target / script).is_file():
            (target / script).chmod(0o755)


def _own_caches(folder: str, user: str | None) -> dict[str, str]:
    """Where uv keeps what it installs, and Python what it compiles: not where the agent may have left something."""
    place = f"{folder}/caches" if user is None else f"/tmp{folder}-caches"  # noqa: S108 - in an environment
    return {name: f"{place}/{name.lower()}" for name in _CACHE_VARIABLES}


async def clean(environment: Environment, search_path: str) -> tuple[str, ...]:
    """Make the verifier's places empty; what was in them."""
    done = await environment.exec(
        ["/bin/sh", "-c", _CLEAN_SCRIPT], variables={"PATH": search_path}, cwd="/", timeout=120
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


def _blocked_evidence(task: HarborTask, environment: Environment) -> HarborEvidence:
    killed, quarantined = blocked_run()
    return HarborEvidence(
        task_id=task.name,
        rewards={"reward": 0.0},
        problem=killed.stderr,
        tests=None,
        tests_expected=False,
        verifier_run=killed,
        quarantine_result=quarantined,
        environment=environment.digest,
    )
