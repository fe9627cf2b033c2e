"""Qwen Code, run once per task without a terminal."""

import json
from typing import Any, Final

import msgspec

from proctor.agents.json_lines_reader import JsonLinesReader
from proctor.agents.node_agent import NodeAgent
from proctor.agents.program_agent import check_prompt
from proctor.core.agent import KEY_PLACEHOLDER, AgentRequest
from proctor.core.environment import Environment
from proctor.core.result import Tokens

# By dialect: the type of its login, which the names of the variables begin with, and what is behind the address.
_LOGINS: Final = {"chat": ("openai", "/v1"), "messages": ("anthropic", "")}
# It reports a refused request as a success with this text.
_ERROR: Final = "[API Error: "
# Those that its setting for tools leaves.
_ALWAYS_OFFERED: Final = frozenset({"agent", "skill", "tool_search", "send_message", "task_stop"})
# Its files of instructions have any name that its settings say; there is none of this.
_NO_FILE: Final = "no-such-file.md"


class _QwenUsage(msgspec.Struct):
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_input_tokens: int = 0

    @property
    def tokens(self) -> Tokens:
        """What was read from the cache is counted as input."""
        return Tokens(
            input=max(0, self.input_tokens - self.cache_read_input_tokens),
            output=self.output_tokens,
            cache_read=self.cache_read_input_tokens,
        )


class _QwenBlock(msgspec.Struct):
    type: str = ""
    text: str = ""
    name: str = ""
    input: Any = None


class _QwenMessage(msgspec.Struct):
    content: list[_QwenBlock] = []


class _QwenError(msgspec.Struct):
    message: str = ""


class _QwenEvent(msgspec.Struct):
    type: str = ""
    message: _QwenMessage | None = None
    is_error: bool = False
    result: Any = None
    error: _QwenError | None = None
    usage: _QwenUsage | None = None


class QwenReader(JsonLinesReader[_QwenEvent]):
    """Reads what ``qwen --output-format stream-json`` prints."""

    decoder = msgspec.json.Decoder(_QwenEvent)

    def handle_event(self, event: _QwenEvent) -> None:
        """Read one event."""
        match event.type:
            case "assistant" if event.message is not None:
                for block in event.message.content:
                    self._take_block(block)
            case "result":
                self._take_result(event)

    def _take_block(self, block: _QwenBlock) -> None:
        if block.type == "tool_use":
            self._show_tool(block.name, block.input)
        elif block.type == "text" and block.text:
            self._show_text(block.text)

    def _take_result(self, event: _QwenEvent) -> None:
        said = event.result if isinstance(event.result, str) else ""
        self._tokens = event.usage.tokens if event.usage is not None else None
        if event.is_error or said.startswith(_ERROR):
            self._error = (event.error or _QwenError()).message or said or "its session failed"
            self._text = "" if self._text.startswith(_ERROR) else self._text
        else:
            self._finished, self._text = True, said or self._text


class Qwen(NodeAgent):
    """Qwen Code. Turns are limited by the gateway: at its own limit it hangs."""

    name = "qwen"
    title = "Qwen Code"
    command = "qwen"
    command_variable = "QWEN_BIN"
    npm_packages = ("@qwen-code/qwen-code",)
    remedy = "npm install -g @qwen-code/qwen-code, or set QWEN_BIN"
    dialects = ("chat", "messages")
    efforts = ("low", "medium", "high", "max")
    scripted_model = "gpt-5.5"
    foreign_variables = (
        "QWEN_*",
        "OPENAI_*",
        "ANTHROPIC_*",
        "GEMINI_*",
        "GOOGLE_*",
        "DASHSCOPE_*",
        "SANDBOX",
        "OTEL_*",
    )
    reserved_variables = frozenset(
        {
            *("OPENAI_BASE_URL", "OPENAI_API_KEY", "OPENAI_MODEL", "QWEN_HOME", "QWEN_RUNTIME_DIR"),
            *("ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY", "ANTHROPIC_MODEL", "DASHSCOPE_API_KEY"),
        }
    )
    folders = {"QWEN_HOME": "qwen", "QWEN_RUNTIME_DIR": "qwen-runtime"}  # noqa: RUF012 - a constant of the class
    own_folder = "QWEN_HOME"
    node_version = (20, 0)
    hidden_folders = (".qwen", ".agents", ".env")
    reader = QwenReader

    def files(self, request: AgentRequest, environment: Environment, url: str) -> dict[str, str]:
        """Settings: nothing from the net, nothing of the repository's."""
        settings: dict[str, Any] = {
            "general": {"enableAutoUpdate": False},
            "privacy": {"usageStatisticsEnabled": False},
            "telemetry": {"enabled": False},
            "ide": {"enabled": False},
            "disableAllHooks": True,
            "context": {"fileName": _NO_FILE},
            # The gateway retries, and its refusals are final.
            "model": {"generationConfig": {"maxRetries": 0}},
        }
        if self._setup.agent_options.effort is not None:
            settings["model"]["generationConfig"]["reasoning"] = {"effort": self._setup.agent_options.effort}
        if self._setup.agent_options.allowed_tools:
            allowed = self._setup.agent_options.allowed_tools
            settings["tools"] = {"core": list(allowed), "exclude": sorted(_ALWAYS_OFFERED - set(allowed))}
        return {"qwen/settings.json": json.dumps(settings)}

    def variables(self, request: AgentRequest, url: str) -> dict[str, str]:
        """The gateway, and the placeholder for the key."""
        login, path = _LOGINS[self._dialect(request)]
        prefix = login.upper()
        return {
            **super().variables(request, url),
            f"{prefix}_API_KEY": KEY_PLACEHOLDER,
            f"{prefix}_BASE_URL": url + path,
            f"{prefix}_MODEL": request.model or "",
            "QWEN_CODE_NO_RELAUNCH": "true",
        }

    def script_arguments(self, request: AgentRequest) -> list[str]:
        """One prompt without questions; the environment is the fence."""
        options = self._setup.agent_options
        words = ["--output-format", "stream-json", "--approval-mode", "yolo", "--model", request.model or ""]
        words += ["--auth-type", _LOGINS[self._dialect(request)][0]]
        words += ["--allowed-mcp-server-names", "none"]
        if options.system_prompt is not None:
            words.append(f"--system-prompt={check_prompt(options.system_prompt)}")
        if options.append_system_prompt is not None:
            words.append(f"--append-system-prompt={check_prompt(options.append_system_prompt)}")
        return words
