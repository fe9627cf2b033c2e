"""A run: one benchmark, one configuration, and what became of it."""

from typing import Literal

from msgspec import field

from proctor.core.causes import Cause
from proctor.core.machine import Machine
from proctor.core.record import Record
from proctor.core.request import RunRequest


class RunConfig(RunRequest, kw_only=True):
    """A request as it was resolved, with all that can change its results: versions, digests, the machine.

    Runs compare cleanly when these agree but for what is under test.

    Attributes:
        tasks: the ids of all tasks of the run, in the order in which they are taken.
        objects: what the caller gave as an object, not by name: benchmark, agent or runner; needed again to resume.
        sweep: the sweep that it is a part of, and shares its budget with; a run by itself is part of none.
        label: its label in that sweep.
        archived: lists leave it out unless they are asked for all.
        origin: what another tool's results were imported from; None for a run that was made here.
    """

    run_id: str
    benchmark: str
    source: str
    agent: str
    preset: str
    grade_concurrency: int
    data_digest: str
    versions: dict[str, str]
    machine: Machine
    created_at: str
    objects: tuple[str, ...] = ()
    sweep: str | None = None
    label: str | None = None
    archived: bool = False
    origin: str | None = None
    schema_version: Literal["proctor.run_config@3"] = "proctor.run_config@3"


class Trial(Record):
    """One independent solution that a run wants to a task, by its number."""

    task_id: str
    number: int

    def __str__(self) -> str:
        return self.task_id if self.number == 1 else f"{self.task_id} #{self.number}"


Stage = Literal["prepared", "answered", "collected", "graded", "recorded"]


class JournalEntry(Record):
    """One finished stage of one attempt. The journal is append-only; a resumed run believes nothing else.

    `answered`: the attempt has ended, and another must be made. `collected`: it has ended, and it is the one that
    counts. `cause` is why the attempt ended, and at `recorded` the cause of the result. `estimated_usd` is the part of
    the cost that is an upper estimate.
    """

    at: str
    task_id: str
    trial: int
    attempt: int
    stage: Stage
    cause: Cause | None = None
    cost_usd: float | None = None
    estimated_usd: float = 0.0
    schema_version: Literal["proctor.journal_entry@2"] = "proctor.journal_entry@2"


class RunSummary(Record):
    """The aggregate of a run, made again from its tasks at any time.

    Attributes:
        cost_usd: of all recorded trials, every attempt at them included.
        unfinished_usd: the cost of attempts whose trials are not recorded yet.
        estimated_usd: the part of both that is an upper estimate, for responses that broke off or never came.
        task_rates: how many tasks have how many of their counted trials resolved, as in {"2/3": 14}; what an interval
            of the rate needs. Empty in summaries that are older.
    """

    run_id: str
    benchmark: str
    tasks: int
    resolved: int
    unresolved: int
    errors: int
    skipped: int
    cost_usd: float | None
    tokens: int
    agent_seconds: float
    unfinished_usd: float | None = 0.0
    estimated_usd: float = 0.0
    causes: dict[str, int] = field(default_factory=dict)
    task_rates: dict[str, int] = field(default_factory=dict)
    schema_version: Literal["proctor.run_summary@2"] = "proctor.run_summary@2"
