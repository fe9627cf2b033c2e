"""What an environment was before the agent started, as far as its grader must know."""

import hashlib
import os
import posixpath
import secrets
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Literal

from proctor.core.environment import Environment
from proctor.core.errors import InfrastructureError, LimitReached
from proctor.core.record import Record, read_record, to_json
from proctor.grading.state.grader_settings import SettingsFile, guarded_programs, record_settings
from proctor.grading.state.libraries import LibraryFiles, list_libraries
from proctor.grading.state.processes import list_processes
from proctor.grading.state.programs import INTERPRETERS, TOOLS, TRUSTED_TOOLS, InstalledProgram, find_programs

SHELLS: Final = ("/bin/sh", "/bin/bash")
PRELOAD: Final = "/etc/ld.so.preload"
_MAX_BYTES: Final = 30_000_000
_MAX_LINKS: Final = 8
# Prints, for each shell, the paths that its links lead to, and the digest of the file at their end.
SHOW_SHELLS: Final = f"""
for shell in {" ".join(SHELLS)}; do
  echo "=shell $shell"
  file=$shell links=0
  while [ -L "$file" ] && [ "$links" -lt 8 ]; do
    link=$(readlink "$file") links=$((links + 1))
    case $link in /*) file=$link ;; *) file=${{file%/*}}/$link ;; esac
    echo "$file"
  done
  [ -f "$file" ] && sha256sum <"$file"
done
"""
# Arguments: a folder to make, then pairs of a name in it and a file to copy there. The shells come there too.
_STAGE: Final = f"""
mkdir "$1" || exit; to=$1; shift
while [ $# -gt 0 ]; do cat "$2" >"$to/$1" || exit; shift 2; done
for shell in {" ".join(SHELLS)}; do [ ! -f "$shell" ] || cat "$shell" >"$to/${{shell##*/}}" || exit; done
{SHOW_SHELLS}:
"""
_RECORD: Final = "snapshot.json"
_COPIES: Final = "programs"


class ShellFile(Record):
    """A shell by the path that scripts name: the links that lead to it, and the file at their end."""

    chain: tuple[str, ...]
    sha256: str
    copy: str


class ShellState(Record):
    """A shell as it is: the paths from the one that scripts name to the file, and the digest of that."""

    chain: tuple[str, ...]
    sha256: str


class EnvironmentSnapshot(Record):
    """An environment as it was given to the agent.

    Attributes:
        taken_at: the environment's clock, in seconds since the epoch.
        path: where programs are searched.
        programs: those that the grader may call; `copies` are the files of some, by name, below the snapshot's folder.
        settings: the files that programs of the grader read before they start; `libraries`: what its Python runs on.
        processes: what ran before the agent started; `init_start_time`: when the first of them started.
    """

    taken_at: float
    path: str
    programs: tuple[InstalledProgram, ...]
    shells: tuple[ShellFile, ...]
    copies: dict[str, str]
    processes: tuple[int, ...]
    init_start_time: str
    preload: bool
    settings: tuple[SettingsFile, ...] = ()
    libraries: LibraryFiles = LibraryFiles()
    schema_version: Literal["proctor.environment_snapshot@1"] = "proctor.environment_snapshot@1"


async def take_snapshot(
    environment: Environment, names: tuple[str, ...], folder: Path, *, guard_settings: bool = False
) -> EnvironmentSnapshot:
    """Record in `folder`, on the host, what the words of a grader stand for in an environment that is still untouched.

    With `guard_settings`, also what its programs read before they start, and what its Python runs on.

    Raises:
        InfrastructureError: the environment does not have the shell and tools for that.
    """
    asked = await environment.exec(["/bin/sh", "-c", 'date +%s && printf %s "$PATH"'], cwd="/", timeout=60)
    clock, _, path = asked.stdout.decode("utf-8", "replace").partition("\n")
    if asked.exit_code != 0 or not clock.isdigit():
        raise InfrastructureError("the environment has no shell to inspect its programs with")
    found = await find_programs(environment, (*TOOLS, *names), search_path=path, path=path)
    missing = [tool for tool in TOOLS if tool not in found]
    if missing:
        raise InfrastructureError(
            f"the environment does not have {', '.join(missing)}, which grading in it needs",
            fix="use an image that has the coreutils",
        )
    copies = program_copies_dir(folder)
    copies.mkdir(parents=True)
    listed = await list_processes(environment, path)
    programs, shells = await _copy_programs(environment, found.values(), copies)
    snapshot = EnvironmentSnapshot(
        taken_at=float(clock),
        path=path,
        programs=tuple(found.values()),
        shells=shells,
        copies=programs,
        processes=tuple(sorted(listed.processes)),
        init_start_time=listed.init_start_time,
        preload=await read_small_file(environment, PRELOAD) is not None,
        settings=await record_settings(environment, guarded_programs(names), path=path) if guard_settings else (),
        libraries=await list_libraries(environment, path=path) if guard_settings else LibraryFiles(),
    )
    (folder / _RECORD).write_bytes(to_json(snapshot))
    return snapshot


def load_snapshot(folder: Path) -> EnvironmentSnapshot:
    """What `take_snapshot` recorded there.

    Raises:
        InvalidData: nothing was.
    """
    return read_record(folder / _RECORD, EnvironmentSnapshot)


def program_copies_dir(folder: Path) -> Path:
    """Where the copies of programs lie, by their digests."""
    return folder / _COPIES


async def inspect_shell(environment: Environment, shell: str, copies: Path) -> ShellFile | None:
    """Follow the links from `shell` to a file, without running anything in there; None: there is no such shell."""
    chain, path = [shell], shell
    for _ in range(_MAX_LINKS):
        with tempfile.TemporaryDirectory(dir=copies) as scratch:
            target = Path(scratch) / "it"
            try:
                await environment.get(path, target, max_bytes=_MAX_BYTES)
            except (FileNotFoundError, LimitReached):
                return None
            if target.is_symlink():
                path = posixpath.normpath(posixpath.join(posixpath.dirname(path), os.fspath(target.readlink())))
                chain.append(path)
                continue
            if not target.is_file():
                return None
            digest = hashlib.sha256(target.read_bytes()).hexdigest()
            kept = copies / digest
            target.replace(kept)
            return ShellFile(chain=tuple(chain), sha256=digest, copy=kept.name)
    return None


async def read_small_file(environment: Environment, path: str) -> bytes | None:
    """A small file's bytes, without running anything in the environment; None: there is none that could be read."""
    with tempfile.TemporaryDirectory() as scratch:
        target = Path(scratch) / "it"
        try:
            await environment.get(path, target, max_bytes=_MAX_BYTES)
        except (FileNotFoundError, LimitReached):
            return None
        return target.read_bytes() if target.is_file() and not target.is_symlink() else None


def parse_shells(text: str) -> tuple[ShellState, ...]:
    """What `SHOW_SHELLS` has printed."""
    return tuple(_parse_shell(block.splitlines()) for block in text.split("=shell ")[1:])


def _parse_shell(lines: list[str]) -> ShellState:
    *chain, last = lines
    if last.endswith("  -"):
        return ShellState(chain=tuple(map(posixpath.normpath, chain)), sha256=last.partition(" ")[0])
    return ShellState(chain=tuple(map(posixpath.normpath, lines)), sha256="")


async def _copy_programs(
    environment: Environment, programs: Iterable[InstalledProgram], copies: Path
) -> tuple[dict[str, str], tuple[ShellFile, ...]]:
    """Copies of the tools that are brought back, by name, and of the shells."""
    wanted = [
        program
        for program in programs
        if program.kind == "binary" and (program.name in TRUSTED_TOOLS or INTERPRETERS.fullmatch(program.name))
    ]
    files = dict.fromkeys((program.sha256, program.real_path) for program in wanted)
    staged = f"/run/proctor-{secrets.token_hex(8)}"
    words = [staged, *(word for pair in files for word in pair)]
    done = await environment.exec(["/bin/sh", "-c", _STAGE, "sh", *words], cwd="/", timeout=120)
    if done.exit_code != 0:
        raise InfrastructureError("the environment's programs cannot be copied")
    await environment.get(staged, copies / "staged", max_bytes=_MAX_BYTES * 10)
    await environment.exec(["rm", "-rf", staged], cwd="/", timeout=60)
    shells = []
    for shell in parse_shells(done.stdout.decode("utf-8", "replace")):
        copy = copies / "staged" / posixpath.basename(shell.chain[0])
        if shell.sha256 and copy.stat().st_size <= _MAX_BYTES:
            shells.append(ShellFile(chain=shell.chain, sha256=shell.sha256, copy=copy.relative_to(copies).as_posix()))
    kept = {}
    for program in wanted:
        copy = copies / "staged" / program.sha256
        if copy.stat().st_size <= _MAX_BYTES:
            kept[program.name] = copy.relative_to(copies).as_posix()
    return kept, tuple(shells)
