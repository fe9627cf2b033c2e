"""The content of each page. Everything here reads files and may block: the server calls it in a thread."""

import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, get_args

from proctor.agents.h2.timeline import TIMELINE_FILE, Timeline
from proctor.core.errors import InvalidData, ProctorError, UsageError
from proctor.core.record import read_record
from proctor.core.result import TaskResult
from proctor.core.trajectory import Lane, Step, Totals, Trajectory, sum_steps
from proctor.core.verdict import TestOutcome, TestStatus
from proctor.report.run_index import RunIndex, RunState
from proctor.report.run_list import RunFilter, RunOrder, run_list_row, sort_runs
from proctor.report.run_table import SORTS, RunTable, TrialQuery, TrialRow, clamp_page
from proctor.report.trajectories import agent_version, read_trajectory, to_atif
from proctor.report.viewer.diff import PatchView, read_patch
from proctor.report.viewer.template_filters import pretty_json
from proctor.results.attempt_record import SUBMISSION_FILES
from proctor.workspaces.invalid_submission import LIMIT_BYTES

STEPS_PER_PAGE: Final = 100
LINES_AT_ONCE: Final = 1000  # of a patch; what follows is loaded as one scrolls
MAX_TESTS: Final = 500
MAX_SUBMISSION_BYTES: Final = LIMIT_BYTES
MAX_TEXT_BYTES: Final = 2 << 20
_EXAMPLES: Final = 3
_COLUMNS: Final = 8  # lanes that the style sheet has columns for

Context = dict[str, Any]
QueryParams = Mapping[str, str]


def runs_page(index: RunIndex, params: QueryParams) -> Context:
    """The list of runs: filtered and sorted as `proctor runs` does it."""
    entries = {entry.name: entry for entry in index.entries()}
    rows = [run_list_row(entry) for entry in entries.values()]
    states, sort = get_args(RunState), params.get("sort", "age")
    wanted = RunFilter(
        benchmark=params.get("benchmark") or None,
        state=params.get("state") if params.get("state") in states else None,  # type: ignore[arg-type]  # looked up
        agent=params.get("agent") or None,
        text=params.get("q", "")[:500],
        archived=bool(params.get("archived")),
    )
    order: RunOrder = sort if sort in get_args(RunOrder) else "age"  # type: ignore[assignment]  # likewise
    found = sort_runs(filter(wanted.accepts, rows), order, reverse=bool(params.get("reverse")))
    benchmarks = sorted({row.benchmark for row in rows})
    return {
        "entries": [entries[row.run] for row in found],
        "total": len(rows),
        "wanted": wanted,
        "sort": order,
        "reverse": bool(params.get("reverse")),
        "choices": {
            "benchmark": benchmarks if len(benchmarks) > 1 else [],
            "state": sorted({row.state for row in rows}),
            "agent": sorted({row.agent for row in rows if row.agent}),
        },
        "archived": sum(row.archived for row in rows),
        "sweeps": index.sweeps(),
        "benchmarks": {
            benchmark: names
            for benchmark in benchmarks
            if len(names := sorted(row.run for row in found if row.benchmark == benchmark and row.counted)) > 1
        },
        "q": params.get("q", ""),
        "root": str(index.root),
    }


def run_page(index: RunIndex, name: str, params: QueryParams) -> Context:
    """One run: its numbers, and a page of its table."""
    version = page_version(index, name, {})  # read first: a change in between then reloads the page once too often
    table = index.table(name)
    query = read_query(params)
    return {
        "name": name,
        "title": index.title(name),
        "config": table.config,
        "counts": table.counts(),
        "running": table.running,
        "choices": table.choices(),
        "failures": group_failures(table.all()),
        "query": query,
        "found": table.find(query),
        "version": version,
        "others": {
            other: index.title(other)
            for other in index.names()
            if other != name and _benchmark(other) == _benchmark(name)
        },
    }


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """Trials that failed for the same cause: how many, and some of them."""

    status: str
    cause: str
    trials: int
    examples: list[TrialRow]


def group_failures(rows: Sequence[TrialRow]) -> list[FailureGroup]:
    """The trials that are not resolved, by cause, the most frequent first; examples of different reasons first."""
    groups: dict[tuple[str, str], list[TrialRow]] = {}
    for row in rows:
        if not row.live and not row.resolved:
            groups.setdefault((row.status, row.cause), []).append(row)
    found = []
    for (status, cause), some in sorted(groups.items(), key=lambda item: -len(item[1])):
        with_new_reason = {row.reason: row for row in reversed(some)}
        examples = sorted(some, key=lambda row: row is not with_new_reason[row.reason])
        found.append(FailureGroup(status, cause, len(some), examples[:_EXAMPLES]))
    return found


def _benchmark(name: str) -> str:
    return name.partition("/")[0]


def read_query(params: QueryParams) -> TrialQuery:
    """A query from a URL; invalid values become the defaults."""
    sort = params.get("sort", "task")
    page = params.get("page", "1")
    return TrialQuery(
        text=params.get("q", "")[:500],
        status=params.get("status", ""),
        cause=params.get("cause", ""),
        category=params.get("category", ""),
        findings=bool(params.get("findings")),
        sort=sort if sort in SORTS else "task",
        descending=bool(params.get("desc")),
        page=int(page) if page.isdecimal() and len(page) < 9 else 1,  # noqa: PLR2004 - nine digits of pages
    )


@dataclass(frozen=True, slots=True)
class StepView:
    """A step with its number, the totals up to it, and the column of its lane."""

    number: int
    step: Step
    running_totals: Totals
    column: int


@dataclass(frozen=True, slots=True)
class LaneView:
    """A lane with its numbers."""

    lane: Lane
    column: int
    totals: Totals
    chosen: bool


def task_page(index: RunIndex, name: str, params: QueryParams) -> Context:
    """One trial: instruction, trajectory, submission, verdict."""
    table, task_id, trial = _trial(index, name, params)
    row = table.row(task_id, trial)
    result = None if row.live else table.store.result(task_id, trial)
    attempt = _parse_int(
        params.get("attempt"), result.attempts[-1].number if result and result.attempts else row.attempts or 1
    )
    logs = table.store.logs(task_id, trial, attempt)
    version = page_version(index, name, {"task": task_id, "trial": str(trial), "attempt": str(attempt)})
    trajectory, error = _trajectory(table, task_id, logs)
    before, after = table.neighbours(task_id, trial)
    return {
        "name": name,
        "title": index.title(name),
        "config": table.config,
        "row": row,
        "result": result,
        "attempt": attempt,
        "attempts": range(1, max(row.attempts, attempt) + 1),
        "live": row.live and table.running,
        "version": version,
        "before": before,
        "after": after,
        "instruction": _instruction(table, task_id, trajectory),
        "tests": _tests(result, params),
        "patch": _submission_view(logs),
        "files": list_files(logs),
        "error": error,
        "timeline": _timeline(logs),
        **_steps(trajectory, params),
    }


def _trajectory(table: RunTable, task_id: str, logs: Path) -> tuple[Trajectory | None, str]:
    config = table.config
    marks = tuple((path, size) for path, size in list_files(logs) if "/" not in path)
    try:
        return _read_trajectory(logs, task_id, config.agent, agent_version(config), marks), ""
    except InvalidData as error:
        return None, error.sentence


@lru_cache(maxsize=8)
def _read_trajectory(logs: Path, task_id: str, agent: str, version: str, _file_sizes: object) -> Trajectory | None:
    """The same as long as no file there has grown: a long one is not read again for each of its pages."""
    return read_trajectory(logs, task_id=task_id, agent=agent, version=version)


def _steps(trajectory: Trajectory | None, params: QueryParams) -> Context:
    if trajectory is None:
        return {
            "trajectory": None,
            "steps": [],
            "lanes": [],
            "pages": 1,
            "page": 1,
            "lane": "",
            "start": None,
            "find": "",
            "found": 0,
        }
    columns = {lane.name: min(number, _COLUMNS) for number, lane in enumerate(trajectory.lanes, start=1)}
    chosen, words = params.get("lane", ""), params.get("find", "")[:500].lower().split()
    shown = [
        StepView(number, step, totals, columns.get(step.lane, _COLUMNS))
        for number, (step, totals) in enumerate(
            zip(trajectory.steps, trajectory.running_totals(), strict=True), start=1
        )
        if (not chosen or step.lane == chosen) and (not words or _has_words(step, words))
    ]
    wanted = _parse_int(params.get("step"), 0)  # a link to one step opens the page that has it
    before = next((place for place, view in enumerate(shown) if view.number >= wanted), 0) if wanted else 0
    asked = _parse_int(params.get("page"), before // STEPS_PER_PAGE + 1)
    page, pages = clamp_page(asked, len(shown), STEPS_PER_PAGE)
    lanes = [
        LaneView(
            lane,
            columns[lane.name],
            sum_steps(step for step in trajectory.steps if step.lane == lane.name),
            lane.name == chosen,
        )
        for lane in trajectory.lanes
    ]
    return {
        "trajectory": trajectory,
        "steps": shown[(page - 1) * STEPS_PER_PAGE : page * STEPS_PER_PAGE],
        "lanes": lanes,
        "pages": pages,
        "page": page,
        "lane": chosen,
        "find": params.get("find", "")[:500],
        "found": len(shown),
        "start": next((step.at for step in trajectory.steps if step.at), None),
    }


def _has_words(step: Step, words: list[str]) -> bool:
    """Whether all these words are in a step: its text, its calls, their results."""
    calls = [part for call in step.calls for part in (call.name, pretty_json(call.arguments), call.output or "")]
    text = "\n".join([step.text or "", step.thinking or "", step.observation or "", step.note or "", *calls]).lower()
    return all(word in text for word in words)


def steps_page(index: RunIndex, name: str, params: QueryParams) -> Context:
    """A page of the steps alone, which is put below those that are shown."""
    table, task_id, trial = _trial(index, name, params)
    row = table.row(task_id, trial)
    attempt = _parse_int(params.get("attempt"), row.attempts or 1)
    trajectory, _ = _trajectory(table, task_id, table.store.logs(task_id, trial, attempt))
    shown = {"name": name, "row": row, "attempt": attempt, "live": row.live and table.running}
    return {**shown, **_steps(trajectory, params)}


def patch_file_page(index: RunIndex, name: str, params: QueryParams) -> Context:
    """The lines of one file of a patch, by its number.

    Raises:
        UsageError: there is no such file.
    """
    table, task_id, trial = _trial(index, name, params)
    row = table.row(task_id, trial)
    logs = table.store.logs(task_id, trial, _parse_int(params.get("attempt"), row.attempts or 1))
    submission, number = _submission_view(logs), _parse_int(params.get("number"), 0)
    if submission is None or submission.patch is None or number >= len(submission.patch.files):
        raise UsageError("there is no such file in the patch")
    return {"file": submission.patch.files[number]}


def _timeline(logs: Path) -> Timeline | None:
    """When each agent of a pod was active; None where that was not stored, or cannot be read."""
    try:
        timeline = read_record(logs / TIMELINE_FILE, Timeline)
    except InvalidData:
        return None
    return timeline if timeline.agents and timeline.seconds > 0 else None


def _instruction(table: RunTable, task_id: str, trajectory: Trajectory | None) -> str:
    """The instruction from the trajectory. The first message of a pod only says where to read it."""
    recorded = trajectory.instruction if trajectory else ""
    pod = trajectory is not None and any(lane.agent for lane in trajectory.lanes)
    if recorded and not pod:
        return recorded
    return _benchmark_instruction(table, task_id) or recorded


def _benchmark_instruction(table: RunTable, task_id: str) -> str:
    """The instruction from the benchmark's data; empty where the data is not on this machine."""
    config = table.config
    return (
        ""
        if config.origin is not None
        else _instructions(config.benchmark, config.source, config.split).get(task_id, "")
    )


@lru_cache(maxsize=4)
def _instructions(benchmark: str, source: str, split: str | None) -> Mapping[str, str]:
    from proctor.benchmarks import reopen

    try:
        return {task.id: task.public.instruction for task in reopen(benchmark, source, split).tasks()}
    except ProctorError:
        return {}


@dataclass(frozen=True, slots=True)
class TestsView:
    """Tests, failed ones first; `omitted` is how many are not shown."""

    tests: list[TestOutcome]
    counts: dict[str, int]
    omitted: int


def _tests(result: TaskResult | None, params: QueryParams) -> TestsView | None:
    if result is None or result.verdict is None or not result.verdict.tests:
        return None
    order = {TestStatus.FAILED: 0, TestStatus.ERROR: 0, TestStatus.MISSING: 0}

    def rank(test: TestOutcome) -> tuple[int, bool, str]:
        return order.get(test.after or TestStatus.MISSING, 1), test.before == test.after, test.id

    tests = sorted(result.verdict.tests, key=rank)
    counts: dict[str, int] = {}
    for test in tests:
        status = str(test.after or "not run")
        counts[status] = counts.get(status, 0) + 1
    shown = tests if params.get("all") else tests[:MAX_TESTS]
    return TestsView(shown, counts, len(tests) - len(shown))


@dataclass(frozen=True, slots=True)
class SubmissionView:
    """The submission: a patch, or some other text. `omitted_bytes` of it were not read."""

    file: str
    size: int
    omitted_bytes: int
    patch: PatchView | None
    text: str


def _submission_view(logs: Path) -> SubmissionView | None:
    for name in SUBMISSION_FILES.values():
        file = logs / name
        if file.is_file():
            status, is_diff = file.stat(), name.endswith(".diff")
            most = MAX_SUBMISSION_BYTES if is_diff else MAX_TEXT_BYTES
            omitted = max(0, status.st_size - most)
            if is_diff:
                patch = _read_patch(file, most, (status.st_size, status.st_mtime_ns))
                return SubmissionView(name, status.st_size, omitted, patch, "")
            return SubmissionView(name, status.st_size, omitted, None, _read_text(file, most))
    return None


@lru_cache(maxsize=4)
def _read_patch(file: Path, most: int, _stamp: object) -> PatchView:
    """The same as long as the file is: a large one is not read again for each page of the trajectory."""
    return read_patch(_read_text(file, most))


def _read_text(file: Path, most: int) -> str:
    with file.open("rb") as opened:
        return opened.read(most).decode("utf-8", "replace")


def list_files(logs: Path) -> list[tuple[str, int]]:
    """The files of an attempt, with their sizes; links are not followed, and not listed."""
    found = []
    for file in sorted(logs.rglob("*")) if logs.is_dir() else []:
        try:
            status = file.lstat()
        except FileNotFoundError:
            continue  # being renamed
        if stat.S_ISREG(status.st_mode):
            found.append((file.relative_to(logs).as_posix(), status.st_size))
    return found


def open_file(index: RunIndex, name: str, params: QueryParams) -> Path:
    """A file of an attempt, by its name in the list of them. Nothing that is not in the list is ever opened.

    Raises:
        UsageError: there is no such file.
    """
    table, task_id, trial = _trial(index, name, params)
    logs = table.store.logs(task_id, trial, _parse_int(params.get("attempt"), 1))
    path = params.get("path", "")
    if path not in {known for known, _ in list_files(logs)}:
        raise UsageError(f"there is no file {path!r} here")
    return logs / path


def atif_file(index: RunIndex, name: str, params: QueryParams) -> bytes:
    """The trajectory of an attempt, for other viewers.

    Raises:
        UsageError: none was stored.
    """
    table, task_id, trial = _trial(index, name, params)
    logs = table.store.logs(task_id, trial, _parse_int(params.get("attempt"), 1))
    trajectory, error = _trajectory(table, task_id, logs)
    if trajectory is None or not trajectory.steps:
        raise UsageError(error or "no trajectory was stored")
    return to_atif(trajectory)


def page_version(index: RunIndex, name: str, params: QueryParams) -> str:
    """Text that changes whenever the page of this run, or of this trial, does."""
    if not params.get("task"):
        table = index.table(name)
        return f"{table.version} {table.running}"
    table, task_id, trial = _trial(index, name, params)
    row = table.row(task_id, trial)
    logs = table.store.logs(task_id, trial, _parse_int(params.get("attempt"), row.attempts or 1))
    return f"{row.status} {row.attempts} {table.running} {sum(size for _, size in list_files(logs))}"


def _trial(index: RunIndex, name: str, params: QueryParams) -> tuple[RunTable, str, int]:
    """The table of a run, and the trial that a URL names.

    Raises:
        UsageError: there is no such run, or no such trial.
    """
    table = index.table(name)
    task_id, trial = params.get("task", ""), _parse_int(params.get("trial"), 1)
    table.row(task_id, trial)
    return table, task_id, trial


def _parse_int(text: str | None, default: int) -> int:
    return int(text) if text and text.isdecimal() and 0 < len(text) < 7 else default  # noqa: PLR2004 - six digits
