"""Pods for tests: the stand-ins as programs in one file, presets that script them, models that script their talk."""

import compileall
import json
import stat
import zipapp
from pathlib import Path
from typing import Any

import yaml

from paths import REPOSITORY
from proctor.benchmarks import benchmark

STANDINS = REPOSITORY / "tests/standins"
USAGE = {"input": 1000, "output": 100, "cache_read": 5000, "cache_write_5m": 300}
# What every agent of the pod asks for, so that what the model serves can be counted beforehand.
REQUESTS = {"concierge": 3, "coder-1": 2, "coder-2": 2, "reviewer": 2}


def _say(text: str) -> dict[str, Any]:
    return {"text": text}


def _run(*commands: str) -> dict[str, Any]:
    return {"tools": [{"Bash": {"command": "\n".join(commands)}}]}


def relay_talk(patch: str) -> dict[str, Any]:
    """Each agent does its part and writes to the next: concierge, coder-1, coder-2, reviewer, and back."""
    talk = {
        "concierge": [
            _run("h2 send coder-1 'Begin with the first part.'"),
            _say("The coders are at it."),
            _say("The reviewer is content: it is done."),
        ],
        "coder-1": [
            _run(f"git apply <<'END'\n{patch}END", "h2 send coder-2 'The rest is yours.'"),
            _say("My part is done."),
        ],
        "coder-2": [_run("git status --short", "h2 send reviewer 'Look at it, please.'"), _say("So is mine.")],
        "reviewer": [_run("git diff --stat", "h2 send concierge 'Nothing must be fixed.'"), _say("Checked.")],
    }
    return {"conversations": [{"agent": agent, "steps": steps} for agent, steps in talk.items()]}


def talk_about(suite: str) -> dict[str, Any]:
    """A script in which a pod solves every task of a suite."""
    source = benchmark(suite)
    oracles = {task.id: source.oracle(task) for task in source.tasks()}
    tasks = {task_id: relay_talk(oracle.content.decode()) for task_id, oracle in oracles.items() if oracle is not None}
    return {"tasks": tasks, "usage": USAGE}


def write_script(folder: Path, script: dict[str, Any]) -> Path:
    file = folder / "talk.yaml"
    file.write_text(yaml.safe_dump(script, sort_keys=False))
    return file


def one_file(name: str, folder: Path) -> Path:
    """A stand-in as one executable file, as the real program is."""
    tree = folder / f"{name}-tree"
    package = tree / f"{name}_standin"
    package.mkdir(parents=True)
    for module in (STANDINS / package.name).glob("*.py"):
        (package / module.name).write_bytes(module.read_bytes())
    if name == "h2":
        (tree / "yaml").mkdir()
        for module in Path(yaml.__file__).parent.glob("*.py"):
            (tree / "yaml" / module.name).write_bytes(module.read_bytes())
    entry = "quick" if name == "h2" else "cli"
    (tree / "__main__.py").write_text(f"from {name}_standin.{entry} import main\n\nmain()\n")
    compileall.compile_dir(tree, legacy=True, quiet=1)  # read if the environment has the same Python
    program = folder / name
    zipapp.create_archive(tree, program, interpreter="/usr/bin/env -S python3 -IS", compressed=False)
    program.chmod(program.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    return program


def write_preset(folder: Path, **scenario: Any) -> Path:
    """The preset `opus`, with a scenario for the stand-in of h2."""
    preset = folder / "preset"
    preset.mkdir()
    (preset / "preset.toml").write_text('extends = "opus"\n')
    (preset / "standin.json").write_text(json.dumps(scenario))
    return preset
