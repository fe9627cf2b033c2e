"""GitHub Copilot CLI, run once per task with the gateway as its model provider: no login is needed."""

import contextlib
import hashlib
import json
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Final

import msgspec

from proctor.agents.json_lines_reader import JsonLinesReader
from proctor.agents.program_agent import MountedProgram, ProgramAgent
from proctor.core.agent import EFFORTS, KEY_PLACEHOLDER, AgentRequest
from proctor.core.environment import Environment
from proctor.core.errors import InfrastructureError
from proctor.core.files import cache_root
from proctor.core.formatting import truncate_line

# Where npm puts the program of each platform, seen from a folder above the launcher.
_NATIVE: Final = ("node_modules/@github/copilot-linux-*/copilot", "copilot-linux-*/copilot")
_PACKAGE: Final = "package"
_PACKAGE_VARIABLE: Final = "COPILOT_PKG_CACHE_HOME"
_UNPACK_SECONDS: Final = 120.0
_PROFILE: Final = "proctor"
# By dialect: the type of the provider, its API, and what is behind the gateway's address.
_PROVIDERS: Final = {
    "chat": ("openai", "completions", "/v1"),
    "responses": ("openai", "responses", "/v1"),
    "messages": ("anthropic", "completions", ""),
}


class _CopilotData(msgspec.Struct):
    content: Any = None
    message: str = ""
    toolName: str = ""  # noqa: N815 - as the program writes it
    arguments: Any = None


class _CopilotEvent(msgspec.Struct):
    type: str = ""
    data: _CopilotData | None = None
    exitCode: int | None = None  # noqa: N815 - as the program writes it


class CopilotReader(JsonLinesReader[_CopilotEvent]):
    """Reads what ``copilot --output-format json`` prints. It has no counts of tokens."""

    decoder = msgspec.json.Decoder(_CopilotEvent)

    def handle_event(self, event: _CopilotEvent) -> None:
        """Read one event."""
        data = event.data or _CopilotData()
        match event.type:
            case "tool.execution_start":
                self._show_tool(data.toolName, data.arguments)
            case "assistant.message" if isinstance(data.content, str) and data.content:
                self._show_text(data.content)
            case "session.error":
                self._error = data.message or "its session failed"
            case "result":
                self._finished = event.exitCode == 0
                if self._finished:
                    self._error = ""  # it has recovered from it


class Copilot(ProgramAgent):
    """GitHub Copilot CLI. Turns are limited by the gateway: it has no limit of its own."""

    name = "copilot"
    title = "Copilot CLI"
    command = "copilot"
    command_variable = "COPILOT_BIN"
    npm_packages = ("@github/copilot",)
    remedy = "npm install -g @github/copilot, or set COPILOT_BIN"
    dialects = ("chat", "responses", "messages")
    efforts = EFFORTS
    scripted_model = "gpt-5.5"
    foreign_variables = ("COPILOT_*", "GH_*", "GITHUB_*", "OTEL_*", "USE_*GREP*", "TGREP_*")
    version_line = re.compile(r".*Copilot.* v?\d+\.\d+\S*")
    reserved_variables = frozenset(
        {
            *(
                "COPILOT_PROVIDER_BASE_URL",
                "COPILOT_PROVIDER_TYPE",
                "COPILOT_PROVIDER_WIRE_API",
                "COPILOT_PROVIDER_API_KEY",
            ),
            *("COPILOT_PROVIDER_API_KEY_COMMAND", "COPILOT_PROVIDER_BEARER_TOKEN", "COPILOT_GITHUB_TOKEN", "GH_TOKEN"),
            *("GITHUB_TOKEN", "COPILOT_MODEL", "COPILOT_OFFLINE", "COPILOT_AUTO_UPDATE", "COPILOT_HOME"),
            *("COPILOT_CACHE_HOME", _PACKAGE_VARIABLE),
        }
    )
    unsupported_options = {  # noqa: RUF012 - a constant of the class
        "system_prompt": (
            "Copilot CLI cannot be given another system prompt",
            "use --append-system-prompt, or leave it out",
        ),
    }
    folders = {"COPILOT_HOME": "copilot", "COPILOT_CACHE_HOME": "copilot-cache"}  # noqa: RUF012 - a constant of the class
    reader = CopilotReader

    def find_program(self) -> MountedProgram:
        """The native program, and its package as it has unpacked it: otherwise it would do so in each environment."""
        native = self.find_native(_NATIVE)
        return MountedProgram(path=native, root=native, companions={_PACKAGE: _unpacked(native)})

    def versions(self) -> dict[str, str]:
        """The version of the program on this machine."""
        program = self.find_program()
        package = program.companions[_PACKAGE]
        argv: list[str | Path] = ["env", f"{_PACKAGE_VARIABLE}={package}", program.path, "--version"]
        return {self.name: self.ask_version(program.path, argv).rstrip(".")}

    def files(self, request: AgentRequest, environment: Environment, url: str) -> dict[str, str]:
        """No hooks, and no skills but those that come with it, which no location leaves out; the appended prompt is the
        profile of an agent, which the program puts behind its own prompt.
        """
        settings = {"disableAllHooks": True, "ignoredSkillsLocations": ["/"]}
        files = {"copilot/settings.json": json.dumps(settings)}
        appended = self._setup.agent_options.append_system_prompt
        if appended is not None:
            head = f"---\nname: {_PROFILE}\ndescription: Works on the task.\n---\n"
            files[f"copilot/agents/{_PROFILE}.agent.md"] = head + appended
        return files

    def variables(self, request: AgentRequest, url: str) -> dict[str, str]:
        """The gateway as the provider of the model, and nothing else to reach."""
        kind, api, path = _PROVIDERS[self._dialect(request)]
        return {
            "COPILOT_PROVIDER_BASE_URL": url + path,
            "COPILOT_PROVIDER_TYPE": kind,
            "COPILOT_PROVIDER_WIRE_API": api,
            "COPILOT_PROVIDER_API_KEY": KEY_PLACEHOLDER,
            "COPILOT_MODEL": request.model or "",
            "COPILOT_OFFLINE": "true",
            "COPILOT_AUTO_UPDATE": "false",
            _PACKAGE_VARIABLE: self.companion_path(self.find_program(), _PACKAGE),
        }

    def arguments(self, request: AgentRequest) -> list[str]:
        """One prompt without questions; nothing of the repository's. The environment is the fence."""
        options = self._setup.agent_options
        words = ["--output-format", "json", "--yolo", "--no-ask-user", "--no-color", "--log-level", "none"]
        words += ["--disable-builtin-mcps", "--no-custom-instructions", "--no-bash-env"]
        if options.effort is not None:
            words += ["--reasoning-effort", options.effort]
        if options.allowed_tools:
            words.append(f"--available-tools={','.join(options.allowed_tools)}")
        if options.append_system_prompt is not None:
            words += ["--agent", _PROFILE]
        return words


def _unpacked(native: Path) -> Path:
    """The folder with the program's package: it unpacks itself when it is first started, 240 MB.

    Raises:
        InfrastructureError: it does not run.
    """
    stat = native.stat()
    key = hashlib.sha256(f"{native} {stat.st_size} {stat.st_mtime_ns}".encode()).hexdigest()[:16]
    folder = cache_root() / "agents" / f"copilot-{key}"
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, ignore_cleanup_errors=True) as place:
        made = Path(place) / "package"
        variables = {_PACKAGE_VARIABLE: str(made), "HOME": place, "PATH": "/usr/bin:/bin"}
        try:
            done = subprocess.run(
                [native, "--version"], env=variables, capture_output=True, timeout=_UNPACK_SECONDS, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise InfrastructureError(f"Copilot CLI does not run: {error}", where=native) from error
        if done.returncode != 0:
            said = truncate_line(done.stderr.decode(errors="replace"), 300)
            raise InfrastructureError(f"Copilot CLI does not run: {said}", where=native)
        made.mkdir(exist_ok=True)  # a build that unpacks nothing
        with contextlib.suppress(OSError):  # another process was faster
            made.rename(folder)
    return folder
