"""A command in a fresh shell: no profile, no terminal, no input, a session and an environment of its own."""

import os
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final, TypeVar

from proctor.core.environment import Environment
from proctor.core.errors import InfrastructureError
from proctor.core.record import Record
from proctor.grading.state.processes import LeftoverPolicy
from proctor.grading.state.quarantine import QuarantinedEnvironment
from proctor.grading.state.snapshot import read_small_file

T = TypeVar("T")

# The command is the shell's input: it is in no file and no argument, where programs that it calls could read it. Its
# output goes into files, not into pipes, which what it leaves in the background would hold open as long as it lives.
_RUN: Final = 'umask 022; exec "$1" -c "$3" sh >"$2/out" 2>"$2/err"'
_READ_AND_RUN: Final = 'command=$(cat); exec </dev/null; eval "$command"'
_READ_OUTPUT: Final = 'cat "$1/out"; cat "$1/err" >&2'
_MAX_STREAM_BYTES: Final = 1_000_000


class ShellResult(Record):
    """How a command in a fresh shell ended. Of each stream the head and the tail are kept."""

    exit_code: int
    stdout: str
    stderr: str
    seconds: float
    timed_out: bool = False


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
    with tempfile.TemporaryDirectory(prefix="proctor-fresh-") as scratch:
        for name in ("out", "err"):
            (Path(scratch) / name).touch()
            (Path(scratch) / name).chmod(0o644 if user is None else 0o666)
        os.chmod(scratch, 0o755)  # noqa: PTH101, S103 - one call; whoever runs the command reads what is in there
        await environment.put(Path(scratch), quarantined.grader_dir)
    done = await environment.exec(
        ["/bin/sh", "-c", _RUN, "sh", program, quarantined.grader_dir, _READ_AND_RUN],
        stdin=command.encode("utf-8", "surrogateescape"),
        variables={**(variables or {}), **path},
        cwd=cwd,
        timeout=timeout,
        user=user,
    )
    read = await environment.exec(
        ["/bin/sh", "-c", _READ_OUTPUT, "sh", quarantined.grader_dir],
        variables=path,
        cwd="/",
        output_bytes=_MAX_STREAM_BYTES,
    )
    stdout, stderr = read.stdout.decode("utf-8", "replace"), read.stderr.decode("utf-8", "replace")
    return ShellResult(
        exit_code=done.exit_code, stdout=stdout, stderr=stderr, seconds=done.seconds, timed_out=done.timed_out
    )


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
