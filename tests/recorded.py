"""Recordings of agents that never were: the gateway, a script for a model, and a client that keeps to the API."""

import json
from pathlib import Path
from typing import Any

from gateway_lab import Agent, world
from proctor.gateway import ScriptBackend, parse_script
from proctor.gateway.dialects.messages_events import message_from_events
from proctor.gateway.sse import EventSplitter

CLAUDE = {"X-Claude-Code-Session-Id": "s1"}
WORKING = [{"name": "Bash"}, {"name": "Edit"}]
REMINDER = "<system-reminder>\nToday is a day.\n</system-reminder>"

_OK = 200
Content = list[dict[str, Any]]


class Conversation:
    """One agent's conversation, which grows with every request."""

    def __init__(self, agent: Agent, *first: dict[str, Any], headers: dict[str, str] | None = None) -> None:
        self._agent = agent
        self._headers = headers or {}
        self.messages: list[dict[str, Any]] = [{"role": "user", "content": list(first)}]

    async def ask(self, *, stream: bool = True) -> Content:
        """Ask for the next response, and take it down."""
        tools: dict[str, Any] = {"tools": WORKING, "messages": self.messages, "headers": self._headers}
        response = await self._agent.post(stream=stream, **tools)
        raw = await response.read()
        if response.status != _OK:
            return []
        events = (json.loads(payload) for payload in EventSplitter().feed(raw))
        content: Content = (message_from_events(events) if stream else json.loads(raw))["content"]
        self.messages.append({"role": "assistant", "content": content})
        return content

    def results(self, content: Content, *outputs: str, failed: bool = False) -> None:
        """Say what came back from the calls in a response."""
        calls = [block["id"] for block in content if block["type"] == "tool_use"]
        blocks = [
            {"type": "tool_result", "tool_use_id": call, "content": output, **({"is_error": True} if failed else {})}
            for call, output in zip(calls, outputs, strict=False)
        ]
        self.messages.append({"role": "user", "content": blocks})


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


async def record_single(recording: Path, task_id: str, *, say: str = "I look.", output: str = "a.py", ask: str) -> None:
    """One agent: it looks, its edit fails, it ends."""
    steps = [
        {
            "thinking": "Hm.",
            "text": say,
            "tools": [{"Bash": {"command": "ls"}}],
            "usage": {"input": 100, "output": 10, "cache_write_5m": 50},
        },
        {"text": "I edit.", "tools": [{"Edit": {"file_path": "a.py"}}], "usage": {"input": 10, "cache_read": 150}},
        {"text": "Done.", "usage": {"input": 5, "output": 3, "cache_read": 160}},
    ]
    backend = ScriptBackend(parse_script({"default": {"steps": steps}}))
    async with world(backend, recording=recording, task_id=task_id) as here:
        one = Conversation(here.agent, text(REMINDER), text(ask), headers=CLAUDE)
        one.results(await one.ask(), output)
        one.results(await one.ask(stream=False), "no such text", failed=True)
        await one.ask()


async def record_pod(recording: Path, task_id: str) -> None:
    """A pod: a coder with a sub-agent, and a reviewer, who take turns; the coder's last call never comes back."""
    script = {
        "default": {
            "steps": [{"text": "nobody", "repeat": "forever"}],
            "conversations": [
                {"prompt": "^Explore", "steps": [{"text": "Nothing here."}]},
                {
                    "agent": "coder",
                    "steps": [
                        {"text": "I ask around.", "tools": [{"Bash": {"command": "true"}}], "usage": {"input": 7}},
                        {"error": 529},
                        {"text": "I try.", "tools": [{"Bash": {"command": "make"}}], "usage": {"input": 9}},
                    ],
                },
                {"agent": "reviewer", "steps": [{"text": "Looks good.", "usage": {"input": 11}, "repeat": "forever"}]},
            ],
        }
    }
    async with world(ScriptBackend(parse_script(script)), recording=recording, task_id=task_id) as here:
        coder_url, reviewer_url = (
            Agent(here.agent.http, f"{here.agent.base}/a/{name}") for name in ("coder", "reviewer")
        )
        coder = Conversation(coder_url, text("Fix it."), headers=CLAUDE)
        first = await coder.ask()
        explorer = Conversation(coder_url, text("Explore the code"), headers={**CLAUDE, "X-Claude-Code-Agent-Id": "a"})
        await explorer.ask()
        coder.results(first, "ok")
        await coder.ask()
        await coder.ask()
        await Conversation(reviewer_url, text("Review it."), headers={"X-Claude-Code-Session-Id": "s2"}).ask()
