"""Tool calls of scripts that are said by their kind, as calls of the tools that an agent's program offers.

Programs name their tools, and the arguments of them, each in its own way. A kind is looked for among the names that
programs give to such tools, and its arguments go to the members of the tool's schema that mean the same. A program
without a tool to edit or to write files does both with its shell.
"""

import shlex
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from proctor.gateway.model_call import ModelCall
from proctor.gateway.safe_json import decode_or_text

# The arguments of each kind, and the names that programs give to such a tool, the preferred ones first.
_KINDS: Final[Mapping[str, tuple[frozenset[str], tuple[str, ...]]]] = {
    "shell": (
        frozenset({"command"}),
        (
            *("Bash", "bash", "exec_command", "run_shell_command", "Execute", "run_commands", "execute_command"),
            *("terminal", "shell_command", "shell", "Shell", "local_shell", "run_terminal_cmd", "exec"),
        ),
    ),
    "edit": (
        frozenset({"path", "old", "new"}),
        ("Edit", "edit", "replace", "str_replace", "StrReplaceFile", "str_replace_editor", "file_editor", "edit_file"),
    ),
    "write": (
        frozenset({"path", "content"}),
        ("Write", "write", "write_file", "Create", "create", "WriteFile", "create_file", "write_to_file"),
    ),
}
# The members of schemas that mean the same as an argument of a kind.
_MEMBERS: Final[Mapping[str, tuple[str, ...]]] = {
    "command": ("command", "cmd", "commands", "script", "input"),
    "path": ("file_path", "filePath", "path", "absolute_path", "filename", "target_file"),
    "old": ("old_string", "oldString", "old_str", "oldText", "old_text", "old"),
    "new": ("new_string", "newString", "new_str", "newText", "new_text", "new"),
    "content": ("content", "contents", "file_text", "text"),
}
# Where one tool does several things, what it is to do.
_ACTIONS: Final = {"edit": "str_replace", "write": "create"}
_SCHEMAS: Final = ("input_schema", "parameters", "parametersJsonSchema", "parameters_json_schema", "inputSchema")
_EDIT_IN_SHELL: Final = (
    'if command -v python3 >/dev/null; then python3 -c \'import os, pathlib; p = pathlib.Path(os.environ["F"]); '
    't = p.read_text(); o = os.environ["O"]; assert o in t, "the text is not there"; '
    'p.write_text(t.replace(o, os.environ["N"], 1))\'; else perl -0pi -e \'s/\\Q$ENV{O}\\E/$ENV{N}/\' "$F"; fi'
)


class MissingTool(Exception):
    """The agent offers no tool of this kind; the message says what it offers."""


class _Offered(NamedTuple):
    name: str
    schema: Mapping[str, Any]
    is_custom: bool


def resolve_call(name: str, arguments: dict[str, Any] | str, call: ModelCall) -> tuple[str, dict[str, Any] | str]:
    """The name and the arguments of a tool call, as the program that sent this request wants them.

    Raises:
        MissingTool: it is said by its kind, and the program offers no such tool.
    """
    known = _KINDS.get(name)
    if known is None or not isinstance(arguments, dict) or arguments.keys() != known[0]:
        return name, arguments
    if name == "shell" and not isinstance(arguments["command"], str):
        return name, arguments
    offered = {tool.name: tool for tool in _offered_tools(call)}
    found = next((offered[one] for one in known[1] if one in offered), None)
    if found is None and name != "shell":
        return resolve_call("shell", {"command": _in_shell(name, arguments)}, call)
    if found is None:
        has = ", ".join(offered) or "none"
        raise MissingTool(f"the script says `{name}`, and the agent offers no tool for it; it has {has}")
    if found.is_custom:
        command = msgspec.json.encode(arguments["command"]).decode()
        return found.name, f"const done = await tools.exec_command({{cmd: {command}}});\ntext(done.output);"
    return found.name, _arguments(name, arguments, found.schema)


def _offered_tools(call: ModelCall) -> Iterator[_Offered]:
    given = call.fields.get(call.dialect.tools)
    if given is not None:
        yield from _tools_in(decode_or_text(given))
    for raw in call.messages:
        if b'"additional_tools"' in bytes(raw):
            item = decode_or_text(raw)
            yield from _tools_in(item.get("tools") if isinstance(item, dict) else None)


def _tools_in(value: Any) -> Iterator[_Offered]:
    """All tools, however deep a dialect has them."""
    if isinstance(value, list):
        for item in value:
            yield from _tools_in(item)
    elif isinstance(value, dict):
        inner = [value[key] for key in ("tools", "functionDeclarations", "function_declarations") if key in value]
        inner += [value[key] for key in ("function", "custom") if isinstance(value.get(key), dict)]
        for one in inner:
            yield from _tools_in(one)
        if not inner and isinstance(value.get("name"), str):
            schemas = [value[key] for key in _SCHEMAS if isinstance(value.get(key), dict)]
            # The Messages API calls every tool of a client `custom`, and those have schemas.
            is_custom = value.get("type") == "custom" and not schemas
            yield _Offered(value["name"], schemas[0] if schemas else {}, is_custom)


def _arguments(kind: str, arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    properties = schema.get("properties")
    members: Mapping[str, Any] = properties if isinstance(properties, dict) else {}
    action = _ACTIONS.get(kind)
    made: dict[str, Any] = {}
    if action is not None and action in _choices(members.get("command")):
        made["command"] = action
    for name, value in arguments.items():
        member = next((one for one in _MEMBERS[name] if one in members and one not in made), _MEMBERS[name][0])
        made[member] = [value] if _type(members.get(member)) == "array" else value
    required = schema.get("required")
    for name in required if isinstance(required, list) else ():
        if isinstance(name, str) and name not in made:
            made[name] = _filler(members.get(name))
    return made


def _type(schema: Any) -> str:
    kind = schema.get("type") if isinstance(schema, dict) else None
    return kind.lower() if isinstance(kind, str) else ""


def _choices(schema: Any) -> list[Any]:
    choices = schema.get("enum") if isinstance(schema, dict) else None
    return choices if isinstance(choices, list) else []


def _filler(schema: Any) -> Any:
    """A value for an argument that a tool requires and a kind does not have, such as a description."""
    if choices := _choices(schema):
        return choices[0]
    by_type: dict[str, Any] = {"boolean": False, "integer": 0, "number": 0, "array": [], "object": {}}
    return by_type.get(_type(schema), "as the script says")


def _in_shell(kind: str, arguments: Mapping[str, Any]) -> str:
    path = shlex.quote(str(arguments["path"]))
    if kind == "write":
        text = shlex.quote(str(arguments["content"]))
        return f'mkdir -p "$(dirname {path})" && printf %s {text} > {path}'
    old, new = (shlex.quote(str(arguments[name])) for name in ("old", "new"))
    return f"export F={path} O={old} N={new}; {_EDIT_IN_SHELL}"
