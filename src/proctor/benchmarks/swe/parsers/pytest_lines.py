"""pytest's output: the short summary that `-rA` prints, and the lines of older versions.

A status is taken where a line starts with its word, so a program under test that prints such a line is believed.
That is the official rule; the strict verdict does not rest on it alone.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final

Statuses = dict[str, str]
Parser = Callable[[str], Statuses]
STATUS_WORDS: Final = ("FAILED", "PASSED", "SKIPPED", "ERROR", "XFAIL")
_COUNT: Final = re.compile(r"\[\d+\]$")
_OPTION: Final = re.compile(r"(.*?)\[(.*)\]")
_REPEATED: Final = re.compile(r"FAILED\s*\[.*?\]")
_COLOUR: Final = re.compile(r"\[(\d+)m")
_CONTROL: Final = dict.fromkeys(range(1, 32))
_BUTTONS: Final = (("MouseButton.LEFT", "1"), ("MouseButton.RIGHT", "3"))  # what older matplotlibs print for them


def pytest_summary(log: str) -> Statuses:
    """`STATUS id` lines; the id ends at the first space."""
    return {tokens[1]: tokens[0] for tokens in _summary(log.split("\n"))}


def pytest_shortened(log: str) -> Statuses:
    """The same, with a parameter that is an absolute path cut down to its last part."""
    return {_shortened(tokens[1]): tokens[0] for tokens in _summary(log.split("\n"))}


def pytest_matplotlib(log: str) -> Statuses:
    """The same, with mouse buttons by their numbers."""
    for name, number in _BUTTONS:
        log = log.replace(name, number)
    return pytest_summary(log)


def pytest_spaced(log: str) -> Statuses:
    """`STATUS id` and `id STATUS` lines, colours taken out; the id may hold spaces."""
    found: Statuses = {}
    for line in _plain_lines(log):
        if line.startswith(STATUS_WORDS):
            tokens = (line.split(" - ", 1)[0] if line.startswith("FAILED") else line).split()
            if len(tokens) > 1 and not _is_count(tokens):
                found[" ".join(tokens[1:])] = tokens[0]
        elif line.endswith(STATUS_WORDS) and len(tokens := line.split()) > 1:
            found[" ".join(tokens[:-1])] = tokens[-1]
    return found


def pytest_either_end(log: str) -> Statuses:
    """The same as SWE-bench 4 read it: two words of a line, whichever comes first."""
    return _two_words(_plain_lines(log))


def pytest_pydantic(log: str) -> Statuses:
    """The same for pydantic, whose failures are followed by their place in brackets."""
    return _two_words(_REPEATED.sub("FAILED", line) for line in _plain_lines(log))


def pytest_verbose(log: str) -> Statuses:
    """seaborn: `STATUS id` and `id STATUS [ 10%]`; only passes and failures."""
    found: Statuses = {}
    for line in log.split("\n"):
        tokens = line.split()
        if len(tokens) < 2:  # noqa: PLR2004 - a status and an id
            continue
        if line.startswith("FAILED"):
            found[tokens[1]] = "FAILED"
        elif " PASSED " in line:
            if tokens[1] == "PASSED":
                found[tokens[0]] = "PASSED"
        elif line.startswith("PASSED"):
            found[tokens[1]] = "PASSED"
    return found


def _summary(lines: list[str]) -> Iterator[list[str]]:
    for line in lines:
        if line.startswith(STATUS_WORDS):
            tokens = (line.replace(" - ", " ") if line.startswith("FAILED") else line).split()
            if len(tokens) > 1 and not _is_count(tokens):
                yield tokens


def _is_count(tokens: list[str]) -> bool:
    """`SKIPPED [3] file.py:7: reason` counts tests, and names none."""
    return tokens[0] == "SKIPPED" and _COUNT.match(tokens[1]) is not None


def _shortened(name: str) -> str:
    found = _OPTION.search(name)
    if found is None:
        return name
    main, option = found.groups()
    if option.startswith("/") and not option.startswith("//") and "*" not in option:
        option = "/" + option.rpartition("/")[2]
    return f"{main}[{option}]"


def _plain_lines(log: str) -> Iterator[str]:
    return (_COLOUR.sub("", line).translate(_CONTROL) for line in log.split("\n"))


def _two_words(lines: Iterable[str]) -> Statuses:
    found: Statuses = {}
    for line in lines:
        if line.startswith(STATUS_WORDS):
            tokens = (line.replace(" - ", " ") if line.startswith("FAILED") else line).split()
            if len(tokens) > 1:
                found[tokens[1]] = tokens[0]
        elif line.endswith(STATUS_WORDS) and len(tokens := line.split()) > 1:
            found[tokens[0]] = tokens[1]
    return found
