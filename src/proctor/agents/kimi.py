"""Kimi Code, run once per task without a terminal."""

import json
from typing import Any, Final

import msgspec

from proctor.agents.json_lines_reader import JsonLinesReader
from proctor.agents.node_agent import NodeAgent
from proctor.core.agent import KEY_PLACEHOLDER, AgentRequest
from proctor.core.environment import Environment
from proctor.core.formatting import truncate_line

# By dialect: the type of the provider, and what is behind the gateway's address.
_PROVIDERS: Final = {"chat": ("openai", "/v1"), "messages": ("anthropic", "")}
# It must be told one. Its conversations are compacted before they are as long.
_CONTEXT_TOKENS: Final = 200_000
_PROFILE: Final = "agents/proctor.md"
_OWN_PROMPT: Final = "${base_prompt}"


class _KimiFunction(msgspec.Struct):
    name: str = ""
    arguments: str = ""


class _KimiCall(msgspec.Struct):
    function: _KimiFunction = msgspec.field(default_factory=_KimiFunction)


class _KimiMessage(msgspec.Struct):
    role: str = ""
    type: str = ""
    content: Any = None
    tool_calls: list[_KimiCall] | None = None


class KimiReader(JsonLinesReader[_KimiMessage]):
    """Reads what ``kimi --output-format stream-json`` prints: messages, and at the end how to resume the session.

    It has no counts of tokens, and says on its standard error why it failed.
    """

    decoder = msgspec.json.Decoder(_KimiMessage)

    def handle_event(self, message: _KimiMessage) -> None:
        """Read one message."""
        if message.role == "assistant":
            self._take_message(message)
        elif message.role == "meta" and message.type == "session.resume_hint":
            self._finished = True

    def _take_message(self, message: _KimiMessage) -> None:
        if isinstance(message.content, str) and message.content:
            self._show_text(message.content)
        for call in message.tool_calls or ():
            self._steps += 1
            self._on_progress(truncate_line(f"{call.function.name} {call.function.arguments}"))


class Kimi(NodeAgent):
    """Kimi Code. Turns are limited by the gateway: it has no limit of its own."""

    name = "kimi"
    title = "Kimi Code"
    command = "kimi"
    command_variable = "KIMI_BIN"
    npm_packages = ("@moonshot-ai/kimi-code",)
    remedy = "npm install -g @moonshot-ai/kimi-code with Node 22.19 or newer, or set KIMI_BIN and NODE_BIN"
    dialects = ("chat", "messages")
    efforts = ("off", "minimal", "low", "medium", "high", "xhigh", "max")
    scripted_model = "kimi-k2.5"
    foreign_variables = ("KIMI_*", "MOONSHOT_*", "OPENAI_*", "ANTHROPIC_*", "OTEL_*")
    reserved_variables = frozenset(
        {
            *("KIMI_CODE_HOME", "KIMI_DISABLE_TELEMETRY", "KIMI_CODE_NO_AUTO_UPDATE", "KIMI_API_KEY"),
            *("KIMI_MODEL_NAME", "KIMI_MODEL_API_KEY", "KIMI_MODEL_BASE_URL", "MOONSHOT_API_KEY"),
            *("OPENAI_API_KEY", "ANTHROPIC_API_KEY"),
        }
    )
    folders = {"KIMI_CODE_HOME": "kimi"}  # noqa: RUF012 - a constant of the class
    own_folder = "KIMI_CODE_HOME"
    node_version = (22, 19)
    prompt_option = "--prompt"
    # It looks for files of instructions by reading them.
    hidden_folders = (".kimi-code", ".kimi", ".agents", ".mcp.json", "AGENTS.md", "agents.md")
    reader = KimiReader

    def files(self, request: AgentRequest, environment: Environment, url: str) -> dict[str, str]:
        """The gateway as the only provider; the prompts and the tools of the run are the profile of an agent."""
        kind, path = _PROVIDERS[self._dialect(request)]
        sections: dict[str, dict[str, Any]] = {
            "models.run": {"provider": "proctor", "model": request.model or "", "max_context_size": _CONTEXT_TOKENS},
            "providers.proctor": {"type": kind, "base_url": url + path, "api_key": KEY_PLACEHOLDER},
            # The gateway retries, and its refusals are final.
            "loop_control": {"max_attempts_per_step": 1},
        }
        if self._setup.agent_options.effort is not None:
            sections["thinking"] = {"enabled": True, "effort": self._setup.agent_options.effort}
        lines = ['default_model = "run"', "telemetry = false"]
        for title, members in sections.items():
            # Texts and numbers are those of JSON.
            lines += [f"[{title}]", *(f"{name} = {json.dumps(value)}" for name, value in members.items())]
        files = {"kimi/config.toml": "\n".join(lines) + "\n"}
        if self._has_profile:
            files[f"kimi/{_PROFILE}"] = self._profile()
        return files

    def variables(self, request: AgentRequest, url: str) -> dict[str, str]:
        """Nothing from the net."""
        return {
            **super().variables(request, url),
            "KIMI_DISABLE_TELEMETRY": "1",
            "KIMI_CODE_NO_AUTO_UPDATE": "1",
        }

    def script_arguments(self, request: AgentRequest) -> list[str]:
        """One prompt; without a terminal it asks nothing. The environment is the fence."""
        words = ["--output-format", "stream-json"]
        return [*words, "--agent", "proctor"] if self._has_profile else words

    @property
    def _has_profile(self) -> bool:
        options = self._setup.agent_options
        return bool(options.system_prompt or options.append_system_prompt or options.allowed_tools)

    def _profile(self) -> str:
        options = self._setup.agent_options
        head = ["name: proctor", "description: Works on the task."]
        if options.allowed_tools:
            head.append(f"tools: {json.dumps(options.allowed_tools)}")
        prompts = (options.system_prompt or _OWN_PROMPT, options.append_system_prompt)
        body = "\n\n".join(prompt for prompt in prompts if prompt)
        return "\n".join(["---", *head, "---", body])
