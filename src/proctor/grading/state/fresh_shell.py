"""A command in a fresh shell: no profile, no terminal, no input, a session and an environment of its own."""

import os
import secrets
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

import msgspec

from proctor.core.environment import Environment
from proctor.core.errors import InfrastructureError
from proctor.core.record import Record
from proctor.grading.state.processes import LeftoverPolicy, ProcessList, list_processes, parse_process_list
from proctor.grading.state.quarantine import QuarantinedEnvironment
from proctor.grading.state.snapshot import read_small_file
from proctor.grading.state.tool_kit import HALF_STREAM_BYTES, READ_AND_RUN

T = TypeVar("T")

_RUN: Final = 'umask 022; exec "$1" -c "$3" sh >"$2/out" 2>"$2/err"'
_READ_OUTPUT: Final = 'cat "$1/out"; cat "$1/err" >&2'
_MAX_STREAM_BYTES: Final = 2 * HALF_STREAM_BYTES
_PARTS: Final = 6  # that `run` prints after the first
_MAX_REPORT_BYTES: Final = 100_000_000  # of all that `run` prints


class ShellResult(Record):
    """How a command in a fresh shell ended. Of each stream the head and the tail are kept."""

    exit_code: int
    stdout: str
    stderr: str
    seconds: float
    timed_out: bool = False


class ObservedRun(NamedTuple):
    """How a command ended, and the processes before and after it."""

    result: ShellResult
    before: ProcessList
    after: ProcessList


async def run_observed(
    environment: Environment,
    quarantined: QuarantinedEnvironment,
    command: str,
    *,
    timeout: float | None,
    cwd: str | None = None,
    program: str = "/bin/sh",
    variables: Mapping[str, str] | None = None,
) -> ObservedRun:
    """Run a command in an environment in quarantine; `program` is the shell that reads it.

    Raises:
        InfrastructureError: the environment's processes cannot be listed.
    """
    mark = f"={secrets.token_hex(16)}"
    folder = quarantined.grader_dir
    done = await environment.exec(
        [f"{folder}/shell", f"{folder}/run", folder, program],
        stdin=f"{mark}\n{command}".encode("utf-8", "surrogateescape"),
        variables={**(variables or {}), "PATH": quarantined.search_path},
        cwd=cwd,
        timeout=timeout,
        output_bytes=_MAX_REPORT_BYTES,
    )
    before, *parts = done.stdout.split(f"{mark}\n".encode())
    result = ShellResult(exit_code=done.exit_code, stdout="", stderr="", seconds=done.seconds, timed_out=done.timed_out)
    if done.timed_out or len(parts) != _PARTS:
        # It was ended together with the shell around it.
        stdout, stderr = await _read_output(environment, quarantined)
        after = await list_processes(environment, quarantined.search_path)
    else:
        after = parse_process_list(parts[0].decode("utf-8", "replace"))
        stdout, stderr = (_joined(*parts[at : at + 2]) for at in (1, 3))
    result = msgspec.structs.replace(result, stdout=stdout, stderr=stderr)
    return ObservedRun(result, parse_process_list(before.decode("utf-8", "replace")), after)


async def run_in_fresh_shell(
    environment: Environment,
    quarantined: QuarantinedEnvironment,
    command: str,
    *,
    timeout: float | None,
    cwd: str | None = None,
    program: str = "/bin/sh",
    variables: Mapping[str, str] | None = None,
    user: str | None = None,
) -> ShellResult:
    """Run a command in an environment in quarantine; `program` is the shell that reads it, `user` whom it runs as."""
    path = {"PATH": quarantined.search_path}
    if user is not None:
        with tempfile.TemporaryDirectory(prefix="proctor-fresh-") as scratch:
            for name in ("out", "err"):
                (Path(scratch) / name).touch()
                (Path(scratch) / name).chmod(0o666)
            os.chmod(scratch, 0o755)  # noqa: PTH101, S103 - one call; whoever runs the command reads what is in there
            await environment.put(Path(scratch), quarantined.grader_dir)
    done = await environment.exec(
        ["/bin/sh", "-c", _RUN, "sh", program, quarantined.grader_dir, READ_AND_RUN],
        stdin=command.encode("utf-8", "surrogateescape"),
        variables={**(variables or {}), **path},
        cwd=cwd,
        timeout=timeout,
        user=user,
    )
    stdout, stderr = await _read_output(environment, quarantined)
    return ShellResult(
        exit_code=done.exit_code, stdout=stdout, stderr=stderr, seconds=done.seconds, timed_out=done.timed_out
    )


async def _read_output(environment: Environment, quarantined: QuarantinedEnvironment) -> tuple[str, str]:
    read = await environment.exec(
        ["/bin/sh", "-c", _READ_OUTPUT, "sh", quarantined.grader_dir],
        variables={"PATH": quarantined.search_path},
        cwd="/",
        output_bytes=_MAX_STREAM_BYTES,
    )
    return read.stdout.decode("utf-8", "replace"), read.stderr.decode("utf-8", "replace")


def _joined(head: bytes, tail: bytes) -> str:
    """The two ends of a stream."""
    between = b"\n[bytes left out]\n" if len(tail) == HALF_STREAM_BYTES else b""
    return (head + between + tail).decode("utf-8", "replace")


async def retry_without_leftovers(
    environment: Environment, action: Callable[[LeftoverPolicy], Awaitable[T]], policy: LeftoverPolicy
) -> T | None:
    """What `action` gives. Where it cannot run its commands, it is called again with all but services killed.

    None: nothing can be run on the machine, while the engine reads its files. That is the agent's doing, and no error
    that is retried.

    Raises:
        InfrastructureError: the environment is gone.
    """
    for leftovers in (policy, LeftoverPolicy.SERVICES):
        try:
            return await action(leftovers)
        except InfrastructureError:
            if await read_small_file(environment, "/etc/passwd") is None:
                raise
    return None
