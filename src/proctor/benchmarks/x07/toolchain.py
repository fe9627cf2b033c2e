"""The x07 toolchain of this machine, and what an environment must see of it."""

from pathlib import Path
from typing import Final

from proctor.core.causes import Cause
from proctor.core.environment import Mount
from proctor.core.errors import InfrastructureError
from proctor.core.programs import ProgramLocation, find_program, first_line
from proctor.core.record import Record

LOCK_FILE: Final = "stdlib.lock"


class Toolchain(Record):
    """An x07 that was found: the program, and what an environment must see of it, at the same paths."""

    program: str
    mounts: tuple[Mount, ...]


def find_x07() -> ProgramLocation | None:
    """The x07 program, from X07_BIN or PATH."""
    return find_program("x07", variable="X07_BIN")


def x07_version() -> str | None:
    """The version of that program; None where there is none, or it does not run."""
    program = find_x07()
    try:
        return first_line([program.path, "--version"]).split()[-1] if program else None
    except OSError:
        return None


def find_toolchain() -> Toolchain:
    """The x07 of this machine.

    Raises:
        InfrastructureError: there is none.
    """
    found = find_x07()
    if found is None:
        raise InfrastructureError(
            "x07 was not found through X07_BIN or on PATH, and this task is graded by `x07 test`; "
            "install the x07 toolchain, or set X07_BIN to its program",
            cause=Cause.MISSING_PROGRAM,
        )
    return make_toolchain(found.path)


def make_toolchain(program: Path) -> Toolchain:
    """The toolchain of this program, with what an environment must see of it."""
    real = program.resolve()
    return Toolchain(program=str(real), mounts=x07_mounts(real))


def x07_mounts(program: Path) -> tuple[Mount, ...]:
    """What x07 needs around its program, read-only, at its own path.

    x07 looks for `stdlib.lock` above its program. Where x07up installed it, the program on PATH only passes the call
    on to one of several toolchains beside it. Of anything but an installed toolchain the environment sees the program
    and that file alone: x07's sources hold the oracles of its suites, and a home is private.
    """
    beside = program.parent.parent if program.parent.name == "bin" else program.parent
    if program.parent.name == "bin" and (beside / "toolchains").is_dir():
        return _mounts(beside)
    root = next((folder for folder in program.parents if (folder / LOCK_FILE).is_file()), None)
    if root is None:
        return _mounts(program)
    installed = root in {program.parent, beside} and not Path.home().is_relative_to(root)
    return _mounts(root) if installed else _mounts(program, root / LOCK_FILE)


def _mounts(*paths: Path) -> tuple[Mount, ...]:
    return tuple(Mount(source=str(path), target=str(path)) for path in paths)
