"""Where a grader runs beside the machine that the agent worked on: on copies that its processes cannot reach.

A copy has the files of the machine at the moment when the time was up, and no process of the agent's. Services that the
agent has left running on the machine are reached over its network, and at their sockets.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from enum import StrEnum
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from proctor.core.environment import Checkpoint, Environment
from proctor.core.errors import InfrastructureError
from proctor.core.verdict import Finding
from proctor.grading.state.quarantine import QuarantinedEnvironment, restore_shells

_MAX_STARTS: Final = 3
_PAUSE_SECONDS: Final = 1.0
_NO_START_SIGNS: Final = ("OCI runtime", "has no shell", "Cannot mkdir")


class GradingTarget(StrEnum):
    """Where the grader's commands run, from the best to the last resort.

    COPY: all files are those of the moment when the time was up. LIVE_FILES: programs and settings are, while data is
    what services on the machine read and write. MACHINE: where the agent worked, beside all that it has left running.
    """

    COPY = "copy"
    LIVE_FILES = "live_files"
    MACHINE = "machine"


class CopyFailed(Exception):
    """The machine is in a state of which no copy can be started, while its image starts."""


class FinalFiles(NamedTuple):
    """The files of a machine when the time was up. Without a checkpoint, no copies of the machine can be made."""

    checkpoint: Checkpoint | None
    findings: tuple[Finding, ...] = ()


@asynccontextmanager
async def keep_files(environment: Environment, folder: Path, *, copies: bool = True) -> AsyncIterator[FinalFiles]:
    """Keep the files of a machine as they are now, but with the shells of its snapshot in `folder`; or do not, where no
    `copies` will be made.

    Raises:
        InfrastructureError: the engine cannot keep them.
    """
    if not copies:
        yield FinalFiles(None)
        return
    findings = tuple(await restore_shells(environment, folder))
    checkpoint = await environment.checkpoint()
    try:
        yield FinalFiles(checkpoint, findings)
    finally:
        if checkpoint is not None:
            await checkpoint.remove()


def with_findings(quarantined: QuarantinedEnvironment, findings: Iterable[Finding]) -> QuarantinedEnvironment:
    """The same with findings that were there before, each once."""
    merged = tuple(dict.fromkeys((*findings, *quarantined.findings)))
    return msgspec.structs.replace(quarantined, findings=merged)


@asynccontextmanager
async def open_grading_target(
    target: GradingTarget, machine: Environment, checkpoint: Checkpoint | None
) -> AsyncIterator[Environment]:
    """The environment to run a grader in; a copy is removed afterwards.

    Raises:
        CopyFailed: no copy can be started, by the agent's doing.
        InfrastructureError: the engine cannot make it.
    """
    if target is GradingTarget.MACHINE or checkpoint is None:
        yield machine
        return
    async with await _start_copy(checkpoint, live_files=target is GradingTarget.LIVE_FILES) as copy:
        yield copy


async def _start_copy(checkpoint: Checkpoint, *, live_files: bool) -> Environment:
    for _ in range(_MAX_STARTS - 1):
        try:
            return await checkpoint.copy(live_files=live_files)
        except InfrastructureError:
            await asyncio.sleep(_PAUSE_SECONDS)  # a busy engine does better the next time
    try:
        return await checkpoint.copy(live_files=live_files)
    except InfrastructureError as error:
        # Only what the files themselves keep from starting is the agent's doing.
        if not any(sign in error.what for sign in _NO_START_SIGNS):
            raise
        async with await checkpoint.original():
            raise CopyFailed(error.what) from error
