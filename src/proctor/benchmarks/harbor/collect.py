"""What happens between the agent and the verifier: what runs ends, commands of `collect` run, artifacts are copied."""

from pathlib import Path
from typing import Final, NamedTuple

from proctor.benchmarks.harbor.artifacts import ArtifactFolders, CollectedArtifact, StepSubmission, copy_artifacts
from proctor.benchmarks.harbor.preparation import as_user, user_of
from proctor.benchmarks.harbor.task import MAIN_SERVICE, CollectCommand, HarborStep, HarborTask
from proctor.core.environment import Environment
from proctor.core.errors import InfrastructureError
from proctor.core.verdict import Finding
from proctor.grading.finding_codes import EnvironmentCode
from proctor.grading.state import LeftoverPolicy, ShellResult, find_leftovers, kill_processes, list_processes
from proctor.grading.state.snapshot import EnvironmentSnapshot, read_small_file

_MAX_ROUNDS: Final = 4
_MAX_OUTPUT: Final = 4_000


class KeptBefore(NamedTuple):
    """What is known of a machine from before the agent worked on it."""

    snapshot: EnvironmentSnapshot
    folders: ArtifactFolders


async def collect_shared(
    step: HarborStep, environment: Environment, before: EnvironmentSnapshot
) -> tuple[Finding, ...]:
    """Run the commands of `collect` before a verifier where the agent worked; what stands against the machine."""
    if not step.verifier.collect:
        return ()
    findings = await end_leftovers(environment, before, LeftoverPolicy.SERVICES)
    for is_main in (True, False):
        await _run_commands(step, environment, is_main=is_main)
    return findings


async def end_leftovers(
    environment: Environment, before: EnvironmentSnapshot, policy: LeftoverPolicy
) -> tuple[Finding, ...]:
    """End what the agent has left running: it must change nothing after its time.

    A machine on which no command can be run is the agent's doing; its files can be copied out all the same.

    Raises:
        InfrastructureError: the environment is gone.
    """
    try:
        for _ in range(_MAX_ROUNDS):
            listed = await list_processes(environment, before.path)
            own, others = find_leftovers(listed, before.processes, policy)
            if not own and not others:
                break
            await kill_processes(environment, (*own, *others))
    except InfrastructureError:
        if await read_small_file(environment, "/etc/passwd") is None:
            raise
        code = EnvironmentCode.COMMANDS_BLOCKED
        return (Finding(code=code.value, path="", detail=code.meaning),)
    return ()


async def collect_step(
    task: HarborTask, step: HarborStep, environment: Environment, trees: Path, kept: KeptBefore
) -> StepSubmission:
    """Run the commands of `collect`, then copy the artifacts out: first of the agent's container, then of others.

    The agent's services stay for the commands in its container, and for another step. After the last one they end
    before anything is copied: other services are asked when nothing of the agent's runs, as in Harbor.

    Raises:
        LimitReached: the artifacts are larger than allowed.
        InfrastructureError: the environment is gone.
    """
    artifacts = task.artifacts_of(step)
    of_others = tuple(one.source for one in artifacts if one.service != MAIN_SERVICE)
    is_last = step is task.steps[-1]
    findings: list[Finding] = []
    if not is_last or any(one.service == MAIN_SERVICE for one in step.verifier.collect):
        findings += await end_leftovers(environment, kept.snapshot, LeftoverPolicy.SERVICES)
    done: list[ShellResult] = []
    made: list[CollectedArtifact] = []
    for is_main in (True, False):
        done += await _run_commands(step, environment, is_main=is_main)
        if is_main and is_last:
            findings += await end_leftovers(environment, kept.snapshot, LeftoverPolicy.END)
        chosen = tuple(one for one in artifacts if (one.service == MAIN_SERVICE) is is_main)
        copied, found = await copy_artifacts(
            environment,
            chosen,
            trees,
            f"step{task.steps.index(step)}-{'main' if is_main else 'other'}-",
            of_others=of_others if is_main else (),
            folders=kept.folders,
        )
        made += copied
        findings += found
    return StepSubmission(
        name=step.name,
        artifacts=tuple(made),
        findings=tuple(dict.fromkeys(findings)),
        collected=tuple(done),
        refused_hosts=environment.refused_hosts,
    )


async def _run_commands(step: HarborStep, environment: Environment, *, is_main: bool) -> list[ShellResult]:
    """How the commands of `collect` ended: those of the agent's container, or those of the other services."""
    commands = [one for one in step.verifier.collect if (one.service == MAIN_SERVICE) is is_main]
    return [await _run_collect(environment, command) for command in commands]


async def _run_collect(environment: Environment, command: CollectCommand) -> ShellResult:
    """Its failure is noted and stops nothing, as in Harbor; other services than the agent's may have no bash."""
    try:
        if command.service == MAIN_SERVICE:
            who = as_user(await user_of(environment, command.user))
            ran = await environment.exec(["bash", "-c", command.command], timeout=command.timeout_sec, **who)
        else:
            service = environment.service(command.service)
            ran = await service.exec(["sh", "-c", command.command], timeout=command.timeout_sec, user=command.user)
    except InfrastructureError as error:
        return ShellResult(exit_code=127, stdout="", stderr=str(error), seconds=0.0)
    return ShellResult(
        exit_code=ran.exit_code,
        stdout=ran.stdout.decode("utf-8", "replace")[:_MAX_OUTPUT],
        stderr=ran.stderr.decode("utf-8", "replace")[:_MAX_OUTPUT],
        seconds=ran.seconds,
        timed_out=ran.timed_out,
    )
