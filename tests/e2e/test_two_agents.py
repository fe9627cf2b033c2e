"""The page on two agents: every command of it is run as it is written, with a script in the place of each model."""

import json
import re
import shlex
import subprocess
from typing import Any

import pytest

from cli_world import CliWorld
from lab_agents import LAB_AGENTS
from paths import REPOSITORY
from proctor.environments import local_unavailable_reason
from program_lab import need_agent
from suite_world import BUGGY, FIXED, HIDDEN, diff

PAGE = (REPOSITORY / "docs/tutorials/two-agents.md").read_text()
# What a test cannot do: install programs, export real keys, and look at a browser.
LEFT_OUT = ("npm ", "export ", "proctor view")


def page_commands() -> list[str]:
    """The lines of the page's commands, in order."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    lines = [line for kind, block in blocks if not kind for line in block.splitlines()]
    return [line for line in lines if not line.startswith(LEFT_OUT)]


def make_parser(world: CliWorld) -> None:
    """The repository and the change from which the page makes a task."""
    code = world.folder / "home" / "code" / "parser"
    (code / "tests").mkdir(parents=True)
    (code / "tests" / "__init__.py").touch()
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@example.org", "-C", str(code)]
    for text in (BUGGY, FIXED):
        (code / "calc.py").write_text(text)
        subprocess.run([*git, "init", "-q"], check=True)
        subprocess.run([*git, "add", "--all"], check=True)
        subprocess.run([*git, "commit", "-q", "-m", "x"], check=True)
    change = diff("calc.py", BUGGY, FIXED) + diff("tests/test_calc.py", "", HIDDEN)
    (world.folder / "fix.diff").write_text(change)
    (world.folder / "issue.md").write_text("`add` gives wrong sums.\n")


def write_sweep(world: CliWorld, name: str) -> None:
    """The page's file; one of the models solves both tasks, the other only one."""
    oracle = (world.folder / "mine/instances/greeting_0001/oracle.diff").read_text()
    text = next(block for block in re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL))
    for agent, solved in (("codex", 2), ("gemini", 1)):
        patches = {"greeting_0001": oracle, "parser_1": diff("calc.py", BUGGY, FIXED)}
        steps: dict[str, Any] = {
            task: [{"tools": [{"shell": {"command": f"git apply <<'END'\n{patch}END\n"}}]}, {"text": "Done."}]
            for task, patch in list(patches.items())[:solved]
        }
        script = {"tasks": steps, "default": [{"text": "I do not know."}], "usage": {"input": 1000, "output": 100}}
        (world.folder / f"{agent}.json").write_text(json.dumps(script))
        text, changed = re.subn(rf'(agent = "{agent}"\nmodel = )"[^"]+"', rf'\1"script:{agent}.json"', text)
        assert changed == 1
    (world.folder / name).write_text(text)


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_its_commands_do_what_it_says(cli_world: CliWorld) -> None:
    programs: dict[str, Any] = {}
    for name in ("codex", "gemini"):
        need_agent(LAB_AGENTS[name])
        programs[f"{name.upper()}_BIN"] = LAB_AGENTS[name].kind().find_command()
    if (why := await local_unavailable_reason()) is not None:
        pytest.skip(why)
    make_parser(cli_world)
    said: dict[str, str] = {}
    for line in page_commands():
        program, *words = shlex.split(line)
        assert program == "proctor"
        if words[:2] == ["bench", "sweep"] and not (cli_world.folder / words[2]).exists():
            write_sweep(cli_world, words[2])
        words = [str(cli_world.folder / "home" / word[2:]) if word.startswith("~/") else word for word in words]
        done = await cli_world.start(*words, **programs).wait(400)
        assert done.code == 0 or words == ["doctor"], (line, done.stdout, done.stderr)
        said[line] = done.stdout
    first, sweep = said["proctor doctor"], said["proctor bench sweep two-agents.toml"]
    assert re.search(r"ok\s+codex", first)
    assert re.search(r"codex\s+codex\s+\S+\s+run-001\s+4/4", sweep), sweep
    assert re.search(r"gemini\s+gemini\s+\S+\s+run-002\s+2/4", sweep), sweep
    assert all(word in sweep for word in ("Avg Cost", "Avg Time", "Tokens"))
    report = said["proctor bench report mine"].splitlines()
    assert next(line for line in report if "Resolved" in line).split()[2:4] == ["Agent", "Model"]
    assert "parser_1" in said["proctor bench compare mine/run-001 mine/run-002"]
