"""Runs a test plan in an environment.

Where an environment can be made for a single command, the reporter's worker reports to us directly and nothing else of
ours runs in there; elsewhere a supervisor in the environment reads its records and signs them.
"""

import asyncio
import secrets
import stat
import tempfile
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from pathlib import Path, PurePosixPath
from typing import Final

import msgspec

from proctor.core.environment import Environment, EnvironmentProvider, EnvironmentSpec, OneShotCommand
from proctor.core.errors import LimitReached
from proctor.grading.inside.supervisor import PYTHON_FLAGS, PYTHONPATH_VARIABLE, WITHHELD_VARIABLES, WORKER_BOOT
from proctor.grading.outcome import TestRun
from proctor.grading.outcome_reader import read_outcome, read_worker_outcome
from proctor.grading.plan import REPORTER_FORMATS, TestCommand, TestPlan, build_test_command, worker_program

TOKEN_BYTES: Final = 32
INLINE_READ_BYTES: Final = 100_000  # reading this little takes less time than starting a thread
FETCH_SECONDS: Final = 60.0
MAX_OUTPUT_BYTES: Final = 100_000_000
# A link is not followed and a pipe not opened: only what the test command itself wrote is fetched.
_REPORT_EXISTS: Final = '[ ! -L "$0" ] && { [ -f "$0" ] || [ -d "$0" ]; }'


async def run_tests_in_new_environment(
    provider: EnvironmentProvider,
    spec: EnvironmentSpec,
    plan: TestPlan,
    *,
    timeout: float | None = None,  # noqa: ASYNC109 - the environment's clock
    permit: AbstractAsyncContextManager[object] | None = None,
) -> TestRun:
    """Run the tests once, in an environment that is made for it. `spec` names the workspace, ready to be tested.

    With `permit`, the tests run within it; the environment is made before it is taken, where the provider can do so.

    Raises:
        InvalidData: the plan cannot be run as it is.
        InfrastructureError: the environment failed.
    """
    if plan.format in REPORTER_FORMATS and provider.supports_run_once:
        token = secrets.token_bytes(TOKEN_BYTES)
        given = {**spec.variables, **plan.variables}
        command = OneShotCommand(
            argv=(plan.python, *PYTHON_FLAGS, "-c", WORKER_BOOT),
            inputs=(worker_program(plan, workdir=spec.workdir), token),
            variables={
                **{name: value for name, value in given.items() if name not in WITHHELD_VARIABLES},
                PYTHONPATH_VARIABLE: given.get("PYTHONPATH", ""),
            },
            cwd="/",
            timeout=timeout,
            output_bytes=MAX_OUTPUT_BYTES,
            report_bytes=MAX_OUTPUT_BYTES,
        )
        alone = msgspec.structs.replace(spec, variables={})
        result = await provider.run_once(alone, command, permit=permit)
        if len(result.report) < INLINE_READ_BYTES:
            return read_worker_outcome(result, token)
        return await asyncio.to_thread(read_worker_outcome, result, token)
    async with permit or nullcontext(), await provider.start(spec) as environment:
        return await run_tests(environment, plan, timeout=timeout)


async def run_tests(environment: Environment, plan: TestPlan, *, timeout: float | None = None) -> TestRun:  # noqa: ASYNC109 - the environment's clock
    """Run the tests once. The caller has prepared the workspace: patch applied, protected paths restored.

    Raises:
        InvalidData: the plan cannot be run as it is.
        InfrastructureError: the environment failed.
    """
    prepared = build_test_command(plan, workdir=environment.workdir)
    ended = await environment.exec(
        prepared.argv,
        stdin=prepared.stdin,
        variables=prepared.variables,
        timeout=timeout,
        output_bytes=MAX_OUTPUT_BYTES,
    )
    # In a thread: reading what a hostile program printed may take seconds, and other tasks share this one.
    return await asyncio.to_thread(read_outcome, prepared, ended, await _fetch_report(environment, prepared))


async def _fetch_report(environment: Environment, test_command: TestCommand) -> dict[str, bytes] | None:
    if test_command.report_path is None:
        return None
    try:
        found = await environment.exec(("sh", "-c", _REPORT_EXISTS, test_command.report_path), timeout=FETCH_SECONDS)
        if found.exit_code != 0:
            return None
        with tempfile.TemporaryDirectory(prefix="proctor-report-") as directory:
            target = Path(directory) / "report"
            await environment.get(test_command.report_path, target)
            return _regular_files(target)
    except (LimitReached, FileNotFoundError):
        return None  # too large or too deep to be a report, or gone since it was looked at
    finally:
        await environment.exec(
            ("rm", "-rf", str(PurePosixPath(test_command.report_path).parent)), timeout=FETCH_SECONDS
        )


def _regular_files(target: Path) -> dict[str, bytes] | None:
    """The report, or the reports of a directory; what is too large to be one is left where it is."""
    is_directory = target.is_dir() and not target.is_symlink()
    paths = sorted(target.rglob("*.xml")) if is_directory else [target]
    files: dict[str, bytes] = {}
    budget = MAX_OUTPUT_BYTES
    for path in paths:
        about = path.lstat()
        if stat.S_ISREG(about.st_mode) and about.st_size <= budget:
            budget -= about.st_size
            with suppress(PermissionError):  # it was made to be unreadable
                files[path.name if path == target else str(path.relative_to(target))] = path.read_bytes()
    return files or None
