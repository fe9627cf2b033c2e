"""Test programs of other languages, as the Multilingual set runs them. Most print one line for each test."""

import re
from collections.abc import Callable, Mapping
from typing import Final
from xml.etree import ElementTree as ET

from proctor.benchmarks.swe.parsers.pytest_lines import Parser, Statuses

_CROSS: Final = "\N{MULTIPLICATION SIGN}"


def line_parser(pattern: str, statuses: Mapping[str, str], *, clean: Callable[[str, str], str] | None = None) -> Parser:
    """A parser for one line per test: `pattern` names the groups `word` and `name`, `words` says what a word means."""
    compiled = re.compile(pattern)

    def parse(log: str) -> Statuses:
        found: Statuses = {}
        for line in log.split("\n"):
            match = compiled.match(line.strip())
            if match is not None and match["word"] in statuses:
                name, status = match["name"], statuses[match["word"]]
                found[clean(name, status) if clean else name] = status
        return found

    return parse


def _without_file(name: str, status: str) -> str:
    """Redis appends the file to the names of failed tests."""
    return re.sub(r"\s+in\s+\S+$", "", name) if status == "FAILED" else name


redis = line_parser(
    r"^\[(?P<word>ok|err|skip|ignore)\]:\s(?P<name>.+?)(?:\s\(\d+\s*m?s\))?$",
    {"ok": "PASSED", "err": "FAILED", "skip": "SKIPPED", "ignore": "SKIPPED"},
    clean=_without_file,
)
jq = line_parser(r"^(?P<word>PASS|FAIL):\s(?P<name>.+)$", {"PASS": "PASSED", "FAIL": "FAILED"})
micropython = line_parser(
    r"^(?P<word>pass|FAIL|skip)\s+(?P<name>.+)$", {"pass": "PASSED", "FAIL": "FAILED", "skip": "SKIPPED"}
)
googletest = line_parser(
    r"^.*\[\s*(?P<word>OK|FAILED)\s*\]\s(?P<name>.*)\s\(.*\)$", {"OK": "PASSED", "FAILED": "FAILED"}
)
gotest = line_parser(
    r"^--- (?P<word>PASS|FAIL|SKIP): (?P<name>.+) \(.+\)$", {"PASS": "PASSED", "FAIL": "FAILED", "SKIP": "SKIPPED"}
)
ant = line_parser(
    r"^\[junit\]\s+\[(?P<word>PASS|FAIL|ERR)\]\s+(?P<name>.*)$", {"PASS": "PASSED", "FAIL": "FAILED", "ERR": "FAILED"}
)
cargo = line_parser(r"^test\s+(?P<name>\S+)\s+\.\.\.\s+(?P<word>\w+)$", {"ok": "PASSED", "FAILED": "FAILED"})
minitest = line_parser(r"^(?P<name>.+)\. .*=.*(?P<word>\.|F|E).*$", {".": "PASSED", "F": "FAILED", "E": "FAILED"})
cucumber = line_parser(r"^(?P<name>.*) \.+(?P<word>\.|F)", {".": "PASSED", "F": "FAILED"})
ruby_unit = line_parser(
    r"^(?:test: )?(?P<name>.+):\s+(?P<word>\.|E\b|F\b|O\b)",
    {".": "PASSED", "E": "FAILED", "F": "FAILED", "O": "SKIPPED"},
)
rspec = line_parser(r"(?P<name>.+) - (?P<word>passed|failed)", {"passed": "PASSED", "failed": "FAILED"})
jest = line_parser(
    r"^(?P<word>✓|✕|○)\s(?P<name>.+?)(?:\s\(\d+\s*m?s\))?$",
    {"✓": "PASSED", "✕": "FAILED", "○": "SKIPPED"},
    clean=lambda name, _: name.strip(),
)
jest_json = line_parser(r"^\[(?P<word>PASSED|FAILED)\]\s(?P<name>.+)$", {"PASSED": "PASSED", "FAILED": "FAILED"})
vitest = line_parser(
    rf"^(?P<word>✓|{_CROSS}|↓)\s(?P<name>.+?)(?:\s(\d+\s*m?s?|\[skipped\]))?$",
    {"✓": "PASSED", _CROSS: "FAILED", "↓": "SKIPPED"},
)
tap = line_parser(r"^(?P<word>ok|not ok) \d+ (?P<name>.+)$", {"ok": "PASSED", "not ok": "FAILED"})

_SUITE: Final = re.compile(r"^(\w.+) \(.+\)$")
_PHPUNIT: Final = re.compile(r"^\s*([✔✘↩])\s*(.*)$")
_PHPUNIT_WORDS: Final = {"✔": "PASSED", "✘": "FAILED", "↩": "SKIPPED"}
_KARMA: Final = re.compile(r"^(\s*)?([✔✖])?\s(.*)$")
_MAVEN_TEST: Final = re.compile(r"^.*-Dtest=(\S+).*$")
_MAVEN_END: Final = re.compile(r"^.*BUILD (SUCCESS|FAILURE)$")
_GRADLE: Final = re.compile(r"^([^>].+)\s+(PASSED|FAILED)$")
_GRADLE_NAME: Final = re.compile(r"^([^>]\S*\s+>\s+\S+)$")


def phpunit(log: str) -> Statuses:
    """Test doxes below the heading of their suite."""
    found: Statuses = {}
    suite: str | None = None
    for line in log.split("\n"):
        if heading := _SUITE.match(line):
            suite = heading[1]
        elif test := _PHPUNIT.match(line):
            found[f"{suite} > {test[2]}"] = _PHPUNIT_WORDS[test[1]]
    return found


def karma(log: str) -> Statuses:
    """Ticks and crosses below indented suites, from the browser's start to the summary."""
    found: Statuses = {}
    suites: list[str] = []
    indented = -1
    started = False
    for line in log.split("\n"):
        if line.startswith("SUMMARY:"):
            break
        if "Starting browser" in line:
            started = True
            continue
        if not started or (match := _KARMA.match(line)) is None:
            continue
        indent, tick, name = match.groups()
        if tick:
            found[" > ".join([*suites, name])] = "PASSED" if tick == "✔" else "FAILED"
        elif indent:
            deeper = len(indent)
            if deeper > indented:
                suites.append(name)
            elif deeper < indented and suites:
                suites.pop()
            indented = deeper
    return found


def maven(log: str) -> Statuses:
    """Maven prints no passes: each test has a command of its own, and the build's end is its result, in order."""
    found: Statuses = {}
    waiting: list[str] = []
    early: list[str] = []
    for raw in log.split("\n"):
        line = raw.strip()
        if test := _MAVEN_TEST.match(line):
            waiting.append(test[1])
        if end := _MAVEN_END.match(line):
            status = "PASSED" if end[1] == "SUCCESS" else "FAILED"
            if waiting:
                found[waiting.pop(0)] = status
            else:
                early.append(status)
    found.update(zip(waiting, early, strict=False))
    return found


def gradle(log: str) -> Statuses:
    """`Class > test STATUS`; the status may come on a later line."""
    found: Statuses = {}
    waiting: str | None = None
    for raw in log.split("\n"):
        line = raw.strip()
        if whole := _GRADLE.match(line):
            found[whole[1]] = whole[2]
            waiting = None
        elif name := _GRADLE_NAME.match(line):
            waiting = name[1]
        elif waiting is not None and line in {"PASSED", "FAILED"}:
            found[waiting] = line
            waiting = None
    return found


def doctest(log: str) -> Statuses:
    """Doctest's XML: a sub-case passes when all its expressions do."""
    start = log.find("<doctest")
    end = log.find("</doctest>", start)
    if start < 0 or end < 0:
        return {}
    document = log[start : end + len("</doctest>")]
    if "<!ENTITY" in document:
        return {}
    try:
        root = ET.fromstring(document)  # noqa: S314 - without entities it cannot grow
    except ET.ParseError:
        return {}
    found: Statuses = {}
    for case in root.iter("TestCase"):
        for part in case.iter("SubCase"):
            passed = all(expression.get("success") == "true" for expression in part.iter("Expression"))
            found[f"{case.get('name')} > {part.get('name')}"] = "PASSED" if passed else "FAILED"
    return found
