"""A pod in its environment: every command that is run there to launch, poll, stop and remove it."""

import asyncio
import posixpath
import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from proctor.agents.h2 import adapter
from proctor.agents.h2.output_framing import FrameReader, new_mark
from proctor.agents.h2.pod_state import PodAgentState, apply_event
from proctor.core.environment import Environment, ExecResult
from proctor.core.errors import InfrastructureError
from proctor.core.formatting import truncate_line
from proctor.core.record import Record

LOGS: Final = "h2"
_QUERY_SECONDS: Final = 30.0
_COLLECT_SECONDS: Final = 120.0
_COLLECT_BYTES: Final = 200_000_000
_LAUNCH_SECONDS: Final = 120.0
_KILL_SECONDS: Final = 20.0
_POLL_SECONDS: Final = 0.1
_OUTPUT_BYTES: Final = 100_000
_PLAIN_PATH: Final = re.compile(
    r"(?:[A-Za-z0-9_@%+=:,-][A-Za-z0-9._@%+=:,-]*/)*[A-Za-z0-9_@%+=:,-][A-Za-z0-9._@%+=:,-]*"
)

# Arguments: the names of our variables, then a command. What an image or an outer session has set is not for agents.
_IN_HOME: Final = r"""
keep=$1
shift
for name in $(env | sed -n -e 's/^\(ANTHROPIC[A-Z0-9_]*\)=.*/\1/p' -e 's/^\(CLAUDE[A-Z0-9_]*\)=.*/\1/p' \
    -e 's/^\(H2_[A-Z0-9_]*\)=.*/\1/p' -e 's/^\(OTEL_[A-Z0-9_]*\)=.*/\1/p'); do
  case " $keep " in *" $name "*) ;; *) unset "$name" ;; esac
done
SHELL=$(command -v bash || echo /bin/sh)
export PATH="$H2_DIR/bin:$PATH" SHELL HOME="${HOME:-/tmp}"
exec "$@"
"""
# Arguments: Claude Code's processor, the workspace. Prints what is missing, or the processes that are there already.
_PREPARE: Final = r"""
fault() { printf 'fault %s\n' "$1"; exit 0; }
[ "$(cd "$2" 2>/dev/null && pwd -P)" = "$2" ] || fault link
command -v bash >/dev/null || fault no_bash
command -v git >/dev/null || fault no_git
[ -w "$H2_DIR" ] || fault config
[ -z "$1" ] || [ "$1" = "$(uname -m)" ] || fault machine
"$PROCTOR_CLAUDE" --version >/dev/null </dev/null
case $? in 0) ;; 127) fault no_loader ;; *) fault cannot_run ;; esac
"$PROCTOR_H2" version >/dev/null </dev/null || fault no_h2
printf 'there'
for process in /proc/[0-9]*; do printf ' %s' "${process#/proc/}"; done
echo
"""
# Arguments: the home, whether to go by name; then the processes that may stay. Kills, and prints what there was to
# kill. By name: only what names the home in its environment is the pod's, since others than the environment's can be
# seen.
_KILL: Final = r"""
home=$1 by_name=$2
shift 2
keep=" $* "
pid=$$
while [ "${pid:-0}" -gt 1 ]; do
  keep="$keep$pid "
  line=$(cat "/proc/$pid/stat" 2>/dev/null) || break
  set -- ${line##*) }
  pid=$2
done
for process in /proc/[0-9]*; do
  pid=${process#/proc/}
  case "$keep" in *" $pid "*) continue ;; esac
  { read -r line <"$process/stat"; } 2>/dev/null || continue
  set -- ${line##*) }
  [ "$1" = Z ] && continue
  if [ "$by_name" = yes ]; then
    tr '\0' '\n' <"$process/environ" 2>/dev/null | grep -qxF "H2_DIR=$home" || continue
  fi
  kill -KILL "$pid" 2>/dev/null
  echo "${line%%) *})"
done
exit 0
"""
# What root wrote in a container must be the sandbox owner's to remove.
_RESTORE_OWNER: Final = '[ "$(id -u)" != 0 ] || chown -R "$(stat -c %u:%g "$1")" "$1" 2>/dev/null'


class StatusReply(Record):
    """The result of a status query; `dead`: there is no daemon."""

    status: adapter.DaemonStatus | None
    dead: bool = False


class PodEnvironment:
    """The commands of one pod in one environment.

    Args:
        environment: the environment.
        home: the H2_DIR inside.
        variables: for h2 and all that it starts.
        isolated: all processes that can be seen from the environment are the environment's.
    """

    def __init__(self, environment: Environment, *, home: str, variables: Mapping[str, str], isolated: bool) -> None:
        self._environment = environment
        self._home = home
        self._variables = variables
        self._isolated = isolated
        self._existing_processes: tuple[str, ...] = ()
        self._events_read: dict[str, int] = {}

    async def prepare(self, machine: str) -> str:
        """Check that all is there that a pod needs; the name of the fault, or nothing."""
        done = await self._run_in_home(
            ["sh", "-c", _PREPARE, "sh", machine, self._environment.workdir], timeout=_QUERY_SECONDS
        )
        word, _, rest = done.stdout.decode("utf-8", "replace").partition(" ")
        if word == "there":
            self._existing_processes = tuple(rest.split())
            return ""
        return rest.strip() or "no_shell"

    async def launch(
        self, template: str, given: Mapping[str, str], *, seconds: float
    ) -> tuple[adapter.LaunchedAgent, ...]:
        """Launch the pod; its agents. The daemons have `seconds` to start, and never less than h2 itself waits.

        Raises:
            InfrastructureError: h2 says that it cannot; some of its agents may be running.
        """
        limit = max(_LAUNCH_SECONDS, seconds)
        done = await self._run_in_home(adapter.launch_command(template, given), timeout=limit)
        if done.timed_out:
            raise InfrastructureError(f"h2 did not launch the pod in {limit:.0f} s")
        if done.exit_code != 0:
            logs = await self._read_frames(adapter.DAEMON_LOGS_SCRIPT)
            details = "; ".join(
                f"{name}: {text.decode('utf-8', 'replace').strip()}" for (_, name), text in logs.items() if text.strip()
            )
            why = f"{adapter.error_message(done.stderr)}; {details}" if details else adapter.error_message(done.stderr)
            raise InfrastructureError(f"h2 could not launch the pod: {truncate_line(why, 400)}")
        found = await self._read_frames(adapter.METADATA_SCRIPT)
        pod = [adapter.read_session_metadata(content) for (kind, _), content in found.items() if kind == "metadata"]
        agents = tuple(agent for agent in pod if agent is not None)
        if not agents:
            raise InfrastructureError("h2 reported success, but the pod has no agent")
        for agent in agents:
            if not adapter.AGENT_NAME.fullmatch(agent.name):
                raise InfrastructureError(
                    f"an agent cannot be called {agent.name!r}: letters, digits and dashes, 40 at most"
                )
        return agents

    async def poll_events(
        self, agents: Mapping[str, PodAgentState], now: Callable[[], float]
    ) -> dict[str, PodAgentState]:
        """Read what h2 has written since the last poll.

        Raises:
            InfrastructureError: its files cannot be read.
        """
        words = [word for name in agents for word in (name, str(self._events_read.get(name, 0)))]
        found = await self._read_frames(adapter.POLL_SCRIPT, *words)
        at = now()
        seen = dict(agents)
        for name in agents:
            # The last piece is a line that is still being written, or nothing.
            *lines, _ = found.get(("events", name), b"").split(b"\n")
            self._events_read[name] = self._events_read.get(name, 0) + len(lines)
            for event in adapter.read_events(lines):
                seen[name] = apply_event(seen[name], event, at)
            count = found.get(("messages", name), b"").strip()
            unread = bool(found.get(("unread", name), b"").strip())
            since = seen[name].unread_since
            seen[name] = msgspec.structs.replace(
                seen[name],
                exit_code=adapter.exit_code_of(found.get(("log", name), b"")),
                unread_since=(at if since is None else since) if unread else None,
                messages=int(count) if count.isdigit() else 0,
            )
        return seen

    async def query_status(
        self, agents: Mapping[str, PodAgentState], now: Callable[[], float], *, seconds: float
    ) -> dict[str, PodAgentState]:
        """Query the status of every agent's daemon."""
        replies = await asyncio.gather(*(self._query_status(name, seconds) for name in agents))
        at = now()
        seen = {}
        for (name, known), reply in zip(agents.items(), replies, strict=True):
            status = reply.status
            if status is None:
                dead = (known.dead_since if known.dead_since is not None else at) if reply.dead else None
                silent = (
                    None if reply.dead else known.unresponsive_since if known.unresponsive_since is not None else at
                )
                seen[name] = msgspec.structs.replace(known, dead_since=dead, unresponsive_since=silent)
                continue
            same = status.activity is known.activity
            seen[name] = msgspec.structs.replace(
                known,
                activity=status.activity,
                activity_since=known.activity_since if same else at,
                queued=status.queued,
                error_text=status.error_text or (known.error_text if same else ""),
                dead_since=None,
                unresponsive_since=None,
            )
        return seen

    async def send_task(self, agent: str, text: str) -> None:
        """Send the task to an agent.

        Raises:
            InfrastructureError: h2 did not take it.
        """
        file = f"{self._home}/task.md"
        script = 'cat >"$1" && shift && exec "$@"'
        words = ["sh", "-c", script, "sh", file, *adapter.send_command(agent, file)]
        done = await self._run_in_home(words, stdin=adapter.as_message(text), timeout=_QUERY_SECONDS)
        if done.exit_code != 0:
            raise InfrastructureError(
                f"h2 did not take the task: {truncate_line(adapter.error_message(done.stderr), 300)}"
            )

    async def press_enter(
        self, agents: Mapping[str, PodAgentState], names: Sequence[str], now: Callable[[], float]
    ) -> dict[str, PodAgentState]:
        """Press Enter on the terminals of these agents, where a message was typed and not submitted."""
        await asyncio.gather(
            *(self._run_in_home(adapter.enter_command(name), timeout=_QUERY_SECONDS) for name in names)
        )
        at = now()
        return {
            name: msgspec.structs.replace(seen, nudged_at=at) if name in names else seen
            for name, seen in agents.items()
        }

    async def stop(self, agents: Sequence[str], *, seconds: float) -> None:
        """Stop the pod, agent by agent, and make sure that nothing of it is left.

        Raises:
            InfrastructureError: a process could not be killed.
        """
        results = await asyncio.gather(
            *(self._run_in_home(adapter.stop_command(name), timeout=seconds) for name in agents)
        )
        # A daemon that has died does not stop, and its socket stays.
        stopping = {name for name, done in zip(agents, results, strict=True) if done.exit_code == 0}
        deadline = time.monotonic() + seconds
        while stopping & await self._listening_agents() and time.monotonic() < deadline:  # noqa: ASYNC110 - another's doing
            await asyncio.sleep(_POLL_SECONDS)
        deadline = time.monotonic() + _KILL_SECONDS
        while left := await self._kill():
            if time.monotonic() >= deadline:
                raise InfrastructureError(f"processes of the pod could not be killed: {truncate_line(left, 200)}")
            await asyncio.sleep(_POLL_SECONDS)
        # A daemon that was killed leaves its socket behind.
        await self._run_outside_home('rm -f "$1"/sockets/*.sock', self._home)

    async def collect_logs(self, folder: Path) -> None:
        """Copy the pod's files to the host: sessions, messages, the activity log, transcripts."""
        mark = new_mark()
        frames = FrameReader(mark, _LogWriter(folder).write)
        await self._environment.exec(
            ["sh", "-c", adapter.COLLECT_LOGS_SCRIPT, "sh", self._home, mark],
            timeout=_COLLECT_SECONDS,
            on_stdout=frames.feed,
            output_bytes=_OUTPUT_BYTES,
        )
        await self._run_outside_home(_RESTORE_OWNER, self._home)

    async def _query_status(self, name: str, seconds: float) -> StatusReply:
        done = await self._run_in_home(adapter.status_command(name), timeout=seconds)
        if done.exit_code == 0 and not done.timed_out:
            return StatusReply(status=adapter.read_status(done.stdout))
        return StatusReply(status=None, dead=not done.timed_out and adapter.is_connection_refused(done.stderr))

    async def _listening_agents(self) -> set[str]:
        found = await self._run_outside_home(adapter.LIST_SOCKETS_SCRIPT, self._home)
        return {adapter.agent_of_socket(path) for path in found.stdout.decode("utf-8", "replace").split()}

    async def _kill(self) -> str:
        by_name = not self._isolated or not self._existing_processes
        done = await self._run_outside_home(
            _KILL, self._home, "yes" if by_name else "no", *(() if by_name else self._existing_processes)
        )
        return done.stdout.decode("utf-8", "replace").strip()

    async def _run_outside_home(self, script: str, *arguments: str) -> ExecResult:
        """Run a script that is none of the pod's: nothing in its environment says so."""
        return await self._environment.exec(["sh", "-c", script, "sh", *arguments], timeout=_QUERY_SECONDS)

    async def _run_in_home(self, command: Sequence[str], *, timeout: float, stdin: bytes = b"") -> ExecResult:
        """Run a command in the pod's home and the task's workspace."""
        keep = " ".join(self._variables)
        return await self._environment.exec(
            ["sh", "-c", _IN_HOME, "sh", keep, *command],
            stdin=stdin,
            variables=self._variables,
            cwd=self._environment.workdir,
            timeout=timeout,
            output_bytes=_OUTPUT_BYTES,
        )

    async def _read_frames(self, script: str, *arguments: str) -> dict[tuple[str, str], bytes]:
        mark = new_mark()
        found: dict[tuple[str, str], bytearray] = {}
        frames = FrameReader(mark, lambda kind, name, data: found.setdefault((kind, name), bytearray()).extend(data))
        await self._environment.exec(
            ["sh", "-c", script, "sh", self._home, mark, *arguments],
            timeout=_QUERY_SECONDS,
            on_stdout=frames.feed,
            output_bytes=_OUTPUT_BYTES,
        )
        if not frames.complete:
            raise InfrastructureError(
                "the pod's files cannot be read in the environment", where=posixpath.basename(self._home)
            )
        return {key: bytes(content) for key, content in found.items()}


class _LogWriter:
    """Writes collected files below a folder of the host, and nowhere else."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._bytes_left = _COLLECT_BYTES
        self._current_file = ""

    def write(self, kind: str, name: str, data: bytes) -> None:
        if kind != "file" or not _PLAIN_PATH.fullmatch(name):
            return
        place = self._folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        kept = data[: self._bytes_left]
        self._bytes_left -= len(kept)
        with place.open("ab" if self._current_file == name else "wb") as file:
            file.write(kept)
        self._current_file = name
