"""mini-SWE-agent, run once per task: a loop of a few lines with one tool, a shell."""

import json
from typing import Final

import msgspec

from proctor.agents.json_lines_reader import JsonLinesReader
from proctor.agents.litellm import litellm_model, litellm_variables
from proctor.agents.python_agent import PythonAgent
from proctor.core.agent import EFFORTS, AgentRequest
from proctor.core.environment import Environment
from proctor.core.formatting import truncate_line
from proctor.core.result import Tokens

# The same agent that runs its benchmarks, without the questions of the interactive one; it prints what it does. Its
# instruction, which may be longer than an argument, comes on standard input.
_LAUNCHER: Final = r"""
import json, os, pathlib, types
task = sys.stdin.buffer.read().decode("utf-8", "replace")
import yaml
from minisweagent.agents.default import DefaultAgent
from minisweagent.config import builtin_config_dir
from minisweagent.run.mini import app

# By its path: a file of the same name in the task's repository would come first.
own = builtin_config_dir / "mini.yaml"
# The gateway limits and retries, and its refusals are final.
settings = {"agent.step_limit": 0, "agent.cost_limit": 0}
settings |= {"model.model_kwargs.max_retries": 0, "model.model_kwargs.num_retries": 0}
*prompts, effort = json.loads((pathlib.Path(os.environ["MSWEA_GLOBAL_CONFIG_DIR"]) / "run.json").read_text("utf-8"))
if effort:
    settings["model.model_kwargs.reasoning_effort"] = effort
system, appended = ("{{ " + ascii(text) + " }}" if text else None for text in prompts)
if system or appended:
    system = system or yaml.safe_load(own.read_text("utf-8"))["agent"]["system_template"]
    settings["agent.system_template"] = "\n\n".join(text for text in (system, appended) if text)
configuration = [str(own), *(f"{name}={json.dumps(value)}" for name, value in settings.items())]

def emit(**event):
    sys.stdout.flush()
    os.write(1, (json.dumps(event) + "\n").encode())

class ReportingAgent(DefaultAgent):
    def add_messages(self, *messages):
        for message in messages:
            extra = message.get("extra") or {}
            response = extra.get("response")
            emit(
                proctor=message.get("role") or "",
                text=message.get("content") if isinstance(message.get("content"), str) else "",
                commands=[str(one.get("command")) for one in extra.get("actions") or ()],
                usage=response.get("usage") if isinstance(response, dict) else None,
                status=extra.get("exit_status") or "",
            )
        return super().add_messages(*messages)

module = types.ModuleType("proctor_launcher")
module.ReportingAgent = ReportingAgent
sys.modules[module.__name__] = module
sys.argv = ["mini", *sys.argv[1:], *(word for one in configuration for word in ("--config", one))]
sys.argv += ["--agent-class", "proctor_launcher.ReportingAgent", "--task", task]
code = 1
try:
    app(standalone_mode=False)
    code = 0
except BaseException as error:
    emit(proctor="error", text=f"{type(error).__name__}: {error}")
sys.stdout.flush()
# What its libraries have left running is not waited for.
os._exit(code)
"""
_SUBMITTED: Final = "Submitted"


class _MiniPromptDetails(msgspec.Struct):
    cached_tokens: int | None = None


class _MiniOutputDetails(msgspec.Struct):
    reasoning_tokens: int | None = None


class _MiniUsage(msgspec.Struct):
    prompt_tokens: int = 0
    completion_tokens: int = 0
    prompt_tokens_details: _MiniPromptDetails | None = None
    completion_tokens_details: _MiniOutputDetails | None = None
    cache_creation_input_tokens: int | None = None

    @property
    def tokens(self) -> Tokens:
        cached = (self.prompt_tokens_details and self.prompt_tokens_details.cached_tokens) or 0
        written = self.cache_creation_input_tokens or 0
        return Tokens(
            input=max(0, self.prompt_tokens - cached - written),
            output=self.completion_tokens,
            cache_read=cached,
            cache_write_5m=written,
            reasoning=(self.completion_tokens_details and self.completion_tokens_details.reasoning_tokens) or 0,
        )


class _MiniEvent(msgspec.Struct):
    proctor: str
    text: str = ""
    commands: list[str] = []
    usage: _MiniUsage | None = None
    status: str = ""


class MiniSweAgentReader(JsonLinesReader[_MiniEvent]):
    """Reads what the launcher prints, one line for each message; the other lines are for people."""

    decoder = msgspec.json.Decoder(_MiniEvent)

    def handle_event(self, event: _MiniEvent) -> None:
        """Read one line."""
        if event.usage is not None:
            self._requests += 1
            self._add_tokens(event.usage.tokens)
        self._steps += len(event.commands)
        match event.proctor:
            case "assistant":
                self._text = event.text or self._text
                self._on_progress(truncate_line(event.commands[0] if event.commands else event.text))
            case "exit" if event.status == _SUBMITTED:
                self._finished, self._text = True, event.text.strip() or self._text
            case "exit":
                self._error = self._error or f"{event.status}: {event.text}"
            case "error":
                self._error = event.text


class MiniSweAgent(PythonAgent):
    """mini-SWE-agent. Turns and cost are limited by the gateway: its own limits are off."""

    name = "mini_swe_agent"
    title = "mini-SWE-agent"
    command = "mini"
    command_variable = "MINI_SWE_AGENT_BIN"
    python_package = "mini-swe-agent"
    remedy = "pipx install mini-swe-agent && pipx inject mini-swe-agent mcp, or set MINI_SWE_AGENT_BIN"
    dialects = ("chat", "messages")
    efforts = EFFORTS
    scripted_model = "gpt-5.5"
    launcher = _LAUNCHER
    foreign_variables = ("MSWEA_*", "LITELLM_*", "OPENAI_*", "ANTHROPIC_*", "PYTHON*")
    reserved_variables = frozenset(
        {
            *("OPENAI_API_BASE", "OPENAI_API_KEY", "ANTHROPIC_API_BASE", "ANTHROPIC_API_KEY", "LITELLM_MODE"),
            *("LITELLM_LOCAL_MODEL_COST_MAP", "MSWEA_CONFIGURED", "MSWEA_GLOBAL_CONFIG_DIR", "MSWEA_SILENT_STARTUP"),
        }
    )
    # Interrupted, it exits and leaves its command behind.
    grace_seconds = 0.0
    unsupported_options = {  # noqa: RUF012 - a constant of the class
        "allowed_tools": ("mini-SWE-agent has one tool, its shell", "leave --allowed-tools out")
    }
    folders = {"MSWEA_GLOBAL_CONFIG_DIR": "mini"}  # noqa: RUF012 - a constant of the class
    reader = MiniSweAgentReader

    def files(self, request: AgentRequest, environment: Environment, url: str) -> dict[str, str]:
        """The prompts and the effort of the run, for the launcher."""
        options = self._setup.agent_options
        return {"mini/run.json": json.dumps([options.system_prompt, options.append_system_prompt, options.effort])}

    def variables(self, request: AgentRequest, url: str) -> dict[str, str]:
        """The gateway as the model's provider; nothing is asked, downloaded or tried again."""
        gateway = litellm_variables(self._dialect(request), url)
        return (
            super().variables(request, url)
            | gateway
            | {
                "MSWEA_CONFIGURED": "true",
                "MSWEA_COST_TRACKING": "ignore_errors",
                "MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT": "1",
                "MSWEA_SILENT_STARTUP": "1",
            }
        )

    def program_arguments(self, request: AgentRequest) -> list[str]:
        """Without questions; the launcher adds the configuration."""
        return ["--yolo", "--exit-immediately", "--model", litellm_model(self._dialect(request), request.model)]
