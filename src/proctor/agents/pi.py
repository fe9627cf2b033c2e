"""pi, run once per task in its JSON mode."""

import json
from typing import Any, Final

import msgspec

from proctor.agents.json_lines_reader import JsonLinesReader
from proctor.agents.node_agent import NodeAgent
from proctor.core.agent import KEY_PLACEHOLDER, AgentRequest
from proctor.core.environment import Environment
from proctor.core.formatting import truncate_line
from proctor.core.result import Tokens

_KEY_VARIABLE: Final = "PI_GATEWAY_KEY"
_OWN_PROVIDER: Final = "proctor"
# By dialect: the provider, of whose models the program knows the limits, and what is behind the gateway's address.
_PROVIDERS: Final = {
    "chat": (_OWN_PROVIDER, "/v1"),
    "responses": ("openai", "/v1"),
    "messages": ("anthropic", ""),
    "gemini": ("google", "/v1beta"),
}
_FAILED: Final = frozenset({"error", "aborted"})


class _Usage(msgspec.Struct, rename="camel"):
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0


class _Message(msgspec.Struct, rename="camel"):
    role: str = ""
    content: Any = None
    usage: _Usage | None = None
    stop_reason: str = ""
    error_message: str = ""


class _PiEvent(msgspec.Struct, rename="camel"):
    type: str = ""
    message: _Message | None = None
    tool_name: str = ""
    args: Any = None


class PiReader(JsonLinesReader[_PiEvent]):
    """Reads what ``pi --mode json`` prints. It exits with 0 whatever has happened: its last message says it."""

    decoder = msgspec.json.Decoder(_PiEvent)

    def handle_line(self, line: bytes) -> None:
        """Read one event, but for the message so far, which comes with each piece of it."""
        if not line.startswith(b'{"type":"message_update"'):
            super().handle_line(line)

    def handle_event(self, event: _PiEvent) -> None:
        """Take one event."""
        match event.type:
            case "tool_execution_start":
                self._show_tool(event.tool_name, event.args)
            case "message_end" if event.message is not None and event.message.role == "assistant":
                self._end_message(event.message)
            case "agent_end":
                self._finished = not self._error

    def _end_message(self, message: _Message) -> None:
        failed = message.stop_reason in _FAILED
        self._error = (message.error_message or "its model failed") if failed else ""
        blocks = message.content if isinstance(message.content, list) else []
        texts = [block.get("text") for block in blocks if isinstance(block, dict) and block.get("type") == "text"]
        self._text = "\n".join(text for text in texts if isinstance(text, str))
        if self._text:
            self._on_progress(truncate_line(self._text))
        if (used := message.usage) is not None:
            tokens = Tokens(
                input=used.input, output=used.output, cache_read=used.cache_read, cache_write_5m=used.cache_write
            )
            self._add_tokens(tokens)


class Pi(NodeAgent):
    """The coding agent pi. Turns are limited by the gateway: it has no limit of its own."""

    name = "pi"
    title = "pi"
    command = "pi"
    command_variable = "PI_BIN"
    npm_packages = ("@earendil-works/pi-coding-agent", "@mariozechner/pi-coding-agent")
    remedy = "npm install -g @mariozechner/pi-coding-agent, or set PI_BIN"
    dialects = ("chat", "responses", "messages", "gemini")
    efforts = ("off", "minimal", "low", "medium", "high", "xhigh")
    foreign_variables = ("PI_*", "ANTHROPIC_*", "OPENAI_*", "GEMINI_*", "GOOGLE_*")
    reserved_variables = frozenset({"PI_CODING_AGENT_DIR", _KEY_VARIABLE})
    folders = {"PI_CODING_AGENT_DIR": "pi"}  # noqa: RUF012 - a constant of the class
    own_folder = "PI_CODING_AGENT_DIR"
    node_version = (20, 6)
    # Interrupted, it exits and leaves its commands behind.
    grace_seconds = 0.0
    # Its options leave out extensions, skills and AGENTS.md, but neither settings nor the system prompt in this folder.
    hidden_folders = (".pi",)
    reader = PiReader

    def files(self, request: AgentRequest, environment: Environment, url: str) -> dict[str, str]:
        """The gateway as a provider, no retries, as the gateway retries; prompts."""
        options = self._setup.agent_options
        name, path = _PROVIDERS[self._dialect(request)]
        provider: dict[str, Any] = {"baseUrl": url + path, "apiKey": _KEY_VARIABLE}
        if name == _OWN_PROVIDER:
            model = {"id": request.model, "reasoning": options.effort is not None}
            provider |= {"api": "openai-completions", "models": [model]}
        settings = {"retry": {"enabled": False, "provider": {"maxRetries": 0}}, "enableInstallTelemetry": False}
        files = {
            "pi/models.json": json.dumps({"providers": {name: provider}}),
            "pi/settings.json": json.dumps(settings),
        }
        if options.system_prompt is not None:
            files["pi/SYSTEM.md"] = options.system_prompt
        if options.append_system_prompt is not None:
            files["pi/APPEND_SYSTEM.md"] = options.append_system_prompt
        return files

    def variables(self, request: AgentRequest, url: str) -> dict[str, str]:
        """The placeholder for the key, and no traffic of its own."""
        own = {_KEY_VARIABLE: KEY_PLACEHOLDER, "PI_OFFLINE": "1", "PI_TELEMETRY": "0", "PI_SKIP_VERSION_CHECK": "1"}
        return {**super().variables(request, url), **own}

    def script_arguments(self, request: AgentRequest) -> list[str]:
        """One prompt; nothing of the repository's."""
        words = ["--mode", "json", "--print", "--no-session"]
        words += ["--provider", _PROVIDERS[self._dialect(request)][0], "--model", request.model or ""]
        words += ["--no-extensions", "--no-skills", "--no-prompt-templates", "--no-themes", "--no-context-files"]
        options = self._setup.agent_options
        if options.effort is not None:
            words += ["--thinking", options.effort]
        return [*words, "--tools", ",".join(options.allowed_tools)] if options.allowed_tools else words
