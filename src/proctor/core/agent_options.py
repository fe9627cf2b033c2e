"""What the agent of a run is given beside the task: prompts, tools, variables."""

import re
from pathlib import Path
from typing import Final

from msgspec import field

from proctor.core.errors import UsageError
from proctor.core.record import Record
from proctor.core.user_files import read_user_file

_VARIABLE_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TOOL: Final = re.compile(r"\s*([A-Za-z_][\w-]*(?:\([^()]*\))?)\s*(?:,|$)")


class AgentOptions(Record):
    """The same for every task of a run.

    Attributes:
        system_prompt: stands in the place of the program's own.
        append_system_prompt: stands behind the program's own.
        allowed_tools: those that the model is offered, or rules for them; none named: all of them.
        effort: how much the model is to think, in a word that the program knows; None: the program's own.
        env: environment variables for the agent's program.
    """

    system_prompt: str | None = None
    append_system_prompt: str | None = None
    allowed_tools: tuple[str, ...] = ()
    effort: str | None = None
    env: dict[str, str] = field(default_factory=dict)


def check_agent_options(agent_options: AgentOptions) -> None:
    """See that a program can be given these.

    Raises:
        UsageError: it cannot.
    """
    for name, prompt in (("", agent_options.system_prompt), ("appended ", agent_options.append_system_prompt)):
        if prompt is not None and not prompt.strip():
            raise UsageError(f"the {name}system prompt is empty", fix="leave it out to keep the program's own")
    for name, value in agent_options.env.items():
        if not _VARIABLE_NAME.fullmatch(name):
            raise UsageError(f"{name!r} is not the name of a variable")
        if "\0" in value:
            raise UsageError(f"the variable {name} holds a zero byte, which no environment can")


def read_prompt(text: str, folder: Path) -> str:
    """A prompt as it is given: the text itself, or ``@FILE``, from there on relative to `folder`.

    Raises:
        UsageError: the file cannot be read.
    """
    if not text.startswith("@"):
        return text
    return read_user_file(folder / Path(text[1:]).expanduser(), "the prompt")


def read_tools(text: str) -> tuple[str, ...]:
    """A list of tools, separated by commas: ``Bash(git *), Read``.

    Raises:
        UsageError: it is none.
    """
    found, at = [], 0
    while at < len(text):
        match = _TOOL.match(text, at)
        if match is None:
            raise UsageError(f"{text!r} is not a list of tools", fix="write it as Bash,Read or Bash(git *),Read")
        found.append(match[1])
        at = match.end()
    if not found:
        raise UsageError("the list of tools is empty", fix="leave it out to offer all of them")
    return tuple(found)
