"""The languages that environments of suites are made with, as this machine has them: where they are, and what local
environments must show of them.
"""

import functools
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from proctor.benchmarks.python_envs import find_interpreter, hidden_site_packages
from proctor.core.causes import Cause
from proctor.core.environment import Mount
from proctor.core.errors import InfrastructureError
from proctor.core.record import Record
from proctor.environments.visibility import PATH, is_visible

_PROBE_SECONDS: Final = 30.0


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
    program = _program("node", version)
    return _of_prefix(f"node {_output(str(program), '--version')}", program.parent.parent)


def _go(version: str) -> Runtime:
    program = _program("go", version)
    root = Path(_output(str(program), "env", "GOROOT"))
    return _of_prefix(f"go {_output(str(program), 'env', 'GOVERSION')}", root)


def _rust(version: str) -> Runtime:
    program = _program("rustc", version)
    root = Path(_output(str(program), "--print", "sysroot"))
    return _of_prefix(f"rust {_output(str(root / 'bin' / 'rustc'), '--version')}", root)


def _java(version: str) -> Runtime:
    program = _program("java", version)
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


def _program(name: str, version: str) -> Path:
    found = shutil.which(name, path=search_path("/usr/local/go/bin", str(Path.home() / ".cargo/bin"))) or shutil.which(
        name
    )
    if found is None:
        raise InfrastructureError(
            f"it needs {name} ({version}), which is not on this machine",
            fix=f"install {name}, or use --runner docker",
            cause=Cause.NOT_RUNNABLE_HERE,
        )
    # rustup's programs are links to one that looks at the name by which it is called.
    return Path(found) if name == "rustc" else Path(found).resolve()


def _output(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=_PROBE_SECONDS, check=False)
    return done.stdout.strip()
