"""A provider on loopback for the real Claude Code on suite tasks: it knows the reference patches, and counts."""

import json
from typing import Any

from aiohttp import web

from proctor.benchmarks import benchmark
from toy_provider import ServedTurn, ToyProvider, make_message, send


class ClaudeProvider(ToyProvider):
    """Looks around, applies the reference patch with a real tool call, and ends: three turns a task."""

    def __init__(self, suite: str, tasks: tuple[str, ...], *, delay: float = 0.0) -> None:
        super().__init__(turns=3, delay=delay)
        source = benchmark(suite)
        chosen = [task for task in source.tasks() if task.id in tasks]
        self._marks = {task.id: json.dumps(task.public.instruction.strip()[:80])[1:-1] for task in chosen}
        self._patches = {task.id: oracle.content.decode() for task in chosen if (oracle := source.oracle(task))}

    def _identify(self, body: dict[str, Any]) -> ServedTurn:
        said = json.dumps(body["messages"])
        turn = sum(message["role"] == "assistant" for message in body["messages"])
        return ServedTurn(next((task for task, mark in self._marks.items() if mark in said), "?"), turn)

    async def _say(self, request: web.Request, body: dict[str, Any], asked: ServedTurn) -> web.StreamResponse:
        message = make_message("It is fixed.", body["model"])
        commands = ["git log --oneline | head -3; ls", f"git apply <<'END'\n{self._patches[asked.task]}END\n"]
        if asked.turn < len(commands):
            call = {
                "type": "tool_use",
                "id": f"toolu_{asked.task}_{asked.turn}",
                "name": "Bash",
                "input": {"command": commands[asked.turn]},
            }
            message |= {"content": [call], "stop_reason": "tool_use"}
        response = await send(request, body, message)
        self.served[asked] += 1
        return response
