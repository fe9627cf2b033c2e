"""The Pythons on this machine."""

import functools
import os
import re
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from proctor.core.record import Record

_PROGRAM: Final = re.compile(r"python(\d\.\d+)")
_ASK: Final = "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2]); print(sys.base_prefix)"


class Interpreter(Record):
    """A Python that can make virtual environments."""

    program: str
    version: str
    prefix: str

    @property
    def number(self) -> tuple[int, ...]:
        """Its version, to be compared."""
        return number(self.version)


def number(version: str) -> tuple[int, ...]:
    """A version, to be compared."""
    return tuple(int(part) for part in version.split("."))


def choose(wanted: str, there: Iterable[Interpreter]) -> Interpreter | None:
    """The one of this version; without it the next newer one, which runs most of what was written for the older."""
    fit = [one for one in there if one.number >= number(wanted) and one.number[0] == number(wanted)[0]]
    return min(fit, key=lambda one: one.number, default=None)


@functools.cache
def interpreters() -> tuple[Interpreter, ...]:
    """Those of this machine, one of each version: on PATH, and where pyenv, uv and conda keep theirs."""
    found: dict[str, Interpreter] = {}
    for program in _programs():
        match = _PROGRAM.fullmatch(program.name)
        if match is None or match[1] in found:
            continue
        one = _asked(program)
        if one is not None:
            found.setdefault(one.version, one)
    return tuple(sorted(found.values(), key=lambda one: one.number))


def _programs() -> Iterator[Path]:
    home = Path.home()
    roots = [Path(os.environ.get("PYENV_ROOT") or home / ".pyenv") / "versions", home / ".local/share/uv/python"]
    roots += [home / "miniconda3/envs", home / ".conda/envs", Path("/opt/python")]
    for root in roots:
        # The newest of each version first.
        for folder in sorted(root.glob("*"), key=lambda path: [int(n) for n in re.findall(r"\d+", path.name)])[::-1]:
            yield from sorted((folder / "bin").glob("python?.*"))
    for place in (*os.environ.get("PATH", "").split(os.pathsep), "/usr/local/bin", "/usr/bin"):
        if place and "/shims" not in place:
            yield from sorted(Path(place).glob("python?.*"))


def _asked(program: Path) -> Interpreter | None:
    """What a program says of itself; None when it does not run, or cannot make virtual environments."""
    try:
        done = subprocess.run(
            [program, "-I", "-c", _ASK], capture_output=True, text=True, timeout=30, check=False, env={"LANG": "C"}
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = done.stdout.split("\n")
    if done.returncode or len(lines) < 2:  # noqa: PLR2004 - what was asked for
        return None
    return Interpreter(program=str(program), version=lines[0], prefix=lines[1])
