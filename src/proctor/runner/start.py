"""Beginning a run: all that can be wrong with what is asked is found before anything is written."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

import proctor
from proctor.agents import agent_class
from proctor.agents.h2.template import is_file
from proctor.core.agent_options import AgentOptions
from proctor.core.agent_options import check_agent_options as check_briefing
from proctor.core.benchmark import Benchmark, GradeOptions
from proctor.core.environment import Network
from proctor.core.errors import UsageError
from proctor.core.run import Mode, RunConfig
from proctor.core.task import Task
from proctor.environments import provider as find_provider
from proctor.results import RunStore, new_run
from proctor.runner.models import (
    ModelAccess,
    check_priced,
    check_recorded,
    load_prices,
    make_backend,
    parse_model,
    prices_version,
)
from proctor.runner.preflight import environment_digest, missing_requirements
from proctor.runner.request import (
    DEFAULT_AGENTS,
    RunRequest,
    check_environment_options,
    check_numbers,
    list_trials,
    make_config,
)
from proctor.runner.sandbox_pool import POD_VERSION_KEY, SandboxPool, resolve_pod
from proctor.runner.scratch import socket_folder
from proctor.runner.session import OnPull, agent_factory, provider_options


async def configure(
    request: RunRequest,
    benchmark: Benchmark,
    tasks: Sequence[Task],
    *,
    excluded: Sequence[str] = (),
    program: str | None = None,
    h2_program: str | None = None,
    on_pull: OnPull | None = None,
    prices: Path | None = None,
    pull: bool = True,
) -> RunConfig:
    """The configuration of a run that does not exist yet: with which programs, in which rooms.

    Without `pull`, for a run that is not to be begun, no image is brought here to know its digest.

    Raises:
        UsageError: this cannot be run as asked.
        InfrastructureError: a program that it needs is not on this machine.
        InvalidData: the table of prices is broken.
    """
    if not tasks:
        raise UsageError("no task is chosen", fix="`proctor bench list` names the tasks")
    check_numbers(request)
    _check_mode(request)
    _check_agent_options(request)
    containers = {"--docker-image": request.image, "--image-map": request.image_map}
    check_environment_options(request.runner, isolation=request.isolation, container_options=containers)
    _check_model(request)
    choice = None if request.model is None else parse_model(request.model)
    # As it can be read again from another folder.
    request = msgspec.structs.replace(
        request, model=choice.text if choice else None, preset=_absolute_preset(request.preset)
    )
    versions = {}
    if prices is not None:
        versions["prices"] = prices_version(prices)
    if request.mode is Mode.H2:
        template, versions[POD_VERSION_KEY] = resolve_pod(request.pod_template, request.preset, request.variables)
        request = msgspec.structs.replace(
            request, pod_template=_absolute_template(request.pod_template) or template.name
        )
    draft = make_config(request, benchmark, tasks, excluded=excluded, versions=versions)
    rooms = find_provider(request.runner, **provider_options(draft, on_pull=on_pull))
    try:
        environment = await environment_digest(benchmark, tasks, rooms, GradeOptions(image=request.image), pull=pull)
    finally:
        await rooms.close()
    answering = agent_factory(draft, benchmark, program=program, h2_program=h2_program)(tasks[0])
    versions = {**draft.versions, "environment": environment, **answering.versions()}
    return msgspec.structs.replace(draft, versions=versions)


async def run_missing_requirements(config: RunConfig, benchmark: Benchmark, tasks: Sequence[Task]) -> dict[str, str]:
    """The tasks of a run that cannot be run on this machine, each with the reason."""
    rooms = find_provider(config.runner, **provider_options(config))
    try:
        return await missing_requirements(benchmark, tasks, rooms, image=config.image, machine=config.machine)
    finally:
        await rooms.close()


def check_access(config: RunConfig, access: ModelAccess, *, prices: Path | None = None) -> None:
    """See that the model can be asked and the agents' homes can be made, before a run is begun.

    Raises:
        UsageError: there is no key, no such preset, no login, no price where there is a budget, or no recording.
        InvalidData: the script, or the table of prices, is broken.
    """
    table = load_prices(prices)
    if config.model is not None:
        choice = parse_model(config.model)
        make_backend(choice, access)
        check_priced(choice, config.budget, table)
        check_recorded(choice, list_trials(config))
    if agent_class(config.agent).needs_sandbox:
        SandboxPool(socket_folder() / "homes", preset=config.preset, auth_from=access.login).check()


def changed_versions(
    config: RunConfig, benchmark: Benchmark, *, program: str | None = None, h2_program: str | None = None
) -> list[str]:
    """What is not of the version with which a run was begun, each in a sentence."""
    task = next((task for task in benchmark.tasks() if task.id in config.tasks), None)
    if task is None:
        return []  # it is another data set now, and will be refused as that
    answering = agent_factory(config, benchmark, program=program, h2_program=h2_program)(task)
    now = {"proctor": proctor.__version__, **answering.versions()}
    return [
        f"{name} was {config.versions[name]} when the run was begun, and is {version} now"
        for name, version in now.items()
        if config.versions.get(name, version) != version
    ]


def create_run(config: RunConfig, *, root: Path | None = None) -> RunStore:
    """Give a run its name and its folder."""
    store = new_run(config.benchmark, root=root)
    store.write_config(msgspec.structs.replace(config, run_id=store.run_id))
    return store


def _absolute_preset(preset: str) -> str:
    return str(Path(preset).expanduser().absolute()) if "/" in preset else preset


def _absolute_template(template: str | None) -> str | None:
    """A template's file as it can be read again from another folder; its name as it is."""
    return str(Path(template).absolute()) if template is not None and is_file(template) else template


def _check_mode(request: RunRequest) -> None:
    pod = request.mode is Mode.H2
    if (request.agent == DEFAULT_AGENTS[Mode.H2]) is not pod:
        raise UsageError(
            f"--mode {request.mode.value} is not for the agent {request.agent}",
            fix="leave --agent out" if pod else "give --mode h2",
        )
    if not pod and (request.pod_template is not None or request.variables):
        raise UsageError("--pod-template and --var are for pods", fix="give --mode h2 too, or leave them out")
    if pod and request.max_turns is not None:
        raise UsageError(
            "--max-turns does not bind pods: their agents are interactive programs, which have no such limit",
            fix="leave it out, and bound a task with --timeout or --max-cost-per-task",
        )


def _check_agent_options(request: RunRequest) -> None:
    briefing = request.agent_options
    check_briefing(briefing)
    if request.agent in {"oracle", "nop"} and briefing != AgentOptions():
        raise UsageError(
            f"the agent {request.agent} is told nothing", fix="leave prompts, tools and variables of the agent out"
        )
    if request.mode is Mode.H2 and briefing != AgentOptions(env=briefing.env):
        raise UsageError(
            "system prompts and tools of a pod's agents are their roles'",
            fix="leave these options out, and say it in the roles of a preset of your own",
        )


def _check_model(request: RunRequest) -> None:
    if request.model is None:
        if agent_class(request.agent).needs_model:
            raise UsageError(
                f"the agent {request.agent} needs a model",
                fix="give --model: a model's name, script:FILE or replay:RUN",
            )
    elif request.network is Network.NONE and agent_class(request.agent).needs_model:
        raise UsageError(f"the agent {request.agent} cannot reach a model without network", fix="use --network model")
