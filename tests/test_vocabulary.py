"""One word for each thing: retired names and words stay out of the code, the tests, the pages and the help texts."""

import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from paths import REPOSITORY

SOURCE: Final = REPOSITORY / "src/proctor"
# Names of types and functions that had a plain one given instead.
RETIRED_NAMES: Final = frozenset(
    """
    Way Try Watch Made Course Places Place Sitting Work Silence Watcher Standing Slot Asked Ending Homes Workplaces
    Errand ErrandResult Body Folder Groups Watches Shelf Desk Sight Sited Attending StatesNeeds TakesTurns Foresighted
    ReadsPredictions Stocked ArrangesRooms Bench Procedure Recipe Floor Census Evaluated Unusable Fetched Health Book
    Spending Told Said Heard furnish drive run_errand telling settle lend go_on hand_in smells
    Exam Paper Twin TwinResults ExamPlace KeptFiles Witness OracleWitness Truth NoTruth PassedOver Occupant Flaw
    Feasibility Arena AttemptOrder GradingOrder EvaluationOrder ServiceGrace BaseFacts examine examine_submission
    resolve_exam with_exam put_paper merge_papers twin_results stands_so_far plain_holds find_truth is_coined
    occupant_of answered_account obstacles_by_task network_obstacle late_work missing_in open_place
    """.split()  # noqa: SIM905 - a list of words reads best as words
)
# A retired word, what it is instead, and where it still means something else.
RETIRED_WORDS: Final = {
    "room": ("environment, or space", ()),
    "errand": ("one-shot command", ()),
    "sitting": ("session", ()),
    "furnish": ("prepare", ()),
    "shelf": ("cache, or index", ()),
    "smell": ("finding", ()),
    "weather": ("provider errors", ()),
    "mend": ("fix, or repair", ()),
    "utilised": ("active", ()),
    "cassette": ("recording", (r"cassette\.jsonl", r"proctor\.cassette@1", r'"cassette"', r"`cassette`")),
    "slot": ("trial", (r"__slots__", r"slots=True", r"\bslots: ClassVar", r"node[_-]slots")),
    "gold": ("oracle", ()),
    "telling": ("report, or log", ()),
    "exam": ("control check", (r'"exam"',)),
    "witness": ("verification run", (r'"swe-witness/1"', r'"swe_oracle_witness"', r'"witness\.')),
}
RETIRED_PHRASES: Final = {
    r"\bhand(s|ed|ing)? (it )?in\b": "submit, submission",
    r"\bg(o|oes|oing|one) on with\b": "resume, continue",
    r"\bif not said\b": "default",
    r"\bunless said otherwise\b": "by default",
    r"\breference answers?\b": "oracle",
    r"\bgold answers?\b": "oracle",
    r"\baltered twins?\b": "altered version",
    r"\bpairs? of papers\b": "control pairs",
    r"\bthe words that count\b": "the success marker",
    r"\bwhat is not what its name says\b": "a replaced program",
    r"\bmust be told its\b": "requires",
    r"\bthe script plays\b": "scripted model",
    r"\bperfect judge\b": "oracle selection",
    r"\bis no (TOML|YAML|UTF-8|suite|number|manifest)\b": "is not valid, is not a",
    r"\bmust be a text\b": "must be a string",
}
# Formats of other projects use these projects' own words; older files of ours, and submissions, may use any. A slot is
# what a node runs one agent or grader in.
ALLOWED: Final = {
    "slot": (
        *("src/proctor/runner/", "src/proctor/cli/bench/run_progress", "tests/runner/", "tests/cli/bench/"),
        *("docs/cluster.md", "perf/cluster"),
    ),
    "gold": (
        *("src/proctor/benchmarks/swe/", "tests/benchmarks/swe/", "docs/benchmarks/swe", "tests/swe_", "perf/swe_eval"),
        *("src/proctor/core/upgrades", "src/proctor/report/breakdown", "src/proctor/grading/audit/line_patterns"),
    ),
}


def python_files(*roots: Path) -> list[Path]:
    """Our own programs: those of the shipped suites are tasks."""
    found = [file for root in roots for file in sorted(root.rglob("*.py"))]
    return [file for file in found if "instances" not in file.parts and file != Path(__file__)]


def text_files() -> Iterator[Path]:
    yield from python_files(SOURCE, REPOSITORY / "tests", REPOSITORY / "perf", REPOSITORY / "demo")
    yield from sorted((REPOSITORY / "docs").rglob("*.md"))
    yield from (REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md", REPOSITORY / "Makefile")
    yield from (REPOSITORY / ".ci/run", SOURCE / "report/page.html")
    yield from sorted((REPOSITORY / "tests").glob("*.sh"))
    yield from sorted((SOURCE / "schemas").glob("*.json"))
    yield from sorted((SOURCE / "report/viewer").rglob("*.html"))
    yield from sorted((SOURCE / "report/viewer").rglob("*.js"))


@cache
def text_of(file: Path) -> str:
    return file.read_text(encoding="utf-8")


@cache
def lowered_text_of(file: Path) -> str:
    return text_of(file).lower()


def defined(file: Path, kind: str) -> list[tuple[str, int]]:
    """The names that a file defines, and their lines; lines that look like a definition are enough here."""
    pattern = re.compile(rf"^[ \t]*(?:async )?(?:{kind}) (\w+)", re.MULTILINE)
    text = text_of(file)
    return [(match.group(1), text.count("\n", 0, match.start()) + 1) for match in pattern.finditer(text)]


def words_of(line: str) -> list[str]:
    """The words of a line; those inside of identifiers too, in the singular."""
    parts = re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", line)
    lowered = [part.lower() for part in parts]
    return [form for word in lowered for form in (word, word.removesuffix("s"), word.removesuffix("ed"))]


def test_no_class_name_means_two_things() -> None:
    homes: dict[str, list[str]] = defaultdict(list)
    for file in python_files(SOURCE):
        if "families" in file.parts:  # programs of tasks, in the Task Standard's own form
            continue
        for name, _ in defined(file, "class"):
            homes[name].append(str(file.relative_to(SOURCE)))
    assert {name: files for name, files in homes.items() if len(files) > 1} == {}


def test_no_retired_name_is_defined() -> None:
    found = [
        f"{file.relative_to(REPOSITORY)}:{line}: {name}"
        for file in python_files(SOURCE, REPOSITORY / "tests")
        for name, line in defined(file, "class|def")
        if name.strip("_") in RETIRED_NAMES
    ]
    assert found == []


@pytest.mark.parametrize("word", RETIRED_WORDS)
def test_no_retired_word_is_used(word: str) -> None:
    instead, contexts = RETIRED_WORDS[word]
    found = []
    for file in text_files():
        name = str(file.relative_to(REPOSITORY))
        if name.startswith(ALLOWED.get(word, ("\0",))) or word not in lowered_text_of(file):
            continue
        for number, line in enumerate(text_of(file).splitlines(), start=1):
            rest = line
            for context in contexts:
                rest = re.sub(context, "", rest)
            if word in rest.lower() and word in words_of(rest):
                found.append(f"{name}:{number}: {line.strip()}")
    assert not found, f"say {instead}:\n" + "\n".join(found)


@pytest.mark.parametrize("phrase", RETIRED_PHRASES)
def test_no_retired_phrase_is_used(phrase: str) -> None:
    found = [
        f"{file.relative_to(REPOSITORY)}:{number}: {line.strip()}"
        for file in text_files()
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1)
        if re.search(phrase, line, re.IGNORECASE)
    ]
    assert not found, f"say {RETIRED_PHRASES[phrase]}:\n" + "\n".join(found)
