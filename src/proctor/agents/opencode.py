"""OpenCode, run once per task through ``opencode run``."""

import json
from typing import Any, Final

import msgspec

from proctor.agents.bun_agent import BunAgent
from proctor.agents.json_lines_reader import JsonLinesReader
from proctor.core.agent import EFFORTS, KEY_PLACEHOLDER, AgentRequest
from proctor.core.environment import Environment
from proctor.core.result import Tokens

_OWN_PROVIDER: Final = "proctor"
_AGENT: Final = "build"
# By dialect: the provider, of whose models the program knows the limits, and what is behind the gateway's address.
_PROVIDERS: Final = {
    "chat": (_OWN_PROVIDER, "/v1"),
    "responses": ("openai", "/v1"),
    "messages": ("anthropic", "/v1"),
    "gemini": ("google", "/v1beta"),
}

# It would install its library for plugins there, from npm's registry, unless it finds it installed. No plugin is run.
_INSTALLED: Final = {
    "config/opencode/node_modules/.keep": "",
    "config/opencode/package-lock.json": json.dumps({"packages": {"": {"dependencies": {"@opencode-ai/plugin": "*"}}}}),
}


class _Cache(msgspec.Struct):
    read: int = 0
    write: int = 0


class _Tokens(msgspec.Struct):
    input: int = 0
    output: int = 0
    reasoning: int = 0
    cache: _Cache = msgspec.field(default_factory=_Cache)

    @property
    def total(self) -> Tokens:
        """Reasoning is counted beside its output."""
        return Tokens(
            input=self.input,
            output=self.output + self.reasoning,
            cache_read=self.cache.read,
            cache_write_5m=self.cache.write,
            reasoning=self.reasoning,
        )


class _State(msgspec.Struct):
    input: Any = None


class _OpenCodePart(msgspec.Struct):
    text: str = ""
    tool: str = ""
    reason: str = ""
    state: _State | None = None
    tokens: _Tokens | None = None


class _Event(msgspec.Struct):
    type: str = ""
    part: _OpenCodePart | None = None
    error: Any = None


class OpenCodeReader(JsonLinesReader[_Event]):
    """Reads what ``opencode run --format json`` prints. It has finished with a step that wants no further one."""

    decoder = msgspec.json.Decoder(_Event)

    def handle_event(self, event: _Event) -> None:
        """Read one event."""
        part = event.part or _OpenCodePart()
        match event.type:
            case "tool_use":
                self._show_tool(part.tool, part.state.input if part.state else None)
            case "text":
                self._show_text(part.text)
            case "step_start":
                self._text = ""
            case "step_finish":
                self._finished = part.reason != "tool-calls"
                if part.tokens is not None:
                    self._add_tokens(part.tokens.total)
            case "error":
                self._error = _error_text(event.error)


class OpenCode(BunAgent):
    """OpenCode. Turns are limited by the gateway. After an error whose text has
    words such as `rate limit`, or numbers such as 500, it tries five more times within a minute, whatever the status.
    """

    name = "opencode"
    title = "OpenCode"
    command = "opencode"
    command_variable = "OPENCODE_BIN"
    npm_packages = ("opencode-ai",)
    remedy = "npm install -g opencode-ai, or set OPENCODE_BIN"
    dialects = ("chat", "responses", "messages", "gemini")
    efforts = EFFORTS
    preload_variable = "BUN_INSPECT_PRELOAD"
    # `baseline` runs on any processor.
    native_patterns = (
        "node_modules/opencode-linux-*-baseline/bin/opencode",
        "node_modules/opencode-linux-*/bin/opencode",
        "opencode-linux-*-baseline/bin/opencode",
        "opencode-linux-*/bin/opencode",
    )
    foreign_variables = ("OPENCODE_*", "ANTHROPIC_*", "OPENAI_*", "GEMINI_*", "GOOGLE_*", "OTEL_*", "BUN_*")
    reserved_variables = frozenset(
        {"BUN_INSPECT_PRELOAD", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "OPENCODE_CONFIG_CONTENT"}
    )
    folders = {  # noqa: RUF012 - a constant of the class
        "XDG_CONFIG_HOME": "config",
        "XDG_DATA_HOME": "data",
        "XDG_STATE_HOME": "state",
    }
    own_folder = "XDG_CONFIG_HOME"
    # It has switches for all that the repository configures but for the plugins in this folder.
    hidden_folders = (".opencode",)
    # An interrupt does not end it.
    grace_seconds = 0.0
    reader = OpenCodeReader

    def files(self, request: AgentRequest, environment: Environment, url: str) -> dict[str, str]:
        """The gateway as a provider, nothing from the net, no questions; what is appended are the user's rules."""
        options = self._setup.agent_options
        name, path = _PROVIDERS[self._dialect(request)]
        provider: dict[str, Any] = {
            "options": {"baseURL": url + path, "apiKey": KEY_PLACEHOLDER},
            "models": {request.model: {}},
        }
        if name == _OWN_PROVIDER:
            provider["npm"] = "@ai-sdk/openai-compatible"
            if options.effort is not None:
                variants = {options.effort: {"reasoningEffort": options.effort}}
                provider["models"] = {request.model: {"reasoning": True, "variants": variants}}
        config: dict[str, Any] = {
            "share": "disabled",
            "autoupdate": False,
            "enabled_providers": [name],
            "provider": {name: provider},
            "small_model": f"{name}/{request.model}",
            "permission": "allow",
        }
        if options.allowed_tools:
            config["permission"] = {"*": "deny", **dict.fromkeys(options.allowed_tools, "allow")}
        if options.system_prompt is not None:
            config["agent"] = {_AGENT: {"prompt": options.system_prompt}}
        files = {"config/opencode/opencode.json": json.dumps(config), **_INSTALLED}
        if options.append_system_prompt is not None:
            files["config/opencode/AGENTS.md"] = options.append_system_prompt
        return files

    def variables(self, request: AgentRequest, url: str) -> dict[str, str]:
        """No traffic but to the gateway, and no configuration of the repository's."""
        switches = (
            *("DISABLE_PROJECT_CONFIG", "DISABLE_EXTERNAL_SKILLS", "DISABLE_CLAUDE_CODE", "DISABLE_MODELS_FETCH"),
            *("DISABLE_AUTOUPDATE", "DISABLE_LSP_DOWNLOAD", "DISABLE_SHARE", "PURE"),
        )
        return {**super().variables(request, url), **{f"OPENCODE_{name}": "1" for name in switches}}

    def arguments(self, request: AgentRequest) -> list[str]:
        """One message; with a title, it does not ask the model for one."""
        model = f"{_PROVIDERS[self._dialect(request)][0]}/{request.model}"
        words = ["run", "--format", "json", "--agent", _AGENT, "--title", "task", "--model", model]
        effort = self._setup.agent_options.effort
        return words if effort is None else [*words, "--variant", effort]


def _error_text(error: Any) -> str:
    if not isinstance(error, dict):
        return str(error or "it failed")
    data = error.get("data")
    message = data.get("message") if isinstance(data, dict) else None
    return str(message or error.get("name") or "it failed")
