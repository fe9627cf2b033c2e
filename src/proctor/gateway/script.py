"""Scripts: recordings written by hand, by task, for tests and for the demo. `docs/gateway.md` shows how."""

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta, field

from proctor.core.errors import InvalidData
from proctor.core.formatting import truncate_line
from proctor.core.record import Record
from proctor.core.result import Tokens
from proctor.core.user_files import parse_yaml, read_user_file
from proctor.gateway.model_call import Role

if TYPE_CHECKING:
    from jsonschema import ValidationError

_MAX_PROBLEMS: Final = 100
_MAX_MESSAGE: Final = 300

Count = Annotated[int, Meta(ge=0)]
Seconds = Annotated[float, Meta(ge=0)]
StatusCode = Annotated[int, Meta(ge=100, le=599)]


class _ScriptRecord(Record, forbid_unknown_fields=True):
    """A part of a script: an unknown field is a mistake, not a newer version."""


class ScriptUsage(_ScriptRecord):
    """The usage that a response reports, in tokens; `reasoning` is a part of `output`."""

    input: Count = 0
    output: Count = 0
    cache_read: Count = 0
    cache_write_5m: Count = 0
    cache_write_1h: Count = 0
    reasoning: Count = 0

    def tokens(self) -> Tokens:
        """The same as tokens."""
        return Tokens(**msgspec.structs.asdict(self))


class ScriptError(_ScriptRecord):
    """An error instead of a response; type and message default to those of the status."""

    status: StatusCode
    type: str | None = None
    message: str | None = None
    headers: dict[str, str] = field(default_factory=dict)


class ScriptCut(_ScriptRecord):
    """The connection ends after this many events, by a close or by a reset."""

    after: Count = 0
    reset: bool = False


class ScriptSilence(_ScriptRecord):
    """A pause after this many events; without `seconds`, for ever."""

    after: Count = 0
    seconds: Seconds | None = None


class ScriptErrorEvent(_ScriptRecord):
    """The stream reports an error after this many events, and ends."""

    after: Count = 0
    type: str = "overloaded_error"
    message: str = "Overloaded"


class ScriptRawResponse(_ScriptRecord):
    """Any bytes, for instance a proxy's HTML page."""

    body: str
    status: StatusCode = 200
    content_type: str = "text/html"


class ScriptPromptTooLong(_ScriptRecord):
    """The conversation does not fit into the context; Claude Code then compacts it and tries again."""

    tokens: Count = 250_000
    maximum: Count = 200_000


class ScriptStep(_ScriptRecord, rename={"if_": "if", "else_": "else"}):
    """One response, one error, or steps that are conditional or repeated.

    Attributes:
        text: what the model writes; `thinking` comes before it, `tools` after it.
        tools: tool calls, each ``{Bash: {command: ls}}``; a text instead is the input of a tool without a schema;
            the kinds `shell`, `edit` and `write` become the tools of the agent's program.
        content: content blocks as the API writes them, instead of the three above.
        delay: seconds before the first byte; `pace`: seconds between events; `piece`: characters per event.
        error, too_long, raw, drop: instead of a response; `drop` ends the connection without one.
        cut, silence, error_event, malformed: errors in the response; `malformed` breaks the event with this number.
        repeat: how often to use this step, or `steps`; `until` ends the repetition when the last text matches.
        if_: uses `then` if the last text matches, otherwise `else`.
    """

    text: str | None = None
    thinking: str | None = None
    tools: list[dict[str, dict[str, Any] | str]] | None = None
    content: list[dict[str, Any]] | None = None
    stop_reason: str | None = None
    usage: ScriptUsage | None = None
    model: str | None = None
    delay: Seconds = 0.0
    pace: Seconds = 0.0
    piece: Count = 0
    error: StatusCode | ScriptError | None = None
    too_long: ScriptPromptTooLong | None = None
    raw: ScriptRawResponse | None = None
    drop: bool = False
    cut: Count | ScriptCut | None = None
    silence: ScriptSilence | None = None
    error_event: ScriptErrorEvent | None = None
    malformed: Count | None = None
    repeat: Count | Literal["forever"] | None = None
    until: str | None = None
    steps: "list[ScriptStep] | None" = None
    if_: str | None = None
    then: "list[ScriptStep]" = field(default_factory=list)
    else_: "list[ScriptStep]" = field(default_factory=list)


class ScriptConversation(_ScriptRecord):
    """The steps of conversations other than the main one. All fields that are given must match.

    Attributes:
        agent: an agent of a pod, by its name in the base URL.
        system, prompt: patterns for the system prompt and for the first message.
    """

    steps: list[ScriptStep]
    agent: str | None = None
    role: Role | None = None
    system: str | None = None
    prompt: str | None = None


class TaskScript(_ScriptRecord):
    """The steps for one task: of its main conversation, and of others."""

    steps: list[ScriptStep] = field(default_factory=list)
    conversations: list[ScriptConversation] = field(default_factory=list)


class Script(_ScriptRecord):
    """A whole script.

    Attributes:
        tasks: by task id; `default` is for all others.
        usage: of responses that give none; estimated by default.
        values: for ``{{name}}`` in texts; the session adds its own, such as ``{{workspace}}``.
        models: the list of models.
    """

    tasks: dict[str, TaskScript | list[ScriptStep]] = field(default_factory=dict)
    default: TaskScript | list[ScriptStep] | None = None
    usage: ScriptUsage | None = None
    values: dict[str, str] = field(default_factory=dict)
    models: tuple[str, ...] = ()
    schema_version: Literal["proctor.script@1"] = "proctor.script@1"

    def for_task(self, task_id: str) -> TaskScript | None:
        """The script of this task; None when there is none."""
        found = self.tasks.get(task_id, self.default)
        return TaskScript(steps=found) if isinstance(found, list) else found


def read_script(path: Path) -> Script:
    """Read a script from a YAML or JSON file.

    Raises:
        UsageError: it cannot be read.
        InvalidData: it is not a valid script; lists every problem with its place.
    """
    text = read_user_file(path, "the script")
    try:
        document = parse_yaml(text)
    except ValueError as error:
        raise InvalidData(f"the script is neither YAML nor JSON: {error}", where=path) from error
    return parse_script(document, where=path)


def parse_script(document: Any, *, where: object = None) -> Script:
    """Turn a document into a script.

    Raises:
        InvalidData: it is not a valid script; lists every problem with its place in the document.
    """
    problems = list(islice(_non_string_keys(document), _MAX_PROBLEMS))
    if not problems:
        try:
            script = msgspec.convert(document, Script)
            problems = list(islice(_rule_problems(script), _MAX_PROBLEMS))
        except msgspec.ValidationError as error:
            # msgspec stops at the first problem; the schema, which is made from the same types, finds the others.
            problems = list(islice(_schema_problems(document), _MAX_PROBLEMS)) or [str(error)]
    if problems:
        count = "a problem" if len(problems) == 1 else f"{len(problems)} problems"
        raise InvalidData(f"the script has {count}: {'; '.join(problems)}", where=where)
    return script


def _schema_problems(document: Any) -> Iterator[str]:
    """Where the document does not match the types above. Their JSON Schema reports all problems at once."""
    from jsonschema import Draft202012Validator

    validator = Draft202012Validator(msgspec.json.schema(Script))
    for error in validator.iter_errors(document):
        for single in _single_errors(error):
            yield f"{_location(single.absolute_path)}: {truncate_line(single.message, _MAX_MESSAGE)}"


def _single_errors(error: "ValidationError") -> "Iterator[ValidationError]":
    """Of several allowed forms, report only the problems of the one that seems to be intended."""
    if not error.context:
        yield error
        return
    forms: dict[Any, list[ValidationError]] = {}
    for inner in error.context:
        forms.setdefault(inner.schema_path[0], []).append(inner)
    intended = min(forms.values(), key=lambda form: any(e.validator == "type" and not e.relative_path for e in form))
    for inner in intended:
        yield from _single_errors(inner)


def _non_string_keys(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if not isinstance(key, str):
                yield f"{_location(path)}: the key {key!r} must be in quotes"
            else:
                yield from _non_string_keys(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _non_string_keys(inner, (*path, index))


def _rule_problems(script: Script) -> Iterator[str]:
    """Problems that the types cannot express."""
    if not script.tasks and script.default is None:
        yield "the script: it has neither `tasks` nor `default`"
    entries: dict[tuple[str | int, ...], TaskScript | list[ScriptStep]]
    entries = {("tasks", name): entry for name, entry in script.tasks.items()}
    if script.default is not None:
        entries["default",] = script.default
    for place, entry in entries.items():
        if isinstance(entry, list):
            yield from _steps_problems(entry, place)
            continue
        yield from _steps_problems(entry.steps, (*place, "steps"))
        for index, conversation in enumerate(entry.conversations):
            inner = (*place, "conversations", index)
            for name in ("system", "prompt"):
                yield from _pattern_problems(getattr(conversation, name), (*inner, name))
            yield from _steps_problems(conversation.steps, (*inner, "steps"))


def _steps_problems(steps: list[ScriptStep], path: tuple[str | int, ...]) -> Iterator[str]:
    for index, step in enumerate(steps):
        yield from _step_problems(step, (*path, index))


def _step_problems(step: ScriptStep, path: tuple[str | int, ...]) -> Iterator[str]:
    texts = [name for name in ("text", "thinking", "tools") if getattr(step, name) is not None]
    kinds = ["a response"] if texts or step.content is not None or step.stop_reason is not None else []
    kinds += [name for name in ("error", "too_long", "raw", "steps") if getattr(step, name) is not None]
    kinds += ["drop"] if step.drop else []
    kinds += ["if"] if step.if_ is not None else []
    faults = [name for name in ("cut", "silence", "error_event", "malformed") if getattr(step, name) is not None]
    if not kinds and not faults:
        yield f"{_location(path)}: the step is empty"
    if len(kinds) > 1:
        yield f"{_location(path)}: a step is one thing, not {' and '.join(kinds)}"
    if step.content is not None and texts:
        yield f"{_location(path)}: `content` replaces {', '.join(texts)}"
    if (step.then or step.else_) and step.if_ is None:
        yield f"{_location(path)}: `then` and `else` need an `if`"
    for tool_index, tool in enumerate(step.tools or ()):
        if len(tool) != 1:
            yield f"{_location((*path, 'tools', tool_index))}: a tool call is one name with its input"
    yield from _pattern_problems(step.until, (*path, "until"))
    yield from _pattern_problems(step.if_, (*path, "if"))
    for name, inner in (("steps", step.steps or []), ("then", step.then), ("else", step.else_)):
        yield from _steps_problems(inner, (*path, name))


def _pattern_problems(pattern: str | None, path: tuple[str | int, ...]) -> Iterator[str]:
    try:
        re.compile(pattern or "")
    except re.error as error:
        yield f"{_location(path)}: not a regular expression: {error}"


def _location(path: Any) -> str:
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text or "the script"
