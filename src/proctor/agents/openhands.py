"""OpenHands, run once per task: the agent of its command line, without its screen."""

import json
from typing import Final

import msgspec

from proctor.agents.json_lines_reader import JsonLinesReader
from proctor.agents.litellm import litellm_base, litellm_model, litellm_variables
from proctor.agents.python_agent import PythonAgent
from proctor.core.agent import KEY_PLACEHOLDER, AgentRequest
from proctor.core.environment import Environment
from proctor.core.formatting import truncate_line
from proctor.core.result import Tokens

# The conversation that its command line sets up, with events as lines. Hooks and skills of the repository, its `.env`,
# and the skills that it would clone from the net are left out: it has no switches for them.
_LAUNCHER: Final = r"""
import json, logging, os, pathlib, uuid
task = sys.stdin.buffer.read().decode("utf-8", "replace")
run = json.loads((pathlib.Path(os.environ["OPENHANDS_PERSISTENCE_DIR"]) / "run.json").read_text("utf-8"))
logging.disable(logging.CRITICAL)
from openhands.sdk.hooks import HookConfig
from openhands.sdk.security.confirmation_policy import NeverConfirm
from openhands.sdk.subagent import registry
from openhands_cli import setup
from openhands_cli.stores import agent_store

def emit(**event):
    sys.stdout.flush()
    os.write(1, (json.dumps(event) + "\n").encode())

HookConfig.load = classmethod(lambda kind, *words, **named: kind())
agent_store.load_project_skills = lambda *words, **named: []
registry.load_project_agents = lambda *words, **named: []
make_context, make_llm, all_tools = agent_store.AgentContext, agent_store.LLM, agent_store.get_default_cli_tools
load_agent = setup.load_agent_specs

def own_context(**given):
    suffix = "\n\n".join(text for text in (given["system_message_suffix"], run["appended"]) if text)
    return make_context(system_message_suffix=suffix, load_user_skills=False, load_public_skills=False)

def own_tools(**given):
    return [tool for tool in all_tools(**given) if not run["tools"] or tool.name in run["tools"]]

def own_agent(*words, **named):
    agent = load_agent(*words, **named)
    return agent.model_copy(update={"system_prompt": run["system"]}) if run["system"] else agent

# The gateway retries, and its refusals are final.
own_llm = {"num_retries": 0, **({"reasoning_effort": run["effort"]} if run["effort"] else {})}
agent_store.LLM = lambda **given: make_llm(**given, **own_llm)
agent_store.AgentContext, agent_store.get_default_cli_tools = own_context, own_tools
setup.load_agent_specs = own_agent

def report(event):
    kind = type(event).__name__
    if kind == "ActionEvent":
        given = event.action.model_dump(mode="json") if event.action is not None else {}
        text = given.get("message") if event.tool_name == "finish" else given.get("command")
        emit(proctor="action", tool=event.tool_name, text=str(text or ""))
    elif kind == "MessageEvent" and event.source == "agent":
        texts = [getattr(part, "text", "") for part in event.llm_message.content]
        emit(proctor="message", text="\n".join(text for text in texts if text))
    elif kind == "ConversationErrorEvent":
        emit(proctor="error", text=f"{event.code}: {event.detail}")

code, conversation = 1, None
try:
    conversation = setup.setup_conversation(
        uuid.uuid4(), NeverConfirm(), event_callback=report, env_overrides_enabled=True, critic_disabled=True
    )
    conversation.send_message(task)
    conversation.run()
    status = conversation.state.execution_status.value
    emit(proctor="end" if status == "finished" else "error", text="" if status == "finished" else f"it is {status}")
    code = 0
except BaseException as error:
    emit(proctor="error", text=f"{type(error).__name__}: {error}")
if conversation is not None:
    used = conversation.conversation_stats.get_combined_metrics().accumulated_token_usage
    names = "prompt_tokens", "completion_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens"
    emit(proctor="usage", **{name: getattr(used, name, 0) or 0 for name in names})
    conversation.close()
sys.stdout.flush()
# What its libraries have left running is not waited for.
os._exit(code)
"""


class _OpenHandsEvent(msgspec.Struct):
    proctor: str
    text: str = ""
    tool: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0


class OpenHandsReader(JsonLinesReader[_OpenHandsEvent]):
    """Reads what the launcher prints, one line for each event; the other lines are for people."""

    decoder = msgspec.json.Decoder(_OpenHandsEvent)

    def handle_event(self, event: _OpenHandsEvent) -> None:
        """Read one line."""
        match event.proctor:
            case "action":
                self._steps += 1
                self._text = event.text if event.tool == "finish" else self._text
                self._on_progress(truncate_line(f"{event.tool} {event.text}"))
            case "message":
                self._show_text(event.text)
            case "error":
                self._error = event.text or "it failed"
            case "end":
                self._finished = True
            case "usage":
                self._tokens = Tokens(
                    input=max(0, event.prompt_tokens - event.cache_read_tokens - event.cache_write_tokens),
                    output=event.completion_tokens,
                    cache_read=event.cache_read_tokens,
                    cache_write_5m=event.cache_write_tokens,
                    reasoning=event.reasoning_tokens,
                )


class OpenHands(PythonAgent):
    """OpenHands. Turns are limited by the gateway: its own limit is far beyond."""

    name = "openhands"
    title = "OpenHands"
    command = "openhands"
    command_variable = "OPENHANDS_BIN"
    python_package = "openhands"
    remedy = "pipx install 'openhands==1.16.*' with Python 3.12 or newer, or set OPENHANDS_BIN"
    dialects = ("chat", "responses", "messages")
    efforts = ("none", "low", "medium", "high", "xhigh")
    scripted_model = "kimi-k2.5"
    known_release = "1.16"
    launcher = _LAUNCHER
    foreign_variables = ("OPENHANDS_*", "LLM_*", "LITELLM_*", "OPENAI_*", "ANTHROPIC_*", "PYTHON*", "OTEL_*", "LMNR_*")
    reserved_variables = frozenset(
        {
            *("LLM_MODEL", "LLM_API_KEY", "LLM_BASE_URL", "OPENHANDS_PERSISTENCE_DIR", "OPENHANDS_CONVERSATIONS_DIR"),
            *("OPENAI_API_BASE", "OPENAI_API_KEY", "ANTHROPIC_API_BASE", "ANTHROPIC_API_KEY", "LITELLM_MODE"),
            *("LITELLM_LOCAL_MODEL_COST_MAP", "OPENHANDS_WORK_DIR"),
        }
    )
    folders = {  # noqa: RUF012 - a constant of the class
        "OPENHANDS_PERSISTENCE_DIR": "openhands",
        "OPENHANDS_CONVERSATIONS_DIR": "openhands/conversations",
    }
    # Interrupted, it waits for the model.
    grace_seconds = 0.0
    reader = OpenHandsReader

    def files(self, request: AgentRequest, environment: Environment, url: str) -> dict[str, str]:
        """The options of the run, for the launcher."""
        options = self._setup.agent_options
        given = {
            "system": options.system_prompt,
            "appended": options.append_system_prompt,
            "tools": options.allowed_tools,
            "effort": options.effort,
        }
        return {"openhands/run.json": json.dumps(given)}

    def variables(self, request: AgentRequest, url: str) -> dict[str, str]:
        """The gateway as the model's provider; nothing is downloaded."""
        dialect = self._dialect(request)
        own = {
            "LLM_MODEL": litellm_model(dialect, request.model),
            "LLM_API_KEY": KEY_PLACEHOLDER,
            "LLM_BASE_URL": litellm_base(dialect, url),
            "OPENHANDS_SUPPRESS_BANNER": "1",
        }
        return {**super().variables(request, url), **litellm_variables(dialect, url), **own}

    def program_arguments(self, request: AgentRequest) -> list[str]:
        """None: the launcher has all."""
        return []
