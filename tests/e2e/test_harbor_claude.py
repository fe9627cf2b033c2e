"""The real Claude Code on a Harbor task of several steps, with a tool server, a skill and another user."""

import json
from pathlib import Path

import pytest

from cli_world import CliWorld
from harbor_world import images, write_task
from proctor.core.causes import Status
from real_claude import claude_program
from setup_world import need_machines

_CLOCK = """
import json, sys

RESULTS = {
    "initialize": {
        "protocolVersion": "2024-11-05", "capabilities": {"tools": {}}, "serverInfo": {"name": "clock", "version": "1"},
    },
    "tools/list": {"tools": [{"name": "now", "description": "the time", "inputSchema": {"type": "object"}}]},
    "tools/call": {"content": [{"type": "text", "text": "noon by the clock"}]},
}
for line in sys.stdin:
    request = json.loads(line)
    if "id" in request:
        result = RESULTS.get(request["method"], {})
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
"""
_TEST = "from pathlib import Path\n\n\ndef test_who():\n    assert Path('/app/{name}.txt').read_text() == 'worker\\n'\n"
TASK = {
    "task.toml": (
        'schema_version = "1.4"\n[agent]\ntimeout_sec = 120.0\nuser = "worker"\n[verifier]\ntimeout_sec = 60.0\n'
        '[environment]\nskills_dir = "/opt/skills"\n[[environment.mcp_servers]]\nname = "clock"\ntransport = "stdio"\n'
        'command = "python3"\nargs = ["/opt/clock.py"]\n[[steps]]\nname = "first"\n[[steps]]\nname = "second"\n'
    ),
    "environment/Dockerfile": (
        "FROM ubuntu:24.04\nRUN useradd -m worker && mkdir /app && chown worker /app\nWORKDIR /app\n"
        "COPY clock.py /opt/clock.py\nCOPY SKILL.md /opt/skills/greeting/SKILL.md\n"
    ),
    "environment/clock.py": _CLOCK,
    "environment/SKILL.md": "---\nname: greeting\ndescription: how to greet\n---\nGreet the moon politely.\n",
    "tests/test.sh": (
        "#!/bin/bash\npython3 -m pytest -p no:cacheprovider -rA /tests/test_outputs.py\n"
        "if [ $? -eq 0 ]; then echo 1 >/logs/verifier/reward.txt; else echo 0 >/logs/verifier/reward.txt; fi\n"
    ),
    "steps/first/instruction.md": "First of all, write who you are into /app/first.txt.\n",
    "steps/first/tests/test_outputs.py": _TEST.format(name="first"),
    "steps/second/instruction.md": "After that, write who you are into /app/second.txt.\n",
    "steps/second/tests/test_outputs.py": _TEST.format(name="second"),
}


# The same in both steps: every conversation gets a script from its beginning.
_WRITE = "name=first; [ -e /app/first.txt ] && name=second; id -un >/app/$name.txt"
_TURNS = (
    {"text": "The time?", "tools": [{"mcp__clock__now": {}}]},
    {"text": "The skill?", "tools": [{"Skill": {"skill": "greeting"}}]},
    {"text": "I write it.", "tools": [{"Bash": {"command": _WRITE}}]},
    {"text": "Done."},
)


@pytest.mark.long
@pytest.mark.parametrize("one_conversation", [False, True])
async def test_claude_code_uses_the_tools_the_skill_and_the_user_of_every_step(
    one_conversation: bool,
    cli_world: CliWorld,
    tmp_path: Path,
) -> None:
    need_machines()
    write_task(tmp_path / "tasks" / "talk", TASK)
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"default": [*_TURNS, *_TURNS]}))
    with images() as made:
        (tmp_path / "images.json").write_text(json.dumps(made))
        words = ["--suite", tmp_path / "tasks", "--runner", "docker", "--image-map", tmp_path / "images.json"]
        words += ["--model", f"script:{script}", "--agent-bin", claude_program(), "--controls", "0"]
        done = await cli_world.run("bench", "run", *words, *(["--one-conversation"] if one_conversation else []))
    assert done.code == 0, done
    store = cli_world.store("tasks/run-001")
    (result,) = store.results()
    assert result.status is Status.RESOLVED, (result.cause, result.verdict)
    assert [step.name for step in result.steps] == ["first", "second"]
    assert all(step.seconds > 0 and step.usage for step in result.steps)
    recorded = [json.loads(line) for line in (store.logs("talk", 1, 1) / "cassette.jsonl").read_text().splitlines()]
    # A recording has what each request adds to the one before it.
    asked = [line for line in recorded if line["kind"] == "exchange"]
    for used in ("noon by the clock", "Greet the moon politely."):
        assert sum(used in json.dumps(line["request"]) for line in asked) == 2
    assert len({line["conversation"] for line in asked}) == (1 if one_conversation else 2)
