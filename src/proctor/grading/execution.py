"""Runs a test plan in an environment.

Where an environment can be made for a single command, the reporter's worker reports to us directly and nothing else of
ours runs in there; elsewhere a supervisor in the environment reads its records and signs them.
"""

import asyncio
import contextlib
import os
import secrets
import stat
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from pathlib import Path, PurePosixPath
from typing import Final

import msgspec

from proctor.core.environment import Environment, EnvironmentProvider, EnvironmentSpec, OneShotCommand
from proctor.core.errors import LimitReached
from proctor.core.trees import LARGEST_FILE, FileEntry, read_entry
from proctor.grading.inside.supervisor import PYTHON_FLAGS, PYTHONPATH_VARIABLE, WITHHELD_VARIABLES, WORKER_BOOT
from proctor.grading.outcome import TestRun
from proctor.grading.outcome_reader import read_outcome, read_worker_outcome
from proctor.grading.plan import (
    REPORTER_FORMATS,
    TestCommand,
    TestPlan,
    after_services,
    build_test_command,
    worker_program,
)

TOKEN_BYTES: Final = 32
INLINE_READ_BYTES: Final = 100_000  # reading this little takes less time than starting a thread
FETCH_SECONDS: Final = 60.0
_MAX_FIXED_BYTES: Final = LARGEST_FILE + 4096
MAX_OUTPUT_BYTES: Final = 100_000_000
# A link is not followed and a pipe not opened: only what the test command itself wrote is fetched.
_REPORT_EXISTS: Final = '[ ! -L "$0" ] && { [ -f "$0" ] || [ -d "$0" ]; }'


async def run_tests_in_new_environment(
    provider: EnvironmentProvider,
    spec: EnvironmentSpec,
    plan: TestPlan,
    *,
    timeout: float | None = None,
    permit: AbstractAsyncContextManager[object] | None = None,
    fixed: Sequence[str] = (),
) -> TestRun:
    """Run the tests once, in an environment that is made for it. `spec` names the workspace, ready to be tested.

    `fixed` are files of it that nothing can change while the tests run: tests, and what runs them. With `permit`, the
    tests run within it; the environment is made before it is taken, where the provider can do so.

    Raises:
        InvalidData: the plan cannot be run as it is.
        InfrastructureError: the environment failed.
    """
    if plan.format in REPORTER_FORMATS and provider.supports_run_once:
        token = secrets.token_bytes(TOKEN_BYTES)
        given = {**spec.variables, **plan.variables}
        command = OneShotCommand(
            argv=after_services(plan, (plan.python, *PYTHON_FLAGS, "-c", WORKER_BOOT), workdir=spec.workdir),
            inputs=(worker_program(plan, workdir=spec.workdir), token),
            variables={
                **{name: value for name, value in given.items() if name not in WITHHELD_VARIABLES},
                PYTHONPATH_VARIABLE: given.get("PYTHONPATH", ""),
            },
            cwd="/",
            timeout=timeout,
            output_bytes=MAX_OUTPUT_BYTES,
            report_bytes=MAX_OUTPUT_BYTES,
            pinned=tuple(fixed),
        )
        alone = msgspec.structs.replace(spec, variables={})
        result = await provider.run_once(alone, command, permit=permit)
        if len(result.report) < INLINE_READ_BYTES:
            return read_worker_outcome(result, token)
        return await asyncio.to_thread(read_worker_outcome, result, token)
    entries = await asyncio.to_thread(_read_entries, spec.workspace, fixed)
    async with permit or nullcontext(), await provider.start(spec) as environment:
        return await run_tests(environment, plan, timeout=timeout, provider=provider, fixed=entries)


async def run_tests(
    environment: Environment,
    plan: TestPlan,
    *,
    timeout: float | None = None,
    provider: EnvironmentProvider | None = None,
    fixed: Mapping[str, FileEntry] | None = None,
) -> TestRun:
    """Run the tests once. The caller has prepared the workspace: patch applied, protected paths restored.

    `fixed` are files of the workspace that the provider pins; where it cannot, one that is another file after the run
    is reported as tampered with.

    Raises:
        InvalidData: the plan cannot be run as it is.
        InfrastructureError: the environment failed.
    """
    prepared = build_test_command(plan, workdir=environment.workdir)
    is_pinned = not fixed or (provider is not None and await provider.pin_files(environment, fixed))
    ended = await environment.exec(
        prepared.argv,
        stdin=prepared.stdin,
        variables=prepared.variables,
        timeout=timeout,
        output_bytes=MAX_OUTPUT_BYTES,
    )
    # In a thread: reading what a hostile program printed may take seconds, and other tasks share this one.
    run = await asyncio.to_thread(read_outcome, prepared, ended, await _fetch_report(environment, prepared))
    if is_pinned or fixed is None:
        return run
    changed = await _changed_files(environment, fixed)
    outcome = msgspec.structs.replace(run.outcome, tampered=(*run.outcome.tampered, *changed))
    return msgspec.structs.replace(run, outcome=outcome)


def _read_entries(tree: Path | None, paths: Sequence[str]) -> dict[str, FileEntry]:
    if tree is None:
        return {}
    entries = {path: read_entry(tree, os.fsencode(path)) for path in paths}
    return {path: entry for path, entry in entries.items() if entry is not None}


async def _changed_files(environment: Environment, fixed: Mapping[str, FileEntry]) -> list[str]:
    """Those of the files that are other files now."""
    changed = []
    with tempfile.TemporaryDirectory(prefix="proctor-fixed-") as directory:
        for number, (path, entry) in enumerate(fixed.items()):
            found = None
            with contextlib.suppress(FileNotFoundError, LimitReached):
                name = str(number)
                await environment.get(
                    f"{environment.workdir}/{path}", Path(directory, name), max_bytes=_MAX_FIXED_BYTES
                )
                found = await asyncio.to_thread(read_entry, Path(directory), name.encode())
            if found is None or found.data != entry.data:
                changed.append(path)
    return changed


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
