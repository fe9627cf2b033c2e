"""A command in a fresh shell: no profile, no terminal, no input, a session and an environment of its own."""

from collections.abc import Mapping
from typing import Final

from proctor.core.environment import Environment
from proctor.core.record import Record
from proctor.grading.live.settle import Settled

# Into files, not into pipes: what the command leaves in the background would hold a pipe open as long as it lives.
_RUN: Final = 'umask 022; exec "$1" -c "$2" >"$3/out" 2>"$3/err" </dev/null'
_KEEP: Final = 1_000_000


class Ran(Record):
    """How a command in a fresh shell ended. Of each stream the head and the tail are kept."""

    exit_code: int
    stdout: str
    stderr: str
    seconds: float
    timed_out: bool = False


async def run_fresh(
    environment: Environment,
    settled: Settled,
    command: str,
    *,
    timeout: float | None,  # noqa: ASYNC109 - the room's clock, which also kills what the command started
    cwd: str | None = None,
    shell: str = "/bin/sh",
    variables: Mapping[str, str] | None = None,
) -> Ran:
    """Run a command in a room that is settled."""
    path = {"PATH": settled.path}
    await environment.exec(
        ["/bin/sh", "-c", 'mkdir -p "$1"; rm -f "$1/out" "$1/err"', "sh", settled.folder], variables=path
    )
    done = await environment.exec(
        ["/bin/sh", "-c", _RUN, "sh", shell, command, settled.folder],
        variables={**(variables or {}), **path},
        cwd=cwd,
        timeout=timeout,
    )
    streams = [
        await environment.exec(["cat", f"{settled.folder}/{name}"], variables=path, cwd="/", output_bytes=_KEEP)
        for name in ("out", "err")
    ]
    stdout, stderr = (stream.stdout.decode("utf-8", "replace") for stream in streams)
    return Ran(exit_code=done.exit_code, stdout=stdout, stderr=stderr, seconds=done.seconds, timed_out=done.timed_out)
