"""The base of agents whose program is written in Python and installed in a virtual environment.

Such an environment runs in one place only: its interpreter is a link to another, and its scripts name it by its path.
So the interpreter, its library and the environment's packages are mounted one by one, and a few lines of Python put
them together.
"""

import functools
from abc import abstractmethod
from pathlib import Path
from typing import ClassVar, Final

import msgspec

from proctor.agents.program_agent import MountedProgram, ProgramAgent
from proctor.core.agent import AgentRequest
from proctor.core.errors import InfrastructureError
from proctor.core.files import cache_root
from proctor.core.programs import first_line
from proctor.core.record import Record

_HOME: Final = "python"
_LIBRARIES: Final = "libraries"
_PACKAGE: Final = Path(__file__).resolve().parents[1]
_DESCRIBE: Final = """
import importlib.metadata, json, os, sys, sysconfig
names = "LIBDIR", "INSTSONAME", "Py_ENABLE_SHARED"
folder, library, shared = map(sysconfig.get_config_var, names)
print(json.dumps({
    "executable": os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable),
    "prefix": os.path.realpath(sys.base_prefix),
    "stdlib": os.path.realpath(sysconfig.get_path("stdlib")),
    "packages": os.path.realpath(sysconfig.get_path("purelib")),
    "binary_packages": os.path.realpath(sysconfig.get_path("platlib")),
    "library": os.path.realpath(os.path.join(folder, library)) if shared and folder and library else None,
    "library_name": library,
    "version": importlib.metadata.version(sys.argv[1]),
}))
"""
# Arguments: how many folders with packages follow, the folders, then the program's.
_LAUNCHER: Final = """
import os, site, sys
if "AGENT_LIBRARIES" in os.environ:
    # Its own libraries are not those of the commands that it runs.
    os.environ["LD_LIBRARY_PATH"] = os.environ.pop("AGENT_LIBRARIES")
    if not os.environ["LD_LIBRARY_PATH"]:
        del os.environ["LD_LIBRARY_PATH"]
count = int(sys.argv[1])
for folder in sys.argv[2 : 2 + count]:
    site.addsitedir(folder)
sys.argv[1:] = sys.argv[2 + count :]
"""


class PythonInstallation(Record):
    """Where the parts of a Python program are, as its interpreter says.

    Attributes:
        executable: the interpreter itself, behind the links of virtual environments.
        library: the interpreter's shared library, where it has one.
        version: that of the program's package.
    """

    executable: str
    prefix: str
    stdlib: str
    packages: str
    binary_packages: str
    library: str | None
    library_name: str | None
    version: str


class PythonAgent(ProgramAgent):
    """An agent whose program is written in Python.

    Attributes:
        known_release: the release whose internals the launcher replaces, to keep the repository from steering the
            program; others are refused. None: it replaces none.
        launcher: Python code that runs the program; ``sys.argv`` is what `program_arguments` says.
    """

    python_package: ClassVar[str]
    known_release: ClassVar[str | None] = None
    launcher: ClassVar[str]

    @abstractmethod
    def program_arguments(self, request: AgentRequest) -> list[str]:
        """What the program is started with."""

    def find_program(self) -> MountedProgram:
        """The interpreter, its library, and the packages."""
        found = self._installation()
        packages = Path(found.packages)
        if holds_proctor(packages):
            raise InfrastructureError(
                f"{self.title} is installed together with Proctor, whose package holds the oracles of tasks",
                where=packages,
                fix=f"install it in an environment of its own: pipx install {self.python_package}",
            )
        executable, stdlib = Path(found.executable), Path(found.stdlib)
        library = str(stdlib.relative_to(found.prefix)) if stdlib.is_relative_to(found.prefix) else f"lib/{stdlib.name}"
        companions = {f"{_HOME}/bin/{executable.name}": executable, f"{_HOME}/{library}": stdlib}
        if (stdlib / "site-packages").is_dir():
            # The packages of the interpreter itself are nobody's business.
            companions[f"{_HOME}/{library}/site-packages"] = _empty_folder()
        if found.library is not None and Path(found.library).is_file():
            companions[f"{_LIBRARIES}/{found.library_name}"] = Path(found.library)
        if found.binary_packages != found.packages:
            companions["binary-packages"] = Path(found.binary_packages)
        return MountedProgram(path=packages, root=packages, companions=companions)

    def versions(self) -> dict[str, str]:
        """The version of the program's package."""
        return {self.name: self._installation().version}

    def executable(self, program: MountedProgram) -> str:
        """The interpreter."""
        name = next(name for name in program.companions if name.startswith(f"{_HOME}/bin/"))
        return self.companion_path(program, name)

    def variables(self, request: AgentRequest, url: str) -> dict[str, str]:
        """Where the interpreter's shared library is, which it may expect at a path of this machine."""
        libraries = [name for name in self.find_program().companions if name.startswith(f"{_LIBRARIES}/")]
        return {"AGENT_LIBRARIES": f"{self._target}-{_LIBRARIES}"} if libraries and not self._setup.in_place else {}

    def arguments(self, request: AgentRequest) -> list[str]:
        """The launcher, without anything that the environment says to interpreters, and the program's arguments."""
        program = self.find_program()
        folders = [str(program.path) if self._setup.in_place else program.path_in(self._target)]
        if "binary-packages" in program.companions:
            folders.append(self.companion_path(program, "binary-packages"))
        words = ["-I", "-S", "-B", "-c", _LAUNCHER + self.launcher]
        return [*words, str(len(folders)), *folders, *self.program_arguments(request)]

    def _installation(self) -> PythonInstallation:
        script = self.find_command()
        found = describe_installation(script, self.python_package)
        release = self.known_release
        if release is not None and not found.version.startswith(f"{release}."):
            raise InfrastructureError(
                f"this is {self.title} {found.version}, and only {release} can be kept from being steered by the "
                "task's repository",
                where=script,
                fix=f"pipx install '{self.python_package}=={release}.*'",
            )
        return found


def holds_proctor(folder: Path) -> bool:
    """Whether Proctor itself is installed in this folder."""
    return _PACKAGE.is_relative_to(folder.resolve())


def describe_installation(script: Path, distribution: str) -> PythonInstallation:
    """Where the parts of a program are that pip has installed.

    Raises:
        InfrastructureError: there is no interpreter beside it, or it does not have the package.
    """
    return _describe(script, script.stat().st_mtime_ns, distribution)


@functools.lru_cache
def _describe(script: Path, _changed: int, distribution: str) -> PythonInstallation:
    python = next((path for name in ("python3", "python") if (path := script.parent / name).exists()), None)
    if python is None:
        raise InfrastructureError(
            "there is no Python beside this program",
            where=script,
            fix=f"name the one in a virtual environment, or use pipx install {distribution}",
        )
    try:
        line = first_line([python, "-I", "-c", _DESCRIBE, distribution])
        return msgspec.json.decode(line, type=PythonInstallation)
    except (OSError, msgspec.DecodeError) as error:
        raise InfrastructureError(f"the Python of this program does not have it: {error}", where=script) from error


def _empty_folder() -> Path:
    folder = cache_root() / "agents" / "empty"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
