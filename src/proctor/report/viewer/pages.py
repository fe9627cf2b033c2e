"""What each page shows. Everything here reads files and may take a while: the server calls it in a thread."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from proctor.agents.h2.timeline import TIMELINE, Timeline
from proctor.analysis.chance import exact_mcnemar
from proctor.core.errors import InvalidData, ProctorError, UsageError
from proctor.core.record import read_record
from proctor.core.result import TaskResult
from proctor.core.trajectory import Lane, Step, Totals, Trajectory, totals_of
from proctor.core.verdict import TestOutcome, TestStatus
from proctor.report import differences
from proctor.report.formats.atif import agent_version
from proctor.report.trajectories import read_trajectory, to_atif
from proctor.report.viewer.diff import Patch, read_patch
from proctor.report.viewer.rows import SORTS, Query, Row, RunTable
from proctor.report.viewer.shelf import Shelf, is_going
from proctor.results.answers import SUBMISSION

STEPS: Final = 200
TESTS: Final = 500
SHOWN_BYTES: Final = 2 << 20
_COLUMNS: Final = 8  # lanes that the style sheet has a place for
_SIGNIFICANT: Final = 0.05

Context = dict[str, Any]
Given = Mapping[str, str]


def runs_page(shelf: Shelf, given: Given) -> Context:
    """The list of runs."""
    words = given.get("q", "").lower().split()
    books = [shelf.book(name) for name in shelf.names()]
    found = [book for book in books if all(word in _book_words(book) for word in words)]
    return {"books": found, "total": len(books), "q": given.get("q", ""), "root": str(shelf.root)}


def _book_words(book: Any) -> str:
    config = book.config
    parts = [book.name] if config is None else [book.name, config.agent, config.model or "", config.mode, config.preset]
    return " ".join(parts).lower()


def run_page(shelf: Shelf, name: str, given: Given) -> Context:
    """One run: its numbers, and a page of its table."""
    table = shelf.table(name)
    query = read_query(given)
    return {
        "name": name,
        "config": table.config,
        "counts": table.counts(),
        "going": is_going(table.store),
        "choices": table.choices(),
        "query": query,
        "found": table.find(query),
        "version": table.version,
        "others": [other for other in shelf.names() if other != name and _benchmark(other) == _benchmark(name)],
    }


def _benchmark(name: str) -> str:
    return name.partition("/")[0]


def read_query(given: Given) -> Query:
    """A query from an address; what makes no sense counts as not said."""
    sort = given.get("sort", "task")
    page = given.get("page", "1")
    return Query(
        text=given.get("q", "")[:500],
        status=given.get("status", ""),
        cause=given.get("cause", ""),
        category=given.get("category", ""),
        findings=bool(given.get("findings")),
        sort=sort if sort in SORTS else "task",
        descending=bool(given.get("desc")),
        page=int(page) if page.isdecimal() and len(page) < 9 else 1,  # noqa: PLR2004 - nine digits of pages
    )


@dataclass(frozen=True, slots=True)
class ShownStep:
    """A step with its number, what was used by then, and the column of its lane."""

    number: int
    step: Step
    so_far: Totals
    column: int


@dataclass(frozen=True, slots=True)
class ShownLane:
    """A lane with its numbers."""

    lane: Lane
    column: int
    totals: Totals
    chosen: bool


def task_page(shelf: Shelf, name: str, given: Given) -> Context:
    """One answer: what was asked, what was done, what was handed in, what the grader says."""
    table = shelf.table(name)
    task_id, sample = given.get("task", ""), _whole(given.get("sample"), 1)
    row = table.row(task_id, sample)
    result = None if row.live else table.store.result(task_id, sample)
    attempt = _whole(given.get("attempt"), result.attempts[-1].number if result and result.attempts else row.tries or 1)
    logs = table.store.logs(task_id, sample, attempt)
    trajectory, trouble = _trajectory(table, task_id, logs)
    before, after = table.neighbours(task_id, sample)
    return {
        "name": name,
        "config": table.config,
        "row": row,
        "result": result,
        "attempt": attempt,
        "attempts": range(1, max(row.tries, attempt) + 1),
        "live": row.live and is_going(table.store),
        "before": before,
        "after": after,
        "instruction": trajectory.instruction if trajectory and trajectory.instruction else _asked(table, task_id),
        "tests": _tests(result, given),
        "patch": _patch(logs),
        "files": list_files(logs),
        "trouble": trouble,
        "timeline": _timeline(logs),
        **_steps(trajectory, given),
    }


def _trajectory(table: RunTable, task_id: str, logs: Path) -> tuple[Trajectory | None, str]:
    config = table.config
    try:
        return read_trajectory(logs, task_id=task_id, agent=config.agent, version=agent_version(config)), ""
    except InvalidData as error:
        return None, error.sentence


def _steps(trajectory: Trajectory | None, given: Given) -> Context:
    if trajectory is None:
        return {"trajectory": None, "steps": [], "lanes": [], "pages": 1, "page": 1, "lane": "", "start": None}
    columns = {lane.name: min(number, _COLUMNS) for number, lane in enumerate(trajectory.lanes, start=1)}
    wanted = given.get("lane", "")
    shown = [
        ShownStep(number, step, so_far, columns.get(step.lane, _COLUMNS))
        for number, (step, so_far) in enumerate(zip(trajectory.steps, trajectory.so_far(), strict=True), start=1)
        if not wanted or step.lane == wanted
    ]
    pages = max(1, -(-len(shown) // STEPS))
    page = min(max(1, _whole(given.get("page"), 1)), pages)
    lanes = [
        ShownLane(
            lane,
            columns[lane.name],
            totals_of(step for step in trajectory.steps if step.lane == lane.name),
            lane.name == wanted,
        )
        for lane in trajectory.lanes
    ]
    return {
        "trajectory": trajectory,
        "steps": shown[(page - 1) * STEPS : page * STEPS],
        "lanes": lanes,
        "pages": pages,
        "page": page,
        "lane": wanted,
        "start": next((step.at for step in trajectory.steps if step.at), None),
    }


def _timeline(logs: Path) -> Timeline | None:
    """Who of a pod was at work when, where that was kept; one that cannot be read is as good as none."""
    try:
        made = read_record(logs / TIMELINE, Timeline)
    except InvalidData:
        return None
    return made if made.lines and made.seconds > 0 else None


def _asked(table: RunTable, task_id: str) -> str:
    """The instruction from the benchmark's data, where an agent was never seen to be given it; empty without data."""
    from proctor.benchmarks import reopen  # noqa: PLC0415 - seldom needed, and slow

    config = table.config
    if config.origin is not None:
        return ""
    try:
        tasks = reopen(config.benchmark, config.source, config.split).tasks()
    except ProctorError:
        return ""
    return next((task.public.instruction for task in tasks if task.id == task_id), "")


@dataclass(frozen=True, slots=True)
class ShownTests:
    """Tests with those that decide first; `cut` is how many are not shown."""

    tests: list[TestOutcome]
    counts: dict[str, int]
    cut: int


def _tests(result: TaskResult | None, given: Given) -> ShownTests | None:
    if result is None or result.verdict is None or not result.verdict.tests:
        return None
    order = {TestStatus.FAILED: 0, TestStatus.ERROR: 0, TestStatus.MISSING: 0}

    def rank(test: TestOutcome) -> tuple[int, bool, str]:
        return order.get(test.after or TestStatus.MISSING, 1), test.before == test.after, test.id

    tests = sorted(result.verdict.tests, key=rank)
    counts: dict[str, int] = {}
    for test in tests:
        word = str(test.after or "not run")
        counts[word] = counts.get(word, 0) + 1
    shown = tests if given.get("all") else tests[:TESTS]
    return ShownTests(shown, counts, len(tests) - len(shown))


@dataclass(frozen=True, slots=True)
class ShownPatch:
    """What was handed in: a patch, or some other text."""

    file: str
    size: int
    patch: Patch | None
    text: str


def _patch(logs: Path) -> ShownPatch | None:
    for name in SUBMISSION.values():
        file = logs / name
        if file.is_file():
            size = file.stat().st_size
            with file.open("rb") as opened:
                text = opened.read(SHOWN_BYTES).decode("utf-8", "replace")
            is_diff = name.endswith(".diff")
            return ShownPatch(name, size, read_patch(text) if is_diff else None, "" if is_diff else text)
    return None


def list_files(logs: Path) -> list[tuple[str, int]]:
    """The files of an attempt, with their sizes; links are not followed, and not listed."""
    files = sorted(logs.rglob("*")) if logs.is_dir() else []
    return [
        (file.relative_to(logs).as_posix(), file.stat().st_size)
        for file in files
        if file.is_file() and not file.is_symlink()
    ]


def open_file(shelf: Shelf, name: str, given: Given) -> Path:
    """A file of an attempt, by its name on the list of them. Nothing that is not on the list is ever opened.

    Raises:
        UsageError: there is no such file.
    """
    table = shelf.table(name)
    task_id, sample = given.get("task", ""), _whole(given.get("sample"), 1)
    table.row(task_id, sample)
    logs = table.store.logs(task_id, sample, _whole(given.get("attempt"), 1))
    wanted = given.get("path", "")
    if wanted not in {path for path, _ in list_files(logs)}:
        raise UsageError(f"there is no file {wanted!r} here")
    return logs / wanted


def atif_file(shelf: Shelf, name: str, given: Given) -> bytes:
    """The trajectory of an attempt, for other viewers.

    Raises:
        UsageError: nothing was kept of it.
    """
    table = shelf.table(name)
    task_id, sample = given.get("task", ""), _whole(given.get("sample"), 1)
    table.row(task_id, sample)
    trajectory, trouble = _trajectory(
        table, task_id, table.store.logs(task_id, sample, _whole(given.get("attempt"), 1))
    )
    if trajectory is None or not trajectory.steps:
        raise UsageError(trouble or "nothing was kept of what the agent did")
    return to_atif(trajectory)


@dataclass(frozen=True, slots=True)
class Pair:
    """One task in two runs, each with its answers."""

    task_id: str
    first: list[Row]
    second: list[Row]
    flip: str


def compare_page(shelf: Shelf, given: Given, runs: list[str]) -> Context:
    """Two runs, task by task."""
    names = shelf.names()
    if len(runs) != 2:  # noqa: PLR2004 - a comparison is of two
        return {"names": names, "runs": runs, "ready": False}
    first, second = (shelf.table(name) for name in runs)
    one, other = _by_task(first), _by_task(second)
    pairs = [
        Pair(task, one.get(task, []), other.get(task, []), _flip(one.get(task), other.get(task)))
        for task in sorted(one.keys() | other.keys())
    ]
    counts = dict.fromkeys(("gained", "lost", "both", "neither", "apart"), 0) | Counter(pair.flip for pair in pairs)
    common = sum(counts.values()) - counts["apart"]
    wanted, words = given.get("flip", ""), given.get("q", "").lower().split()
    found = [
        pair
        for pair in pairs
        if (not wanted or pair.flip == wanted) and all(word in pair.task_id.lower() for word in words)
    ]
    query = read_query(given)
    pages = max(1, -(-len(found) // STEPS))
    page = min(max(1, query.page), pages)
    return {
        "names": names,
        "runs": runs,
        "ready": True,
        "configs": (first.config, second.config),
        "counts": (first.counts(), second.counts()),
        "differences": differences(first.config, second.config),
        "flips": counts,
        "flip": wanted,
        "common": common,
        "sentence": _sentence(runs, counts, common),
        "query": query,
        "pairs": found[(page - 1) * STEPS : page * STEPS],
        "total": len(found),
        "page": page,
        "pages": pages,
    }


def _by_task(table: RunTable) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in table.all():
        found.setdefault(row.task_id, []).append(row)
    return found


def _solved(rows: list[Row] | None) -> bool | None:
    """Whether most answers to a task resolve it; None when none of them counts."""
    votes = [row.status == "resolved" for row in rows or () if row.counted]
    return sum(votes) * 2 > len(votes) if votes else None


def _flip(first: list[Row] | None, second: list[Row] | None) -> str:
    before, after = _solved(first), _solved(second)
    if before is None or after is None:
        return "apart"
    if before == after:
        return "both" if before else "neither"
    return "gained" if after else "lost"


def _sentence(runs: list[str], flips: dict[str, int], common: int) -> str:
    gained, lost = flips["gained"], flips["lost"]
    if not common:
        return "The runs have no graded task in common."
    p_value = exact_mcnemar(gained, lost)
    numbers = f"{gained} gained, {lost} lost of {common} common tasks; p = {p_value:.3f}"
    if p_value >= _SIGNIFICANT:
        return f"No difference that these data can show ({numbers})."
    return f"{runs[1]} is {'better' if gained > lost else 'worse'} than {runs[0]} ({numbers})."


def watched(shelf: Shelf, name: str, given: Given) -> str:
    """Something that changes whenever the page of this run, or of this task, would."""
    table = shelf.table(name)
    going = is_going(table.store)
    if not given.get("task"):
        return f"{table.version} {going}"
    task_id, sample = given["task"], _whole(given.get("sample"), 1)
    row = table.row(task_id, sample)
    logs = table.store.logs(task_id, sample, _whole(given.get("attempt"), row.tries or 1))
    return f"{row.status} {row.tries} {going} {sum(size for _, size in list_files(logs))}"


def counts_json(shelf: Shelf, name: str) -> bytes:
    """A run's numbers, for a program."""
    table = shelf.table(name)
    counts = table.counts()
    return msgspec.json.encode({**msgspec.to_builtins(counts), "going": is_going(table.store), "run": name})


def _whole(text: str | None, default: int) -> int:
    return int(text) if text and text.isdecimal() and 0 < len(text) < 7 else default  # noqa: PLR2004 - six digits
