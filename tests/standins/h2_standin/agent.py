"""One agent's life as seen from outside: its states, its messages, its files."""

import json
import os
import signal
import subprocess
import threading
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from h2_standin.scenario import Scenario

LONGEST_TYPED = 300
# The states that a hook leads to (h2's event_handler.go).
STATES = {
    "UserPromptSubmit": ("active", "thinking"),
    "PreToolUse": ("active", "tool_use"),
    "PostToolUse": ("active", "thinking"),
    "PostToolUseFailure": ("active", "thinking"),
    "PermissionRequest": ("active", "permission_review"),
    "PreCompact": ("active", "compacting"),
    "SessionStart": ("idle", ""),
    "Stop": ("idle", ""),
}
# What h2 makes of errors that Claude Code reports.
ERRORS = {"429": "usage_limit", "401": "auth_error", "5": "server_error"}
MESSAGES = {"usage_limit": "usage_limit_message", "auth_error": "auth_error_message"}
DECISIONS = {"ask_user": "blocked_on_permission", "allow": "tool_use"}


def now() -> str:
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")


def duration(seconds: float) -> str:
    return f"{max(1, int(seconds))}s"


class Agent:
    """The state that a daemon keeps and reports; `type_in` puts text on the child's terminal."""

    def __init__(self, h2: Path, session: Path, metadata: dict[str, Any], scenario: Scenario) -> None:
        self.h2 = h2
        self.session = session
        self.metadata = metadata
        self.scenario = scenario
        self.type_in: Callable[[str], None] = lambda _: None
        self.messages: dict[str, dict[str, Any]] = {}
        self._state, self._sub_state = "initialized", ""
        self._error = ""
        self._since = self._started = time.monotonic()
        self._tools = 0
        self._unsubmitted = False
        self._changed = threading.Condition(threading.RLock())
        (h2 / "logs").mkdir(exist_ok=True)

    @property
    def name(self) -> str:
        return str(self.metadata["agent_name"])

    def status(self) -> dict[str, Any]:
        with self._changed:
            queued = sum(message["status"] == "queued" for message in self.messages.values())
            info = {
                "name": self.name,
                "command": self.metadata["command"],
                "cwd": self.metadata["cwd"],
                "session_id": self.metadata["session_id"],
                "profile": self.metadata["profile"],
                "role": self.metadata["role"],
                "pod": os.environ.get("H2_POD", ""),
                "pod_index": self.metadata["pod_index"],
                "uptime": duration(time.monotonic() - self._started),
                "state": self._state,
                "sub_state": self._sub_state,
                "state_display_text": self._state.capitalize(),
                "state_duration": duration(time.monotonic() - self._since),
                "queued_count": queued,
                "tool_use_count": self._tools,
                "blocked_on_permission": self._sub_state == "blocked_on_permission",
                MESSAGES.get(self._sub_state, "server_error_message"): self._error,
            }
        always = {"name", "command", "uptime", "state", "state_display_text", "state_duration", "queued_count"}
        return {key: value for key, value in info.items() if value or key in always}

    def event(self, kind: str, data: dict[str, Any] | None = None) -> None:
        line = {"type": kind, "timestamp": now()} | ({"data": data} if data is not None else {})
        with (self.session / "events.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def become(self, state: str, sub_state: str = "", error: str = "") -> None:
        """Fall into a state, and write it down, whether it is another or the same."""
        with self._changed:
            self._enter(state, sub_state, error)
            self.event("state_change", {"state": state, "sub_state": sub_state})

    def leave(self) -> None:
        """The session has ended, or the child has; the next event shows that it is still there after all."""
        with self._changed:
            self._enter("exited")
            self.event("session_ended")

    def _enter(self, state: str, sub_state: str = "", error: str = "") -> None:
        self._state, self._sub_state, self._error = state, sub_state, error
        self._since = time.monotonic()
        self._changed.notify_all()

    def hook(self, event: str, payload: dict[str, Any]) -> None:
        with self._changed:
            self._log("hook", hook_event=event, tool_name=payload.get("tool_name"))
            if event == "SessionEnd":
                self.leave()
                return
            if self._state == "exited":
                self._enter("initialized")
            if event == "api_error":
                status = str(payload.get("status", ""))
                self.become("idle", ERRORS.get(status) or ERRORS.get(status[:1], ""), str(payload.get("error", "")))
                return
            if event == "permission_decision":
                decision = payload.get("decision", "")
                self._log("permission_decision", tool_name=payload.get("tool_name"), decision=decision)
                self.event("permission_decision", payload | {"role": self.metadata["role"]})
                self.become("active", DECISIONS.get(decision, "thinking"))
                return
            if event == "UserPromptSubmit":
                self.event("user_prompt")
            if event == "PreToolUse":
                self._tools += 1
                self.event("tool_started", {"ToolName": payload.get("tool_name", ""), "CallID": ""})
            if event in STATES:
                self.become(*STATES[event])
            if event == "Stop" and payload.get("last_assistant_message"):
                self.event("agent_message", {"Content": payload["last_assistant_message"]})

    def accept(self, body: str, sender: str, priority: str, *, raw: bool) -> str:
        """Queue a message, and deliver it when its priority allows."""
        identity = str(uuid.uuid4())
        folder = self.h2 / "messages" / self.name
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = folder / f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{identity[:8]}.md"
        if not raw:
            file.write_text(body, encoding="utf-8")
            file.chmod(0o600)
        with self._changed:
            self.messages[identity] = {
                "id": identity,
                "from": sender,
                "priority": "interrupt" if raw else priority,
                "status": "queued",
                "file_path": str(file),
                "created_at": f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}",
            }
        text = body if raw else f"[h2 message from: {sender}] {body}"
        if not raw and len(body.encode()) > LONGEST_TYPED:
            text = f"[h2 message from: {sender}] Read {file}"
        threading.Thread(target=self._deliver, args=(identity, text), daemon=True).start()
        return identity

    def _deliver(self, identity: str, text: str) -> None:
        message = self.messages[identity]
        time.sleep(self.scenario.queue_seconds)
        with self._changed:
            if message["priority"].startswith("idle"):
                self._changed.wait_for(lambda: (self._state, self._sub_state) == ("idle", ""))
            message |= {"status": "delivered", "delivered_at": f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}"}
        self.type_in(text)
        if not text and not self._unsubmitted:
            return  # Enter alone, and nothing stands there
        self._unsubmitted = bool(self.scenario.swallow and text)
        if self._unsubmitted:
            return
        if self.metadata["harness_type"] == "claude_code" and not self.scenario.claude:
            self._take_turn()

    def _take_turn(self) -> None:
        for step in self.scenario.turn:
            time.sleep(step.after)
            if step.hook:
                self.hook(step.hook, step.payload)
            if step.state:
                self.become(*step.state, step.message)
            if step.die:
                os.kill(os.getpid(), signal.SIGKILL)
            if step.run:
                subprocess.run(
                    ["sh", "-c", step.run],
                    cwd=self.metadata["cwd"],
                    env={**os.environ, "H2_ACTOR": self.name},
                    check=False,
                    stdin=subprocess.DEVNULL,
                )

    def sum_up(self) -> None:
        self._log("session_summary", tool_use_count=self._tools)

    def _log(self, event: str, **fields: Any) -> None:
        line = {"ts": now(), "actor": self.name, "session_id": self.metadata["session_id"], "event": event}
        line |= {key: value for key, value in fields.items() if value is not None}
        with (self.h2 / "logs" / "session-activity.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
