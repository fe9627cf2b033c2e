"""What the SWE family's graders do in an environment: apply a patch, restore protected files, run a script."""

import io
import os
import shlex
import stat
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
from msgspec import field

from proctor.benchmarks.swe.official_rules import OfficialRuling
from proctor.core.environment import Environment, ExecResult, get_tree
from proctor.core.errors import InfrastructureError, LimitReached
from proctor.core.record import Record
from proctor.core.trees import EXECUTABLE, FILE, LINK, FileEntry
from proctor.grading import protected_paths
from proctor.workspaces import TreeChange

PATCH_FILE: Final = "/tmp/patch.diff"  # noqa: S108 - the official graders' place for it
VARIANT_FILE: Final = "/tmp/proctor-tests.tar"  # noqa: S108 - inside an environment of our own
SCRIPT_FILE: Final = "/tmp/proctor-eval.sh"  # noqa: S108 - inside an environment of our own
LOG_BYTES: Final = 100_000_000
STEP_SECONDS: Final = 600.0
_EXPORT_DIR: Final = "/tmp/proctor-left"  # noqa: S108 - as above
_ALREADY_APPLIED_CODE: Final = 80
_NOT_APPLIED_CODE: Final = 90
_WRITES_GIT_CODE: Final = 91
_NO_CHANGE: Final = TreeChange(before={}, after={})


@dataclass(frozen=True, slots=True)
class AppliedPatch:
    """How a patch was applied in an environment.

    Attributes:
        command_index: which of the commands worked; None when none did.
        change: what that did to the tree.
        restored: the protected paths that were restored afterwards.
        output: what the commands printed.
    """

    command_index: int | None
    change: TreeChange
    output: str
    restored: tuple[str, ...] = ()


class SweTestRun(Record):
    """One test run of a submission, as evidence.

    Attributes:
        applied: whether the patch is in place.
        applied_with: the fallback that was needed for that.
        touched: the paths that it changed.
        restored: those of them that were restored before the tests.
        error: why it could not be applied, or the tests could not be run.
        parse_error: why nothing can be read from what the tests printed.
        ruling: what the official rule decided; None where it had nothing to judge.
        scores: the benchmark's own scores.
        change: what the patch did to the tree; not stored.
        log: what the tests printed; not stored.
    """

    applied: bool
    applied_with: str | None = None
    touched: tuple[str, ...] = ()
    restored: tuple[str, ...] = ()
    error: str = ""
    timed_out: bool = False
    exit_code: int | None = None
    parse_error: str = ""
    statuses: dict[str, str] = field(default_factory=dict)
    ruling: OfficialRuling | None = None
    scores: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    change: TreeChange | None = None
    log: bytes = b""

    @property
    def resolved(self) -> bool:
        """What the official rule says."""
        return self.ruling is not None and self.ruling.resolved

    def with_patch(self, applied: AppliedPatch) -> "SweTestRun":
        """The same run, with what its patch did to the tree."""
        return msgspec.structs.replace(
            self, touched=applied.change.paths, restored=applied.restored, change=applied.change
        )


async def apply_in_environment(
    environment: Environment,
    patch: bytes,
    commands: Sequence[str],
    *,
    protected: Sequence[str] = (),
    clean: bool = False,
    accept_reversible: bool = False,
) -> AppliedPatch:
    """Apply a patch with the first of some commands that works, then restore the protected paths that it changed.

    What changed is read from the tree, whatever form the patch has: these commands take more forms of a diff than
    any reader of ours.

    Args:
        environment: one whose workdir is the repository. Nothing of the patch has run in it.
        patch: written to `PATCH_FILE`, which is appended to each command.
        commands: shell commands.
        protected: patterns of paths that are made what they are in HEAD.
        clean: bring the tree back to HEAD before each command but the first.
        accept_reversible: a patch that could be reversed counts as applied.
    """
    script = _apply_script(environment.workdir, commands, clean=clean, accept_reversible=accept_reversible)
    done = await environment.exec(
        ["/bin/bash", "-c", script],
        stdin=patch,  # a command of its own to bring a file in costs an engine more than the patch itself
        timeout=STEP_SECONDS,
        output_bytes=LOG_BYTES,
    )
    output = done.stderr.decode(errors="replace").strip()
    if done.exit_code == _WRITES_GIT_CODE:
        return AppliedPatch(None, _NO_CHANGE, f"{output}\nthe patch writes into .git")
    if done.exit_code == _NOT_APPLIED_CODE:
        return AppliedPatch(None, _NO_CHANGE, output)
    if done.exit_code not in {*range(len(commands)), _ALREADY_APPLIED_CODE}:
        raise InfrastructureError(f"a patch could not be applied: exit code {done.exit_code} ({output[-200:]})")
    if done.truncated:
        return AppliedPatch(None, _NO_CHANGE, f"{output}\nthe patch changes more than {LOG_BYTES} bytes")
    change = _read_change(done.stdout)
    restored = protected_paths(change.paths, protected)
    await _restore(environment, restored)
    return AppliedPatch(done.exit_code, change, output, restored)


# Prints what changed since `$marker` was touched, as sizes and files: git's status before and after, the paths of
# newer files (git does not list ignored ones), HEAD's version of tracked files that differ, and all of these files as
# they are now. Git runs only after a look into .git: `patch` can write there, and git runs programs named there.
_REPORT_CHANGE: Final = r"""
finish() {
    written=$(find .git -newer "$dir/marker" \( -type f -o -type l \) ! -path .git/index ! -path .git/MERGE_RR \
        ! -path '.git/rr-cache/*' ! -path '.git/objects/*' -print -quit) || exit 98
    [ -z "$written" ] || { echo "$written" >&2; exit %(writes_git)d; }
    { %(status)s > "$dir/after" && git diff-index -z --no-renames HEAD > "$dir/raw"; } || exit 98
    find . -path ./.git -prune -o \( -type f -o -type l \) -newer "$dir/marker" -print0 > "$dir/newer" || exit 98
    while IFS= read -r -d '' about && IFS= read -r -d '' path; do
        about=($about); echo "${about[2]}"
    done < "$dir/raw" | git cat-file --batch > "$dir/blobs" || exit 98
    { while IFS= read -r -d '' entry; do printf '%%s\0' "${entry:3}"; done < "$dir/after"; cat "$dir/newer"; } |
        while IFS= read -r -d '' path; do
            if [ -f "$path" ] || [ -L "$path" ]; then printf '%%s\0' "${path#./}"; fi
        done | sort -zu > "$dir/paths"
    tar --null --no-recursion --hard-dereference --format=gnu -T "$dir/paths" -cf "$dir/files" || exit 98
    for part in before after newer raw blobs files; do wc -c < "$dir/$part"; done
    cat "$dir"/{before,after,newer,raw,blobs,files}
    rm -rf "$dir"
    exit $1
}
"""
_STATUS: Final = "git status --porcelain -z --untracked-files=all --no-renames"
_PARTS: Final = 6


def _apply_script(workdir: str, commands: Sequence[str], *, clean: bool, accept_reversible: bool) -> str:
    lines = [
        f"cat > {PATCH_FILE} && cd {shlex.quote(workdir)} || exit 99",
        "dir=$(mktemp -d) || exit 99",
        _REPORT_CHANGE % {"status": _STATUS, "writes_git": _WRITES_GIT_CODE},
        f'{_STATUS} > "$dir/before"',
        'touch "$dir/marker"; sleep 0.02',  # so that whatever is written from now on has a later time
    ]
    for number, command in enumerate(commands):
        if number and clean:
            lines.append("{ git checkout -- . ; git clean -fd ; } >/dev/null 2>&1")
        lines.append(f"{command} {PATCH_FILE} >&2 && finish {number}")
    if accept_reversible:
        lines.append(f"git apply --check --reverse {PATCH_FILE} >&2 && finish {_ALREADY_APPLIED_CODE}")
    return "\n".join([*lines, f"exit {_NOT_APPLIED_CODE}"])


def _read_change(output: bytes) -> TreeChange:
    """What the script printed, as files before and after."""
    *sizes, rest = output.split(b"\n", _PARTS)
    parts = []
    for size in map(int, sizes):
        parts.append(rest[:size])
        rest = rest[size:]
    status_before, status_after, newer, raw, blobs, files = parts
    changed = _changed_paths(status_after) - _changed_paths(status_before)
    changed |= {path.removeprefix(b"./") for path in newer.split(b"\0") if path}
    before = {path: entry for path, entry in _tracked_files(raw, blobs) if path in changed}
    after = {
        path: entry for path, entry in _archived_files(files) if path in changed and not _is_backup(path, entry, before)
    }
    return TreeChange(
        before={os.fsdecode(path): entry for path, entry in before.items() if entry != after.get(path)},
        after={os.fsdecode(path): entry for path, entry in after.items() if entry != before.get(path)},
    )


def _is_backup(path: bytes, entry: FileEntry, before: Mapping[bytes, FileEntry]) -> bool:
    """Whether `patch` made this file: it keeps the old version of a file whose context does not match exactly."""
    old = before.get(path.removesuffix(b".orig"))
    return path.endswith(b".orig") and old is not None and old.data == entry.data


def _changed_paths(status: bytes) -> set[bytes]:
    """The paths that `git status -z` lists."""
    return {entry[3:] for entry in status.split(b"\0") if entry}


def _tracked_files(raw: bytes, blobs: bytes) -> Iterator[tuple[bytes, FileEntry]]:
    """The files that `git diff-index -z` lists, as HEAD has them."""
    fields = raw.split(b"\0")
    for about, path in zip(fields[::2], fields[1::2], strict=False):
        header, _, blobs = blobs.partition(b"\n")
        if header.endswith(b" missing"):
            continue  # the file is new
        size = int(header.rsplit(b" ", 1)[1])
        yield path, FileEntry(int(about[1:7], 8), blobs[:size])
        blobs = blobs[size + 1 :]


def _archived_files(archive: bytes) -> Iterator[tuple[bytes, FileEntry]]:
    with tarfile.open(fileobj=io.BytesIO(archive), errors="surrogateescape") as tar:
        for member in tar:
            path = os.fsencode(member.name)
            if member.issym():
                yield path, FileEntry(LINK, os.fsencode(member.linkname))
            elif member.isreg():
                file = tar.extractfile(member)
                mode = EXECUTABLE if member.mode & stat.S_IXUSR else FILE
                yield path, FileEntry(mode, b"" if file is None else file.read())


async def _restore(environment: Environment, paths: Sequence[str]) -> None:
    """Make these paths what they are in HEAD; those that are not there are removed."""
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
        raise InfrastructureError(f"protected files could not be restored: {done.stderr[-200:]!r}")


async def copy_workdir_out(environment: Environment, target: Path, *, excluding: Sequence[str]) -> None:
    """Copy the workdir out to the host, without its git and without some directories of any size.

    The environment's own tar leaves them out; one that fails, or was tampered with, changes nothing but the submission
    of the agent that did so, and then all is copied.
    """
    gather = (
        f"rm -rf {_EXPORT_DIR} && mkdir {_EXPORT_DIR} && cat > {_EXPORT_DIR}.names"
        f" && tar -X {_EXPORT_DIR}.names -cf - . | tar -C {_EXPORT_DIR} -xf -"
    )
    names = "".join(f"./{name}\n" for name in (".git", *excluding))
    try:
        done = await environment.exec(
            ["/bin/bash", "-o", "pipefail", "-c", gather], stdin=names.encode(), timeout=STEP_SECONDS
        )
        source = _EXPORT_DIR if done.exit_code == 0 else environment.workdir
    except LimitReached:
        source = environment.workdir  # which can be copied when nothing runs in the environment any more
    await get_tree(environment, source, target)


async def put_variant(environment: Environment, variant: Mapping[str, bytes]) -> str:
    """Bring test files into an environment; gives the shell line that lays them over the workdir."""
    if not variant:
        return ":"
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for path, data in variant.items():
            member = tarfile.TarInfo(path)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    await environment.put(buffer.getvalue(), VARIANT_FILE)
    # As new files: a place may be a link by now, and times say nothing.
    return f"tar -C {shlex.quote(environment.workdir)} -xomf {VARIANT_FILE}"


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
