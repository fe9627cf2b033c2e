"""The tables of docs/agents.md: what each agent can be told, and the matrix that `make agents` has made.

``python -m agent_tables [FILE]`` writes them anew; FILE is what ``make agents ARGS='--out FILE'`` has stored, and is
kept as the result that the page shows.
"""

import json
import shutil
import sys
from typing import Any

from agent_matrix import COLUMNS, Row, table
from agent_programs import PROGRAMS
from lab_agents import LAB_AGENTS, LabAgent
from paths import REPOSITORY

PAGE = REPOSITORY / "docs/agents.md"
STORED = REPOSITORY / "tests/samples/agent_matrix.json"
_MARKS = {name: (f"<!-- {name} -->\n", f"<!-- end of {name} -->\n") for name in ("options", "matrix")}


def options_table() -> str:
    """What each agent can be told, as its class and the lab declare it."""
    flags = ("--system-prompt", "--append-system-prompt", "--allowed-tools", "--effort")
    head = ["agent", "package", "dialects", *(f"`{flag}`" for flag in flags)]
    lines = [head, ["---"] * len(head)]
    for name in PROGRAMS:
        agent = LAB_AGENTS[name]
        tools = f"`{','.join(agent.tools)}`" if agent.tools else "no"
        efforts = ", ".join(agent.kind.efforts) or "no"
        prompts = ["yes" if has else "no" for has in (agent.own_prompt, agent.appends)]
        lines.append(
            [f"[`{name}`](#{name})", _package(agent), ", ".join(agent.kind.dialects), *prompts, tools, efforts]
        )
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def matrix_table(stored: list[dict[str, Any]]) -> str:
    """A stored matrix."""
    return table([Row(**row) for row in stored], COLUMNS) + "\n"


def page_with(text: str, **tables: str) -> str:
    """The page with these tables in their places."""
    for name, made in tables.items():
        start, end = _MARKS[name]
        before, _, rest = text.partition(start)
        text = before + start + made + end + rest.partition(end)[2]
    return text


def _package(agent: LabAgent) -> str:
    """The package with the release that the tests were run with."""
    name, _, release = PROGRAMS[agent.name].packages[0].replace("==", "@").rpartition("@")
    return f"{name} {release}"


def main(words: list[str]) -> None:
    """Write the tables."""
    if words:
        shutil.copyfile(words[0], STORED)
    tables = {"options": options_table(), "matrix": matrix_table(json.loads(STORED.read_text()))}
    PAGE.write_text(page_with(PAGE.read_text(), **tables))


if __name__ == "__main__":
    main(sys.argv[1:])
