"""A run in memory, as far as its table needs it: read once, then kept up to date from what the journal adds."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

import msgspec

from proctor.analysis.intervals import clustered_rate
from proctor.core.causes import CONSEQUENCES, Cause, Status
from proctor.core.errors import InvalidData, UsageError
from proctor.core.record import Record, from_json
from proctor.core.result import Tokens
from proctor.core.run import JournalEntry, RunConfig
from proctor.results import RunStore

PAGE_SIZE: Final = 100
_STAGES: Final = {
    "prepared": "answering",
    "answered": "trying again",
    "collected": "grading",
    "graded": "recording",
}
_PENDING: Final = "waiting"
LIVE: Final = (*_STAGES.values(), _PENDING)
SORTS: Final = ("task", "status", "cost", "time", "tokens", "steps")

Key = tuple[str, int]


class _StoredUsage(msgspec.Struct):
    tokens: Tokens
    cost_usd: float | None


class _StoredVerdict(msgspec.Struct):
    reason: str = ""
    score: float | None = None
    findings: list[msgspec.Raw] = []


class _StoredMetrics(msgspec.Struct):
    agents: int = 1
    turns: int = 0
    steps: int = 0


class _StoredResult(msgspec.Struct):
    """What the table needs of a stored result; the rest of it is not even decoded."""

    task_id: str
    trial: int
    status: Status
    cause: Cause
    verdict: _StoredVerdict | None
    attempts: list[msgspec.Raw]
    usage: list[_StoredUsage]
    metrics: _StoredMetrics
    agent_seconds: float
    categories: dict[str, str]
    schema_version: Literal["proctor.task_result@2"] = "proctor.task_result@2"


@dataclass(frozen=True, slots=True)
class TrialRow:
    """One answer of the table. `status` is a result's, or what is being done about it.

    Attributes:
        words: all that a search looks at, in small letters.
        counted: it is in the denominator of the rate.
    """

    task_id: str
    trial: int
    status: str
    cause: str = ""
    reason: str = ""
    score: float | None = None
    findings: int = 0
    attempts: int = 0
    agents: int = 0
    turns: int = 0
    steps: int = 0
    tokens: int = 0
    cost_usd: float | None = None
    seconds: float = 0.0
    categories: dict[str, str] = field(default_factory=dict)
    search_text: str = ""
    counted: bool = False

    @property
    def name(self) -> str:
        """The task, and which of several answers to it."""
        return self.task_id if self.trial == 1 else f"{self.task_id} #{self.trial}"

    @property
    def live(self) -> bool:
        """Whether its result is still to come."""
        return self.status in LIVE


class RunCounts(Record):
    """A run in numbers."""

    total: int
    resolved: int
    unresolved: int
    errors: int
    skipped: int
    pending: int
    running: int
    counted: int
    low: float | None
    high: float | None
    cost_usd: float | None
    tokens: int
    seconds: float

    @property
    def done(self) -> int:
        """How many have a result."""
        return self.resolved + self.unresolved + self.errors + self.skipped

    @property
    def rate(self) -> float | None:
        """The share that is resolved of what counts."""
        return self.resolved / self.counted if self.counted else None


class TrialQuery(Record):
    """What is to be seen of a table."""

    text: str = ""
    status: str = ""
    cause: str = ""
    category: str = ""
    findings: bool = False
    sort: str = "task"
    descending: bool = False
    page: int = 1


class TrialPage(Record):
    """One page of what a query found."""

    rows: Sequence[TrialRow]
    total: int
    page: int
    pages: int


class RunTable:
    """One run's rows. `refresh` reads what is new; everything else answers from memory.

    Attributes:
        version: grows whenever something has changed.
    """

    def __init__(self, store: RunStore) -> None:
        self.store = store
        self.version = 0
        self.config: RunConfig = store.config()
        self._rows: dict[Key, TrialRow] = {}
        self._position = 0
        self._journal: tuple[int, int] | None = None
        self._sorted: list[TrialRow] = []
        self._counts: RunCounts | None = None
        self._choices: dict[str, list[str]] | None = None

    def refresh(self) -> bool:
        """Read what the journal has got since the last time; whether anything was new."""
        try:
            status = self.store.journal.stat()
        except FileNotFoundError:
            status = None
        if status is None:
            return self._read_all() if self.version == 0 else False
        identity = (status.st_dev, status.st_ino)
        if identity != self._journal or status.st_size < self._position:
            self._restart(identity)
        elif status.st_size == self._position and self.version:
            return False
        changed = self._read_journal()
        if changed:
            self._rebuild()
        return changed

    def _rebuild(self) -> None:
        self.version += 1
        self._sorted = sorted(self._rows.values(), key=lambda row: (row.task_id, row.trial))
        self._counts = self._choices = None

    def _restart(self, identity: tuple[int, int]) -> None:
        self._journal, self._position = identity, 0
        self._rows = {key: _pending_row(*key) for key in self._trial_keys()}

    def _trial_keys(self) -> Iterator[Key]:
        return ((task, sample) for sample in range(1, self.config.trials + 1) for task in self.config.tasks)

    def _read_journal(self) -> bool:
        with self.store.journal.open("rb") as file:
            file.seek(self._position)
            data = file.read()
        end = data.rfind(b"\n") + 1
        self._position += end
        last: dict[Key, JournalEntry] = {}
        for line in data[:end].splitlines():
            try:
                entry = from_json(line, JournalEntry)
            except InvalidData:
                continue  # a line of another version; what it spoke of is found when its run is resumed
            last[entry.task_id, entry.trial] = entry
        for key, entry in last.items():
            self._rows[key] = self._read(*key, entry)
        return bool(last) or self.version == 0

    def _read(self, task_id: str, trial: int, entry: JournalEntry | None) -> TrialRow:
        if entry is not None and entry.stage != "recorded":
            return _pending_row(task_id, trial, _STAGES[entry.stage], attempts=entry.attempt)
        try:
            data = self.store.result_file(task_id, trial).read_bytes()
            return _row(from_json(data, _StoredResult))
        except (OSError, InvalidData) as error:
            status = Status.ERROR.value
            return TrialRow(
                task_id, trial, status, Cause.GRADER_FAILED.value, f"the stored result cannot be read: {error}"
            )

    def _read_all(self) -> bool:
        """A run without a journal: what lies in its folder is all that there is."""
        self._rows = {key: _pending_row(*key) for key in self._trial_keys()}
        for file in self.store.result_files():
            try:
                row = _row(from_json(Path(file).read_bytes(), _StoredResult))
            except (OSError, InvalidData):
                continue
            self._rows[row.task_id, row.trial] = row
        self._rebuild()
        return True

    def row(self, task_id: str, trial: int) -> TrialRow:
        """One answer.

        Raises:
            UsageError: the run was not asked for it.
        """
        try:
            return self._rows[task_id, trial]
        except KeyError:
            raise UsageError(f"run {self.store.run_id} has no task {task_id!r}") from None

    def all(self) -> Sequence[TrialRow]:
        """Every answer, by task."""
        return self._sorted

    def neighbours(self, task_id: str, trial: int) -> tuple[TrialRow | None, TrialRow | None]:
        """The answers before and after this one."""
        rows = self._sorted
        place = bisect_left(rows, (task_id, trial), key=lambda row: (row.task_id, row.trial))
        return rows[place - 1] if place else None, rows[place + 1] if place + 1 < len(rows) else None

    def find(self, query: TrialQuery, *, page_size: int = PAGE_SIZE) -> TrialPage:
        """The rows that a query asks for."""
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
        pages = max(1, -(-len(found) // page_size))
        number = min(max(1, query.page), pages)
        return TrialPage(
            rows=found[(number - 1) * page_size : number * page_size], total=len(found), page=number, pages=pages
        )

    def choices(self) -> dict[str, list[str]]:
        """What can be chosen: causes, and ``name=value`` of each category that tells answers apart."""
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


_MAX_CHOICES: Final = 60
_GRADED: Final = frozenset({Status.RESOLVED, Status.UNRESOLVED})
_SORT_KEYS: Final = {
    "status": lambda row: row.status,
    "cost": lambda row: -1.0 if row.cost_usd is None else row.cost_usd,
    "time": lambda row: row.seconds,
    "tokens": lambda row: row.tokens,
    "steps": lambda row: row.steps,
}


def count_rows(rows: Iterable[TrialRow]) -> RunCounts:
    """Count rows. A cost is unknown as soon as one of them is."""
    rows = list(rows)
    statuses = [row.status for row in rows]
    counted = [row for row in rows if row.counted]
    resolved = statuses.count("resolved")
    answers: dict[str, list[float]] = {}
    for row in counted:
        answers.setdefault(row.task_id, []).append(float(row.status == "resolved"))
    rate = clustered_rate(list(answers.values()))
    costs = [row.cost_usd for row in rows if not row.live]
    known = [cost for cost in costs if cost is not None]
    waiting = statuses.count(_PENDING)
    return RunCounts(
        total=len(rows),
        resolved=resolved,
        unresolved=statuses.count("unresolved"),
        errors=statuses.count("error"),
        skipped=statuses.count("skipped"),
        pending=waiting,
        running=sum(row.live for row in rows) - waiting,
        counted=len(counted),
        low=rate.low if rate else None,
        high=rate.high if rate else None,
        cost_usd=sum(known) if len(known) == len(costs) else None,
        tokens=sum(row.tokens for row in rows),
        seconds=sum(row.seconds for row in rows),
    )


def _pending_row(task_id: str, trial: int, status: str = _PENDING, *, attempts: int = 0) -> TrialRow:
    return TrialRow(task_id, trial, status, attempts=attempts, search_text=f"{task_id} {status}".lower())


def _row(result: _StoredResult) -> TrialRow:
    verdict = result.verdict or _StoredVerdict()
    costs = [usage.cost_usd for usage in result.usage]
    known = [cost for cost in costs if cost is not None]
    tokens = Tokens()
    for usage in result.usage:
        tokens += usage.tokens
    words = (result.task_id, result.status, result.cause, *result.categories.values(), verdict.reason)
    return TrialRow(
        task_id=result.task_id,
        trial=result.trial,
        status=result.status.value,
        cause=result.cause.value,
        reason=verdict.reason,
        score=verdict.score,
        findings=len(verdict.findings),
        attempts=len(result.attempts),
        agents=result.metrics.agents,
        turns=result.metrics.turns,
        steps=result.metrics.steps,
        tokens=tokens.total,
        cost_usd=sum(known) if len(known) == len(costs) else None,
        seconds=result.agent_seconds,
        categories=result.categories,
        search_text=" ".join(words).lower(),
        counted=result.status in _GRADED and CONSEQUENCES[result.cause].counted,
    )
