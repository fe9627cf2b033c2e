"""Observations for tests of the analysis, each written as one mark; configurations and results with few words."""

from typing import Any

import msgspec

from proctor.analysis import Observation
from proctor.analysis.observation import ObservedVerdict
from proctor.core.causes import CONSEQUENCES, Cause, Status
from proctor.core.machine import Machine
from proctor.core.request import Mode
from proctor.core.result import AgentMetrics, ModelUsage, TaskResult, Tokens
from proctor.core.run import RunConfig

MARKS = {
    "+": (Status.RESOLVED, Cause.SOLVED),
    "-": (Status.UNRESOLVED, Cause.TESTS_FAILED),
    "e": (Status.ERROR, Cause.PROVIDER_ERROR),
    "s": (Status.SKIPPED, Cause.EXCLUDED),
}


def make_observation(
    task: str, mark: str = "+", *, cost: float | None = 1.0, seconds: float = 60.0, trial: int = 1, **more: Any
) -> Observation:
    """One trial: + resolved, - unresolved, e error, s skipped."""
    status, cause = MARKS[mark]
    made = Observation(
        task_id=task,
        trial=trial,
        status=status,
        cause=cause,
        verdict=ObservedVerdict(status=status, cause=cause),
        usage=(ModelUsage(model="m", requests=1, tokens=Tokens(input=100), cost_usd=cost),),
        metrics=AgentMetrics(),
        agent_seconds=seconds,
    )
    return msgspec.structs.replace(made, **more)


def make_observations(**marks: str) -> list[Observation]:
    """One trial per mark: ``make_observations(a="+", b="+-")`` has one trial of a and two of b."""
    return [
        make_observation(task, mark, trial=number)
        for task, trials in marks.items()
        for number, mark in enumerate(trials, start=1)
    ]


def flipped(gained: int, lost: int, same: int = 0) -> tuple[list[Observation], list[Observation]]:
    """Two runs that differ in so many tasks."""
    was = {f"g{n}": "-" for n in range(gained)} | {f"l{n}": "+" for n in range(lost)}
    now = {f"g{n}": "+" for n in range(gained)} | {f"l{n}": "-" for n in range(lost)}
    rest = {f"s{n}": "+-"[n % 2] for n in range(same)}
    return make_observations(**was, **rest), make_observations(**now, **rest)


def config(**changes: Any) -> RunConfig:
    """A run of six tasks, with these changes."""
    made = RunConfig(
        run_id="run-001",
        benchmark="core",
        source="core",
        mode=Mode.BASELINE,
        agent="claude_code",
        model="claude-x",
        preset="empty",
        grade_concurrency=1,
        max_turns=100,
        tasks=tuple("abcdef"),
        data_digest="d",
        versions={"claude": "2.1"},
        machine=Machine(platform="linux", python="3.11", cpus=2, memory_mb=1000),
        created_at="now",
    )
    return msgspec.structs.replace(made, **changes)


def task_result(task: str, cause: Cause = Cause.SOLVED, cost: float | None = 0.5, **changes: Any) -> TaskResult:
    """The first trial of a task, with the status of its cause, no verdict and no attempts, with these changes."""
    made = TaskResult(
        run_id="run-001",
        benchmark="core",
        task_id=task,
        trial=1,
        status=CONSEQUENCES[cause].status or Status.UNRESOLVED,
        cause=cause,
        verdict=None,
        attempts=(),
        usage=(ModelUsage(model="m", requests=1, tokens=Tokens(input=10), cost_usd=cost),),
        metrics=AgentMetrics(),
        agent_seconds=2.0,
        grade_seconds=1.0,
        categories={},
    )
    return msgspec.structs.replace(made, **changes)
