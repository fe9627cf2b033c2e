"""Writes the script of the demo's model: `able` applies the oracles, `fair` every other of them, `poor` none.

python demo/make_script.py able|fair|poor FILE
"""

import sys
from pathlib import Path

import yaml

from proctor.benchmarks import benchmark
from proctor.core.task import Task

SUITE = "core-mini"


def able(task: Task, patch: str) -> list[dict[str, object]]:
    """Looks around, makes the change with a real tool call, and ends."""
    apply = f"git apply <<'END_OF_PATCH'\n{patch}END_OF_PATCH\n"
    return [
        {
            "text": f"I look at the code for {task.id}.",
            "tools": [
                {"Bash": {"command": "git log --oneline | head -3; find . -name .git -prune -o -type f -print | head"}}
            ],
            "usage": {"input": 4000, "output": 80, "cache_write_5m": 9000},
        },
        {
            "text": "I see what is wrong.",
            "tools": [{"Bash": {"command": apply}}],
            "usage": {"input": 300, "output": 600, "cache_read": 13000},
        },
        {"text": "It is fixed.", "usage": {"input": 200, "output": 40, "cache_read": 14000}},
    ]


def poor() -> list[dict[str, object]]:
    """Looks around and gives up."""
    return [
        {"text": "I look around.", "tools": [{"Bash": {"command": "ls"}}], "usage": {"input": 4000, "output": 40}},
        {"text": "I do not know what to do.", "usage": {"input": 300, "output": 30, "cache_read": 4000}},
    ]


def main() -> None:
    kind, target = sys.argv[1:]
    source = benchmark(SUITE)
    script: dict[str, object] = {"default": poor()}
    if kind != "poor":
        oracles = [(task, source.oracle(task)) for task in source.tasks()][:: 2 if kind == "fair" else 1]
        script["tasks"] = {
            task.id: able(task, oracle.content.decode()) for task, oracle in oracles if oracle is not None
        }
    Path(target).write_text(yaml.safe_dump(script, sort_keys=False))


if __name__ == "__main__":
    main()
