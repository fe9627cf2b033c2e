"""The Python interpreters of this machine that can make virtual environments.

Search order: $PROCTOR_PYTHONS, the interpreter that runs Proctor, PATH, pyenv, uv, conda, the system's directories. The
first usable interpreter of each minor version is taken.
"""

import functools
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from proctor.core.causes import Cause
from proctor.core.environment import Mount
from proctor.core.errors import InfrastructureError
from proctor.core.record import Record
from proctor.environments.visibility import is_visible

PYTHONS_VARIABLE: Final = "PROCTOR_PYTHONS"
_PROGRAM: Final = re.compile(r"python(\d\.\d+)")
# A virtual environment's own Python is reported as the one that it was made from.
_PROBE: Final = (
    "import sys, venv, ensurepip; "
    "print('%d.%d' % sys.version_info[:2]); print(sys.base_prefix); print(getattr(sys, '_base_executable', ''))"
)
_PROBE_LINES: Final = 3
_PROBE_SECONDS: Final = 30.0


class Interpreter(Record):
    """A Python that can make virtual environments; `prefix` is the folder that holds all of it."""

    executable: str
    version: str
    prefix: str

    @property
    def version_tuple(self) -> tuple[int, ...]:
        """Its version, to be compared."""
        return _version_tuple(self.version)

    @property
    def mounts(self) -> tuple[Mount, ...]:
        """What a local environment must show besides its system for the interpreter to run."""
        return () if is_visible(Path(self.prefix)) else (Mount(source=self.prefix, target=self.prefix),)


def choose_interpreter(version: str, available: Iterable[Interpreter]) -> Interpreter | None:
    """The one of this version; without it the next newer one, which runs most of what was written for the older."""
    wanted = _version_tuple(version)
    fit = [one for one in available if one.version_tuple >= wanted and one.version_tuple[0] == wanted[0]]
    return min(fit, key=lambda one: one.version_tuple, default=None)


def find_interpreter(version: str) -> Interpreter:
    """The Python of exactly this minor version.

    Raises:
        InfrastructureError: this machine has none.
    """
    for one in find_interpreters():
        if one.version == version:
            return one
    raise InfrastructureError(
        f"it needs Python {version}, which is not on this machine",
        fix=f"install it (`uv python install {version}`, pyenv, or your system's packages), or use --runner docker",
        cause=Cause.NOT_RUNNABLE_HERE,
    )


@functools.cache
def find_interpreters() -> tuple[Interpreter, ...]:
    """All of this machine, one of each version, oldest first."""
    found: dict[str, Interpreter] = {}
    for program in _candidates():
        match = _PROGRAM.fullmatch(program.name)
        if match is not None and match[1] in found:
            continue
        one = _probe(program)
        if one is not None:
            found.setdefault(one.version, one)
    return tuple(sorted(found.values(), key=lambda one: one.version_tuple))


def hidden_site_packages(interpreter: Interpreter) -> tuple[str, ...]:
    """What is installed in the Pythons that a local environment shows, and the pip that they bring, with its copies of
    other packages: it may be the project, years later.
    """
    folders: dict[str, None] = {}
    for prefix in (interpreter.prefix, sys.base_prefix, "/usr", "/usr/local"):
        for form in ("lib/python*/site-packages", "lib/python*/dist-packages", "local/lib/python*/dist-packages"):
            folders |= dict.fromkeys(str(path.resolve()) for path in Path(prefix).glob(form))
    bundled = Path(interpreter.prefix, "lib", f"python{interpreter.version}", "ensurepip", "_bundled")
    return (*folders, *([str(bundled.resolve())] if bundled.is_dir() else []))


def _candidates() -> Iterator[Path]:
    for place in os.environ.get(PYTHONS_VARIABLE, "").split(os.pathsep):
        if place:
            yield from _programs_in(Path(place)) if Path(place).is_dir() else (Path(place),)
    yield Path(sys.executable)
    for place in os.environ.get("PATH", "").split(os.pathsep):
        if place and "/shims" not in place:
            yield from _programs_in(Path(place))
    for root in _version_roots():
        # The newest patch release of each version first.
        for folder in sorted(root.glob("*"), key=lambda path: [int(n) for n in re.findall(r"\d+", path.name)])[::-1]:
            yield from _programs_in(folder / "bin")
    for system in ("/usr/local/bin", "/usr/bin"):
        yield from _programs_in(Path(system))


def _version_roots() -> Iterator[Path]:
    """Folders with one folder per installed Python: those of pyenv, uv, conda, and manylinux images."""
    home = Path.home()
    yield Path(os.environ.get("PYENV_ROOT") or home / ".pyenv") / "versions"
    yield Path(os.environ.get("UV_PYTHON_INSTALL_DIR") or home / ".local/share/uv/python")
    yield from (home / "miniconda3/envs", home / ".conda/envs", Path("/opt/python"))


def _programs_in(folder: Path) -> Iterator[Path]:
    yield from (program for program in sorted(folder.glob("python?.*")) if _PROGRAM.fullmatch(program.name))


def _probe(program: Path) -> Interpreter | None:
    """What a program reports about itself; None when it does not run, or cannot make virtual environments."""
    try:
        done = subprocess.run(
            [program, "-I", "-c", _PROBE],
            capture_output=True,
            text=True,
            timeout=_PROBE_SECONDS,
            check=False,
            env={"LANG": "C"},
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = done.stdout.split("\n")
    if done.returncode or len(lines) < _PROBE_LINES:
        return None
    version, prefix, base = lines[:_PROBE_LINES]
    executable = Path(base or program).resolve()
    return Interpreter(executable=str(executable), version=version, prefix=str(Path(prefix).resolve()))


def _version_tuple(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
