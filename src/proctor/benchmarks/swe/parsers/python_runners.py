"""Python projects with test programs of their own: Django and SymPy."""

import re
from typing import Final

from proctor.benchmarks.swe.parsers.pytest_lines import Statuses

_VERSIONS: Final = "--version is equivalent to version"
_MIGRATION: Final = "Applying sites.0002_alter_domain_unique...test_no_migrations"
_PASSED: Final = (" ... ok", " ... OK", " ...  OK")
# A test's line that was torn apart by what another part of Django printed between the name and its "ok".
_TORN: Final = tuple(
    re.compile(pattern, re.MULTILINE)
    for pattern in (
        r"^(.*?)\s\.\.\.\sTesting against Django installed in ((?s:.*?)) silenced\)\.\nok$",
        r"^(.*?)\s\.\.\.\sInternal Server Error: /(.*)/\nok$",
        r"^(.*?)\s\.\.\.\sSystem check identified no issues \(0 silenced\)\nok$",
    )
)
_SYMPY_FAILED: Final = re.compile(r"(_*) (.*)\.py:(.*) (_*)")
_SYMPY_WORDS: Final = {"E": "ERROR", "F": "FAILED", "ok": "PASSED"}


def django(log: str) -> Statuses:
    """`name ... ok|FAIL|ERROR|skipped`, and the headings of failures."""
    found: Statuses = {}
    latest: str | None = None
    for raw in log.split("\n"):
        line = raw.strip()
        if _VERSIONS in line:
            found[_VERSIONS] = "PASSED"
        if " ... " in line:
            latest = line.split(" ... ")[0]
        line = _django_result(line, found)
        if line.startswith("ok") and latest is not None:
            found[latest] = "PASSED"
    for torn in _TORN:
        for match in torn.finditer(log):
            found[match.group(1)] = "PASSED"
    return found


def _django_result(line: str, found: Statuses) -> str:
    """Note what one line says; the line as it is read on, since one migration's line holds a test's."""
    for suffix in _PASSED:
        if line.endswith(suffix):
            if line.startswith(_MIGRATION):
                line = line.split("...", 1)[-1].strip()
            found[line.rsplit(suffix, 1)[0]] = "PASSED"
            break
    if " ... skipped" in line:
        found[line.split(" ... skipped")[0]] = "SKIPPED"
    for word, status in (("FAIL", "FAILED"), ("ERROR", "ERROR")):
        if line.endswith(f" ... {word}"):
            found[line.split(f" ... {word}")[0]] = status
        if line.startswith(f"{word}:") and len(line.split()) > 1:
            found[line.split()[1]] = status
    return line


def sympy(log: str) -> Statuses:
    """`test_name ok|F|E`, and the headings of failures."""
    found = {f"{match[1]}.py:{match[2]}": "FAILED" for match in _SYMPY_FAILED.findall(log)}
    for raw in log.split("\n"):
        line = raw.strip()
        if line.startswith("test_"):
            name, *rest = line.split()
            # Official endings are " E", " F", " ok": a word of its own at the end of the line.
            if rest and rest[-1] in _SYMPY_WORDS:
                found[name] = _SYMPY_WORDS[rest[-1]]
    return found
