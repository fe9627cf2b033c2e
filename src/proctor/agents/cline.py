"""Cline, run once per task without a terminal."""

import json
from typing import Any, Final

import msgspec

from proctor.agents.bun_agent import BunAgent
from proctor.agents.json_lines_reader import JsonLinesReader
from proctor.agents.program_agent import check_prompt
from proctor.core.agent import KEY_PLACEHOLDER, AgentRequest
from proctor.core.environment import Environment
from proctor.core.result import Tokens

# By dialect: the provider, and what is behind the gateway's address.
_PROVIDERS: Final = {"chat": ("openai-compatible", "/v1"), "messages": ("anthropic", "/v1")}
# What the provider would execute costs beside the tokens, and reaches the net.
_SETTINGS: Final = {
    "telemetryOptOut": True,
    "autoUpdateEnabled": False,
    "tools": {"web_search": {"enabled": False}, "image_generation": {"enabled": False}},
}
_FINISHED: Final = "completed"


class _ClineUsage(msgspec.Struct, rename="camel"):
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0

    @property
    def tokens(self) -> Tokens:
        """What the cache holds is counted as input."""
        return Tokens(
            input=max(0, self.input_tokens - self.cache_read_tokens - self.cache_write_tokens),
            output=self.output_tokens,
            cache_read=self.cache_read_tokens,
            cache_write_5m=self.cache_write_tokens,
        )


class _ClineStep(msgspec.Struct, rename="camel"):
    type: str = ""
    content_type: str = ""
    text: str = ""
    tool_name: str = ""
    input: Any = None
    error: Any = None


class _ClineEvent(msgspec.Struct, rename="camel"):
    type: str = ""
    event: _ClineStep | None = None
    message: str = ""
    text: str = ""
    finish_reason: str = ""
    iterations: int = 0
    aggregate_usage: _ClineUsage | None = None


class ClineReader(JsonLinesReader[_ClineEvent]):
    """Reads what ``cline --json`` prints."""

    decoder = msgspec.json.Decoder(_ClineEvent)

    def handle_event(self, event: _ClineEvent) -> None:
        """Read one event."""
        match event.type:
            case "agent_event" if event.event is not None:
                self._take_step(event.event)
            case "error":
                self._error = event.message or "it failed"
            case "run_result":
                self._finished = event.finish_reason == _FINISHED
                self._error = "" if self._finished else self._error or f"it ended: {event.finish_reason}"
                self._text = event.text or self._text
                self._requests = event.iterations
                self._tokens = event.aggregate_usage.tokens if event.aggregate_usage is not None else None

    def _take_step(self, step: _ClineStep) -> None:
        match step.type, step.content_type:
            case "content_start", "tool":
                commands = step.input.get("commands") if isinstance(step.input, dict) else None
                given = {"command": " ; ".join(map(str, commands))} if isinstance(commands, list) else step.input
                self._show_tool(step.tool_name, given)
            case "content_end", "text":
                self._show_text(step.text)
            case "error", _:
                said = step.error.get("message") if isinstance(step.error, dict) else step.error
                self._error = str(said or "it failed")


class Cline(BunAgent):
    """Cline. Turns are limited by the gateway: it has no limit of its own.

    Its sessions run in the program itself, and not in the daemon that it otherwise leaves behind.
    """

    name = "cline"
    title = "Cline"
    command = "cline"
    command_variable = "CLINE_BIN"
    npm_packages = ("cline",)
    remedy = "npm install -g cline, or set CLINE_BIN"
    dialects = ("chat", "messages")
    efforts = ("none", "low", "medium", "high", "xhigh")
    scripted_model = "gpt-5.5"
    native_patterns = ("node_modules/@cline/cli-linux-*/bin/cline", "@cline/cli-linux-*/bin/cline")
    foreign_variables = ("CLINE_*", "OPENAI_*", "ANTHROPIC_*", "OTEL_*", "BUN_*", "POSTHOG_*", "LANGFUSE_*")
    reserved_variables = frozenset(
        {
            *("CLINE_DIR", "CLINE_SANDBOX", "CLINE_SANDBOX_DATA_DIR", "CLINE_SESSION_BACKEND_MODE", "CLINE_API_KEY"),
            *("CLINE_DATA_DIR", "CLINE_NO_AUTO_UPDATE", "BUN_OPTIONS", "OPENAI_API_KEY", "ANTHROPIC_API_KEY"),
        }
    )
    unsupported_options = {  # noqa: RUF012 - a constant of the class
        "allowed_tools": ("Cline cannot be limited to some of its tools", "leave --allowed-tools out")
    }
    folders = {"CLINE_DIR": "cline", "CLINE_SANDBOX_DATA_DIR": "cline/data"}  # noqa: RUF012 - a constant of the class
    own_folder = "CLINE_DIR"
    prompt_option = "--"
    # It looks for these hosts even where its telemetry is off.
    blocked_hosts = ("cline.bot",)
    # Interrupted, it exits with 0.
    grace_seconds = 0.0
    # It looks for files of instructions by reading them.
    hidden_folders = (
        *(".cline", ".clinerules", ".agents", ".claude", ".mcp.json", ".cursor", ".cursorrules", ".windsurfrules"),
        *(".windsurf", "AGENTS.md", "CLAUDE.md", "GEMINI.md"),
    )
    reader = ClineReader

    def files(self, request: AgentRequest, environment: Environment, url: str) -> dict[str, str]:
        """The gateway as the only provider; no telemetry; what is appended is a rule of the user's."""
        provider, path = _PROVIDERS[self._dialect(request)]
        settings = {
            "provider": provider,
            "apiKey": KEY_PLACEHOLDER,
            "model": request.model,
            "baseUrl": url + path,
        }
        entry = {"settings": settings, "updatedAt": "2026-01-01T00:00:00.000Z", "tokenSource": "manual"}
        providers = {"version": 1, "lastUsedProvider": provider, "modes": {}, "providers": {provider: entry}}
        files = {
            "cline/data/settings/providers.json": json.dumps(providers),
            "cline/data/settings/global-settings.json": json.dumps(_SETTINGS),
        }
        if self._setup.agent_options.append_system_prompt is not None:
            files["cline/rules/proctor.md"] = self._setup.agent_options.append_system_prompt
        return files

    def variables(self, request: AgentRequest, url: str) -> dict[str, str]:
        """A folder of its own, no daemon, no updates."""
        own = {"CLINE_SANDBOX": "1", "CLINE_SESSION_BACKEND_MODE": "local", "CLINE_NO_AUTO_UPDATE": "1"}
        return {**super().variables(request, url), **own}

    def arguments(self, request: AgentRequest) -> list[str]:
        """One prompt without questions; the environment is the fence."""
        options = self._setup.agent_options
        words = ["--json", "--auto-approve", "true"]
        if options.effort is not None:
            words += ["--thinking", options.effort]
        if options.system_prompt is not None:
            words.append(f"--system={check_prompt(options.system_prompt)}")
        return words
