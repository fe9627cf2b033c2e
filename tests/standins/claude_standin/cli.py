"""The program."""

import argparse
import json
import os
import re
import socket
import subprocess
import sys
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

VERSION = "2.1.0 (a stand-in for Claude Code)"
TOOLS = [{"name": name, "description": name, "input_schema": {"type": "object"}} for name in ("Bash", "Edit")]
OK = 200


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--version", action="store_true")
    for name in ("session-id", "append-system-prompt", "model", "setting-sources", "permission-mode"):
        parser.add_argument(f"--{name}", default="")
    parser.add_argument("--add-dir", action="append")
    parser.add_argument("--strict-mcp-config", action="store_true")
    arguments = parser.parse_args()
    if arguments.version:
        print(VERSION)
        return
    program = Claude(arguments)
    program.hook("SessionStart", source="startup")
    for line in sys.stdin:
        if line.strip():
            program.take(line.strip())


class Claude:
    def __init__(self, arguments: argparse.Namespace) -> None:
        self.session = arguments.session_id
        self.model = arguments.model
        self.system = arguments.append_system_prompt
        self.messages: list[dict[str, Any]] = []
        folder = re.sub(r"[^A-Za-z0-9]", "-", str(Path.cwd().resolve()))
        self.transcript = Path(os.environ["CLAUDE_CONFIG_DIR"], "projects", folder, f"{self.session}.jsonl")
        self.transcript.parent.mkdir(parents=True, exist_ok=True)

    def take(self, prompt: str) -> None:
        """One turn."""
        self.hook("UserPromptSubmit", prompt=prompt)
        self.say("user", prompt)
        while True:
            response_body = self.ask()
            if response_body is None:
                return
            self.say("assistant", response_body["content"])
            results = [self.use(block) for block in response_body["content"] if block["type"] == "tool_use"]
            if not results:
                break
            self.say("user", results)
        words = "\n".join(block["text"] for block in response_body["content"] if block["type"] == "text")
        print(words, flush=True)
        self.hook("Stop", last_assistant_message=words)

    def ask(self) -> dict[str, Any] | None:
        url = urlsplit(os.environ["ANTHROPIC_BASE_URL"])
        connection = HTTPConnection(url.hostname or "", url.port or 80, timeout=60)
        body = {"model": self.model, "max_tokens": 1000, "system": self.system, "tools": TOOLS}
        headers = {
            "content-type": "application/json",
            "x-api-key": os.environ.get("ANTHROPIC_API_KEY", ""),
            "x-claude-code-session-id": self.session,
        }
        data = json.dumps(body | {"messages": self.messages})
        connection.request("POST", f"{url.path}/v1/messages", data, headers)
        response = connection.getresponse()
        body = json.loads(response.read())
        connection.close()
        if response.status != OK:
            print(f"API Error: {response.status} {body}", flush=True)
            self.hook("api_error", status=response.status, error=str(body))
            return None
        response_body: dict[str, Any] = body
        return response_body

    def use(self, call: dict[str, Any]) -> dict[str, Any]:
        self.hook("PreToolUse", tool_name=call["name"])
        done = subprocess.run(
            ["bash", "-c", call["input"]["command"]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        self.hook("PostToolUse", tool_name=call["name"])
        text = done.stdout.decode(errors="replace")
        return {"type": "tool_result", "tool_use_id": call["id"], "content": text, "is_error": done.returncode != 0}

    def say(self, role: str, content: Any) -> None:
        self.messages.append({"role": role, "content": content})
        with self.transcript.open("a") as file:
            file.write(json.dumps({"type": role, "sessionId": self.session, "message": self.messages[-1]}) + "\n")

    def hook(self, event: str, **payload: Any) -> None:
        """What `h2 handle-hook` does, without a process of its own."""
        path = Path(os.environ["H2_DIR"], "sockets", f"agent.{os.environ['H2_ACTOR']}.sock")
        payload_json = {"hook_event_name": event, "session_id": self.session, **payload}
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(path))
            message = {"type": "hook_event", "event_name": event, "payload": payload_json}
            connection.sendall(json.dumps(message).encode() + b"\n")
            connection.makefile("rb").readline()
