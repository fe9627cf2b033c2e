"""The languages that environments of suites are made with, as this machine has them: where they are, and what local
environments must show of them.
"""

import functools
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

from proctor.benchmarks.python_envs import find_interpreter, hidden_site_packages
from proctor.core.causes import Cause
from proctor.core.environment import Mount
from proctor.core.errors import InfrastructureError
from proctor.core.record import Record
from proctor.environments.visibility import PATH, is_visible

ANY_VERSION: Final = "*"
_PROBE_SECONDS: Final = 30.0
# Where version managers keep Node, below the user's home.
_NODE_FOLDERS: Final = (".nvm/versions/node/*/bin/node", ".local/share/fnm/node-versions/*/installation/bin/node")


class Runtime(Record):
    """A language on this machine.

    Attributes:
        folders: of its programs, for PATH.
        hidden: paths that must not be seen beside it: packages of this machine, which may be what a task is about.
        identity: changes whenever what is installed for it must be installed anew.
    """

    identity: str
    mounts: tuple[Mount, ...] = ()
    folders: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    variables: tuple[tuple[str, str], ...] = ()


def find_runtimes(wanted: Mapping[str, str]) -> Runtime:
    """All of these languages in one.

    Raises:
        InfrastructureError: this machine does not have one of them.
    """
    found = [_find(name, version) for name, version in sorted(wanted.items())]
    return Runtime(
        identity=" ".join(one.identity for one in found),
        mounts=tuple(dict.fromkeys(mount for one in found for mount in one.mounts)),
        folders=tuple(dict.fromkeys(folder for one in found for folder in one.folders)),
        hidden=tuple(dict.fromkeys(path for one in found for path in one.hidden)),
        variables=tuple(pair for one in found for pair in one.variables),
    )


def search_path(*folders: str) -> str:
    """The value of PATH with these folders first."""
    return ":".join(dict.fromkeys((*folders, *PATH)))


@functools.cache
def _find(name: str, version: str) -> Runtime:
    if name not in _RUNTIMES:
        raise InfrastructureError(
            f"it needs {name}, which Proctor cannot show in local environments",
            fix=f"known are {', '.join(_RUNTIMES)}; or use --runner docker with an image that has it",
            cause=Cause.NOT_RUNNABLE_HERE,
        )
    return _RUNTIMES[name](version)


def _python(version: str) -> Runtime:
    interpreter = find_interpreter(version)
    return Runtime(
        identity=f"python {interpreter.executable} {interpreter.version}",
        mounts=interpreter.mounts,
        hidden=hidden_site_packages(interpreter),
        variables=(("PYTHON", interpreter.executable),),
    )


def _node(version: str) -> Runtime:
    managed = [path for pattern in _NODE_FOLDERS for path in sorted(Path.home().glob(pattern), reverse=True)]
    program = _program("node", version, ("--version",), managed)
    return _of_prefix(f"node {_output(str(program), '--version')}", program.parent.parent)


def _go(version: str) -> Runtime:
    program = _program("go", version, ("env", "GOVERSION"))
    root = Path(_output(str(program), "env", "GOROOT"))
    return _of_prefix(f"go {_output(str(program), 'env', 'GOVERSION')}", root)


def _rust(version: str) -> Runtime:
    program = _program("rustc", version, ("--version",))
    root = Path(_output(str(program), "--print", "sysroot"))
    return _of_prefix(f"rust {_output(str(root / 'bin' / 'rustc'), '--version')}", root)


def _java(version: str) -> Runtime:
    program = _program("java", version, ("--version",), sorted(Path("/usr/lib/jvm").glob("*/bin/java")))
    home = program.parent.parent
    made = _of_prefix(f"java {home}", home)
    return Runtime(
        identity=made.identity, mounts=made.mounts, folders=made.folders, variables=(("JAVA_HOME", str(home)),)
    )


_RUNTIMES: Final[dict[str, Callable[[str], Runtime]]] = {
    "python": _python,
    "node": _node,
    "go": _go,
    "rust": _rust,
    "java": _java,
}


def _of_prefix(identity: str, prefix: Path) -> Runtime:
    mounts = () if is_visible(prefix.resolve()) else (Mount(source=str(prefix), target=str(prefix)),)
    return Runtime(identity=identity, mounts=mounts, folders=(f"{prefix}/bin",))


def _program(name: str, version: str, asks_version: tuple[str, ...], others: Iterable[Path] = ()) -> Path:
    """A program of this machine that has this version: the one on the PATH, or one of `others`."""
    known = shutil.which(name, path=search_path("/usr/local/go/bin", str(Path.home() / ".cargo/bin")))
    found = list(dict.fromkeys(filter(None, (known, shutil.which(name), *map(str, others)))))
    for program in found:
        if version == ANY_VERSION or _is_version(_output(program, *asks_version), version):
            # rustup's programs are links to one that looks at the name by which it is called.
            return Path(program) if name == "rustc" else Path(program).resolve()
    there = f"; it has {_output(found[0], *asks_version).partition(chr(10))[0]}" if found else ""
    raise InfrastructureError(
        f"it needs {name}{'' if version == ANY_VERSION else f' {version}'}, which is not on this machine{there}",
        fix=f"install {name}, or use --runner docker",
        cause=Cause.NOT_RUNNABLE_HERE,
    )


def _is_version(printed: str, wanted: str) -> bool:
    """Whether what a program prints of its version begins with the numbers that are wanted."""
    found = re.search(r"\d+(?:\.\d+)*", printed)
    numbers = wanted.split(".")
    return found is not None and found[0].split(".")[: len(numbers)] == numbers


def _output(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=_PROBE_SECONDS, check=False)
    return done.stdout.strip()
