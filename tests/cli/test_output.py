"""Tables on terminals of all widths."""

import os
import sys
from pathlib import Path

import pytest

from proctor.core.causes import Cause
from proctor.results import new_run
from stored_runs import finish, store_trial
from terminal import on_terminal

PROCTOR = (sys.executable, "-m", "proctor")


def letters(lines: list[str]) -> str:
    return "".join("".join(lines).split())


@pytest.mark.parametrize("width", [80, 40])
def test_what_doctor_found_fits_the_terminal_and_all_of_it_is_there(width: int) -> None:
    # Without the programs of agents, of which each would be started to say its version.
    env = {name: value for name, value in os.environ.items() if not name.endswith("_BIN")}
    code, lines = on_terminal((*PROCTOR, "doctor"), width=width, env=env)
    assert code in {0, 12}
    assert 0 < max(map(len, lines)) <= width
    assert lines[0].startswith("CHECK")
    assert {"git", "bubblewrap", "docker", "disk"} <= {line.split()[0] for line in lines if line[:1].strip()}
    assert "PATH" in letters(lines)
    headings = " ".join(line for line in lines if line.startswith("CHECK"))
    assert all(heading in headings for heading in ("STATE", "FOUND", "NEEDED FOR"))


@pytest.mark.parametrize("width", [80, 34])
def test_a_run_fits_the_terminal_and_all_of_it_is_there(tmp_path: Path, width: int) -> None:
    store = new_run("toy", root=tmp_path)
    store_trial(store, "organisation__a-project-with-a-long-name-12345", Cause.TESTS_FAILED, logs=False)
    store_trial(store, "short", Cause.SOLVED, logs=False)
    finish(store)
    env = {**os.environ, "PROCTOR_RESULTS": str(tmp_path)}
    code, lines = on_terminal((*PROCTOR, "bench", "show", "toy/run-001"), width=width, env=env)
    assert code == 0
    table = lines[lines.index("") + 1 : len(lines) - lines[::-1].index("")]
    assert max(map(len, table)) <= width
    headings = " ".join(line for line in table if line.startswith("TASK")).split()
    assert set(headings) == {"TASK", "STATUS", "CAUSE", "COST", "TIME", "TURNS", "STEPS", "ATTEMPTS"}
    said = letters(table)
    assert all(cell in said for cell in ("unresolved", "tests_failed", "$0.25", "12345", "solved"))


def test_a_file_or_a_pipe_gets_a_table_in_one_piece(tmp_path: Path) -> None:
    store = new_run("toy", root=tmp_path)
    store_trial(store, "x" * 100, Cause.SOLVED, logs=False)
    finish(store)
    env = {**os.environ, "PROCTOR_RESULTS": str(tmp_path), "COLUMNS": "40"}
    shell = f"{sys.executable} -m proctor bench show toy/run-001 | cat"
    _, lines = on_terminal(("bash", "-c", shell), width=40, env=env)
    assert any(line.startswith("x" * 100 + "   resolved   ") for line in lines)
