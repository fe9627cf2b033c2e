"""The base of agents whose program runs JavaScript, with Node or with Bun, and loads a module of ours first.

The module hides the files with which the task's repository would configure the program. The commands that the program
runs see them.
"""

import json
from pathlib import Path
from typing import ClassVar, Final

from proctor.agents.program_agent import MountedProgram, ProgramAgent
from proctor.core.agent import AgentRequest

INSIDE: Final = Path(__file__).parent / "inside"
HIDING: Final = INSIDE / "hide_project_files.cjs"
# For a program that takes its prompt as an argument only.
PROMPT_FROM_INPUT: Final = INSIDE / "prompt_from_input.cjs"
# For a program that reports to its makers, and has no switch for that.
BLOCK_HOSTS: Final = INSIDE / "block_hosts.cjs"


class FileHidingAgent(ProgramAgent):
    """Works on a task with files of the repository hidden from its program.

    Attributes:
        hidden_folders: of the repository, by name: nothing in them can be read by the program itself. Files that it
            looks for by reading them are here, too.
        hidden_files: of the repository, by name: the program does not find them by itself, and can read them.
        own_folder: the variable that names the program's own folder, in which nothing is hidden.
        prompt_option: what goes before the prompt, for a program that takes it as an argument only.
        blocked_hosts: which the program cannot reach, with all hosts below them; its commands can, where there is a
            network.
    """

    hidden_folders: ClassVar[tuple[str, ...]] = ()
    hidden_files: ClassVar[tuple[str, ...]] = ()
    own_folder: ClassVar[str]
    prompt_option: ClassVar[str | None] = None
    blocked_hosts: ClassVar[tuple[str, ...]] = ()

    def variables(self, request: AgentRequest, url: str) -> dict[str, str]:
        """What is hidden, for the modules."""
        hidden = {"folders": self.hidden_folders, "files": self.hidden_files, "own": self.own_folder}
        variables = {"AGENT_HIDDEN": json.dumps(hidden)}
        if self.prompt_option is not None:
            variables["AGENT_PROMPT_OPTION"] = self.prompt_option
        if self.blocked_hosts:
            variables["AGENT_BLOCKED_HOSTS"] = " ".join(self.blocked_hosts)
        return variables

    def modules(self) -> dict[str, Path]:
        """What is loaded before the program's own code, as companions of the program."""
        wanted = {PROMPT_FROM_INPUT: self.prompt_option is not None, BLOCK_HOSTS: bool(self.blocked_hosts)}
        found = [HIDING, *(path for path, is_wanted in wanted.items() if is_wanted)]
        return {path.name: path for path in found}

    def module_paths(self, program: MountedProgram) -> list[str]:
        """Where these are in the environment."""
        return [self.companion_path(program, name) for name in self.modules()]
