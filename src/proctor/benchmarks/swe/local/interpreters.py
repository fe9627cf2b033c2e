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
_PROBE: Final = "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2]); print(sys.base_prefix)"


class SweInterpreter(Record):
    """A Python that can make virtual environments."""

    executable: str
    version: str
    prefix: str

    @property
    def version_tuple(self) -> tuple[int, ...]:
        """Its version, to be compared."""
        return version_tuple(self.version)


def version_tuple(version: str) -> tuple[int, ...]:
    """A version, to be compared."""
    return tuple(int(part) for part in version.split("."))


def choose_interpreter(version: str, available: Iterable[SweInterpreter]) -> SweInterpreter | None:
    """The one of this version; without it the next newer one, which runs most of what was written for the older."""
    fit = [
        one
        for one in available
        if one.version_tuple >= version_tuple(version) and one.version_tuple[0] == version_tuple(version)[0]
    ]
    return min(fit, key=lambda one: one.version_tuple, default=None)


@functools.cache
def find_interpreters() -> tuple[SweInterpreter, ...]:
    """Those of this machine, one of each version: on PATH, and where pyenv, uv and conda keep theirs."""
    found: dict[str, SweInterpreter] = {}
    for program in _candidates():
        match = _PROGRAM.fullmatch(program.name)
        if match is None or match[1] in found:
            continue
        one = _probe(program)
        if one is not None:
            found.setdefault(one.version, one)
    return tuple(sorted(found.values(), key=lambda one: one.version_tuple))


def _candidates() -> Iterator[Path]:
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


def _probe(program: Path) -> SweInterpreter | None:
    """What a program says of itself; None when it does not run, or cannot make virtual environments."""
    try:
        done = subprocess.run(
            [program, "-I", "-c", _PROBE], capture_output=True, text=True, timeout=30, check=False, env={"LANG": "C"}
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = done.stdout.split("\n")
    if done.returncode or len(lines) < 2:  # noqa: PLR2004 - what was asked for
        return None
    return SweInterpreter(executable=str(program), version=lines[0], prefix=lines[1])
