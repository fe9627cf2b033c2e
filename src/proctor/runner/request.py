"""What a run will be: from what was asked to a stored configuration, and a bound on what it can cost."""

import math
import os
import platform
import random
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from msgspec import field

import proctor
from proctor.core.agent_options import AgentOptions
from proctor.core.benchmark import Benchmark
from proctor.core.environment import Limits, Network
from proctor.core.errors import UsageError
from proctor.core.record import Record
from proctor.core.run import Budget, Machine, Mode, RunConfig
from proctor.core.task import Task
from proctor.runner.records import Trial

# Who answers, and from which preset its sandboxes are made, where nothing else is said.
DEFAULT_AGENTS: Final = {Mode.BASELINE: "claude_code", Mode.H2: "h2_pod"}
DEFAULT_PRESETS: Final = {Mode.BASELINE: "empty", Mode.H2: "opus"}
DEFAULT_MAX_TURNS: Final = 100
# More of anything is a slip of the finger: a million answers to one task, a million agents at once.
_MAX_COUNT: Final = 1_000_000


class RunRequest(Record):
    """What is asked for, beside the tasks themselves.

    Attributes:
        model: a model id or short name, ``script:FILE`` or ``replay:RUN``; None for agents that need none.
        samples: how many answers are wanted to each task.
        grade_concurrency: None for as many as there are processors.
        max_turns: None for the usual limit; pods have none.
        shuffle: the seed of the order in which tasks are taken; None for the benchmark's own order.
    """

    agent: str
    mode: Mode = Mode.BASELINE
    command: tuple[str, ...] = ()
    agent_options: AgentOptions = AgentOptions()
    model: str | None = None
    preset: str = "empty"
    pod_template: str | None = None
    variables: dict[str, str] = field(default_factory=dict)
    runner: str = "local"
    image: str | None = None
    image_map: dict[str, str] = field(default_factory=dict)
    isolation: bool = True
    network: Network | None = None
    trials: int = 1
    concurrency: int = 1
    grade_concurrency: int | None = None
    limits: Limits = Limits()
    max_turns: int | None = None
    budget: Budget = Budget()
    shuffle: int | None = None


def make_config(
    request: RunRequest,
    benchmark: Benchmark,
    tasks: Sequence[Task],
    *,
    excluded: Sequence[str] = (),
    versions: dict[str, str],
) -> RunConfig:
    """The run's configuration, with everything that can change its results; the run has no name yet."""
    return RunConfig(
        run_id="",
        benchmark=benchmark.name,
        source=benchmark.source,
        mode=request.mode,
        agent=request.agent,
        command=request.command,
        agent_options=request.agent_options,
        model=request.model,
        preset=request.preset,
        pod_template=request.pod_template,
        variables=request.variables,
        runner=request.runner,
        image=request.image,
        isolation=request.isolation,
        network=request.network,
        trials=request.trials,
        concurrency=request.concurrency,
        grade_concurrency=request.grade_concurrency or os.cpu_count() or 1,
        limits=request.limits,
        max_turns=DEFAULT_MAX_TURNS if request.max_turns is None else request.max_turns,
        budget=request.budget,
        tasks=tuple(task.id for task in order_tasks(tasks, request.shuffle)),
        excluded=tuple(excluded),
        data_digest=benchmark.digest(),
        versions={"proctor": proctor.__version__, **versions},
        machine=current_machine(),
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        split=benchmark.split,
        image_map=request.image_map,
    )


def check_amount(option: str, amount: float | None) -> None:
    """See that an amount of dollars or seconds is one.

    Raises:
        UsageError: it is not.
    """
    if amount is not None and not 0 < amount < math.inf:
        raise UsageError(f"{option} must be a number above 0, not {amount}")


def check_numbers(request: RunRequest) -> None:
    """See that whatever is counted or measured can be.

    Raises:
        UsageError: it cannot.
    """
    for option, count in (
        ("--attempts", request.trials),
        ("--concurrency", request.concurrency),
        ("--grade-concurrency", request.grade_concurrency),
        ("--max-turns", request.max_turns),
    ):
        if count is not None and not 1 <= count <= _MAX_COUNT:
            raise UsageError(f"{option} must be a number from 1 to {_MAX_COUNT:,}, not {count}")
    check_amount("--timeout", request.limits.wall_seconds)
    check_amount("--max-cost", request.budget.run_usd)
    check_amount("--max-cost-per-task", request.budget.task_usd)
    whole, part = request.budget.run_usd, request.budget.task_usd
    if whole is not None and part is not None and part > whole:
        raise UsageError(
            f"one task may cost ${part:g} and the whole run ${whole:g}, so that no task could begin",
            fix="give a --max-cost-per-task that fits into --max-cost",
        )


def check_environment_options(runner: str, *, isolation: bool, container_options: Mapping[str, object]) -> None:
    """See that what is said of the rooms fits to what they are made of.

    `containers` are the options that are for containers only, by their names; None, or an empty map, was not given.

    Raises:
        UsageError: it does not.
    """
    if runner != "local":
        if not isolation:
            raise UsageError(
                f"--isolation off is for rooms on this machine, not for --runner {runner}", fix="leave one of them out"
            )
        return
    for option, value in container_options.items():
        if value not in (None, {}):
            raise UsageError(f"{option} is for rooms in containers", fix="give --runner docker too, or leave it out")


def order_tasks(tasks: Sequence[Task], seed: int | None) -> list[Task]:
    """The tasks in the benchmark's order, or shuffled by a seed so that the same seed gives the same order."""
    if seed is None:
        return list(tasks)
    mixed = sorted(tasks, key=lambda task: task.id)
    random.Random(seed).shuffle(mixed)  # noqa: S311 - an order, not a secret
    return mixed


def list_trials(config: RunConfig) -> list[Trial]:
    """Every wanted answer: first samples of all tasks first, so that an early end covers as many as can be."""
    return [Trial(task_id=task_id, number=sample) for sample in range(1, config.trials + 1) for task_id in config.tasks]


def cost_bound(config: RunConfig) -> float | None:
    """The most that a run can cost; None when nothing bounds it. A run without a model costs nothing."""
    if config.model is None:
        return 0.0
    bounds = []
    if config.budget.run_usd is not None:
        bounds.append(config.budget.run_usd)
    if config.budget.task_usd is not None:
        bounds.append(config.budget.task_usd * len(config.tasks) * config.trials)
    return min(bounds, default=None)


def current_machine() -> Machine:
    """Where we are, as far as it can change results."""
    import psutil  # noqa: PLC0415 - slow, and only a new run asks

    return Machine(
        platform=f"{platform.system().lower()}-{platform.machine()}",
        python=platform.python_version(),
        cpus=psutil.cpu_count() or 1,
        memory_mb=psutil.virtual_memory().total // 2**20,
    )
