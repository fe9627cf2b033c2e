"""The trials of a run in memory: read once, then kept up to date from the journal."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import msgspec

from proctor.analysis.intervals import clustered_rate
from proctor.analysis.observation import Observation
from proctor.core.causes import Cause, Status
from proctor.core.errors import InvalidData, UsageError
from proctor.core.record import Record, from_json, read_bytes, read_record
from proctor.core.result import estimated_cost
from proctor.core.run import JournalEntry, RunConfig
from proctor.report.live_usage import LiveUsage, RecordingUsage, sum_live_usage
from proctor.report.run_counts import RunCounts
from proctor.report.stored_runs import is_running
from proctor.results import RunStore
from proctor.results.attempt_record import RECORDING_FILE

PAGE_SIZE: Final = 100
PENDING: Final = "pending"
STOPPED: Final = "stopped"
_STATUS_AFTER: Final = {
    "prepared": "solving",
    "answered": "retrying",
    "collected": "grading",
    "graded": "recording",
}
_ACTIVE: Final = frozenset(_STATUS_AFTER.values())
_UNFINISHED: Final = _ACTIVE | {PENDING, STOPPED}
_MAX_CHOICES: Final = 60

TrialKey = tuple[str, int]


@dataclass(frozen=True, slots=True)
class TrialRow:
    """One trial in the table, with the numbers of its stored result.

    Attributes:
        status: of its result; before there is one, what is being done.
        tokens, cost_usd: all that it has used so far, in all attempts; `estimated_usd` of it is an upper estimate.
        counted: it is in the denominator of the rate.
        search_text: all text that a search looks at, in lower case.
    """

    task_id: str
    trial: int
    status: str
    cause: str = ""
    reason: str = ""
    score: float | None = None
    findings: int = 0
    attempts: int = 0
    steps: int = 0
    tokens: int = 0
    cost_usd: float | None = None
    estimated_usd: float = 0.0
    seconds: float = 0.0
    categories: dict[str, str] = field(default_factory=dict)
    counted: bool = False
    search_text: str = ""

    @property
    def name(self) -> str:
        """The task, and the number of the trial from the second on."""
        return self.task_id if self.trial == 1 else f"{self.task_id} #{self.trial}"

    @property
    def live(self) -> bool:
        """Whether it has no result yet."""
        return self.status in _UNFINISHED

    @property
    def active(self) -> bool:
        """Whether it is being worked on."""
        return self.status in _ACTIVE

    @property
    def resolved(self) -> bool:
        """Whether the task is solved."""
        return self.status == Status.RESOLVED


class TrialQuery(Record):
    """Which trials to show, and in which order."""

    text: str = ""
    status: str = ""
    cause: str = ""
    category: str = ""
    findings: bool = False
    sort: str = "task"
    descending: bool = False
    page: int = 1


class TrialPage(Record):
    """One page of the trials that a query selects."""

    rows: Sequence[TrialRow]
    total: int
    page: int
    pages: int


class RunTable:
    """The trials of one run. `refresh` reads what is new; everything else comes from memory.

    Attributes:
        version: grows whenever something has changed.
        running: a session is working on the run.
    """

    def __init__(self, store: RunStore) -> None:
        self.store = store
        self.version = 0
        self.running = False
        self.config: RunConfig = store.config()
        self._read_rows: dict[TrialKey, TrialRow] = {}  # as the journal has them
        self._rows: dict[TrialKey, TrialRow] = {}  # as they are shown
        self._recordings: dict[TrialKey, list[RecordingUsage]] = {}
        self._position = 0
        self._journal: tuple[int, int] | None = None
        self._sorted: list[TrialRow] = []
        self._counts: RunCounts | None = None
        self._choices: dict[str, list[str]] | None = None

    def refresh(self) -> bool:
        """Read what is new: lines of the journal, the results that they name, and the recordings of what is unfinished.

        Whether anything was new.
        """
        running = is_running(self.store)  # asked first: what a session has written before it ended is then read
        changed = self._refresh_rows() or running != self.running or self.version == 0
        self.running = running
        used = self._read_recordings()
        if not changed and all(_usage(self._rows[key]) == usage for key, usage in used.items()):
            return False
        self._rebuild(used)
        return True

    def _refresh_rows(self) -> bool:
        try:
            status = self.store.journal.stat()
        except FileNotFoundError:
            return self._read_all() if self.version == 0 else False
        identity = (status.st_dev, status.st_ino)
        if identity != self._journal or status.st_size < self._position:
            self._journal, self._position = identity, 0
            self._read_rows = self._pending_rows()
            self._recordings = {}
        elif status.st_size == self._position and self.version:
            return False
        return self._read_journal()

    def _read_recordings(self) -> dict[TrialKey, LiveUsage]:
        """What the trials that are begun and not finished have used so far."""
        found = {}
        for key, recordings in self._recordings.items():
            row = self._read_rows[key]
            for attempt in range(len(recordings) + 1, row.attempts + 1):
                recordings.append(RecordingUsage(self.store.logs(*key, attempt) / RECORDING_FILE))
            # Of the last attempt, requests may be under way.
            ended = [not self.running or row.status != "solving" or one is not recordings[-1] for one in recordings]
            found[key] = sum_live_usage(one.read(ended=end) for one, end in zip(recordings, ended, strict=True))
        return found

    def _rebuild(self, used: Mapping[TrialKey, LiveUsage]) -> None:
        self.version += 1
        self._rows = dict(self._read_rows)
        for key, usage in used.items():
            row = self._rows[key]
            self._rows[key] = replace(
                row if self.running else _unfinished_row(*key, STOPPED, attempts=row.attempts),
                tokens=usage.tokens,
                cost_usd=usage.cost_usd,
                estimated_usd=usage.estimated_usd,
            )
        self._sorted = sorted(self._rows.values(), key=lambda row: (row.task_id, row.trial))
        self._counts = self._choices = None

    def _pending_rows(self) -> dict[TrialKey, TrialRow]:
        keys = ((task, trial) for trial in range(1, self.config.trials + 1) for task in self.config.tasks)
        return {key: _unfinished_row(*key, PENDING) for key in keys}

    def _read_journal(self) -> bool:
        with self.store.journal.open("rb") as file:
            file.seek(self._position)
            data = file.read()
        end = data.rfind(b"\n") + 1
        self._position += end
        last: dict[TrialKey, JournalEntry] = {}
        for line in data[:end].splitlines():
            try:
                entry = _parse_entry(line)
            except InvalidData:
                continue  # a line of a newer version; resuming the run finds what it is about
            last[entry.task_id, entry.trial] = entry
        for key, entry in last.items():
            self._read_rows[key] = row = self._read_row(entry)
            if row.live:
                self._recordings.setdefault(key, [])
            else:
                self._recordings.pop(key, None)
        return bool(last)

    def _read_row(self, entry: JournalEntry) -> TrialRow:
        task_id, trial = entry.task_id, entry.trial
        if entry.stage != "recorded":
            return _unfinished_row(task_id, trial, _STATUS_AFTER[entry.stage], attempts=entry.attempt)
        try:
            return _finished_row(_read(self.store.result_file(task_id, trial)))
        except InvalidData as error:
            reason, cause = f"the stored result cannot be read: {error}", Cause.GRADER_FAILED.value
            return TrialRow(task_id, trial, Status.ERROR.value, cause, reason, search_text=task_id.lower())

    def _read_all(self) -> bool:
        """A run without a journal is read from its results."""
        self._read_rows = self._pending_rows()
        for observation in self.store.results_as(Observation):
            self._read_rows[observation.task_id, observation.trial] = _finished_row(observation)
        return True

    def row(self, task_id: str, trial: int) -> TrialRow:
        """One trial.

        Raises:
            UsageError: the run has no such trial.
        """
        try:
            return self._rows[task_id, trial]
        except KeyError:
            raise UsageError(f"run {self.store.run_id} has no task {task_id!r}") from None

    def all(self) -> Sequence[TrialRow]:
        """Every trial, by task."""
        return self._sorted

    def neighbours(self, task_id: str, trial: int) -> tuple[TrialRow | None, TrialRow | None]:
        """The trials before and after this one."""
        rows = self._sorted
        index = bisect_left(rows, (task_id, trial), key=lambda row: (row.task_id, row.trial))
        return rows[index - 1] if index else None, rows[index + 1] if index + 1 < len(rows) else None

    def find(self, query: TrialQuery, *, page_size: int = PAGE_SIZE) -> TrialPage:
        """The trials that a query selects."""
        words = query.text.lower().split()
        name, _, value = query.category.partition("=")
        found = [
            row
            for row in self._sorted
            if (not query.status or row.status == query.status or (query.status == "live" and row.live))
            and (not query.cause or row.cause == query.cause)
            and (not name or row.categories.get(name) == value)
            and (not query.findings or row.findings)
            and all(word in row.search_text for word in words)
        ]
        if query.sort != "task":
            found.sort(key=_SORT_KEYS[query.sort], reverse=query.descending)
        elif query.descending:
            found.reverse()
        page, pages = clamp_page(query.page, len(found), page_size)
        return TrialPage(
            rows=found[(page - 1) * page_size : page * page_size], total=len(found), page=page, pages=pages
        )

    def choices(self) -> dict[str, list[str]]:
        """What can be selected: causes, and ``name=value`` of each category with more than one value."""
        if self._choices is None:
            self._choices = self._find_choices()
        return self._choices

    def _find_choices(self) -> dict[str, list[str]]:
        causes = sorted({row.cause for row in self._rows.values() if row.cause})
        values: dict[str, set[str]] = {}
        for row in self._rows.values():
            for name, value in row.categories.items():
                values.setdefault(name, set()).add(value)
        categories = [
            f"{name}={value}"
            for name, known in sorted(values.items())
            if 1 < len(known) <= _MAX_CHOICES
            for value in sorted(known)
        ]
        return {"causes": causes, "categories": categories}

    def counts(self) -> RunCounts:
        """The run in numbers, as far as it has come."""
        if self._counts is None:
            self._counts = count_rows(self._rows.values())
        return self._counts


_SORT_KEYS: Final = {
    "status": lambda row: row.status,
    "cost": lambda row: -1.0 if row.cost_usd is None else row.cost_usd,
    "time": lambda row: row.seconds,
    "tokens": lambda row: row.tokens,
    "steps": lambda row: row.steps,
}
SORTS: Final = ("task", *_SORT_KEYS)


def clamp_page(page: int, items: int, page_size: int) -> tuple[int, int]:
    """The number of an existing page, and how many there are."""
    pages = max(1, -(-items // page_size))
    return min(max(1, page), pages), pages


def count_rows(rows: Iterable[TrialRow]) -> RunCounts:
    """Count trials. The cost is unknown when that of a trial is."""
    rows = list(rows)
    statuses = [row.status for row in rows]
    counted: dict[str, list[float]] = {}
    for row in rows:
        if row.counted:
            counted.setdefault(row.task_id, []).append(float(row.resolved))
    rate = clustered_rate(list(counted.values()))
    costs = [row.cost_usd for row in rows if row.status != PENDING]
    known = [cost for cost in costs if cost is not None]
    return RunCounts(
        total=len(rows),
        resolved=statuses.count("resolved"),
        unresolved=statuses.count("unresolved"),
        errors=statuses.count("error"),
        skipped=statuses.count("skipped"),
        pending=statuses.count(PENDING) + statuses.count(STOPPED),
        running=sum(status in _ACTIVE for status in statuses),
        counted=sum(map(len, counted.values())),
        low=rate.low if rate else None,
        high=rate.high if rate else None,
        cost_usd=sum(known) if len(known) == len(costs) else None,
        tokens=sum(row.tokens for row in rows),
        seconds=sum(row.seconds for row in rows),
        estimated_usd=sum(row.estimated_usd for row in rows),
    )


def _usage(row: TrialRow) -> LiveUsage:
    return LiveUsage(row.tokens, row.cost_usd, row.estimated_usd)


def _unfinished_row(task_id: str, trial: int, status: str, *, attempts: int = 0) -> TrialRow:
    return TrialRow(task_id, trial, status, attempts=attempts, search_text=f"{task_id} {status}".lower())


def _finished_row(result: Observation) -> TrialRow:
    verdict = result.verdict
    reason = verdict.reason if verdict else ""
    words = (result.task_id, result.status, result.cause, *result.categories.values(), reason)
    return TrialRow(
        task_id=result.task_id,
        trial=result.trial,
        status=result.status.value,
        cause=result.cause.value,
        reason=reason,
        score=verdict.score if verdict else None,
        findings=len(verdict.findings) if verdict else 0,
        attempts=len(result.attempts),
        steps=result.metrics.steps,
        tokens=result.tokens,
        cost_usd=result.cost_usd,
        estimated_usd=estimated_cost(result.usage),
        seconds=result.agent_seconds,
        categories=result.categories,
        counted=result.counted,
        search_text=" ".join(words).lower(),
    )


_DECODE_RESULT: Final = msgspec.json.Decoder(Observation).decode
_DECODE_ENTRY: Final = msgspec.json.Decoder(JournalEntry).decode


def _read(file: Path) -> Observation:
    try:
        return _DECODE_RESULT(read_bytes(file))
    except (InvalidData, msgspec.DecodeError, RecursionError):
        return read_record(file, Observation)  # an older version, or an error that names the file


def _parse_entry(line: bytes) -> JournalEntry:
    try:
        return _DECODE_ENTRY(line)
    except msgspec.DecodeError:
        return from_json(line, JournalEntry)  # an older version, or an error
