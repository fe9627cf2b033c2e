"""What tasks require of their environments, and which of them lack it here."""

from collections.abc import Sequence
from typing import Final

import msgspec

from proctor.core.benchmark import Benchmark, GradeOptions
from proctor.core.environment import (
    EnvironmentProvider,
    EnvironmentRequirement,
    EnvironmentSpec,
    find_missing_requirements,
)
from proctor.core.errors import ProctorError
from proctor.core.task import Task
from proctor.runner.parallel import run_in_parallel

_AT_ONCE: Final = 4
# An environment, and what each of the tasks that share it requires.
_Group = tuple[EnvironmentSpec, dict[str, Sequence[EnvironmentRequirement]]]


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
