"""What is found out before anything is written or paid for: that a request can be run here, and with which programs."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from proctor.agents.h2.template import MODEL
from proctor.core import VERSION
from proctor.core.agent import PROGRAM_VERSION_KEY
from proctor.core.benchmark import Benchmark, GradeOptions, InvalidTask
from proctor.core.environment import EnvironmentProvider, EnvironmentSpec, Network
from proctor.core.errors import InfrastructureError, InvalidData, UsageError
from proctor.core.formatting import plural, reason_lines
from proctor.core.machine import Machine
from proctor.core.model_aliases import MODEL_ALIASES
from proctor.core.request import Mode, RunRequest, TaskRequest
from proctor.core.run import RunConfig
from proctor.core.task import Task
from proctor.environments import provider as find_provider
from proctor.gateway.backend import Backend
from proctor.runner.agents import AgentSource, agent_factory
from proctor.runner.environment_requirements import missing_environment_requirements
from proctor.runner.models import (
    ModelAccess,
    ModelChoice,
    asked_dialects,
    check_model_name,
    check_priced,
    check_recorded,
    load_prices,
    make_backend,
    parse_model,
    prices_version,
)
from proctor.runner.pod import POD_VERSION_KEY, resolve_pod
from proctor.runner.request import (
    check_environment_options,
    current_machine,
    list_trials,
    make_config,
)
from proctor.runner.scratch import socket_folder
from proctor.sandboxes.pool import SandboxPool
from proctor.sandboxes.preset import load_preset, user_presets

if TYPE_CHECKING:
    from proctor.environments.docker import PullProgress

OnPull = Callable[["PullProgress"], None]
# How many images a registry is asked for: a few show whether it can be reached, and hundreds would burden it.
_MAX_REGISTRY_QUERIES: Final = 8


def make_provider(request: TaskRequest, on_pull: OnPull | None = None) -> EnvironmentProvider:
    """The provider of a request's environments.

    Raises:
        UsageError: there is none of this name, or it does not take these options.
    """
    check_environment_options(request)
    options: dict[str, Any] = {}
    if request.runner == "docker":
        options = {
            "image_map": request.image_map,
            "force_build": request.force_build,
            "image_disk": request.image_disk,
            "on_pull": on_pull,
        }
    return find_provider(request.runner, isolation=request.isolation, **options)


async def configure(
    request: RunRequest,
    benchmark: Benchmark,
    tasks: Sequence[Task],
    provider: EnvironmentProvider,
    agent: AgentSource,
    *,
    pull: bool = True,
) -> tuple[RunConfig, ModelChoice | None]:
    """The configuration of a resolved request, whose run does not exist yet, and its model.

    Without `pull`, for a run that is not to be started, no image is pulled to learn its digest.

    Raises:
        UsageError: this cannot be run as asked.
        InfrastructureError: a program that it needs is not on this machine.
        InvalidData: the table of prices is broken.
    """
    if not tasks:
        raise UsageError("no task is chosen", fix="`proctor bench list` names the tasks")
    _check_model(request, agent)
    load_preset(str(request.preset), folder=user_presets())
    choice = None if request.model is None else parse_model(request.model, request.providers)
    versions = {}
    if request.prices is not None:
        versions["prices"] = prices_version(request.prices)
    if choice is not None and not request.providers:
        check_model_name(choice, load_prices(request.prices))
    if request.mode is Mode.H2:
        template, versions[POD_VERSION_KEY] = resolve_pod(request.pod_template, str(request.preset), request.variables)
        request = msgspec.structs.replace(request, pod_template=request.pod_template or template.name)
    request = msgspec.structs.replace(request, model=choice.text if choice else None)
    draft = make_config(request, benchmark, tasks, versions=versions)
    environment = await environment_digest(benchmark, tasks, provider, GradeOptions(image=request.image), pull=pull)
    programs = agent_factory(agent, draft, benchmark)(tasks[0]).versions()
    versions = {**draft.versions, "environment": environment, **programs}
    return msgspec.structs.replace(draft, versions=versions), choice


def _check_model(request: RunRequest, agent: AgentSource) -> None:
    if request.model is None:
        if agent.needs_model:
            raise UsageError(
                f"the agent {request.agent} needs a model",
                fix="give --model: a model's name, script:FILE or replay:RUN",
            )
    elif request.network is Network.NONE and agent.needs_model:
        raise UsageError(f"the agent {request.agent} cannot reach a model without network", fix="use --network model")


def describe_scripted_model(config: RunConfig, choice: ModelChoice | None) -> str | None:
    """As which model a scripted model is priced, where the preset names one of its own.

    Raises:
        UsageError: the preset or the pod template cannot be read.
        InvalidData: the table of prices is broken.
    """
    if choice is None or choice.kind != "script":
        return None
    own = load_preset(config.preset, folder=user_presets()).model
    if own is None:
        return None
    if config.mode is not Mode.H2:
        return f"scripted model, {_priced(choice.model, config)}; the preset's {own} is the model of pods"
    template, _ = resolve_pod(config.pod_template, config.preset, config.variables)
    if MODEL not in template.declared:
        return "scripted models of the pod's roles, each with its own price"
    given = config.variables.get(MODEL, choice.model)
    model = MODEL_ALIASES.get(given, given)
    other = "" if model == MODEL_ALIASES.get(own, own) else f"; for the preset's {own}, give --var {MODEL}={own}"
    return f"scripted model, {_priced(model, config)}{other}"


def _priced(model: str, config: RunConfig) -> str:
    known = load_prices(config.prices).has_price(model)
    return f"priced as {model}" if known else f"as {model}, which has no known price"


def check_access(
    config: RunConfig, choice: ModelChoice | None, access: ModelAccess, agent: AgentSource
) -> Backend | None:
    """See that the model can be reached and the agents' sandboxes can be made; what responds as the model.

    Raises:
        UsageError: there is no key, no such preset, no login, no price where there is a budget, or no recording.
        InvalidData: the script, or the table of prices, is broken.
    """
    backend = None
    table = load_prices(config.prices)
    if choice is not None:
        backend = make_backend(choice, access, asked_dialects(choice, agent))
        check_priced(choice, config, table)
        check_recorded(choice, list_trials(config))
    if agent.needs_sandbox:
        SandboxPool(socket_folder() / "s", preset=config.preset, auth_from=access.login).check()
    return backend


def changed_versions(config: RunConfig, agent: AgentSource, benchmark: Benchmark, task: Task) -> list[str]:
    """What is not of the version with which a run was started, each in a sentence."""
    now = {"proctor": VERSION, **agent_factory(agent, config, benchmark)(task).versions()}
    return [
        f"{name} was {config.versions[name]} when the run was started, and is {version} now"
        for name, version in now.items()
        if config.versions.get(name, version) != version
    ]


def check_valid(tasks: Sequence[Task], invalid: Sequence[InvalidTask]) -> list[str]:
    """Which of the selected tasks have broken data, and what is wrong, a line for each reason.

    Raises:
        InvalidData: all of them.
    """
    lines = reason_lines({bad.task_id: "; ".join(bad.problems) for bad in invalid})
    if invalid and not tasks:
        raise InvalidData("no task of those chosen can be used: their data is broken", details=lines)
    return lines


def check_program_unchanged(config: RunConfig, agent: AgentSource, benchmark: Benchmark, task: Task) -> None:
    """See that the user's own program is still what it was when the run was started.

    Raises:
        InfrastructureError: it is not there.
        InvalidData: it is another.
    """
    if not agent.keeps_program:
        return
    now = agent_factory(agent, config, benchmark)(task).versions()
    for name, version in config.versions.items():
        if name.split(" ")[0] == PROGRAM_VERSION_KEY and now.get(name) != version:
            raise InvalidData(
                f"the agent's {name} is not the one that the run was started with",
                where=config.program,
                fix="name that program with --agent-bin, or start a new run",
            )


def check_runnable(missing: Mapping[str, str], wanted: Collection[str]) -> list[str]:
    """Which tasks cannot be run on this machine, and why, a line for each reason.

    Raises:
        InfrastructureError: none of the tasks that are wanted can be run.
    """
    lines = reason_lines(missing)
    if wanted and missing.keys() >= set(wanted):
        raise InfrastructureError("no task of those chosen can be run on this machine", details=lines)
    return lines


async def missing_requirements_by_task(
    benchmark: Benchmark, tasks: Sequence[Task], request: TaskRequest
) -> dict[str, str | None]:
    """Why each task cannot be run here in the environments of this request, by id; None where nothing is missing.

    Raises:
        UsageError: there is no such provider, or the benchmark cannot be run with it at all.
    """
    provider = make_provider(request)
    try:
        reason = await provider.unavailable_reason()
        if reason is not None:
            return {task.id: reason for task in tasks}
        missing = await missing_requirements(
            benchmark, tasks, provider, image=request.image, machine=current_machine(), pull=False
        )
    finally:
        await provider.close()
    return {task.id: missing.get(task.id) for task in tasks}


async def check_gpus(request: RunRequest, provider: EnvironmentProvider) -> None:
    """See that the GPUs that are asked for can be given, before anything is spent.

    Raises:
        InfrastructureError: there are not as many.
    """
    if request.gpus is None:
        return
    there = await provider.gpu_count()
    if there < request.gpus:
        have = f"has {plural(there, 'GPU')} to give" if there else "has no GPUs to give"
        raise InfrastructureError(
            f"--gpus {request.gpus}: the engine of --runner {request.runner} {have}",
            fix="run it where they are, with the NVIDIA container toolkit installed, or leave --gpus out",
        )


async def missing_requirements(
    benchmark: Benchmark,
    tasks: Sequence[Task],
    provider: EnvironmentProvider,
    *,
    image: str | None,
    machine: Machine,
    pull: bool = False,
) -> dict[str, str]:
    """The tasks that cannot be run or graded here, each with the reason.

    An image is pulled only where a program is looked for in it. Without `pull`, none is, and it is not looked into.
    """
    missing: dict[str, str] = {}
    machine = msgspec.structs.replace(machine, gpus=await provider.gpu_count())
    benchmark, options = benchmark.for_provider(provider), GradeOptions(image=image)
    by_image: dict[str, list[str]] = {}
    buildable: set[str] = set()
    for task in tasks:
        why = benchmark.missing_requirement(task, machine, "docker" if provider.uses_images else "local")
        if why is None:
            try:
                spec = benchmark.environment_spec(task, options)
            except InfrastructureError as error:
                why = error.sentence
            else:
                why = await provider.missing_support(spec)
                has_own = provider.uses_images and (spec.image is not None or spec.build is not None)
                required = provider.required_images(spec) if has_own else ()
                for name in required:
                    by_image.setdefault(name, []).append(task.id)
                if spec.build is not None and spec.image in required:
                    buildable.add(task.id)
        if why is not None:
            missing[task.id] = why
    for task_id, why in (await _missing_images(provider, by_image)).items():
        missing[task_id] = f"{why}, or build it with --force-build" if task_id in buildable else why
    rest = [task for task in tasks if task.id not in missing]
    missing |= await missing_environment_requirements(benchmark, rest, provider, options, pull=pull)
    return {task.id: missing[task.id] for task in tasks if task.id in missing}


async def _missing_images(provider: EnvironmentProvider, by_image: dict[str, list[str]]) -> dict[str, str]:
    """The tasks whose images cannot be had. If none of the first few can, the others will not be either."""
    absent = [image for image in by_image if not await provider.is_available(EnvironmentSpec(image=image))]
    reasons = {
        image: await provider.unavailable_reason(EnvironmentSpec(image=image))
        for image in absent[:_MAX_REGISTRY_QUERIES]
    }
    if len(absent) > len(reasons) and all(reasons.values()):
        known = f"none of the {len(reasons)} requested images is available: {reasons[absent[0]]}"
        reasons = dict.fromkeys(absent, f"its image is not on this machine; {known}")
    return {task: why for image, why in reasons.items() if why for task in by_image[image]}


async def environment_digest(
    benchmark: Benchmark,
    tasks: Sequence[Task],
    provider: EnvironmentProvider,
    options: GradeOptions,
    *,
    pull: bool = True,
) -> str:
    """Identifies the programs of the environments, or says that the tasks have images of their own.

    Without `pull`, nothing is pulled to find out.

    Raises:
        InfrastructureError: no such environment can be made.
    """
    if options.image is None and provider.uses_images:
        origins = {
            (spec.image, spec.build) for task in tasks if (spec := _task_image_spec(benchmark, task)) is not None
        }
        if origins:
            count = "one image" if len(origins) == 1 else f"{len(origins)} images"
            return f"{provider.name}: {count} of the tasks"
    spec = EnvironmentSpec(image=options.image)
    if not pull and not await provider.is_available(spec):
        return f"{provider.name}: an image that is not on this machine yet"
    return await provider.digest(spec)


def _task_image_spec(benchmark: Benchmark, task: Task) -> EnvironmentSpec | None:
    """The environment that a task is graded in, where it has an image of its own."""
    try:
        spec = benchmark.environment_spec(task, GradeOptions())
    except InfrastructureError:
        return None  # the error is reported with the task itself
    return spec if spec.image is not None or spec.build is not None else None
