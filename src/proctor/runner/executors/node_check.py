"""Whether a node is like the machine that the run was planned on: programs, data, images, isolation, space."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack

import msgspec

from proctor.agents import agent_class
from proctor.benchmarks import reopen
from proctor.core import VERSION
from proctor.core.benchmark import Benchmark, GradeOptions
from proctor.core.environment import EnvironmentProvider
from proctor.core.errors import ProctorError
from proctor.core.files import cache_root
from proctor.core.run import RunConfig
from proctor.core.task import Task
from proctor.environments import reap
from proctor.environments.machine_check import check_machine
from proctor.runner.agents import agent_factory
from proctor.runner.evaluation import Evaluation
from proctor.runner.executors.messages import EvaluationSetup, ImageUsed, NodeInfo, NodeRun
from proctor.runner.preflight import environment_digest, make_provider
from proctor.runner.request import current_machine
from proctor.runner.run_resources import RunResources, adapt_benchmark
from proctor.runner.scratch import scratch_folder


async def prepare_runs(
    stack: AsyncExitStack, name: str, runs: Sequence[NodeRun], grace_seconds: float
) -> tuple[list[RunResources], NodeInfo]:
    """What these runs are made with on this machine, until the stack is closed; nothing where it cannot be used.

    Models are still the driver's: what it sends of them is stored first.
    """
    info = NodeInfo(name=name, machine=await asyncio.to_thread(current_machine), proctor=VERSION)
    first = runs[0].config
    if (problem := other_proctor(VERSION, runs[0].versions["proctor"])) is not None:
        return [], _with_problem(info, problem)
    try:
        provider = make_provider(first)
        stack.push_async_callback(provider.close)
        await check_machine(provider, [cache_root(), scratch_folder()])
        benchmark = await asyncio.to_thread(open_same_benchmark, first)
        if await asyncio.to_thread(benchmark.digest) != first.data_digest:
            return [], _with_problem(info, f"its data of {first.benchmark} is not the run's")
        # What killed runs have left goes first, as on one machine.
        await reap(docker=first.runner == "docker")
        tasks = {task.id: task for task in await asyncio.to_thread(benchmark.tasks)}
        for run in runs:
            if (problem := await _other_program(run, benchmark, tasks, provider)) is not None:
                return [], _with_problem(info, problem)
    except ProctorError as error:
        return [], _with_problem(info, error.sentence)
    adapted = adapt_benchmark(benchmark, provider, first)
    prepared = [
        RunResources(
            run.config,
            adapted,
            provider,
            agent_class(run.config.agent),
            run.model,
            grace_seconds=grace_seconds,
            tasks=tasks,
        )
        for run in runs
    ]
    return prepared, info


async def open_evaluating(
    stack: AsyncExitStack, name: str, setup: EvaluationSetup
) -> tuple[Evaluation | None, NodeInfo]:
    """What grading without an agent needs on this machine; None where it cannot be used, and why."""
    info = NodeInfo(name=name, machine=await asyncio.to_thread(current_machine), proctor=VERSION)
    if (problem := other_proctor(VERSION, setup.proctor)) is not None:
        return None, _with_problem(info, problem)
    try:
        provider = make_provider(setup.request)
        stack.push_async_callback(provider.close)
        await check_machine(provider, [cache_root(), scratch_folder()])
        benchmark = await asyncio.to_thread(open_same_benchmark, setup)
        if await asyncio.to_thread(benchmark.digest) != setup.data_digest:
            return None, _with_problem(info, f"its data of {setup.benchmark} is not the driver's")
        await reap(docker=setup.request.runner == "docker")
        tasks = tuple(await asyncio.to_thread(benchmark.tasks))
    except ProctorError as error:
        return None, _with_problem(info, error.sentence)
    return Evaluation(setup.request, benchmark, tasks, (), provider), info


async def image_used(
    benchmark: Benchmark, task: Task, provider: EnvironmentProvider, options: GradeOptions, *, force_build: bool
) -> ImageUsed | None:
    """The image of a task on this machine, pulled if it is not there; None where there is nothing to compare."""
    if not provider.uses_images:
        return None
    try:
        spec = benchmark.environment_spec(task, options)
        if spec.build is not None and (spec.image is None or force_build):
            return None  # each node builds its own, from data that is the same
        return ImageUsed(spec.image or "", await provider.digest(spec))
    except ProctorError:
        return None  # the attempt or the grading meets the same error, and reports it


def open_same_benchmark(config: RunConfig | EvaluationSetup) -> Benchmark:
    """The benchmark of a run: where it is on the driver's machine, or, for one that is shipped, by its name.

    Raises:
        ProctorError: it is not on this machine.
    """
    try:
        return reopen(config.benchmark, config.source, config.split)
    except ProctorError:
        return reopen(config.benchmark, config.benchmark, config.split)


def other_proctor(found: str, drivers: str) -> str | None:
    """What is wrong with a node that has this version of Proctor; an empty one is none at all."""
    if not found:
        return "it has no Proctor where its Ray runs"
    return None if found == drivers else f"it has Proctor {found}, and the driver has {drivers}"


async def program_versions(
    config: RunConfig, benchmark: Benchmark, tasks: Mapping[str, Task], provider: EnvironmentProvider
) -> dict[str, str]:
    """What this machine has of all that a run is made with."""
    chosen = [tasks[task_id] for task_id in config.tasks]
    agent = await asyncio.to_thread(agent_factory(agent_class(config.agent), config, benchmark), chosen[0])
    versions = {"proctor": VERSION, **await asyncio.to_thread(agent.versions)}
    if not provider.uses_images:  # an image is compared when it is used: nothing is pulled here
        options = GradeOptions(image=config.image)
        versions["environment"] = await environment_digest(benchmark, chosen, provider, options, pull=False)
    return versions


async def _other_program(
    run: NodeRun, benchmark: Benchmark, tasks: Mapping[str, Task], provider: EnvironmentProvider
) -> str | None:
    """What is not of the version that the driver has, if anything is."""
    for name, version in (await program_versions(run.config, benchmark, tasks, provider)).items():
        wanted = run.versions.get(name, version)
        if wanted != version:
            return f"its {name} is {version}, and the driver's is {wanted}"
    return None


def _with_problem(info: NodeInfo, problem: str) -> NodeInfo:
    return msgspec.structs.replace(info, problems=(*info.problems, problem))
