"""Codex CLI, run once per task through ``codex exec``."""

import json
import re
from typing import Any, Final

import msgspec

from proctor.agents.json_lines_reader import JsonLinesReader
from proctor.agents.program_agent import MountedProgram, ProgramAgent
from proctor.core.agent import EFFORTS, KEY_PLACEHOLDER, AgentRequest
from proctor.core.environment import Environment
from proctor.core.formatting import truncate_line
from proctor.core.result import Tokens

_KEY_VARIABLE: Final = "CODEX_GATEWAY_KEY"
_PROVIDER: Final = "proctor"
_INSTRUCTIONS: Final = "instructions.md"
# Where npm puts the program of each platform, seen from a folder above the launcher.
_NATIVE: Final = ("node_modules/@openai/codex-linux-*/vendor/*/bin/codex", "codex-linux-*/vendor/*/bin/codex")


class _CodexUsage(msgspec.Struct):
    input_tokens: int = 0
    cached_input_tokens: int = 0
    cache_write_input_tokens: int = 0
    output_tokens: int = 0
    reasoning_output_tokens: int = 0

    @property
    def tokens(self) -> Tokens:
        """What it counts; its sub-agents are left out."""
        known = self.cached_input_tokens + self.cache_write_input_tokens
        return Tokens(
            input=max(0, self.input_tokens - known),
            output=self.output_tokens,
            cache_read=self.cached_input_tokens,
            cache_write_5m=self.cache_write_input_tokens,
            reasoning=self.reasoning_output_tokens,
        )


class _CodexError(msgspec.Struct):
    message: str = ""


class _CodexItem(msgspec.Struct):
    type: str = ""
    text: str = ""
    command: Any = None


class _CodexEvent(msgspec.Struct):
    type: str = ""
    item: _CodexItem | None = None
    usage: _CodexUsage | None = None
    error: _CodexError | None = None


class CodexReader(JsonLinesReader[_CodexEvent]):
    """Reads what ``codex exec --json`` prints. Items of errors are warnings: only a failed turn is one."""

    decoder = msgspec.json.Decoder(_CodexEvent)

    def handle_event(self, event: _CodexEvent) -> None:
        """Read one event."""
        match event.type:
            case "item.started" if event.item is not None and event.item.type == "command_execution":
                self._on_progress(truncate_line(f"runs {event.item.command}"))
            case "item.completed" if event.item is not None:
                self._steps += event.item.type not in {"error", "reasoning"}
                if event.item.type == "agent_message":
                    self._show_text(event.item.text)
            case "turn.completed":
                self._finished, self._tokens = True, event.usage.tokens if event.usage is not None else None
            case "turn.failed":
                self._error = (event.error or _CodexError()).message or "its turn failed"


class Codex(ProgramAgent):
    """Codex CLI. Turns are limited by the gateway: it has no limit of its own."""

    name = "codex"
    title = "Codex"
    command = "codex"
    command_variable = "CODEX_BIN"
    npm_packages = ("@openai/codex",)
    remedy = "npm install -g @openai/codex, or set CODEX_BIN"
    dialects = ("responses",)
    # The last is the program's own: it thinks as with `xhigh`, and hands work to sub-agents.
    efforts = (*EFFORTS, "ultra")
    scripted_model = "gpt-5.5"
    foreign_variables = ("CODEX_*", "OPENAI_*")
    reserved_variables = frozenset({"CODEX_HOME", "CODEX_API_KEY", "OPENAI_API_KEY", "OPENAI_BASE_URL", _KEY_VARIABLE})
    unsupported_options = {  # noqa: RUF012 - a constant of the class
        "allowed_tools": ("Codex cannot be limited to some of its tools", "leave --allowed-tools out")
    }
    folders = {"CODEX_HOME": "codex"}  # noqa: RUF012 - a constant of the class
    version_line = re.compile(r"codex\S* \d+\.\d+\S*")
    reader = CodexReader

    def find_program(self) -> MountedProgram:
        """The native program, and the folder of its package where it has one: it brings programs of its own."""
        native = self.find_native(_NATIVE)
        is_packaged = native.parent.name == "bin" and "vendor" in native.parts
        return MountedProgram(path=native, root=native.parent.parent if is_packaged else native)

    def files(self, request: AgentRequest, environment: Environment, url: str) -> dict[str, str]:
        """The configuration: a provider that is the gateway, nothing of the repository's, nothing from the net."""
        options = self._setup.agent_options
        lines = {
            "model_provider": _PROVIDER,
            "check_for_update_on_startup": False,
            "web_search": "disabled",
            "project_doc_max_bytes": 0,
        }
        if request.model is not None:
            lines["model"] = request.model
        if options.effort is not None:
            lines["model_reasoning_effort"] = options.effort
        if options.append_system_prompt is not None:
            lines["developer_instructions"] = options.append_system_prompt
        sections: dict[str, dict[str, Any]] = {
            "analytics": {"enabled": False},
            # It has no switch for those of the repository alone.
            "skills": {"include_instructions": False},
            f"model_providers.{_PROVIDER}": {
                "name": _PROVIDER,
                "base_url": f"{url}/v1",
                "env_key": _KEY_VARIABLE,
                "wire_api": "responses",
                # The gateway retries, and its refusals are final.
                "request_max_retries": 0,
                "stream_max_retries": 0,
            },
            # A project that is not trusted configures nothing: no servers, no prompt.
            f"projects.{_toml(environment.workdir)}": {"trust_level": "untrusted"},
        }
        files = {"codex/config.toml": _config(lines, sections)}
        if options.system_prompt is not None:
            files[f"codex/{_INSTRUCTIONS}"] = options.system_prompt
            files["codex/config.toml"] = (
                f"model_instructions_file = {_toml(_INSTRUCTIONS)}\n" + files["codex/config.toml"]
            )
        return files

    def variables(self, request: AgentRequest, url: str) -> dict[str, str]:
        """The placeholder for the key."""
        return {_KEY_VARIABLE: KEY_PLACEHOLDER}

    def arguments(self, request: AgentRequest) -> list[str]:
        """One turn without questions; the environment is the fence."""
        words = ["exec", "--json", "--dangerously-bypass-approvals-and-sandbox", "--skip-git-repo-check"]
        words += ["--disable", "plugins", "--disable", "apps"]
        return [*words, "-"]


def _config(lines: dict[str, Any], sections: dict[str, dict[str, Any]]) -> str:
    text = "".join(f"{name} = {_toml(value)}\n" for name, value in lines.items())
    for title, members in sections.items():
        text += f"[{title}]\n" + "".join(f"{name} = {_toml(value)}\n" for name, value in members.items())
    return text


def _toml(value: Any) -> str:
    """A value as TOML writes it: texts, numbers and truth values are those of JSON."""
    return json.dumps(value)
