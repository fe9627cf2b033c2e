"""All that depends on h2 0.3: its commands, its files, its states. Another version needs another adapter."""

import json
import math
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from proctor.agents.h2.events import AgentActivity, PodEvent, PodEventKind, SentMessage
from proctor.core.errors import InfrastructureError
from proctor.core.programs import first_line
from proctor.core.record import Record
from proctor.sandboxes.first_run_dialogs import approve_key

OLDEST: Final = (0, 3)
NEWEST: Final = (0, 3)
# Where h2 looks for Claude Code's transcripts is where Claude Code puts them only for such a path.
SUPPORTED_WORKDIR: Final = re.compile(r"/[A-Za-z0-9/-]+")
# More would not fit a socket's path, or would mean something to a glob or to a URL.
AGENT_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,39}")
SENDER: Final = "bench"
# A body of up to 300 bytes is typed, line ends and all; a longer one arrives as the path of a file.
_MAX_TYPED_BYTES: Final = 300
_EXITED: Final = re.compile(r"child process exited(?: \(code (-?\d+)\)| with error)")
_SENT: Final = re.compile(r"(\d+(?:\.\d+)?)\S* (\S+) (\S+)")
_FRACTION: Final = re.compile(r"(\.\d{6})\d+")

# h2 starts `claude`, and all agents of a pod with the same environment. This gives each its own way to the model, and
# keeps the settings and servers of the task's repository out, as in baseline mode. So does it with the permission mode:
# an agent whose role names none, or that h2 has restarted, gets that of baseline mode.
CLAUDE_SCRIPT: Final = """\
#!/bin/sh
export ANTHROPIC_BASE_URL="$PROCTOR_MODEL_URL/a/$H2_ACTOR"
given=
for word in "$@"; do
  case $word in --permission-mode | --permission-mode=*) given=1 ;; esac
done
[ -n "$given" ] || set -- --permission-mode bypassPermissions "$@"
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
POLL_SCRIPT: Final = """
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
METADATA_SCRIPT: Final = """
cd "$1/sessions" || exit 1
for session in */; do
  printf '\\n%s metadata %s\\n' "$2" "${session%/}"
  cat "$session/session.metadata.json" 2>/dev/null
done
printf '\\n%s end -\\n' "$2"
"""
# Why a daemon did not start is only in its log. Arguments: the home, a mark.
DAEMON_LOGS_SCRIPT: Final = """
cd "$1/sessions" || exit 1
for session in */; do
  printf '\\n%s log %s\\n' "$2" "${session%/}"
  tail -c 1000 "$session/daemon.stderr.log" 2>/dev/null
done
printf '\\n%s end -\\n' "$2"
"""
# Sessions, messages, the activity log, Claude Code's transcripts, and h2's notes on limits and logins.
COLLECT_LOGS_SCRIPT: Final = """
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
LIST_SOCKETS_SCRIPT: Final = 'find "$1/sockets" -type s 2>/dev/null | head -n 20'

_SUBSTATE_ACTIVITIES: Final = {
    ("initialized", ""): AgentActivity.STARTING,
    ("active", "compacting"): AgentActivity.COMPACTING,
    ("active", "permission_review"): AgentActivity.AWAITING_PERMISSION,
    ("active", "blocked_on_permission"): AgentActivity.AWAITING_USER,
    ("idle", ""): AgentActivity.IDLE,
    ("idle", "usage_limit"): AgentActivity.RATE_LIMITED,
    ("idle", "auth_error"): AgentActivity.AUTH_ERROR,
    ("idle", "server_error"): AgentActivity.PROVIDER_ERROR,
    ("exited", ""): AgentActivity.EXITED,
}
_STATE_ACTIVITIES: Final = {
    "initialized": AgentActivity.STARTING,
    "active": AgentActivity.WORKING,
    "idle": AgentActivity.IDLE,
    "exited": AgentActivity.EXITED,
}
_KINDS: Final = {
    "user_prompt": PodEventKind.PROMPT,
    "state_change": PodEventKind.STATE,
    "tool_started": PodEventKind.TOOL,
    "turn_completed": PodEventKind.TURN,
    "agent_message": PodEventKind.MESSAGE,
    "session_ended": PodEventKind.SESSION_ENDED,
    "usage_limit_info": PodEventKind.ERROR,
    # h2 gives its events about logins and servers no type.
    "": PodEventKind.ERROR,
}


def h2_version(program: Path) -> str:
    """The version of h2, if it is one that this adapter knows.

    Raises:
        InfrastructureError: it does not run, or is too old or too new.
    """
    try:
        version_line = first_line([program, "version"])
        # Agents report their state to h2 through this; without it all of them seem to be starting for ever.
        first_line([program, "handle-hook", "--help"])
    except OSError as error:
        raise InfrastructureError(f"h2 does not run: {error}", where=program) from error
    numbers = re.match(r"v?(\d+)\.(\d+)", version_line)
    if numbers is None:
        raise InfrastructureError(f"this is not a version of h2: {version_line!r}", where=program)
    version = int(numbers[1]), int(numbers[2])
    if version < OLDEST:
        raise InfrastructureError(
            f"h2 {version_line} is too old, Proctor knows {_format_version(OLDEST)}",
            where=program,
            fix="build a newer h2",
        )
    if version > NEWEST:
        raise InfrastructureError(
            f"h2 {version_line} is too new, Proctor knows {_format_version(NEWEST)}",
            where=program,
            fix=f"use h2 {_format_version(NEWEST)}, or a newer Proctor",
        )
    return version_line


def _format_version(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


def variables(home: str) -> dict[str, str]:
    """The variables that set the home of h2 and of all that it starts, instead of those of an outer h2."""
    return {"H2_DIR": home, "H2_ROOT_DIR": f"{home}/h2-root", "H2_ACTOR": SENDER}


def launch_command(template: str, given: Mapping[str, str]) -> list[str]:
    """Launches a pod from a template in the home; ends when every agent's daemon listens."""
    words = ["h2", "pod", "launch", template, "--detach"]
    for name, value in given.items():
        words += ["--var", f"{name}={value}"]
    return words


def status_command(agent: str) -> list[str]:
    """Asks an agent's daemon for its status. `h2 list` and `pod stop` skip one whose git is slow; this waits."""
    return ["h2", "status", agent]


def stop_command(agent: str) -> list[str]:
    """Stops one agent. `pod stop` skips agents that respond slowly, without an error."""
    return ["h2", "stop", agent]


def send_command(agent: str, file: str) -> list[str]:
    """Sends a file as a message, once the agent is idle."""
    return ["h2", "send", agent, "--priority", "idle", "--file", file]


def enter_command(agent: str) -> list[str]:
    """Presses Enter on an agent's terminal; on an empty prompt that does nothing."""
    return ["h2", "send", "--raw", agent, ""]


def agent_of_socket(socket: str) -> str:
    """The agent that a socket belongs to."""
    return posixpath.basename(socket).removeprefix("agent.").removesuffix(".sock")


def as_message(text: str) -> bytes:
    """A text as a message body that is delivered as a file, however short it is."""
    data = text.encode("utf-8", "replace").rstrip() + b"\n"
    return data if len(data) > _MAX_TYPED_BYTES else data + b" " * (_MAX_TYPED_BYTES - len(data)) + b"\n"


def error_message(stderr: bytes) -> str:
    """The message of a failed command, without the usage text that comes with it."""
    lines = [line.strip() for line in stderr.decode("utf-8", "replace").splitlines() if line.strip()]
    clean = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    return (clean or lines or ["it printed nothing"])[-1]


class LaunchedAgent(Record):
    """One agent of a pod, as h2 has launched it."""

    name: str
    role: str
    index: int = 0


class _SessionMetadata(msgspec.Struct):
    agent_name: str
    role: str = ""
    pod_index: int = 0


def read_session_metadata(metadata: bytes) -> LaunchedAgent | None:
    """An agent from its ``session.metadata.json``."""
    try:
        read = msgspec.json.decode(metadata, type=_SessionMetadata)
    except msgspec.DecodeError:
        return None
    return LaunchedAgent(name=read.agent_name, role=read.role, index=read.pod_index)


def lead_of(pod: Iterable[LaunchedAgent]) -> str:
    """The agent that gets the task: the concierge, or the first of a pod that has none."""
    ordered = sorted(pod, key=lambda agent: agent.index)
    named = (agent.name for agent in ordered if "concierge" in {agent.name, agent.role})
    return next(named, ordered[0].name)


class DaemonStatus(Record):
    """The status that an agent's daemon reports."""

    activity: AgentActivity
    queued: int = 0
    error_text: str = ""


class _DaemonStatusJson(msgspec.Struct):
    state: str = ""
    sub_state: str = ""
    queued_count: int = 0
    blocked_on_permission: bool = False
    usage_limit_message: str = ""
    usage_limit_resets_at: str = ""
    auth_error_message: str = ""
    server_error_message: str = ""


def read_status(printed: bytes) -> DaemonStatus | None:
    """What `status_command` printed; None when it is no status."""
    try:
        read = msgspec.json.decode(printed, type=_DaemonStatusJson)
    except msgspec.DecodeError:
        return None
    activity = AgentActivity.AWAITING_USER if read.blocked_on_permission else activity_of(read.state, read.sub_state)
    until = f" (until {read.usage_limit_resets_at})" if read.usage_limit_resets_at else ""
    messages = {
        AgentActivity.RATE_LIMITED: read.usage_limit_message + until,
        AgentActivity.AUTH_ERROR: read.auth_error_message,
        AgentActivity.PROVIDER_ERROR: read.server_error_message,
    }
    return DaemonStatus(activity=activity, queued=read.queued_count, error_text=messages.get(activity, "").strip())


def is_connection_refused(stderr: bytes) -> bool:
    """Whether a status query failed because there is no daemon, rather than one that does not respond."""
    return b"cannot connect" in stderr


def activity_of(state: str, sub_state: str) -> AgentActivity:
    """The activity that a state of h2 means."""
    return _SUBSTATE_ACTIVITIES.get((state, sub_state)) or _STATE_ACTIVITIES.get(state, AgentActivity.WORKING)


def read_events(lines: Iterable[bytes]) -> Iterator[PodEvent]:
    """The events in lines of an ``events.jsonl``; what is no event is passed over."""
    for line in lines:
        try:
            read = json.loads(line)
            at = _time(read["timestamp"])
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
        data: dict[str, Any] = read["data"] if isinstance(read.get("data"), dict) else {}
        kind = _KINDS.get(str(read.get("type", "")), PodEventKind.OTHER)
        activity = (
            activity_of(str(data.get("state", "")), str(data.get("sub_state", "")))
            if kind is PodEventKind.STATE
            else None
        )
        text = data.get("Content") if kind is PodEventKind.MESSAGE else data.get("Message")
        yield PodEvent(at=at, kind=kind, activity=activity, text=text if isinstance(text, str) else "")


def read_sent_messages(lines: Iterable[bytes]) -> Iterator[SentMessage]:
    """The messages in the log that our own ``h2`` script writes: time, sender, receiver."""
    for line in lines:
        # Not every `date` knows parts of a second.
        found = _SENT.fullmatch(line.decode("utf-8", "replace").strip())
        if found is not None and found[2] != SENDER:
            yield SentMessage(at=float(found[1]), sender=found[2], to=found[3])


def exit_code_of(log: bytes) -> int | None:
    """The exit code of an agent's program, from its daemon's log; None while it runs."""
    found = list(_EXITED.finditer(log.decode("utf-8", "replace")))
    if not found:
        return None
    return int(found[-1][1]) if found[-1][1] else 1


def _time(text: str) -> float:
    # Go writes nanoseconds; Python reads microseconds.
    at = datetime.fromisoformat(_FRACTION.sub(r"\1", text)).timestamp()
    return at if math.isfinite(at) else 0.0


def trust_workspace(account: bytes | None, workdir: str, key: str) -> bytes:
    """A ``.claude.json`` with which Claude Code asks nothing at its start: not about this key, nor this folder."""
    document: dict[str, Any] = json.loads(account) if account else {}
    projects = document.setdefault("projects", {})
    trusted = {"hasCompletedProjectOnboarding": True, "hasTrustDialogAccepted": True}
    projects[workdir] = {**projects.get(workdir, {}), **trusted}
    approve_key(document, key)
    return json.dumps(document, indent=2).encode() + b"\n"
