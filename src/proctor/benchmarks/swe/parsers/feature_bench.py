"""FeatureBench's own reading of pytest's output, which is not SWE-bench's.

Only the short summary counts, ids keep their spaces, and two projects are read in ways of their own. A line that a
program under test prints into the summary is believed: that is the official rule, and the rate is the official rate.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from proctor.benchmarks.swe.parsers.pytest_lines import Parser, Statuses

_HEADING: Final = "short test summary info"
_RULE: Final = "==="
_NAMED: Final = ("PASSED", "FAILED", "ERROR", "XFAIL")
_SKIP: Final = "SKIPPED"
_SUBTEST: Final = "SUBFAILED"
_REASON: Final = re.compile(r"\s+-\s+")
_SKIPPED_PLACE: Final = re.compile(r"\[\d+\]\s+(?P<place>.+?)(?::\d+)?:\s+.*")
# Of the forms in which versions of pytest print a failed subtest, these two: without a description, or with this one.
_SUBTEST_ID: Final = re.compile(r"(?:\(<subtest>\))?\s+(?P<rest>\S.*)")


def feature_summary(log: str) -> Statuses:
    """The first short summary, up to the next rule; what a line has behind ` - ` is its reason."""
    found: Statuses = {}
    for line in _summary_lines(log):
        if (result := _result(line)) is not None:
            found[result[0]] = result[1]
    return found


def feature_summary_with_subtests(log: str) -> Statuses:
    """The same, with every failed subtest as a failure of its own, by the test's id and a number."""
    found: Statuses = {}
    numbers: Counter[str] = Counter()
    for line in _summary_lines(log):
        if line.startswith(_SUBTEST):
            if match := _SUBTEST_ID.fullmatch(line.removeprefix(_SUBTEST)):
                name = _without_reason(match["rest"])
                numbers[name] += 1
                found[f"{name}[{numbers[name]}]"] = "FAILED"
        elif (result := _result(line)) is not None and result[0]:
            found[result[0]] = result[1]
    return found


def feature_verbose(log: str) -> Statuses:
    """The progress lines of `-v`, `id STATUS [ 10%]`, up to the rule that ends them."""
    found: Statuses = {}
    for line in _stripped_lines(log):
        if line.startswith(_RULE) and "test session starts" not in line:
            break
        for status in (*_NAMED, _SKIP):
            if not any(f" {status}{gap}" in line for gap in " \t"):
                continue
            name = line.partition(status)[0].strip()
            if "::" in name:
                found[name] = status
                break
    return found


_BY_REPO: Final[Mapping[str, Parser]] = {
    "mesonbuild/meson": feature_summary_with_subtests,
    "pydantic/pydantic": feature_verbose,
}


def find_feature_parser(repo: str) -> Parser:
    """The parser for a project's log."""
    return _BY_REPO.get(repo, feature_summary)


def _stripped_lines(log: str) -> Iterator[str]:
    # The official grader reads logs back in Python's text mode, in which a carriage return ends a line.
    return (line.strip() for line in log.replace("\r\n", "\n").replace("\r", "\n").split("\n"))


def _summary_lines(log: str) -> Iterator[str]:
    lines = _stripped_lines(log)
    for line in lines:
        if _HEADING in line.lower():
            break
    for line in lines:
        if line.startswith(_RULE):
            return
        yield line


def _result(line: str) -> tuple[str, str] | None:
    """The name and the status in a line of the summary."""
    status, space, rest = line.partition(" ")
    rest = rest.lstrip()
    if not space:
        return None
    if status in _NAMED:
        return _without_reason(rest), status
    # A skip names the file and counts its tests.
    match = _SKIPPED_PLACE.fullmatch(rest) if status == _SKIP else None
    return (match["place"].strip(), status) if match else None


def _without_reason(text: str) -> str:
    return _REASON.split(text, maxsplit=1)[0]
