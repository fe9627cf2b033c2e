"""A run: one benchmark, one configuration, and what became of it."""

from enum import StrEnum
from typing import Literal

from msgspec import field

from proctor.core.agent_options import AgentOptions
from proctor.core.causes import Cause
from proctor.core.environment import Limits, Network
from proctor.core.record import Record


class Mode(StrEnum):
    """Who answers: one Claude Code agent, or a pod run by h2."""

    BASELINE = "baseline"
    H2 = "h2"


class Budget(Record):
    """Spending limits in US dollars; None is no limit."""

    run_usd: float | None = None
    task_usd: float | None = None


class Machine(Record):
    """Where a run took place, as far as it can change results."""

    platform: str
    python: str
    cpus: int
    memory_mb: int


class RunConfig(Record):
    """What was asked, and with what. Runs compare cleanly when these agree but for the thing under test.

    Attributes:
        sweep: the sweep that it is a part of, and shares its budget with; a run by itself is part of none.
        origin: what somebody else's results were imported from; None for a run that was made here.
    """

    run_id: str
    benchmark: str
    source: str
    mode: Mode
    agent: str
    command: tuple[str, ...]
    model: str | None
    preset: str
    pod_template: str | None
    variables: dict[str, str]
    runner: str
    image: str | None
    isolation: bool
    network: Network | None
    trials: int
    concurrency: int
    grade_concurrency: int
    limits: Limits
    max_turns: int
    budget: Budget
    tasks: tuple[str, ...]
    excluded: tuple[str, ...]
    data_digest: str
    versions: dict[str, str]
    machine: Machine
    created_at: str
    split: str | None = None
    agent_options: AgentOptions = AgentOptions()
    image_map: dict[str, str] = field(default_factory=dict)
    sweep: str | None = None
    origin: str | None = None
    schema_version: Literal["proctor.run_config@2"] = "proctor.run_config@2"


Stage = Literal["prepared", "answered", "collected", "graded", "recorded"]


class JournalEntry(Record):
    """One finished stage of one attempt. The journal is append-only; a resumed run believes nothing else.

    `answered`: the attempt has ended, and another must be made. `collected`: it has ended, and it is the one that
    counts. `cause` is why the attempt ended, and at `recorded` what the result says.
    """

    at: str
    task_id: str
    trial: int
    attempt: int
    stage: Stage
    cause: Cause | None = None
    cost_usd: float | None = None
    schema_version: Literal["proctor.journal_entry@2"] = "proctor.journal_entry@2"


class RunSummary(Record):
    """The aggregate of a run, made again from its tasks at any time.

    Attributes:
        cost_usd: of all recorded answers, every attempt at them included.
        unfinished_usd: what attempts have cost whose answers are not recorded yet.
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
    causes: dict[str, int] = field(default_factory=dict)
    schema_version: Literal["proctor.run_summary@2"] = "proctor.run_summary@2"
