"""How to start the user's shell so that its prompt shows the sandbox, with the user's own start-up files read first."""

import os
import pwd
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from proctor.sandboxes.variables import SANDBOX_VARIABLE

_FILES: Final = Path(__file__).with_name("startup")
_FISH: Final = (
    "functions --copy fish_prompt proctor_inner_prompt; "
    f'function fish_prompt; echo -n "(${SANDBOX_VARIABLE}) "; proctor_inner_prompt; end'
)


def user_shell(environ: Mapping[str, str]) -> str:
    """The shell that this user likes."""
    return environ.get("SHELL") or pwd.getpwuid(os.getuid()).pw_shell or "/bin/sh"


def shell_command(shell: str, variables: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    """The command that starts `shell`, and its environment, given the sandbox's `variables`."""
    name = Path(shell).name
    if name == "bash":
        return [shell, "--rcfile", str(_FILES / "bashrc")], dict(variables)
    if name == "zsh":
        own = variables.get("ZDOTDIR") or variables.get("HOME") or str(Path.home())
        return [shell], {**variables, "ZDOTDIR": str(_FILES / "zsh"), "PROCTOR_ZDOTDIR": own}
    if name == "fish":
        return [shell, "--init-command", _FISH], dict(variables)
    prompt = "# " if os.geteuid() == 0 else "$ "
    return [shell], {**variables, "PS1": f"({variables[SANDBOX_VARIABLE]}) {prompt}"}
