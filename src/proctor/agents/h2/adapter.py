"""All that is particular to h2 0.3: its commands, its files, its words. Another version needs another of these."""

import json
import math
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from proctor.agents.h2.events import Doing, Event, Kind, Sent
from proctor.core.errors import InfrastructureError
from proctor.core.programs import first_line
from proctor.core.record import Record

OLDEST: Final = (0, 3)
NEWEST: Final = (0, 3)
MARKER: Final = ".h2-dir.txt"
# Where h2 looks for Claude Code's transcripts is where Claude Code puts them only for such a path.
MAPPABLE: Final = re.compile(r"/[A-Za-z0-9/-]+")
# More would not fit a socket's path, or would mean something to a glob or to a URL.
AGENT_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,39}")
SENDER: Final = "bench"
# A body of up to 300 bytes is typed, line ends and all; a longer one arrives as the path of a file.
_TYPED: Final = 300
_EXITED: Final = re.compile(r"child process exited(?: \(code (-?\d+)\)| with error)")
_SENT: Final = re.compile(r"(\d+(?:\.\d+)?)\S* (\S+) (\S+)")
_FRACTION: Final = re.compile(r"(\.\d{6})\d+")

# h2 starts `claude`, and all agents of a pod with the same environment. This gives each its own way to the model, and
# keeps the settings and servers of the task's repository out, as in baseline mode.
CLAUDE_SCRIPT: Final = """\
#!/bin/sh
export ANTHROPIC_BASE_URL="$PROCTOR_MODEL_URL/a/$H2_ACTOR"
exec "$PROCTOR_CLAUDE" --setting-sources user --strict-mcp-config "$@"
"""
# Writes down who sends to whom, which h2 does not; everything else is h2's own.
H2_SCRIPT: Final = """\
#!/bin/sh
[ "$1" = send ] || exec "$PROCTOR_H2" "$@"
"$PROCTOR_H2" "$@"
code=$?
[ "$code" = 0 ] || exit "$code"
shift
while [ $# -gt 0 ]; do
  case $1 in
    --priority | --file | --closes) [ $# -gt 1 ] && shift ;;
    -*) ;;
    *) printf '%s %s %s\\n' "$(date +%s.%N)" "${H2_ACTOR:-unknown}" "$1" >>"$H2_DIR/logs/sent.log"; break ;;
  esac
  shift
done
exit 0
"""

# What the scripts below print of a file begins with a line of its own, which nobody can guess: the mark, and what
# comes. A line end is added before each mark.
# Arguments: the home, a mark, and for each agent its name and how many of its events are known.
LOOK: Final = """
home=$1 mark=$2
shift 2
while [ $# -gt 1 ]; do
  session=$home/sessions/$1
  printf '\\n%s events %s\\n' "$mark" "$1"
  tail -n "+$(($2 + 1))" "$session/events.jsonl" 2>/dev/null | head -c 16000000
  printf '\\n%s log %s\\n' "$mark" "$1"
  tail -c 4000 "$session/daemon.stderr.log" 2>/dev/null
  printf '\\n%s unread %s\\n' "$mark" "$1"
  find "$home/messages/$1" -type f -newer "$session/events.jsonl" 2>/dev/null | head -n 1
  printf '\\n%s messages %s\\n' "$mark" "$1"
  find "$home/messages/$1" -type f 2>/dev/null | wc -l
  shift 2
done
printf '\\n%s end -\\n' "$mark"
"""
# Arguments: the home, a mark.
METADATA: Final = """
cd "$1/sessions" || exit 1
for session in */; do
  printf '\\n%s metadata %s\\n' "$2" "${session%/}"
  cat "$session/session.metadata.json" 2>/dev/null
done
printf '\\n%s end -\\n' "$2"
"""
# Why a daemon did not start stands in its log alone. Arguments: the home, a mark.
DAEMON_LOGS: Final = """
cd "$1/sessions" || exit 1
for session in */; do
  printf '\\n%s log %s\\n' "$2" "${session%/}"
  tail -c 1000 "$session/daemon.stderr.log" 2>/dev/null
done
printf '\\n%s end -\\n' "$2"
"""
# Sessions, messages, the activity log, Claude Code's transcripts, and what h2 noted about limits and logins.
HARVEST: Final = """
cd "$1" || exit 1
find sessions messages logs claude-config -type f 2>/dev/null | while IFS= read -r file; do
  case $file in
    sessions/* | messages/* | logs/* | claude-config/*/projects/*.jsonl) ;;
    claude-config/*/ratelimit.json | claude-config/*/autherror.json | claude-config/*/servererror.json) ;;
    *) continue ;;
  esac
  printf '\\n%s file %s\\n' "$2" "$file"
  head -c 20000000 "$file" 2>/dev/null
done
printf '\\n%s end -\\n' "$2"
"""
SOCKETS: Final = 'find "$1/sockets" -type s 2>/dev/null | head -n 20'

_DOING: Final = {
    ("initialized", ""): Doing.STARTING,
    ("active", "compacting"): Doing.COMPACTING,
    ("active", "permission_review"): Doing.ASKING,
    ("active", "blocked_on_permission"): Doing.BLOCKED,
    ("idle", ""): Doing.IDLE,
    ("idle", "usage_limit"): Doing.LIMITED,
    ("idle", "auth_error"): Doing.REFUSED,
    ("idle", "server_error"): Doing.FAILING,
    ("exited", ""): Doing.LEFT,
}
_STATES: Final = {
    "initialized": Doing.STARTING,
    "active": Doing.WORKING,
    "idle": Doing.IDLE,
    "exited": Doing.LEFT,
}
_KINDS: Final = {
    "user_prompt": Kind.PROMPT,
    "state_change": Kind.STATE,
    "tool_started": Kind.TOOL,
    "turn_completed": Kind.TURN,
    "agent_message": Kind.SAID,
    "session_ended": Kind.ENDED,
    "usage_limit_info": Kind.TROUBLE,
    # h2 has forgotten to name what it says about logins and servers.
    "": Kind.TROUBLE,
}


def h2_version(program: Path) -> str:
    """The version of h2, if it is one that this adapter knows.

    Raises:
        InfrastructureError: it does not run, or is too old or too new.
    """
    try:
        said = first_line([program, "version"])
        # Agents tell h2 what they do through this; without it all of them seem to be starting for ever.
        first_line([program, "handle-hook", "--help"])
    except OSError as error:
        raise InfrastructureError(f"h2 does not run: {error}", where=program) from error
    numbers = re.match(r"v?(\d+)\.(\d+)", said)
    if numbers is None:
        raise InfrastructureError(f"this does not say which version of h2 it is: {said!r}", where=program)
    version = int(numbers[1]), int(numbers[2])
    if version < OLDEST:
        raise InfrastructureError(
            f"h2 {said} is too old, Proctor knows {_shown(OLDEST)}", where=program, fix="build a newer h2"
        )
    if version > NEWEST:
        raise InfrastructureError(
            f"h2 {said} is too new, Proctor knows {_shown(NEWEST)}",
            where=program,
            fix=f"use h2 {_shown(NEWEST)}, or a newer Proctor",
        )
    return said


def _shown(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


def variables(home: str) -> dict[str, str]:
    """What tells h2 and all that it starts where it is at home, with nothing of an outer h2 or Claude Code."""
    return {"H2_DIR": home, "H2_ROOT_DIR": f"{home}/h2-root", "H2_ACTOR": SENDER}


def launch_command(template: str, given: Mapping[str, str]) -> list[str]:
    """Launches a pod from a template in the home; ends when every agent's daemon listens."""
    words = ["h2", "pod", "launch", template, "--detach"]
    for name, value in given.items():
        words += ["--var", f"{name}={value}"]
    return words


def status_command(agent: str) -> list[str]:
    """Asks an agent's daemon how it is. `h2 list` and `pod stop` give up on one whose git is slow; this waits."""
    return ["h2", "status", agent]


def stop_command(agent: str) -> list[str]:
    """Stops one agent. `pod stop` leaves out agents that take their time to answer, and says nothing."""
    return ["h2", "stop", agent]


def send_command(agent: str, file: str) -> list[str]:
    """Hands a file over as a message, once the agent is idle."""
    return ["h2", "send", agent, "--priority", "idle", "--file", file]


def enter_command(agent: str) -> list[str]:
    """Presses Enter on an agent's terminal; on an empty prompt that does nothing."""
    return ["h2", "send", "--raw", agent, ""]


def agent_of(socket: str) -> str:
    """Whose socket a path is."""
    return posixpath.basename(socket).removeprefix("agent.").removesuffix(".sock")


def as_message(text: str) -> bytes:
    """A text as a message body that is delivered as a file, however short it is."""
    data = text.encode("utf-8", "replace").rstrip() + b"\n"
    return data if len(data) > _TYPED else data + b" " * (_TYPED - len(data)) + b"\n"


def complaint(stderr: bytes) -> str:
    """What a failed command says, without the usage that comes with it."""
    lines = [line.strip() for line in stderr.decode("utf-8", "replace").splitlines() if line.strip()]
    clean = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    return (clean or lines or ["it said nothing"])[-1]


class Launched(Record):
    """One agent of a pod, as h2 has launched it."""

    name: str
    role: str
    index: int = 0


class _Metadata(msgspec.Struct):
    agent_name: str
    role: str = ""
    pod_index: int = 0


def read_launched(metadata: bytes) -> Launched | None:
    """An agent from its ``session.metadata.json``."""
    try:
        read = msgspec.json.decode(metadata, type=_Metadata)
    except msgspec.DecodeError:
        return None
    return Launched(name=read.agent_name, role=read.role, index=read.pod_index)


def lead_of(pod: Iterable[Launched]) -> str:
    """Who gets the task: the concierge, or the first of a pod that has none."""
    ordered = sorted(pod, key=lambda agent: agent.index)
    named = (agent.name for agent in ordered if "concierge" in {agent.name, agent.role})
    return next(named, ordered[0].name)


class Status(Record):
    """What an agent's daemon says about it."""

    doing: Doing
    queued: int = 0
    words: str = ""


class _Status(msgspec.Struct):
    state: str = ""
    sub_state: str = ""
    queued_count: int = 0
    blocked_on_permission: bool = False
    usage_limit_message: str = ""
    usage_limit_resets_at: str = ""
    auth_error_message: str = ""
    server_error_message: str = ""


def read_status(printed: bytes) -> Status | None:
    """What `status_command` printed; None when it is no status."""
    try:
        read = msgspec.json.decode(printed, type=_Status)
    except msgspec.DecodeError:
        return None
    doing = Doing.BLOCKED if read.blocked_on_permission else doing_of(read.state, read.sub_state)
    until = f" (until {read.usage_limit_resets_at})" if read.usage_limit_resets_at else ""
    words = {
        Doing.LIMITED: read.usage_limit_message + until,
        Doing.REFUSED: read.auth_error_message,
        Doing.FAILING: read.server_error_message,
    }
    return Status(doing=doing, queued=read.queued_count, words=words.get(doing, "").strip())


def nobody_listens(stderr: bytes) -> bool:
    """Whether a status could not be had because there is no daemon, rather than one that does not answer."""
    return b"cannot connect" in stderr


def doing_of(state: str, sub_state: str) -> Doing:
    """What a state of h2's means."""
    return _DOING.get((state, sub_state)) or _STATES.get(state, Doing.WORKING)


def read_events(lines: Iterable[bytes]) -> Iterator[Event]:
    """The events in lines of an ``events.jsonl``; what is no event is passed over."""
    for line in lines:
        try:
            read = json.loads(line)
            at = _time(read["timestamp"])
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
        data: dict[str, Any] = read["data"] if isinstance(read.get("data"), dict) else {}
        kind = _KINDS.get(str(read.get("type", "")), Kind.OTHER)
        doing = doing_of(str(data.get("state", "")), str(data.get("sub_state", ""))) if kind is Kind.STATE else None
        text = data.get("Content") if kind is Kind.SAID else data.get("Message")
        yield Event(at=at, kind=kind, doing=doing, text=text if isinstance(text, str) else "")


def read_sent(lines: Iterable[bytes]) -> Iterator[Sent]:
    """The messages in lines of what our own ``h2`` has written down: time, sender, receiver."""
    for line in lines:
        # Not every `date` knows parts of a second.
        found = _SENT.fullmatch(line.decode("utf-8", "replace").strip())
        if found is not None and found[2] != SENDER:
            yield Sent(at=float(found[1]), sender=found[2], to=found[3])


def exit_code_of(log: bytes) -> int | None:
    """With which code an agent's program has ended, from its daemon's log; None while it lives."""
    found = list(_EXITED.finditer(log.decode("utf-8", "replace")))
    if not found:
        return None
    return int(found[-1][1]) if found[-1][1] else 1


def _time(text: str) -> float:
    # Go writes nanoseconds; Python reads microseconds.
    at = datetime.fromisoformat(_FRACTION.sub(r"\1", text)).timestamp()
    return at if math.isfinite(at) else 0.0


def trusting(account: bytes | None, workdir: str, key: str) -> bytes:
    """A ``.claude.json`` with which Claude Code asks nothing at its start: not about this key, nor this folder."""
    document: dict[str, Any] = json.loads(account) if account else {}
    projects = document.setdefault("projects", {})
    trusted = {"hasCompletedProjectOnboarding": True, "hasTrustDialogAccepted": True}
    projects[workdir] = {**projects.get(workdir, {}), **trusted}
    approved = document.setdefault("customApiKeyResponses", {}).setdefault("approved", [])
    if key[-20:] not in approved:
        approved.append(key[-20:])
    return json.dumps(document, indent=2).encode() + b"\n"
