"""The tests of an instance as our own reporter runs them: what its official script sets up, and what it then runs."""

import re
import shlex
from typing import Final

from msgspec import field

from proctor.benchmarks.swe.eval_log import START_MARKER
from proctor.benchmarks.swe.evo_grader import eval_script
from proctor.benchmarks.swe.patches import files_to_test
from proctor.benchmarks.swe.rows import SweBenchRow, SweEvoRow, SweRow
from proctor.core.record import Record
from proctor.grading import TestFormat

_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*=")
# What SymPy's `bin/test` imports to run tests, and what its tests import to be run.
_SYMPY_PROGRAM: Final = (
    "bin/test",
    "sympy/testing/runtests.py",
    "sympy/testing/pytest.py",
    "sympy/utilities/runtests.py",
    "sympy/utilities/pytest.py",
)
_SETTINGS: Final = re.compile(r"--settings[= ]([\w.]+)")


class ReporterStep(Record):
    """A test step that our reporter can run.

    Attributes:
        setup_script: the official script up to the tests.
        targets: as in a test plan.
        program: paths of the repository that run the tests, besides the tests themselves.
        variables: that the official command sets for its tests.
    """

    setup_script: str
    format: TestFormat
    targets: tuple[str, ...]
    program: tuple[str, ...] = ()
    variables: dict[str, str] = field(default_factory=dict)


def official_script(row: SweRow) -> str:
    """The official script of an instance; empty where its tests are run by several."""
    match row:
        case SweBenchRow():
            return row.eval_script
        case SweEvoRow():
            return eval_script(row)
        case _:
            return ""


def reporter_step(row: SweRow) -> ReporterStep | None:
    """How our reporter runs the tests of an instance; None where a program runs them that it cannot stand in for."""
    lines = official_script(row).split("\n")
    marker = next((number for number, line in enumerate(lines) if START_MARKER in line), len(lines))
    words = _words(lines[marker + 1]) if marker + 1 < len(lines) else []
    variables = {}
    while words and _ASSIGNMENT.match(words[0]):
        name, _, value = words.pop(0).partition("=")
        variables[name] = value
    if not words:
        return None
    setup, program = "\n".join(lines[:marker]), words[0].removeprefix("./")
    files = tuple(word for word in words if word in set(files_to_test(row.test_patch)))
    if program.endswith("runtests.py"):
        paths = (program, *_settings_files(program, words))
        return ReporterStep(
            setup_script=setup, format=TestFormat.PROGRAM, targets=tuple(words), program=paths, variables=variables
        )
    if program == "bin/test" and files:
        # SymPy's own program switches its cache off by a variable.
        variables |= {"SYMPY_USE_CACHE": "no"} if "-C" in words else {}
        return ReporterStep(
            setup_script=setup,
            format=TestFormat.FUNCTIONS,
            targets=files,
            program=_SYMPY_PROGRAM,
            variables=variables,
        )
    if ("pytest" in words or program == "tox") and files:
        return ReporterStep(setup_script=setup, format=TestFormat.PYTEST, targets=files, variables=variables)
    return None


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError:
        return []


def _settings_files(program: str, words: list[str]) -> tuple[str, ...]:
    """The settings that a program of Django's kind is run with, which lie beside it."""
    folder = program.rpartition("/")[0]
    names = _SETTINGS.findall(" ".join(words))
    return tuple("/".join(filter(None, (folder, name.replace(".", "/")))) + ".py" for name in names)
