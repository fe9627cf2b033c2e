"""The base of agents whose program is one native file, made by Bun from JavaScript, from an npm package."""

from typing import ClassVar, Final, Literal

from proctor.agents.file_hiding import FileHidingAgent
from proctor.agents.program_agent import MountedProgram, package_version
from proctor.core.agent import AgentRequest

# Otherwise Bun itself may load the `bunfig.toml` of the repository, which can name code to be run, and its `.env`.
_NOTHING_OF_THE_REPOSITORY: Final = ("--config=/dev/null", "--env-file=/dev/null")


class BunAgent(FileHidingAgent):
    """Works on a task in one run of a native program that Bun has made.

    Attributes:
        preload_variable: in which Bun is told to load modules first. A program that was made with options of its own
            ignores the usual one, and the other takes one module only; such programs load nothing else by themselves.
        native_patterns: where npm puts the program of each platform, seen from a folder above the launcher.
    """

    preload_variable: ClassVar[Literal["BUN_OPTIONS", "BUN_INSPECT_PRELOAD"]] = "BUN_OPTIONS"
    native_patterns: ClassVar[tuple[str, ...]]

    def find_program(self) -> MountedProgram:
        """The native program, which is one file, and the modules."""
        native = self.find_native(self.native_patterns)
        return MountedProgram(path=native, root=native, companions=self.modules())

    def versions(self) -> dict[str, str]:
        """The version of the program on this machine."""
        known = package_version(self.find_program().path)
        return super().versions() if known is None else {self.name: known}

    def variables(self, request: AgentRequest, url: str) -> dict[str, str]:
        """What is hidden; Bun loads the modules, which take these variables away from what the program starts."""
        paths = self.module_paths(self.find_program())
        if self.preload_variable == "BUN_OPTIONS":
            words = [*_NOTHING_OF_THE_REPOSITORY, *(f"--preload={path}" for path in paths)]
        else:
            words = paths
        return {
            **super().variables(request, url),
            self.preload_variable: " ".join(words),
            # Tried as Bun itself it says at once whether it runs.
            "AGENT_PROBE": "BUN_BE_BUN=1",
        }
