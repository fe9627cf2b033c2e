"""An agent's daemon: a terminal with the child on it, and a socket to reach both."""

import fcntl
import json
import os
import pty
import signal
import socket
import struct
import sys
import termios
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from h2_standin.agent import Agent
from h2_standin.directory import agent_socket, h2_directory
from h2_standin.scenario import Scenario, scenario_for
from h2_standin.wire import listens

GENERIC_IDLE_SECONDS = 2.0
FRAME_DATA = 0
SCREEN = (22, 80)


def child_command(metadata: dict[str, Any], scenario: Scenario) -> list[str]:
    if metadata["harness_type"] == "generic":
        return [metadata["command"]]
    if scenario.claude:
        words = ["claude", "--session-id", metadata["session_id"]]
        words += ["--append-system-prompt", metadata["instructions"]] if metadata["instructions"] else []
        words += ["--model", metadata["model"]] if metadata["model"] else []
        mode = metadata["claude_permission_mode"]
        words += ["--permission-mode", mode] if mode else []
        return words + [word for folder in metadata["additional_dirs"] for word in ("--add-dir", folder)]
    deaf = "trap '' TERM HUP; " if scenario.ignore_term else ""
    # Each grandchild leaves the child's session, as a development server does that an agent puts into the background.
    start = "setsid sleep 86400 </dev/null >/dev/null 2>&1 & " * scenario.grandchildren
    return ["sh", "-c", deaf + (scenario.child or f"{start}while read -r line; do :; done; sleep 86400")]


def run_daemon(session: Path) -> NoReturn:
    h2 = h2_directory()
    metadata = json.loads((session / "session.metadata.json").read_text(encoding="utf-8"))
    scenario = scenario_for(metadata["agent_name"])
    if scenario.fail:
        sys.exit(f"error: {scenario.fail}")
    if scenario.ignore_term:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    path = agent_socket(h2, metadata["agent_name"])
    path.parent.mkdir(mode=0o700, exist_ok=True)
    if path.exists():
        if listens(path):
            sys.exit(f'error: agent "{metadata["agent_name"]}" is already running')
        path.unlink()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen(64)
    pid, terminal = pty.fork()
    if pid == 0:
        _become_child(session, metadata, scenario)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", *SCREEN, 0, 0))
    Daemon(Agent(h2, session, metadata, scenario), listener, path, pid, terminal).serve()


def _become_child(session: Path, metadata: dict[str, Any], scenario: Scenario) -> NoReturn:
    os.environ |= {
        "H2_ACTOR": metadata["agent_name"],
        "H2_ROLE": metadata["role"],
        "H2_SESSION_DIR": str(session),
    }
    if metadata["harness_type"] == "claude_code":
        os.environ["CLAUDE_CONFIG_DIR"] = str(Path(os.environ["H2_DIR"], "claude-config", metadata["profile"]))
    command = child_command(metadata, scenario)
    os.execvp(command[0], command)


class Daemon:
    def __init__(self, agent: Agent, listener: socket.socket, path: Path, child: int, terminal: int) -> None:
        self._agent = agent
        self._listener = listener
        self._path = path
        self._child = child
        self._terminal = terminal
        self._screen = b""
        agent.type_in = self._type

    def serve(self) -> NoReturn:
        threading.Thread(target=self._watch_terminal, daemon=True).start()
        threading.Thread(target=self._start_up, daemon=True).start()
        while True:
            connection, _ = self._listener.accept()
            threading.Thread(target=self._reply, args=(connection,), daemon=True).start()

    def _start_up(self) -> None:
        seconds = self._agent.scenario.ready_seconds
        claude = self._agent.metadata["harness_type"] == "claude_code" and not self._agent.scenario.claude
        if claude and seconds is not None:
            time.sleep(seconds)
            self._agent.hook("SessionStart", {"source": "startup"})

    def _watch_terminal(self) -> None:
        generic = self._agent.metadata["harness_type"] == "generic"
        timer: threading.Timer | None = None
        while True:
            try:
                output = os.read(self._terminal, 65536)
            except OSError:
                output = b""
            if not output:
                break
            self._screen = (self._screen + output)[-65536:]
            if generic:
                self._agent.become("active")
                if timer:
                    timer.cancel()
                timer = threading.Timer(GENERIC_IDLE_SECONDS, self._agent.become, ("idle",))
                timer.daemon = True
                timer.start()
        _, status = os.waitpid(self._child, 0)
        print(f"child process exited (code {os.waitstatus_to_exitcode(status)})", file=sys.stderr, flush=True)
        self._agent.leave()

    def _type(self, text: str) -> None:
        os.write(self._terminal, text.encode())
        time.sleep(0.05)
        os.write(self._terminal, b"\r")

    def _reply(self, connection: socket.socket) -> None:
        with connection:
            line = connection.makefile("rb").readline()
            if not line:
                return
            if self._agent.scenario.hang:
                threading.Event().wait()
            request = json.loads(line)
            try:
                reply = self._handle(request)
            except (KeyError, ValueError) as error:
                reply = {"ok": False, "error": str(error)}
            connection.sendall(json.dumps(reply).encode() + b"\n")
            if request["type"] == "attach" and reply["ok"]:
                connection.sendall(struct.pack(">BI", FRAME_DATA, len(self._screen)) + self._screen)
                while connection.recv(65536):
                    pass
            if request["type"] == "stop" and not self._agent.scenario.ignore_stop:
                self._stop()

    def _handle(self, request: dict[str, Any]) -> dict[str, Any]:
        match request["type"]:
            case "status":
                time.sleep(self._agent.scenario.status_seconds)
                return {"ok": True, "agent": self._agent.status()}
            case "send":
                priority, raw = request.get("priority", ""), request.get("raw", False)
                if not raw and priority not in {"interrupt", "normal", "idle-first", "idle"}:
                    raise ValueError(f"invalid priority: {priority}")
                sender = request.get("from") or "unknown"
                identity = self._agent.accept(request.get("body", ""), sender, priority, raw=raw)
                return {"ok": True, "message_id": identity}
            case "show":
                message = self._agent.messages.get(request.get("message_id", ""))
                if message is None:
                    raise ValueError(f"message not found: {request.get('message_id', '')}")
                return {"ok": True, "message": message}
            case "hook_event":
                self._agent.hook(request["event_name"], request.get("payload") or {})
                return {"ok": True}
            case "stop" | "attach":
                return {"ok": True}
            case unknown:
                raise ValueError(f"unknown request type: {unknown}")

    def _stop(self) -> NoReturn:
        """As h2 does it: the child is killed, what it started is not."""
        with suppress(ProcessLookupError):
            os.kill(self._child, signal.SIGKILL)
        time.sleep(self._agent.scenario.stop_seconds)
        self._agent.sum_up()
        self._path.unlink(missing_ok=True)
        os._exit(0)
