"""Random runs on disk, with everything that a real result contains."""

import random
from pathlib import Path
from typing import Any

import msgspec

from observations import config
from proctor.core.causes import Cause, Status
from proctor.core.record import to_json
from proctor.core.request import Mode
from proctor.core.result import AgentMetrics, Attempt, Member, ModelUsage, TaskResult, Tokens
from proctor.core.run import RunConfig
from proctor.core.verdict import Finding, TestOutcome, TestStatus, Verdict
from proctor.results import RunStore

LANGUAGES = ("go", "java", "python", "rust")
_FAILED = (
    Cause.TESTS_FAILED,
    Cause.TESTS_FAILED,
    Cause.REGRESSION,
    Cause.EMPTY,
    Cause.AGENT_TIMEOUT,
    Cause.TASK_BUDGET,
)


def random_result(
    run: RunConfig,
    task: str,
    trial: int,
    draw: random.Random,
    *,
    rate: float = 0.4,
    dollars: float = 0.5,
    tests: int = 5,
) -> TaskResult:
    """One trial, resolved with probability `rate`, more often in Python; one in fifty ends in an error."""
    language = LANGUAGES[sum(task.encode()) % len(LANGUAGES)]
    chance = min(1.0, rate * (1.6 if language == "python" else 0.8))
    dice = draw.random()
    cause = Cause.PROVIDER_ERROR if dice > 0.98 else Cause.SOLVED if dice < chance else draw.choice(_FAILED)
    status = {Cause.PROVIDER_ERROR: Status.ERROR, Cause.SOLVED: Status.RESOLVED}.get(cause, Status.UNRESOLVED)
    agents = 3 if run.mode is Mode.H2 else 1
    cost = draw.gammavariate(2, dollars / 2)
    tokens = Tokens(input=int(cost * 4e4), output=int(cost * 5e3), cache_read=int(cost * 9e5))
    seconds = draw.gammavariate(2, 120)
    verdict = Verdict(
        task_id=task,
        status=status,
        cause=cause,
        reason="random",
        tests=tuple(
            TestOutcome(id=f"tests/test_{n}.py::test_it", before=None, after=TestStatus.PASSED) for n in range(tests)
        ),
        findings=(Finding(code="tests_touched", path="t.py", detail="…"),) if draw.random() < 0.03 else (),
    )
    usage = (ModelUsage(model="claude-x", requests=9, tokens=tokens, cost_usd=cost),)
    members = tuple(
        Member(
            name=f"{role}-1",
            role=role,
            usage=(ModelUsage(model="claude-x", requests=3, tokens=Tokens(), cost_usd=cost / 3),),
            active_seconds=seconds * share,
            idle_seconds=seconds * (1 - share),
            turns=4,
            messages=2,
        )
        for role, share in (("concierge", 0.2), ("coder", 0.7), ("reviewer", 0.3))[:agents]
    )
    return TaskResult(
        run_id=run.run_id,
        benchmark=run.benchmark,
        task_id=task,
        trial=trial,
        status=status,
        cause=cause,
        verdict=verdict if status is not Status.ERROR else None,
        attempts=(
            Attempt(
                number=1, started_at="", ended_at="", cause=cause, detail="", logs=f"logs/{task}/attempt-1", usage=usage
            ),
        ),
        usage=usage,
        metrics=AgentMetrics(
            agents=agents,
            turns=draw.randint(3, 40),
            steps=draw.randint(3, 60),
            compactions=int(draw.random() < 0.1),
            active_share=draw.uniform(0.3, 0.9),
            members=members if agents > 1 else (),
        ),
        agent_seconds=seconds,
        grade_seconds=3.0,
        categories={"language": language, "difficulty": ("easy", "hard")[len(task) % 2]},
    )


def store_run(
    root: Path, run_id: str, *, tasks: int = 40, seed: int = 0, odds: dict[str, Any] | None = None, **changes: Any
) -> RunStore:
    """A run of random results; `odds` are keyword arguments of `random_result`."""
    names = tuple(f"task-{number}" for number in range(tasks))
    run = config(run_id=run_id, tasks=names, **changes)
    store = RunStore(root / run.benchmark / run_id)
    (store.folder / "trials").mkdir(parents=True)
    store.write_config(run)
    draw = random.Random(seed)
    for task in names:
        for trial in range(1, run.trials + 1):
            result = random_result(run, task, trial, draw, **(odds or {}))
            # Not synced, as the store does: these files need not survive a power failure.
            store.result_file(task, trial).write_bytes(to_json(result))
    return store


def raw(store: RunStore) -> list[dict[str, Any]]:
    """The content of the files, read without our code."""
    return [msgspec.json.decode(file.read_bytes()) for file in sorted((store.folder / "trials").glob("*.json"))]
