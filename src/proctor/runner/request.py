"""From a request to a run: resolved, checked for contradictions, and stored as the run's configuration."""

import os
import platform
import random
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from proctor.core import VERSION
from proctor.core.agent_options import AgentOptions, check_agent_options
from proctor.core.benchmark import Benchmark
from proctor.core.errors import UsageError
from proctor.core.machine import Machine
from proctor.core.options import OptionField, Use, option_fields
from proctor.core.request import DEFAULT_AGENTS, DEFAULT_PRESETS, Mode, RunRequest, TaskRequest
from proctor.core.run import RunConfig, Trial
from proctor.core.task import Task

# What a refused option is for, and what to do about it.
_USES: Final = {
    Use.POD: ("is for pods", "give --mode h2 too, or leave it out"),
    Use.COMMAND: ("is for --agent command", "give that too, or leave it out"),
    Use.CONTAINER: ("is for environments in containers", "give --runner docker too, or leave it out"),
    Use.CLUSTER: ("is for clusters", "give --executor ray too, or leave it out"),
    Use.SINGLE: (
        "does not bind pods, whose agents are interactive programs with roles of their own",
        "leave it out; a preset has the roles, and --timeout and --max-cost-per-task bound a task",
    ),
}


def is_used(use: Use, settings: Mapping[str, Any]) -> bool:
    """Whether options of this use have a meaning in a configuration; `settings` are its mode, agent,
    runner and executor.
    """
    match use:
        case Use.POD:
            return settings.get("mode") == Mode.H2
        case Use.SINGLE:
            return settings.get("mode") != Mode.H2
        case Use.COMMAND:
            return settings.get("agent") == "command"
        case Use.CONTAINER:
            return settings.get("runner") != "local"
        case Use.CLUSTER:
            return settings.get("executor") == "ray"
        case Use.ANY:
            return True


def given_options(request: TaskRequest) -> list[OptionField]:
    """The options that differ from their defaults."""
    return [field for name, field in option_fields(type(request)).items() if getattr(request, name) != field.default]


def check_environment_options(request: TaskRequest) -> None:
    """See that the options of environments fit their provider.

    Raises:
        UsageError: it does not.
    """
    if request.runner != "local" and not request.isolation:
        raise UsageError(
            f"--isolation off is for environments on this machine, not for --runner {request.runner}",
            fix="leave one of them out",
        )
    check_uses(request, Use.CONTAINER, Use.CLUSTER)


def check_uses(request: TaskRequest, *uses: Use) -> None:
    """See that no option is given that has no meaning in this configuration.

    Raises:
        UsageError: one is.
    """
    settings = {name: getattr(request, name, None) for name in ("mode", "agent", "runner", "executor")}
    for field in given_options(request):
        use = field.option.use
        if use in uses and not is_used(use, settings):
            what, fix = _USES[use]
            raise UsageError(f"{field.flag} {what}", fix=fix)


def resolve_request(request: RunRequest) -> RunRequest:
    """The same with the defaults that a mode brings, checked for contradictions.

    Raises:
        UsageError: this cannot be run as asked.
    """
    request = msgspec.structs.replace(
        request,
        agent=request.agent or DEFAULT_AGENTS[request.mode],
        preset=request.preset or DEFAULT_PRESETS[request.mode],
    )
    pod = request.mode is Mode.H2
    if (request.agent == DEFAULT_AGENTS[Mode.H2]) is not pod:
        raise UsageError(
            f"--mode {request.mode.value} is not for the agent {request.agent}",
            fix="leave --agent out" if pod else "give --mode h2",
        )
    check_environment_options(request)
    check_uses(request, Use.POD, Use.SINGLE, Use.COMMAND)
    check_agent_options(request.agent_options)
    if request.agent in {"oracle", "nop"} and request.agent_options != AgentOptions():
        raise UsageError(
            f"the agent {request.agent} takes no instructions",
            fix="leave prompts, tools and variables of the agent out",
        )
    whole, part = request.max_cost, request.max_cost_per_task
    if whole is not None and part is not None and part > whole:
        raise UsageError(
            f"one task may cost ${part:g} and the whole run ${whole:g}, so that no task could begin",
            fix="give a --max-cost-per-task that fits into --max-cost",
        )
    return request


def make_config(
    request: RunRequest, benchmark: Benchmark, tasks: Sequence[Task], *, versions: Mapping[str, str]
) -> RunConfig:
    """The configuration of a resolved request, with everything that can change its results; it has no run id yet."""
    settings = {name: getattr(request, name) for name in request.__struct_fields__}
    settings |= {
        "benchmark": benchmark.name,
        "split": benchmark.split,
        "tasks": tuple(task.id for task in order_tasks(tasks, request.shuffle)),
        "grade_concurrency": request.grade_concurrency or os.cpu_count() or 1,
        "notify": (),  # of this session only; the address of a web hook is a secret
    }
    return RunConfig(
        **settings,
        run_id="",
        source=benchmark.source,
        data_digest=benchmark.digest(),
        versions={"proctor": VERSION, **versions},
        machine=current_machine(),
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def order_tasks(tasks: Sequence[Task], seed: int | None) -> list[Task]:
    """The tasks in the benchmark's order, or shuffled by a seed so that the same seed gives the same order."""
    if seed is None:
        return list(tasks)
    mixed = sorted(tasks, key=lambda task: task.id)
    random.Random(seed).shuffle(mixed)  # noqa: S311 - an order, not a secret
    return mixed


def list_trials(config: RunConfig) -> list[Trial]:
    """Every trial of a run: first trials of all tasks first, so that an early end covers as many tasks as can be."""
    return [Trial(task_id=task_id, number=number) for number in range(1, config.trials + 1) for task_id in config.tasks]


def cost_bound(config: RunConfig) -> float | None:
    """The most that a run can cost; None when nothing bounds it. A run without a model costs nothing."""
    if config.model is None:
        return 0.0
    bounds = []
    if config.max_cost is not None:
        bounds.append(config.max_cost)
    if config.max_cost_per_task is not None:
        bounds.append(config.max_cost_per_task * len(config.tasks) * config.trials)
    return min(bounds, default=None)


def current_machine() -> Machine:
    """This machine, as far as it can change results."""
    import psutil

    return Machine(
        platform=f"{platform.system().lower()}-{platform.machine()}",
        python=platform.python_version(),
        cpus=psutil.cpu_count() or 1,
        memory_mb=psutil.virtual_memory().total // 2**20,
        processor=_processor(),
        kernel=platform.release(),
    )


def _processor() -> str:
    """The model of the processor, where the system says it."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.processor()
