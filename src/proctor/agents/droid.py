"""Droid, run once per task through ``droid exec`` with the gateway as its model provider: no login is needed."""

import json
from typing import Any, Final

import msgspec

from proctor.agents.bun_agent import BunAgent
from proctor.agents.json_lines_reader import JsonLinesReader
from proctor.agents.program_agent import check_prompt
from proctor.core.agent import KEY_PLACEHOLDER, AgentRequest
from proctor.core.environment import Environment
from proctor.core.result import Tokens

_MODEL: Final = "custom:proctor"
# It must be told one.
_OUTPUT_TOKENS: Final = 32_000
# By dialect: the kind of the provider, and what is behind the gateway's address.
_PROVIDERS: Final = {
    "chat": ("generic-chat-completion-api", "/v1"),
    "responses": ("openai", "/v1"),
    "messages": ("anthropic", ""),
}


class _DroidUsage(msgspec.Struct):
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_input_tokens: int = 0
    cache_creation_input_tokens: int = 0

    @property
    def tokens(self) -> Tokens:
        return Tokens(
            input=self.input_tokens,
            output=self.output_tokens,
            cache_read=self.cache_read_input_tokens,
            cache_write_5m=self.cache_creation_input_tokens,
        )


class _DroidEvent(msgspec.Struct, rename="camel"):
    type: str = ""
    role: str = ""
    text: str = ""
    tool_name: str = ""
    parameters: Any = None
    message: str = ""
    final_text: str = ""
    num_turns: int = 0
    usage: _DroidUsage | None = None


class DroidReader(JsonLinesReader[_DroidEvent]):
    """Reads what ``droid exec --output-format stream-json`` prints."""

    decoder = msgspec.json.Decoder(_DroidEvent)

    def handle_event(self, event: _DroidEvent) -> None:
        """Read one event."""
        match event.type:
            case "tool_call":
                self._show_tool(event.tool_name, event.parameters)
            case "message" if event.role == "assistant" and event.text:
                self._show_text(event.text)
            case "error":
                # The first is the reason; others only say that there was one.
                self._error = self._error or event.message or "it failed"
            case "completion":
                self._finished, self._error = True, ""
                self._text = event.final_text or self._text
                self._requests = event.num_turns
                self._tokens = event.usage.tokens if event.usage is not None else None


class Droid(BunAgent):
    """Droid. Turns are limited by the gateway: it has no limit of its own."""

    name = "droid"
    title = "Droid"
    command = "droid"
    command_variable = "DROID_BIN"
    npm_packages = ("droid",)
    remedy = "npm install -g droid, or set DROID_BIN"
    dialects = ("chat", "responses", "messages")
    efforts = ("none", "off", "minimal", "low", "medium", "high", "xhigh", "max")
    native_patterns = (
        "node_modules/@factory/cli-linux-*/bin/droid",
        "@factory/cli-linux-*/bin/droid",
    )
    foreign_variables = ("FACTORY_*", "DROID_*", "OTEL_*", "BUN_*")
    reserved_variables = frozenset(
        {
            *("FACTORY_API_KEY", "FACTORY_TOKEN", "FACTORY_HOME_OVERRIDE", "FACTORY_AIRGAP_ENABLED", "BUN_OPTIONS"),
            *("FACTORY_API_BASE_URL", "FACTORY_RUNTIME_SETTINGS_PATH", "FACTORY_APPEND_SYSTEM_PROMPT"),
        }
    )
    unsupported_options = {  # noqa: RUF012 - a constant of the class
        "system_prompt": ("Droid cannot be given another system prompt", "use --append-system-prompt, or leave it out")
    }
    folders = {"FACTORY_HOME_OVERRIDE": "droid"}  # noqa: RUF012 - a constant of the class
    own_folder = "FACTORY_HOME_OVERRIDE"
    # Interrupted, it exits with 0.
    grace_seconds = 0.0
    # It looks for files of instructions by reading them.
    hidden_folders = (".factory", ".agents", ".claude", ".mcp.json", "AGENTS.md", "Agents.md", "CLAUDE.md")
    reader = DroidReader

    def files(self, request: AgentRequest, environment: Environment, url: str) -> dict[str, str]:
        """The gateway as the provider of the only model; no hooks, nothing from the net."""
        provider, path = _PROVIDERS[self._dialect(request)]
        model = {
            "id": _MODEL,
            "model": request.model,
            "displayName": request.model,
            "baseUrl": url + path,
            "apiKey": KEY_PLACEHOLDER,
            "provider": provider,
            "maxOutputTokens": _OUTPUT_TOKENS,
        }
        settings: dict[str, Any] = {
            "customModels": [model],
            "hooksDisabled": True,
            "cloudSessionSync": False,
            "enableDroidShield": False,
        }
        return {"droid/.factory/settings.json": json.dumps(settings)}

    def variables(self, request: AgentRequest, url: str) -> dict[str, str]:
        """A key that nobody checks, and no traffic of its own."""
        own = {
            "FACTORY_API_KEY": KEY_PLACEHOLDER,
            "FACTORY_AIRGAP_ENABLED": "true",
            "FACTORY_DISABLE_KEYRING": "true",
            "FACTORY_DROID_AUTO_UPDATE_ENABLED": "false",
        }
        return {**super().variables(request, url), **own}

    def arguments(self, request: AgentRequest) -> list[str]:
        """One prompt without questions; the environment is the fence."""
        options = self._setup.agent_options
        words = ["exec", "--output-format", "stream-json", "--skip-permissions-unsafe", "--model", _MODEL]
        if options.effort is not None:
            words += ["--reasoning-effort", options.effort]
        if options.allowed_tools:
            words += ["--only-tools", ",".join(options.allowed_tools)]
        if options.append_system_prompt is not None:
            words.append(f"--append-system-prompt={check_prompt(options.append_system_prompt)}")
        return words
