"""What grading does in a room, whichever benchmark it is for: apply, put back, run a script."""

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from msgspec import field

from proctor.benchmarks.swe.official_rules import OfficialRuling
from proctor.benchmarks.swe.patches import touched_paths
from proctor.core.environment import Environment, ExecResult
from proctor.core.errors import InfrastructureError, LimitReached
from proctor.core.record import Record

PATCH_FILE: Final = "/tmp/patch.diff"  # noqa: S108 - the official graders' place for it
SCRIPT_FILE: Final = "/tmp/proctor-eval.sh"  # noqa: S108 - inside a room of our own
LOG_BYTES: Final = 100_000_000
STEP_SECONDS: Final = 600.0
_EXPORT_DIR: Final = "/tmp/proctor-left"  # noqa: S108 - as above
_ALREADY_APPLIED_CODE: Final = 80
_NOT_APPLIED_CODE: Final = 90
_SEPARATOR: Final = b"\0#applied#\0"


class SweTestRun(Record):
    """One test run of an answer, as evidence.

    Attributes:
        applied: whether the patch is in place.
        applied_with: the fallback that was needed for that.
        touched: the paths that it changed.
        complaint: why it could not be applied, or the tests could not be run.
        unreadable: why nothing can be read from what the tests printed.
        ruling: the official rule's word; None where it had nothing to judge.
        scores: the benchmark's own degrees.
    """

    applied: bool
    applied_with: str | None = None
    touched: tuple[str, ...] = ()
    error: str = ""
    timed_out: bool = False
    exit_code: int | None = None
    parse_error: str = ""
    statuses: dict[str, str] = field(default_factory=dict)
    ruling: OfficialRuling | None = None
    scores: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    log: bytes = b""

    @property
    def resolved(self) -> bool:
        """What the official rule says."""
        return self.ruling is not None and self.ruling.resolved


@dataclass(frozen=True, slots=True)
class AppliedPatch:
    """How a patch was applied in a room; `way` is the place of the command that worked, None when none did."""

    command_index: int | None
    touched: tuple[str, ...]
    output: str


async def apply_in_environment(
    environment: Environment,
    patch: bytes,
    commands: Sequence[str],
    *,
    clean: bool = False,
    accept_reversible: bool = False,
) -> AppliedPatch:
    """Apply a patch with the first of some commands that works.

    Args:
        room: where the repository is the workdir.
        patch: put at `PATCH`, which is appended to each command.
        ways: shell commands.
        clean: bring the tree back to HEAD before each command but the first.
        accept_reversible: a patch that could be taken back counts as applied.
    """
    done = await environment.exec(
        [
            "/bin/bash",
            "-c",
            _apply_script(environment.workdir, commands, clean=clean, accept_reversible=accept_reversible),
        ],
        stdin=patch,  # a command of its own to bring a file in costs an engine more than the patch itself
        timeout=STEP_SECONDS,
    )
    said = done.stderr.decode(errors="replace").strip()
    if done.exit_code not in {*range(len(commands)), _ALREADY_APPLIED_CODE, _NOT_APPLIED_CODE}:
        raise InfrastructureError(f"a patch could not be applied: exit code {done.exit_code} ({said[-200:]})")
    if done.exit_code == _NOT_APPLIED_CODE:
        return AppliedPatch(command_index=None, touched=touched_paths(patch), output=said)
    before, _, after = done.stdout.partition(_SEPARATOR)
    changed = _changed_paths(after) - _changed_paths(before)
    return AppliedPatch(
        command_index=done.exit_code,
        touched=tuple(dict.fromkeys((*touched_paths(patch), *sorted(changed)))),
        output=said,
    )


def _apply_script(workdir: str, commands: Sequence[str], *, clean: bool, accept_reversible: bool) -> str:
    state = "git status --porcelain -z --untracked-files=all --no-renames"
    lines = [
        f"cat > {PATCH_FILE} && cd {shlex.quote(workdir)} || exit 99",
        f"finish() {{ printf '\\0#applied#\\0'; {state}; exit $1; }}",
        state,
    ]
    for number, way in enumerate(commands):
        if number and clean:
            lines.append("{ git checkout -- . ; git clean -fd ; } >/dev/null 2>&1")
        lines.append(f"{way} {PATCH_FILE} >&2 && finish {number}")
    if accept_reversible:
        lines.append(f"git apply --check --reverse {PATCH_FILE} >&2 && finish {_ALREADY_APPLIED_CODE}")
    return "\n".join([*lines, f"exit {_NOT_APPLIED_CODE}"])


def _changed_paths(status: bytes) -> set[str]:
    """The paths that `git status -z` lists."""
    return {entry[3:].decode("utf-8", "surrogateescape") for entry in status.split(b"\0") if entry}


async def restore_paths(environment: Environment, paths: Sequence[str]) -> None:
    """Make these paths what they are in HEAD; those that are not there go."""
    if not paths:
        return
    script = (
        "while IFS= read -r -d '' path; do "
        'if git cat-file -e "HEAD:$path" 2>/dev/null; then rm -rf -- "./$path"; git checkout HEAD -- "./$path"; '
        'else rm -rf -- "./$path"; fi || exit 1; done'
    )
    names = b"".join(os.fsencode(path) + b"\0" for path in paths)  # a name need not be text
    done = await environment.exec(["/bin/bash", "-c", script], stdin=names, timeout=STEP_SECONDS)
    if done.exit_code:
        raise InfrastructureError(f"protected files could not be put back: {done.stderr[-200:]!r}")


async def copy_workdir_out(environment: Environment, target: Path, *, excluding: Sequence[str]) -> None:
    """Copy the workdir out to the host, without its git and without some directories of any size.

    It is the room's own tar that leaves them; one that fails, or was tampered with, changes nothing but the answer of
    whoever did so, and then all is copied.
    """
    gather = f"rm -rf {_EXPORT_DIR} && mkdir {_EXPORT_DIR} && cat > {_EXPORT_DIR}.names && tar -X {_EXPORT_DIR}.names -cf - . | tar -C {_EXPORT_DIR} -xf -"
    names = "".join(f"./{name}\n" for name in (".git", *excluding))
    try:
        done = await environment.exec(
            ["/bin/bash", "-o", "pipefail", "-c", gather], stdin=names.encode(), timeout=STEP_SECONDS
        )
        place = _EXPORT_DIR if done.exit_code == 0 else environment.workdir
    except LimitReached:
        place = environment.workdir  # which can be had when nothing runs in the room any more
    await environment.get(place, target)


async def run_bash(environment: Environment, script: str, *, seconds: float = STEP_SECONDS) -> ExecResult:
    """Run a bash script of ours; both of its streams come as one."""
    return await environment.exec(
        ["/bin/bash", "-c", f"cat > {SCRIPT_FILE} && exec /bin/bash {SCRIPT_FILE} < /dev/null 2>&1"],
        stdin=script.encode("utf-8", "surrogateescape"),
        timeout=seconds,
        output_bytes=LOG_BYTES,
    )


async def run_required(environment: Environment, script: str, what: str) -> None:
    """Run a bash script that must succeed.

    Raises:
        InfrastructureError: it does not.
    """
    done = await run_bash(environment, f"set -e\n{script}")
    if done.exit_code:
        end = done.stdout.decode(errors="replace").strip()[-300:]
        raise InfrastructureError(f"{what} failed with exit code {done.exit_code}: {end}")
