"""Beginning a run: all that can be wrong with what is asked is found before anything is written."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

import proctor
from proctor.agents import needs_home, needs_model
from proctor.agents.h2.template import is_file
from proctor.core.benchmark import Benchmark, GradeOptions
from proctor.core.briefing import Briefing
from proctor.core.briefing import check as check_briefing
from proctor.core.environment import Network
from proctor.core.errors import UsageError
from proctor.core.run import Mode, RunConfig
from proctor.core.task import Task
from proctor.environments import provider as find_provider
from proctor.results import RunStore, new_run
from proctor.runner.drive import OnPull, agents, room_options
from proctor.runner.homes import POD, Homes, pod_of
from proctor.runner.models import (
    Access,
    backend_for,
    check_priced,
    check_recorded,
    choose_model,
    prices_of,
    prices_version,
)
from proctor.runner.needs import environment_of, lacking
from proctor.runner.plan import AGENTS, Asked, check_numbers, check_rooms, make_config, slots
from proctor.runner.scratch import socket_folder


async def configure(
    asked: Asked,
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
    check_numbers(asked)
    _check_mode(asked)
    _check_briefing(asked)
    containers = {"--docker-image": asked.image, "--image-map": asked.image_map}
    check_rooms(asked.runner, isolation=asked.isolation, containers=containers)
    _check_model(asked)
    choice = None if asked.model is None else choose_model(asked.model)
    # As it can be read again from another folder.
    asked = msgspec.structs.replace(asked, model=choice.text if choice else None, preset=_place(asked.preset))
    versions = {}
    if prices is not None:
        versions["prices"] = prices_version(prices)
    if asked.mode is Mode.H2:
        template, versions[POD] = pod_of(asked.pod_template, asked.preset, asked.variables)
        asked = msgspec.structs.replace(asked, pod_template=_findable(asked.pod_template) or template.name)
    draft = make_config(asked, benchmark, tasks, excluded=excluded, versions=versions)
    rooms = find_provider(asked.runner, **room_options(draft, on_pull=on_pull))
    try:
        environment = await environment_of(benchmark, tasks, rooms, GradeOptions(image=asked.image), pull=pull)
    finally:
        await rooms.close()
    answering = agents(draft, benchmark, program=program, h2_program=h2_program)(tasks[0])
    versions = {**draft.versions, "environment": environment, **answering.versions()}
    return msgspec.structs.replace(draft, versions=versions)


async def what_is_lacking(config: RunConfig, benchmark: Benchmark, tasks: Sequence[Task]) -> dict[str, str]:
    """The tasks of a run that cannot be run on this machine, each with the reason."""
    rooms = find_provider(config.runner, **room_options(config))
    try:
        return await lacking(benchmark, tasks, rooms, image=config.image, machine=config.machine)
    finally:
        await rooms.close()


def check_access(config: RunConfig, access: Access, *, prices: Path | None = None) -> None:
    """See that the model can be asked and the agents' homes can be made, before a run is begun.

    Raises:
        UsageError: there is no key, no such preset, no login, no price where there is a budget, or no recording.
        InvalidData: the script, or the table of prices, is broken.
    """
    table = prices_of(prices)
    if config.model is not None:
        choice = choose_model(config.model)
        backend_for(choice, access)
        check_priced(choice, config.budget, table)
        check_recorded(choice, slots(config))
    if needs_home(config.agent):
        Homes(socket_folder() / "homes", preset=config.preset, auth_from=access.login).check()


def changed_programs(
    config: RunConfig, benchmark: Benchmark, *, program: str | None = None, h2_program: str | None = None
) -> list[str]:
    """What is not of the version with which a run was begun, each in a sentence."""
    task = next((task for task in benchmark.tasks() if task.id in config.tasks), None)
    if task is None:
        return []  # it is another data set now, and will be refused as that
    answering = agents(config, benchmark, program=program, h2_program=h2_program)(task)
    now = {"proctor": proctor.__version__, **answering.versions()}
    return [
        f"{name} was {config.versions[name]} when the run was begun, and is {version} now"
        for name, version in now.items()
        if config.versions.get(name, version) != version
    ]


def begin(config: RunConfig, *, root: Path | None = None) -> RunStore:
    """Give a run its name and its folder."""
    store = new_run(config.benchmark, root=root)
    store.write_config(msgspec.structs.replace(config, run_id=store.run_id))
    return store


def _place(preset: str) -> str:
    return str(Path(preset).expanduser().absolute()) if "/" in preset else preset


def _findable(template: str | None) -> str | None:
    """A template's file as it can be read again from another folder; its name as it is."""
    return str(Path(template).absolute()) if template is not None and is_file(template) else template


def _check_mode(asked: Asked) -> None:
    pod = asked.mode is Mode.H2
    if (asked.agent == AGENTS[Mode.H2]) is not pod:
        raise UsageError(
            f"--mode {asked.mode.value} is not for the agent {asked.agent}",
            fix="leave --agent out" if pod else "give --mode h2",
        )
    if not pod and (asked.pod_template is not None or asked.variables):
        raise UsageError("--pod-template and --var are for pods", fix="give --mode h2 too, or leave them out")
    if pod and asked.max_turns is not None:
        raise UsageError(
            "--max-turns does not bind pods: their agents are interactive programs, which have no such limit",
            fix="leave it out, and bound a task with --timeout or --max-cost-per-task",
        )


def _check_briefing(asked: Asked) -> None:
    briefing = asked.briefing
    check_briefing(briefing)
    if asked.agent in {"oracle", "nop"} and briefing != Briefing():
        raise UsageError(
            f"the agent {asked.agent} is told nothing", fix="leave prompts, tools and variables of the agent out"
        )
    if asked.mode is Mode.H2 and briefing != Briefing(env=briefing.env):
        raise UsageError(
            "system prompts and tools of a pod's agents are their roles'",
            fix="leave these options out, and say it in the roles of a preset of your own",
        )


def _check_model(asked: Asked) -> None:
    if asked.model is None:
        if needs_model(asked.agent):
            raise UsageError(
                f"the agent {asked.agent} needs a model", fix="give --model: a model's name, script:FILE or replay:RUN"
            )
    elif asked.network is Network.NONE and needs_model(asked.agent):
        raise UsageError(f"the agent {asked.agent} cannot reach a model without network", fix="use --network model")
