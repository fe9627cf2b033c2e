"""The tables of docs/agents.md are what the agents declare, and what `make agents` has made last."""

import json

from agent_matrix import COLUMNS, OK
from agent_programs import PROGRAMS
from agent_tables import PAGE, STORED, matrix_table, options_table, page_with
from lab_agents import LAB_AGENTS


def test_the_page_has_what_each_agent_can_be_told() -> None:
    assert sorted(PROGRAMS) == sorted(LAB_AGENTS)
    page = PAGE.read_text()
    assert page == page_with(page, options=options_table()), "run `PYTHONPATH=tests python -m agent_tables`"


def test_the_page_has_the_stored_matrix_and_every_cell_of_it_holds() -> None:
    stored = json.loads(STORED.read_text())
    page = PAGE.read_text()
    assert page == page_with(page, matrix=matrix_table(stored)), "run `PYTHONPATH=tests python -m agent_tables`"
    assert [row["agent"] for row in stored] == list(PROGRAMS)
    for row in stored:
        if row["skipped"]:
            continue
        known = LAB_AGENTS[row["agent"]].deviations
        assert row["cells"] == {name: known.get(name, OK) for name in COLUMNS}
