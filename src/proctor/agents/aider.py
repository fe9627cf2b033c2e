"""aider, run once per task with one message: it has no tools, and edits files by what the model writes."""

from typing import Final

import msgspec

from proctor.agents.json_lines_reader import JsonLinesReader
from proctor.agents.litellm import litellm_model, litellm_variables
from proctor.agents.python_agent import PythonAgent
from proctor.core.agent import EFFORTS, AgentRequest
from proctor.core.formatting import truncate_line
from proctor.core.result import Tokens

# Nothing switches off its configuration files, among them the `.env` of the task's repository, which outweighs all
# variables. It leaves its caches in the workspace, and reports nothing that a program could read.
_LAUNCHER: Final = r"""
import contextlib, io, json, os, subprocess, types, webbrowser
task = sys.stdin.buffer.read().decode("utf-8", "replace")
import aider.main
from aider import linter, models, repomap
from aider.coders.base_coder import Coder
from aider.exceptions import ExInfo, LiteLLMExceptions

def emit(**event):
    sys.stdout.flush()
    os.write(1, (json.dumps(event) + "\n").encode())

own = os.environ["AGENT_AIDER"]
aider.main.generate_search_path_list = lambda default, root, named: []
make_parser = aider.main.get_parser
aider.main.get_parser = lambda files, root: make_parser([], root)
repomap.RepoMap.TAGS_CACHE_DIR = own + "/tags"
models.ModelInfoManager._update_cache = lambda self: None
webbrowser.open = lambda *words, **named: False

# The gateway retries, and its refusals are final.
find_error = LiteLLMExceptions.get_ex_info
def get_error(self, error):
    emit(proctor="error", text=str(error))
    found = find_error(self, error)
    return ExInfo(found.name, False, found.description)
LiteLLMExceptions.get_ex_info = get_error

count_tokens = Coder.calculate_and_show_tokens_and_cost
def report_tokens(self, messages, completion=None):
    used = getattr(completion, "usage", None)
    details = getattr(used, "prompt_tokens_details", None)
    emit(
        proctor="message",
        text=self.partial_response_content or "",
        input=getattr(used, "prompt_tokens", None),
        output=getattr(used, "completion_tokens", None) or 0,
        cached=getattr(details, "cached_tokens", None) or 0,
        written=getattr(used, "cache_creation_input_tokens", None) or 0,
    )
    return count_tokens(self, messages, completion)
Coder.calculate_and_show_tokens_and_cost = report_tokens

# It has files in sets: their order would differ from run to run, and no recording would fit.
read_files = Coder.get_abs_fnames_content
Coder.get_abs_fnames_content = lambda self: iter(sorted(read_files(self)))

apply_edits = Coder.apply_updates
def report_edits(self):
    edited = sorted(apply_edits(self) or (), key=str)
    emit(proctor="edits", files=list(map(str, edited)))
    return edited
Coder.apply_updates = report_edits

# Another interpreter would not find its linter, but modules of that name in the repository.
def run_linter(words, **named):
    if words[1:3] != ["-m", "flake8"]:
        return subprocess.run(words, **named)
    from flake8.main.cli import main as flake8
    printed, before = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), os.getcwd()
    os.chdir(named["cwd"])
    try:
        with contextlib.redirect_stdout(printed):
            flake8([*words[3:], "--jobs=1"])
    finally:
        os.chdir(before)
    printed.flush()
    return types.SimpleNamespace(stdout=printed.buffer.getvalue().decode("utf-8", "replace"), stderr="")
linter.subprocess = types.SimpleNamespace(**{**vars(subprocess), "run": run_linter})

words = [*sys.argv[1:], "--chat-history-file", own + "/chat.md", "--input-history-file", own + "/input"]
code = 1
try:
    code = aider.main.main([*words, "--message", task]) or 0
    emit(proctor="end")
except SystemExit as error:
    code = error.code if isinstance(error.code, int) else 1
except BaseException as error:
    emit(proctor="error", text=f"{type(error).__name__}: {error}")
sys.stdout.flush()
# What its libraries have left running is not waited for.
os._exit(code)
"""
_SWITCHES: Final = (
    *("--yes-always", "--no-pretty", "--no-fancy-input", "--no-detect-urls", "--disable-playwright"),
    *("--no-auto-commits", "--no-dirty-commits", "--no-gitignore", "--no-stream"),
    *("--no-check-update", "--no-show-release-notes", "--analytics-disable"),
    *("--no-show-model-warnings", "--no-check-model-accepts-settings"),
)


class _AiderEvent(msgspec.Struct):
    proctor: str
    text: str = ""
    input: int | None = None
    output: int = 0
    cached: int = 0
    written: int = 0
    files: list[str] = []


class AiderReader(JsonLinesReader[_AiderEvent]):
    """Reads what the launcher prints; the other lines are for people. Its steps are the files that it has edited."""

    decoder = msgspec.json.Decoder(_AiderEvent)

    def handle_event(self, event: _AiderEvent) -> None:
        """Read one line."""
        match event.proctor:
            case "message":
                # A message after an error comes from a request that succeeded.
                self._text, self._error = event.text, "" if event.text else self._error
                self._on_progress(truncate_line(event.text))
                self._count(event)
            case "edits":
                self._steps += len(event.files)
            case "error":
                self._error = event.text
            case "end":
                self._finished = True

    def _count(self, event: _AiderEvent) -> None:
        if event.input is None:
            return
        self._requests += 1
        self._add_tokens(
            Tokens(
                input=max(0, event.input - event.cached - event.written),
                output=event.output,
                cache_read=event.cached,
                cache_write_5m=event.written,
            )
        )


class Aider(PythonAgent):
    """aider. Turns are limited by the gateway: it has no limit of its own."""

    name = "aider"
    title = "aider"
    command = "aider"
    command_variable = "AIDER_BIN"
    python_package = "aider-chat"
    remedy = "pipx install 'aider-chat==0.86.*', or set AIDER_BIN"
    dialects = ("chat", "messages")
    efforts = EFFORTS
    scripted_model = "gpt-5.5"
    known_release = "0.86"
    launcher = _LAUNCHER
    foreign_variables = ("AIDER_*", "LITELLM_*", "OPENAI_*", "ANTHROPIC_*", "OPENROUTER_*", "PYTHON*")
    reserved_variables = frozenset(
        {
            *("OPENAI_API_BASE", "OPENAI_API_KEY", "ANTHROPIC_API_BASE", "ANTHROPIC_API_KEY", "OPENROUTER_API_KEY"),
            *("LITELLM_MODE", "LITELLM_LOCAL_MODEL_COST_MAP"),
        }
    )
    unsupported_options = {  # noqa: RUF012 - a constant of the class
        "system_prompt": ("aider cannot be given a system prompt", "leave the option out"),
        "append_system_prompt": ("aider cannot be given a system prompt", "leave the option out"),
        "allowed_tools": ("aider has no tools", "leave --allowed-tools out"),
    }
    folders = {"AGENT_AIDER": "aider"}  # noqa: RUF012 - a constant of the class
    reader = AiderReader

    def variables(self, request: AgentRequest, url: str) -> dict[str, str]:
        """The gateway as the model's provider; nothing is downloaded."""
        gateway = litellm_variables(self._dialect(request), url)
        return super().variables(request, url) | gateway

    def program_arguments(self, request: AgentRequest) -> list[str]:
        """One model for everything; no questions, no commits, nothing from the net."""
        model = litellm_model(self._dialect(request), request.model)
        words = ["--model", model, "--weak-model", model, "--editor-model", model, *_SWITCHES]
        effort = self._setup.agent_options.effort
        return words if effort is None else [*words, "--reasoning-effort", effort]
