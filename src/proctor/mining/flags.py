"""What makes a task doubtful, as readers of such data ask for it: pure rules over texts."""

import re
from collections.abc import Collection
from typing import Final

from proctor.mining.instruction import DiffWords, names_in

SHORT_INSTRUCTION: Final = "short-instruction"
UNNAMED: Final = "unnamed-in-instruction"
LARGE: Final = "large-change"
INTERNALS: Final = "internals-only"
LOADING: Final = "fails-only-at-loading"
SOLUTION: Final = "solution-in-instruction"
BY_MODEL: Final = "written-by-model"
_FEWEST_WORDS: Final = 12
_MOST_LINES: Final = 200
_MOST_FILES: Final = 8
_TEXT: Final = re.compile(r"\"([^\"\n]{8,})\"|'([^'\n]{8,})'")
_DISTINCTIVE: Final = 10


def find_flags(
    instruction: str,
    oracle: DiffWords,
    tests: DiffWords,
    *,
    new_names: Collection[str],
    lines: int,
    files: int,
    only_loading: bool,
    by_model: bool,
) -> tuple[str, ...]:
    """The flags of a task.

    Args:
        instruction: as the agent gets it.
        oracle: what the reference solution adds.
        tests: what the tests of the change add.
        new_names: names that the oracle introduces: they are nowhere in the tree before.
        lines: of source that the oracle changes.
        files: of source that it changes.
        only_loading: every failing test fails because its file cannot be loaded.
        by_model: a model wrote the instruction.
    """
    found = {
        SHORT_INSTRUCTION: len(re.findall(r"\w+", instruction)) < _FEWEST_WORDS,
        UNNAMED: bool(_unnamed(instruction, oracle, tests, new_names)),
        LARGE: lines > _MOST_LINES or files > _MOST_FILES,
        INTERNALS: _only_internals(oracle, tests),
        LOADING: only_loading,
        SOLUTION: _has_solution(instruction, oracle),
        BY_MODEL: by_model,
    }
    return tuple(name for name, holds in found.items() if holds)


def _unnamed(instruction: str, oracle: DiffWords, tests: DiffWords, new_names: Collection[str]) -> set[str]:
    """What the tests ask for and nobody could guess: names and longer texts that only the oracle has."""
    given = set(names_in(instruction))
    names = {name for name in tests.names & set(new_names) if name not in given}
    texts = {text for text in _texts(tests) & _texts(oracle) if text not in instruction}
    return names | texts


def _texts(words: DiffWords) -> set[str]:
    return {one or other for line in words.lines for one, other in _TEXT.findall(line)}


def _only_internals(oracle: DiffWords, tests: DiffWords) -> bool:
    common = {name for name in tests.names & oracle.names if not name.startswith("__")}
    private = {name for name in common if name.startswith("_")}
    return bool(private) and private == common


def _has_solution(instruction: str, oracle: DiffWords) -> bool:
    lines = {line.strip().strip("`") for line in instruction.splitlines()}
    return any(sum(map(str.isalnum, line)) >= _DISTINCTIVE and line in oracle.lines for line in lines)
