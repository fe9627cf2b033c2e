import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dialect_lab import NAMES, parsed, send
from gateway_lab import world
from proctor.gateway import ReplayDivergence, ScriptBackend, parse_script
from proctor.gateway.tool_kinds import MissingTool, resolve_call

EDIT = {"path": "a.py", "old": "-", "new": "+"}
WRITE = {"path": "b.py", "content": "x = 1\n"}


def schema(*required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


TEXT = {"type": "string"}


@pytest.mark.parametrize(
    ("tool", "given", "kind", "arguments", "expected"),
    [
        ("Bash", schema("command", command=TEXT), "shell", {"command": "ls"}, {"command": "ls"}),
        ("exec_command", schema("cmd", cmd=TEXT), "shell", {"command": "ls"}, {"cmd": "ls"}),
        ("run_commands", schema(commands={"type": "array"}), "shell", {"command": "ls"}, {"commands": ["ls"]}),
        ("run_shell_command", schema(command={"type": "STRING"}), "shell", {"command": "ls"}, {"command": "ls"}),
        (
            "bash",
            schema("command", "description", command=TEXT, description=TEXT),
            "shell",
            {"command": "ls"},
            {"command": "ls", "description": "as the script says"},
        ),
        (
            "Edit",
            schema(file_path=TEXT, old_string=TEXT, new_string=TEXT),
            "edit",
            EDIT,
            {"file_path": "a.py", "old_string": "-", "new_string": "+"},
        ),
        (
            "edit",
            schema(filePath=TEXT, oldString=TEXT, newString=TEXT),
            "edit",
            EDIT,
            {"filePath": "a.py", "oldString": "-", "newString": "+"},
        ),
        (
            "file_editor",
            schema(command={"type": "string", "enum": ["view", "str_replace"]}, path=TEXT, old_str=TEXT, new_str=TEXT),
            "edit",
            EDIT,
            {"command": "str_replace", "path": "a.py", "old_str": "-", "new_str": "+"},
        ),
        ("write", schema(path=TEXT, content=TEXT), "write", WRITE, {"path": "b.py", "content": "x = 1\n"}),
    ],
)
def test_a_kind_becomes_the_programs_own_tool_with_its_own_arguments(
    tool: str, given: dict[str, Any], kind: str, arguments: dict[str, Any], expected: dict[str, Any]
) -> None:
    call = parsed("responses", tools=[{"type": "function", "name": tool, "parameters": given}])
    assert resolve_call(kind, arguments, call) == (tool, expected)


@pytest.mark.parametrize("name", NAMES)
def test_tools_are_found_in_every_dialect(name: str) -> None:
    assert resolve_call("shell", {"command": "ls"}, parsed(name, offered=("read", "bash"))) == (
        "bash",
        {"command": "ls"},
    )


def test_a_tool_that_runs_programs_gets_one() -> None:
    tools = [{"type": "namespace", "name": "functions", "tools": [{"type": "custom", "name": "exec"}]}]
    added = {"type": "additional_tools", "role": "developer", "tools": tools}
    name, text = resolve_call("shell", {"command": 'echo "a"'}, parsed("responses", input=[added]))
    assert name == "exec"
    assert 'tools.exec_command({cmd: "echo \\"a\\""})' in str(text)


def test_a_tool_with_a_schema_gets_arguments_whatever_its_type_is_called() -> None:
    tool = {"type": "custom", "name": "bash", "input_schema": schema("command", command=TEXT)}
    assert resolve_call("shell", {"command": "ls"}, parsed("messages", tools=[tool])) == ("bash", {"command": "ls"})


def test_tool_calls_by_name_are_passed_unchanged() -> None:
    call = parsed("chat", offered=("edit", "bash"))
    own = {"filePath": "a", "oldString": "b", "newString": "c"}
    assert resolve_call("edit", own, call) == ("edit", own)
    assert resolve_call("bash", {"command": "ls"}, call) == ("bash", {"command": "ls"})
    assert resolve_call("shell", {"command": ["ls"]}, call) == ("shell", {"command": ["ls"]})


def test_a_program_without_such_a_tool_edits_and_writes_with_its_shell(tmp_path: Path) -> None:
    call = parsed("chat", offered=("bash",))
    file = tmp_path / "new dir" / "a.py"
    for kind, arguments in (
        ("write", {"path": str(file), "content": "it's a - b\n"}),
        ("edit", {"path": str(file), "old": "a - b", "new": "a + 'b'"}),
    ):
        name, made = resolve_call(kind, arguments, call)
        assert name == "bash"
        assert isinstance(made, dict)
        subprocess.run(["sh", "-c", made["command"]], check=True)
    assert file.read_text() == "it's a + 'b'\n"


async def test_a_script_that_needs_a_tool_which_is_not_there_says_so() -> None:
    with pytest.raises(MissingTool, match="it has read"):
        resolve_call("shell", {"command": "ls"}, parsed("chat", offered=("read",)))
    script = parse_script({"default": [{"tools": [{"shell": {"command": "ls"}}]}]})
    async with world(ScriptBackend(script)) as lab:
        status, _ = await send(lab, "chat", offered=("read",))
        (divergence,) = lab.events_of(ReplayDivergence)
        assert status == 400
        assert "offers no tool for it; it has read" in divergence.message


@pytest.mark.parametrize("name", NAMES)
async def test_one_script_is_good_for_every_dialect(name: str) -> None:
    script = parse_script({"default": [{"tools": [{"shell": {"command": "make test"}}]}]})
    async with world(ScriptBackend(script)) as lab:
        _, body = await send(lab, name, offered=("run_shell_command",))
        text = msgspec.json.encode(msgspec.json.decode(body)).decode()
        assert "run_shell_command" in text
        assert "make test" in text
