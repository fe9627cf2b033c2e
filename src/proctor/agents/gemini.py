"""Gemini CLI, run once per task without a terminal."""

import json
from typing import Any, Final

import msgspec

from proctor.agents.json_lines_reader import JsonLinesReader
from proctor.agents.node_agent import NodeAgent
from proctor.agents.program_agent import ProgramReport
from proctor.core.agent import KEY_PLACEHOLDER, AgentRequest, ProgressCallback
from proctor.core.environment import Environment
from proctor.core.errors import UsageError
from proctor.core.result import ModelUsage, Tokens

_SYSTEM_PROMPT: Final = "system.md"


class _ModelStats(msgspec.Struct):
    input_tokens: int = 0
    output_tokens: int = 0
    cached: int = 0
    total_tokens: int = 0


class _Stats(msgspec.Struct):
    models: dict[str, _ModelStats] = {}


class _Error(msgspec.Struct):
    message: str = ""


class _GeminiEvent(msgspec.Struct):
    type: str = ""
    role: str = ""
    content: Any = None
    tool_name: str = ""
    parameters: Any = None
    severity: str = ""
    message: str = ""
    status: str = ""
    error: _Error | None = None
    stats: _Stats | None = None


class GeminiReader(JsonLinesReader[_GeminiEvent]):
    """Reads what ``gemini --output-format stream-json`` prints."""

    decoder = msgspec.json.Decoder(_GeminiEvent)

    def __init__(self, on_progress: ProgressCallback, model: str) -> None:
        super().__init__(on_progress, model)
        self._stats: _Stats | None = None

    def handle_event(self, event: _GeminiEvent) -> None:
        """Read one event. A message comes in pieces."""
        match event.type:
            case "message" if event.role == "assistant" and isinstance(event.content, str):
                self._show_text(self._text + event.content)
            case "tool_use":
                self._text = ""
                self._show_tool(event.tool_name, event.parameters)
            case "error" if event.severity == "error":
                self._error = event.message
            case "result":
                self._finished = event.status == "success"
                self._stats = event.stats
                if not self._finished:
                    self._error = (event.error or _Error()).message or "its session failed"

    def report(self) -> ProgramReport:
        """What it has reported; it leaves thoughts out of its counts but for the total."""
        usage = tuple(
            ModelUsage(
                model=model,
                requests=0,
                tokens=Tokens(
                    input=max(0, used.input_tokens - used.cached),
                    output=max(used.output_tokens, used.total_tokens - used.input_tokens),
                    cache_read=used.cached,
                    reasoning=max(0, used.total_tokens - used.input_tokens - used.output_tokens),
                ),
                cost_usd=None,
            )
            for model, used in (self._stats.models if self._stats else {}).items()
        )
        return msgspec.structs.replace(super().report(), usage=usage)


class Gemini(NodeAgent):
    """Gemini CLI. Turns are limited by the gateway."""

    name = "gemini"
    title = "Gemini CLI"
    command = "gemini"
    command_variable = "GEMINI_BIN"
    npm_packages = ("@google/gemini-cli",)
    remedy = "npm install -g @google/gemini-cli, or set GEMINI_BIN"
    dialects = ("gemini",)
    scripted_model = "gemini-2.5-pro"
    foreign_variables = ("GEMINI_*", "GOOGLE_*", "CODE_ASSIST_ENDPOINT", "CLOUD_SHELL", "SANDBOX", "OTEL_*")
    reserved_variables = frozenset(
        {"GEMINI_CLI_HOME", "GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GEMINI_BASE_URL", "GEMINI_SYSTEM_MD"}
    )
    folders = {"GEMINI_CLI_HOME": "gemini"}  # noqa: RUF012 - a constant of the class
    own_folder = "GEMINI_CLI_HOME"
    node_version = (20, 0)
    # Interrupted, it exits without a result and leaves its commands behind.
    grace_seconds = 0.0
    # A folder that is not trusted would be enough, but in one it refuses to run git and starts no session.
    hidden_folders = (".gemini", ".agents")
    hidden_files = ("GEMINI.md",)
    reader = GeminiReader

    def files(self, request: AgentRequest, environment: Environment, url: str) -> dict[str, str]:
        """Settings: a key, nothing from the net. What is appended to the prompt is the user's memory."""
        options = self._setup.agent_options
        settings: dict[str, Any] = {
            "security": {"auth": {"selectedType": "gemini-api-key"}},
            "general": {
                "enableAutoUpdate": False,
                "enableAutoUpdateNotification": False,
                # The gateway retries.
                "maxAttempts": 1,
                "retryFetchErrors": False,
            },
            "privacy": {"usageStatisticsEnabled": False},
            "telemetry": {"enabled": False},
            "ide": {"enabled": False},
            "advanced": {"ignoreLocalEnv": True},
        }
        if options.allowed_tools:
            settings["tools"] = {"core": list(options.allowed_tools)}
        files = {"gemini/.gemini/settings.json": json.dumps(settings)}
        if options.system_prompt is not None:
            files[f"gemini/{_SYSTEM_PROMPT}"] = options.system_prompt
        if options.append_system_prompt is not None:
            files["gemini/.gemini/GEMINI.md"] = options.append_system_prompt
        return files

    def variables(self, request: AgentRequest, url: str) -> dict[str, str]:
        """The gateway, and the placeholder for the key."""
        if request.model is None:
            raise UsageError(
                "Gemini CLI chooses another model for each prompt unless it is told one", fix="give --model"
            )
        variables = {
            "GEMINI_API_KEY": KEY_PLACEHOLDER,
            "GOOGLE_GEMINI_BASE_URL": url,
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
            "GEMINI_CLI_NO_RELAUNCH": "true",
        }
        if self._setup.agent_options.system_prompt is not None:
            variables["GEMINI_SYSTEM_MD"] = f"~/{_SYSTEM_PROMPT}"
        return {**super().variables(request, url), **variables}

    def script_arguments(self, request: AgentRequest) -> list[str]:
        """One prompt without questions; the environment is the fence."""
        words = ["--output-format", "stream-json", "--approval-mode", "yolo", "--model", request.model or ""]
        return [*words, "--allowed-mcp-server-names", "none"]
