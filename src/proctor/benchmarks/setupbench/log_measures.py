"""The SetupBench paper's measures of an agent's logs: wasted steps, and why a set-up failed.

Pure functions over what an agent did, as far as its log shows it (arXiv:2507.09063, section 4 and tables 3 and 4).
"""

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final, Literal

from msgspec import field

from proctor.benchmarks.setupbench.verdict_rule import SetupBenchEvidence
from proctor.core.benchmark import AttemptLogs
from proctor.core.errors import InvalidData
from proctor.core.formatting import truncate_line
from proctor.core.record import Record, read_record
from proctor.core.submission import PatchKind
from proctor.core.trajectory import LogMeasure, Step, ToolCall
from proctor.results.attempt_record import SUBMISSION_FILES

ActionKind = Literal["command", "read", "edit", "list", "other"]
# The paper leaves the first three steps out: every agent looks around.
_SKIPPED_STEPS: Final = 3
_TOOLS: Final[dict[str, tuple[ActionKind, str]]] = {
    "Bash": ("command", "command"),
    "Read": ("read", "file_path"),
    "NotebookRead": ("read", "notebook_path"),
    "Edit": ("edit", "file_path"),
    "MultiEdit": ("edit", "file_path"),
    "Write": ("edit", "file_path"),
    "LS": ("list", "path"),
    "Glob": ("list", "pattern"),
    "Grep": ("list", "pattern"),
}
_READ_COMMANDS: Final = frozenset({"cat", "head", "less", "more", "sed", "tail"})
_LIST_COMMANDS: Final = frozenset({"find", "ls", "tree"})
_WAIT_COMMANDS: Final = frozenset({"jobs", "kill", "killall", "pgrep", "pkill", "ps", "sleep", "wait"})
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
_SHELL_SESSION_ONLY: Final = re.compile(
    r"\bnvm\b|\bpyenv\b|\bconda\b|\bvirtualenv\b|-m venv\b|\bsource\b|^\s*export PATH|\.bashrc|\.profile|\.cargo/env|"
    r"rustup"
)
_PORT: Final = re.compile(r"(?:\bPORT=|--port[= ]|-p |listen\s+|port:?\s+)(\d{2,5})\b", re.IGNORECASE)
_CONNECTION_REFUSED: Final = re.compile(
    r"connection refused|could not connect|failed to connect|can't connect", re.IGNORECASE
)


class SetupAction(Record):
    """One thing that an agent did: ran a command, read, edited or listed files, or something else."""

    kind: ActionKind
    text: str


class WasteCause(StrEnum):
    """Why a step was one that a person would not have needed."""

    REREAD = "reread"  # a file that had been read before
    SUDO = "sudo"  # asking for rights that it has
    CHECKED = "checked"  # whether something is there, on a bare machine
    OFF_TARGET = "off_target"  # a file that cannot help


class SetupWaste(Record):
    """The steps of one trial.

    Attributes:
        steps: those that count: neither thinking, nor waiting, nor the first three.
        reads: files read; `listings`: folders listed.
        causes: steps that were not needed, by cause, as far as the log shows.
    """

    steps: int
    reads: int
    listings: int
    causes: dict[str, int] = field(default_factory=dict)

    @property
    def wasted(self) -> int:
        """How many steps have a cause."""
        return sum(self.causes.values())


class SetupFailureMode(StrEnum):
    """Why a set-up failed."""

    TEST_TOOLS_MISSING = "test_tools_missing"
    NOT_PERSISTENT = "not_persistent"
    INVENTED_CONSTRAINT = "invented_constraint"
    SERVICE_DOWN = "service_down"
    UNKNOWN = "unknown"


class SetupFailure(Record):
    """A failure mode, and what it was seen by."""

    mode: SetupFailureMode
    evidence: str


def measure_setups(attempts: Iterable[AttemptLogs]) -> tuple[LogMeasure, ...]:
    """Why set-ups failed, and which steps were wasted, over the attempts of a run."""
    failures: Counter[str] = Counter()
    waste: Counter[str] = Counter()
    steps = 0
    for attempt in attempts:
        try:
            evidence = read_record(attempt.folder / SUBMISSION_FILES[PatchKind.STATE], SetupBenchEvidence)
        except InvalidData:
            continue  # there is no submission, or none that can be read
        actions = actions_of(attempt.steps)
        spent = count_waste(actions)
        steps += spent.steps
        waste.update(spent.causes)
        if not attempt.resolved:
            ran = evidence.official_run
            failures[setup_failure(ran.stdout + ran.stderr, actions).mode.value] += 1
    measures = []
    if failures:
        measures.append(LogMeasure(name="failed set-ups", counts=dict(failures)))
    if steps:
        measures.append(LogMeasure(name="wasted steps", counts=dict(waste), total=steps))
    return tuple(measures)


def actions_of(steps: Iterable[Step]) -> tuple[SetupAction, ...]:
    """The actions in a trajectory."""
    return tuple(_action_of(call) for step in steps for call in step.calls)


def count_waste(actions: Sequence[SetupAction]) -> SetupWaste:
    """Which steps of a trial were not needed, as far as the steps alone show."""
    counted = [action for action in actions if not _is_waiting(action)][_SKIPPED_STEPS:]
    seen: set[str] = set()
    for action in actions[:_SKIPPED_STEPS]:
        seen.update(files_read(action))
    causes: Counter[str] = Counter()
    reads = looks = 0
    for action in counted:
        files = files_read(action)
        reads += len(files)
        looks += _is_listing(action)
        cause = _cause(action, files, seen)
        if cause is not None:
            causes[cause.value] += 1
        seen.update(files)
    return SetupWaste(steps=len(counted), reads=reads, listings=looks, causes=dict(sorted(causes.items())))


def setup_failure(output: str, actions: Sequence[SetupAction]) -> SetupFailure:
    """Why a set-up failed: from what the grader's command printed, and from what the agent had done before."""
    commands = [action.text for action in actions if action.kind == "command"]
    if match := _NOT_FOUND.search(output):
        tool = match["tool"] or match["module"] or match["exec"] or ""
        for command in commands:
            if tool and tool in command and _SHELL_SESSION_ONLY.search(command):
                return SetupFailure(mode=SetupFailureMode.NOT_PERSISTENT, evidence=truncate_line(command))
        installed = any(tool and tool in command and _INSTALL.search(command) for command in commands)
        shells = [command for command in commands if _SHELL_SESSION_ONLY.search(command)]
        if installed and shells:
            return SetupFailure(mode=SetupFailureMode.NOT_PERSISTENT, evidence=truncate_line(shells[-1]))
        return SetupFailure(mode=SetupFailureMode.TEST_TOOLS_MISSING, evidence=truncate_line(match[0].strip(": ")))
    if _CONNECTION_REFUSED.search(output):
        chosen = [command for command in commands if _PORT.search(command)]
        if chosen:
            return SetupFailure(mode=SetupFailureMode.INVENTED_CONSTRAINT, evidence=truncate_line(chosen[-1]))
        return SetupFailure(mode=SetupFailureMode.SERVICE_DOWN, evidence=truncate_line(output))
    return SetupFailure(mode=SetupFailureMode.UNKNOWN, evidence=truncate_line(output))


def files_read(action: SetupAction) -> tuple[str, ...]:
    """The files that an action shows: by a reading tool, or by a command that prints them."""
    if action.kind == "read":
        return (action.text,)
    if action.kind != "command":
        return ()
    found = []
    for part in re.split(r"&&|\|\||;|\|", action.text):
        words = _split_command(part)
        if words and words[0] in _READ_COMMANDS:
            found += [word for word in words[1:] if not word.startswith(("-", "'")) and ("." in word or "/" in word)]
    return tuple(found)


def _cause(action: SetupAction, files: Sequence[str], seen: set[str]) -> WasteCause | None:
    words = _split_command(action.text) if action.kind == "command" else []
    if "sudo" in words:
        return WasteCause.SUDO
    if words and _CHECK.search(action.text.strip()):
        return WasteCause.CHECKED
    if files and all(_OFF_TARGET.search(file) for file in files):
        return WasteCause.OFF_TARGET
    if files and all(file in seen for file in files):
        return WasteCause.REREAD
    return None


def _is_waiting(action: SetupAction) -> bool:
    if action.kind == "other":
        return True
    words = _split_command(action.text) if action.kind == "command" else []
    return bool(words) and words[0] in _WAIT_COMMANDS


def _is_listing(action: SetupAction) -> bool:
    words = _split_command(action.text) if action.kind == "command" else []
    return action.kind == "list" or bool(words and words[0] in _LIST_COMMANDS)


def _split_command(command: str) -> list[str]:
    try:
        return shlex.split(command, comments=True)
    except ValueError:
        return command.split()


def _action_of(call: ToolCall) -> SetupAction:
    kind, argument = _TOOLS.get(call.name, ("other", ""))
    return SetupAction(kind=kind, text=str(call.arguments.get(argument, "")))
