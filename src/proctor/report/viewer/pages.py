"""What each page shows. Everything here reads files and may take a while: the server calls it in a thread."""

import stat
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from proctor.agents.h2.timeline import TIMELINE, Timeline
from proctor.core.errors import InvalidData, ProctorError, UsageError
from proctor.core.record import read_record
from proctor.core.result import TaskResult
from proctor.core.trajectory import Lane, Step, Totals, Trajectory, totals_of
from proctor.core.verdict import TestOutcome, TestStatus
from proctor.report.formats.atif import agent_version
from proctor.report.trajectories import read_trajectory, to_atif
from proctor.report.viewer.diff import Patch, read_patch
from proctor.report.viewer.rows import SORTS, Query, RunTable
from proctor.report.viewer.shelf import Shelf, is_going
from proctor.results.answers import SUBMISSION

STEPS: Final = 200
TESTS: Final = 500
SHOWN_BYTES: Final = 2 << 20
_COLUMNS: Final = 8  # lanes that the style sheet has a place for

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
    mark = watched(shelf, name, {})  # before anything is read: what comes in between is then told once too often
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
        "mark": mark,
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
    mark = watched(shelf, name, {"task": task_id, "sample": str(sample), "attempt": str(attempt)})
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
        "mark": mark,
        "before": before,
        "after": after,
        "instruction": _instruction(table, task_id, trajectory),
        "tests": _tests(result, given),
        "patch": _patch(logs),
        "files": list_files(logs),
        "trouble": trouble,
        "timeline": _timeline(logs),
        **_steps(trajectory, given),
    }


def _trajectory(table: RunTable, task_id: str, logs: Path) -> tuple[Trajectory | None, str]:
    config = table.config
    marks = tuple((path, size) for path, size in list_files(logs) if "/" not in path)
    try:
        return _read_trajectory(logs, task_id, config.agent, agent_version(config), marks), ""
    except InvalidData as error:
        return None, error.sentence


@lru_cache(maxsize=8)
def _read_trajectory(logs: Path, task_id: str, agent: str, version: str, _marks: object) -> Trajectory | None:
    """The same as long as no file there has grown: a long one is not read again for each of its pages."""
    return read_trajectory(logs, task_id=task_id, agent=agent, version=version)


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


def _instruction(table: RunTable, task_id: str, trajectory: Trajectory | None) -> str:
    """What was asked: as the agent was seen to be given it. A pod's first words are only where to read it."""
    seen = trajectory.instruction if trajectory else ""
    pod = trajectory is not None and any(lane.agent for lane in trajectory.lanes)
    return (_asked(table, task_id) or seen) if pod else (seen or _asked(table, task_id))


def _asked(table: RunTable, task_id: str) -> str:
    """The instruction from the benchmark's data; empty where that is not on this machine."""
    config = table.config
    return (
        ""
        if config.origin is not None
        else _instructions(config.benchmark, config.source, config.split).get(task_id, "")
    )


@lru_cache(maxsize=4)
def _instructions(benchmark: str, source: str, split: str | None) -> Mapping[str, str]:
    from proctor.benchmarks import reopen  # noqa: PLC0415 - seldom needed, and slow

    try:
        return {task.id: task.public.instruction for task in reopen(benchmark, source, split).tasks()}
    except ProctorError:
        return {}


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
    found = []
    for file in sorted(logs.rglob("*")) if logs.is_dir() else []:
        try:
            status = file.lstat()
        except FileNotFoundError:
            continue  # under way to another name
        if stat.S_ISREG(status.st_mode):
            found.append((file.relative_to(logs).as_posix(), status.st_size))
    return found


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


def _whole(text: str | None, default: int) -> int:
    return int(text) if text and text.isdecimal() and 0 < len(text) < 7 else default  # noqa: PLR2004 - six digits
