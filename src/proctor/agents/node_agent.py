"""The base of agents whose program is a script for Node, from an npm package.

The program that environments are shown is Node itself, that of this machine; the package is beside it.
"""

import json
import re
from abc import abstractmethod
from pathlib import Path
from typing import ClassVar, Final

from proctor.agents.file_hiding import FileHidingAgent
from proctor.agents.program_agent import MountedProgram, package_version
from proctor.core.agent import AgentRequest
from proctor.core.errors import InfrastructureError
from proctor.core.programs import find_node, first_line, resolve_program

_MODULES: Final = "node_modules"
_NODE_SHEBANG: Final = re.compile(rb"#!.*\bnode\b")
_NODE_REMEDY: Final = "install Node from nodejs.org, or set NODE_BIN"


class NodeAgent(FileHidingAgent):
    """Works on a task in one run of a script.

    Attributes:
        node_version: the oldest Node that runs it.
    """

    node_version: ClassVar[tuple[int, int]]

    @abstractmethod
    def script_arguments(self, request: AgentRequest) -> list[str]:
        """What the script is started with; the instruction comes on its standard input."""

    def find_program(self) -> MountedProgram:
        """Node, and the package with all that it imports."""
        script = self._script()
        node = resolve_program(None, find_node, missing=f"{self.title} needs Node", fix=_NODE_REMEDY)
        package = _package_of(script)
        if package is None:
            raise InfrastructureError(f"this is not {self.title} from its npm package", where=script, fix=self.remedy)
        return MountedProgram(path=node, root=node, companions={_companion(package): package, **self.modules()})

    def versions(self) -> dict[str, str]:
        """The versions of the script and of Node, on this machine."""
        program, script = self.find_program(), self._script()
        try:
            node = first_line([program.path, "--version"])
        except OSError as error:
            raise InfrastructureError(f"Node does not run: {error}", where=program.path) from error
        if _version(node) < self.node_version:
            wanted = ".".join(str(number) for number in self.node_version)
            raise InfrastructureError(
                f"{self.title} needs Node {wanted} or newer, and this is {node}", where=program.path, fix=_NODE_REMEDY
            )
        if (known := package_version(script)) is not None:
            return {self.name: known, "node": node}
        return {self.name: self.ask_version(script, [program.path, script, "--version"]), "node": node}

    def arguments(self, request: AgentRequest) -> list[str]:
        """The script, with the modules in front of it."""
        program, script = self.find_program(), self._script()
        name, package = next(iter(program.companions.items()))
        inside = f"{self.companion_path(program, name)}/{script.relative_to(package)}"
        modules = [word for path in self.module_paths(program) for word in ("--require", path)]
        return [*modules, inside, *self.script_arguments(request)]

    def _script(self) -> Path:
        script = self.find_command()
        with script.open("rb") as file:
            if not _NODE_SHEBANG.match(file.readline(200)):
                raise InfrastructureError(
                    f"this is not {self.title} from its npm package, a script for Node", where=script, fix=self.remedy
                )
        return script


def _package_of(script: Path) -> Path | None:
    """The folder that has a script and all that it imports: its package's own, where that has what it depends on."""
    package = next((folder for folder in script.parents if (folder / "package.json").is_file()), None)
    if package is None:
        return None
    try:
        described = json.loads((package / "package.json").read_bytes())
    except (OSError, ValueError):
        return None
    if not described.get("dependencies") or (package / _MODULES).is_dir():
        return package
    # The outermost one: links in it lead to others in it.
    return next((folder for folder in reversed(script.parents) if folder.name == _MODULES), None)


def _companion(package: Path) -> str:
    """What is imported is looked for in folders of this name."""
    return f"package/{_MODULES}" if package.name == _MODULES else "package"


def _version(text: str) -> tuple[int, int]:
    found = re.match(r"v?(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else (0, 0)
