"""How an agent went about setting a machine up: steps that a person would not have needed, and why it failed.

Pure functions over what an agent did, as far as its log shows it. The measures are those of the SetupBench paper
(arXiv:2507.09063, section 4 and tables 3 and 4).
"""

import json
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any, Final, Literal

from msgspec import field

from proctor.core.record import Record

# The paper leaves the first three steps out: everybody looks around.
_FIRST: Final = 3
_TOOLS: Final = {
    "Bash": ("command", "command"),
    "Read": ("read", "file_path"),
    "NotebookRead": ("read", "notebook_path"),
    "Edit": ("edit", "file_path"),
    "MultiEdit": ("edit", "file_path"),
    "Write": ("edit", "file_path"),
    "LS": ("look", "path"),
    "Glob": ("look", "pattern"),
    "Grep": ("look", "pattern"),
}
_READERS: Final = frozenset({"cat", "head", "less", "more", "sed", "tail"})
_LOOKERS: Final = frozenset({"find", "ls", "tree"})
_WAITERS: Final = frozenset({"jobs", "kill", "killall", "pgrep", "pkill", "ps", "sleep", "wait"})
_CHECK: Final = re.compile(r"^(?:which|type|command -v|dpkg -[lsL]|whereis)\b|(?:^|\s)(?:--version|-V)\s*$")
_OFF_TARGET: Final = re.compile(
    r"(?:^|/)(?:LICEN[CS]E|CHANGE(?:S|LOG)|AUTHORS|CODE_OF_CONDUCT|SECURITY|\.gitignore|\.editorconfig)[^/]*$"
    r"|\.(?:png|jpe?g|gif|svg|ico|lock|map|min\.js)$",
    re.IGNORECASE,
)
_INSTALL: Final = re.compile(
    r"\b(?:apt(?:-get)?|pip3?|npm|yarn|pnpm|gem|cargo|go|poetry|make)\b.*\b(?:install|add|ci|i)\b"
)
_NOT_FOUND: Final = re.compile(
    r"(?:^|[\s:])(?P<tool>[\w.+-]+): (?:command )?not found|No module named '?(?P<module>[\w.]+)|"
    r"can't open file|exec: \"?(?P<exec>[\w.+-]+)\"?: executable file not found"
)
_OF_THIS_SHELL: Final = re.compile(
    r"\bnvm\b|\bpyenv\b|\bconda\b|\bvirtualenv\b|-m venv\b|\bsource\b|^\s*export PATH|\.bashrc|\.profile|\.cargo/env|"
    r"rustup"
)
_PORT: Final = re.compile(r"(?:\bPORT=|--port[= ]|-p |listen\s+|port:?\s+)(\d{2,5})\b", re.IGNORECASE)
_REFUSED: Final = re.compile(r"connection refused|could not connect|failed to connect|can't connect", re.IGNORECASE)


class Action(Record):
    """One thing that an agent did: ran a command, read, edited or looked for files, or something else."""

    kind: Literal["command", "read", "edit", "look", "other"]
    text: str


class Cause(StrEnum):
    """Why a step was one that a person would not have needed."""

    REREAD = "reread"  # a file that had been read before
    SUDO = "sudo"  # asking for rights that it was told it has
    CHECKED = "checked"  # whether something is there, on a machine that it was told is bare
    OFF_TARGET = "off_target"  # a file that cannot help


class Waste(Record):
    """The steps of one answer.

    Attributes:
        steps: those that count: neither thinking, nor waiting, nor the first three.
        reads: files read; `looks`: folders looked at.
        causes: steps that were not needed, by cause, as far as the log shows.
    """

    steps: int
    reads: int
    looks: int
    causes: dict[str, int] = field(default_factory=dict)

    @property
    def wasted(self) -> int:
        """How many steps have a cause."""
        return sum(self.causes.values())


class FailureMode(StrEnum):
    """Why a set-up failed."""

    TEST_TOOLS_MISSING = "test_tools_missing"
    NOT_PERSISTENT = "not_persistent"
    INVENTED_CONSTRAINT = "invented_constraint"
    SERVICE_DOWN = "service_down"
    UNKNOWN = "unknown"


class Failure(Record):
    """A failure mode, and what it was seen by."""

    mode: FailureMode
    evidence: str


def actions_of(lines: Iterable[str]) -> tuple[Action, ...]:
    """The actions in a log of Claude Code's stream; lines that are none of its are passed over."""
    return tuple(action for line in lines for action in _actions_in(line))


def waste(actions: Sequence[Action]) -> Waste:
    """Which steps of an answer were not needed, as far as can be told from them alone."""
    counted = [action for action in actions if not _is_waiting(action)][_FIRST:]
    seen: set[str] = set()
    for action in actions[:_FIRST]:
        seen.update(files_read(action))
    causes: Counter[str] = Counter()
    reads = looks = 0
    for action in counted:
        files = files_read(action)
        reads += len(files)
        looks += _is_look(action)
        cause = _cause(action, files, seen)
        if cause is not None:
            causes[cause.value] += 1
        seen.update(files)
    return Waste(steps=len(counted), reads=reads, looks=looks, causes=dict(sorted(causes.items())))


def optimal_steps(check_dir: int, read_file: int) -> int:
    """How many steps an agent needs for what a person did: one look at a folder takes two, a file read one."""
    return 2 * check_dir + read_file


def waste_rate(answers: Iterable[tuple[int, int]]) -> float | None:
    """The paper's share of wasted steps, over pairs of steps taken and steps needed.

    What one answer saves does not make up for what another wastes: each is cut off at nothing wasted.
    """
    pairs = list(answers)
    taken = sum(steps for steps, _ in pairs)
    return sum(max(0, steps - needed) for steps, needed in pairs) / taken if taken else None


def failure_mode(said: str, actions: Sequence[Action]) -> Failure:
    """Why a set-up failed: from what the grader's command printed, and from what the agent had done before."""
    commands = [action.text for action in actions if action.kind == "command"]
    if match := _NOT_FOUND.search(said):
        tool = match["tool"] or match["module"] or match["exec"] or ""
        for command in commands:
            if tool and tool in command and _OF_THIS_SHELL.search(command):
                return Failure(mode=FailureMode.NOT_PERSISTENT, evidence=_short(command))
        installed = any(tool and tool in command and _INSTALL.search(command) for command in commands)
        shells = [command for command in commands if _OF_THIS_SHELL.search(command)]
        if installed and shells:
            return Failure(mode=FailureMode.NOT_PERSISTENT, evidence=_short(shells[-1]))
        return Failure(mode=FailureMode.TEST_TOOLS_MISSING, evidence=_short(match[0].strip(": ")))
    if _REFUSED.search(said):
        chosen = [command for command in commands if _PORT.search(command)]
        if chosen:
            return Failure(mode=FailureMode.INVENTED_CONSTRAINT, evidence=_short(chosen[-1]))
        return Failure(mode=FailureMode.SERVICE_DOWN, evidence=_short(said))
    return Failure(mode=FailureMode.UNKNOWN, evidence=_short(said))


def files_read(action: Action) -> tuple[str, ...]:
    """The files that an action shows: by a reading tool, or by a command that prints them."""
    if action.kind == "read":
        return (action.text,)
    if action.kind != "command":
        return ()
    found = []
    for part in re.split(r"&&|\|\||;|\|", action.text):
        words = _words(part)
        if words and words[0] in _READERS:
            found += [word for word in words[1:] if not word.startswith(("-", "'")) and ("." in word or "/" in word)]
    return tuple(found)


def _cause(action: Action, files: Sequence[str], seen: set[str]) -> Cause | None:
    words = _words(action.text) if action.kind == "command" else []
    if "sudo" in words:
        return Cause.SUDO
    if words and _CHECK.search(action.text.strip()):
        return Cause.CHECKED
    if files and all(_OFF_TARGET.search(file) for file in files):
        return Cause.OFF_TARGET
    if files and all(file in seen for file in files):
        return Cause.REREAD
    return None


def _is_waiting(action: Action) -> bool:
    if action.kind == "other":
        return True
    words = _words(action.text) if action.kind == "command" else []
    return bool(words) and words[0] in _WAITERS


def _is_look(action: Action) -> bool:
    words = _words(action.text) if action.kind == "command" else []
    return action.kind == "look" or bool(words and words[0] in _LOOKERS)


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command, comments=True)
    except ValueError:
        return command.split()


def _actions_in(line: str) -> Iterable[Action]:
    try:
        event: Any = json.loads(line)
        blocks = event["message"]["content"] if event["type"] == "assistant" else []
        calls = [block for block in blocks if block["type"] == "tool_use"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return
    for call in calls:
        kind, argument = _TOOLS.get(str(call.get("name")), ("other", ""))
        given = call.get("input")
        text = given.get(argument, "") if isinstance(given, dict) else ""
        yield Action(kind=kind, text=str(text))  # type: ignore[arg-type]


def _short(text: str) -> str:
    return " ".join(text.split())[:200]
