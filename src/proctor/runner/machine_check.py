"""What this machine must have for a run: git, environments that work, disk space, and programs in the environments."""

import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from proctor.core.benchmark import Benchmark, GradeOptions
from proctor.core.environment import (
    EnvironmentProvider,
    EnvironmentRequirement,
    EnvironmentSpec,
    find_missing_requirements,
)
from proctor.core.errors import InfrastructureError, ProctorError
from proctor.core.formatting import file_size
from proctor.core.programs import find_program
from proctor.core.task import Task
from proctor.runner.parallel import run_in_parallel

MIN_FREE_BYTES: Final = 256_000_000
_AT_ONCE: Final = 4
# An environment, and what each of the tasks that share it requires.
_Group = tuple[EnvironmentSpec, dict[str, Sequence[EnvironmentRequirement]]]


async def check_machine(provider: EnvironmentProvider, folders: Iterable[Path]) -> None:
    """See that this machine can run anything at all, and has space for it in these folders.

    Raises:
        InfrastructureError: it cannot; says why and what to do.
    """
    if find_program("git") is None:
        raise InfrastructureError(
            "git, which makes workspaces and submissions, is not on PATH",
            fix="install git (Debian: apt-get install git)",
        )
    reason = await provider.unavailable_reason()
    if reason is not None:
        raise InfrastructureError(reason)
    check_disk_space([*folders, *await provider.storage_folders()])


def check_disk_space(folders: Iterable[Path]) -> None:
    """See that there is some space in every folder, or where it will be made.

    Raises:
        InfrastructureError: there is not; says where.
    """
    for folder in folders:
        there = next(path for path in (folder, *folder.parents) if path.exists())
        disk = shutil.disk_usage(there)
        if disk.total and disk.free < MIN_FREE_BYTES:  # nothing in all: this is no disk, and is refused when written
            raise InfrastructureError(
                f"the disk is full: {file_size(disk.free)} are free, and a run needs {file_size(MIN_FREE_BYTES)}",
                where=folder,
                fix="free some space; PROCTOR_RESULTS, PROCTOR_CACHE and TMPDIR name Proctor's own folders",
            )


async def missing_environment_requirements(
    benchmark: Benchmark, tasks: Sequence[Task], provider: EnvironmentProvider, options: GradeOptions, *, pull: bool
) -> dict[str, str]:
    """The tasks whose environments lack something that they require, each with the reason.

    One environment is started for all tasks that share it. Without `pull`, nothing is said about environments whose
    image is not on this machine.

    Raises:
        RetryableError: the provider cannot be asked now.
    """
    groups: dict[bytes, _Group] = {}
    for task in tasks:
        required = benchmark.environment_requirements(task)
        if required:
            spec = msgspec.structs.replace(benchmark.environment_spec(task, options), labels={})
            groups.setdefault(msgspec.json.encode(spec), (spec, {}))[1][task.id] = required

    async def unmet(group: _Group) -> dict[str, str]:
        return await _missing_in_environment(provider, *group) if pull or await provider.is_available(group[0]) else {}

    found = await run_in_parallel(unmet, groups.values(), _AT_ONCE)
    return {task_id: why for one in found for task_id, why in one.items()}


async def _missing_in_environment(
    provider: EnvironmentProvider, spec: EnvironmentSpec, by_task: dict[str, Sequence[EnvironmentRequirement]]
) -> dict[str, str]:
    distinct = list(dict.fromkeys(one for required in by_task.values() for one in required))
    try:
        async with await provider.start(spec) as environment:
            missing = set(await find_missing_requirements(environment, distinct))
    except ProctorError as error:
        if error.retryable:
            raise
        return dict.fromkeys(by_task, error.sentence)  # no environment for them can be made
    found = {task_id: [one for one in required if one in missing] for task_id, required in by_task.items()}
    return {task_id: ones[0].missing_error().sentence for task_id, ones in found.items() if ones}
