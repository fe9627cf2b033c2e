"""What benchmarks have in common whose answer is a machine's state: rooms in which a script, or nobody, has worked."""

import asyncio
import hashlib
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import msgspec

from proctor.core.benchmark import Benchmark, GradingContext, TaskHealth
from proctor.core.causes import Cause, Status
from proctor.core.environment import Environment, EnvironmentProvider
from proctor.core.errors import InfrastructureError, UsageError
from proctor.core.evaluation import Prediction, TaskEvaluation
from proctor.core.submission import PatchKind
from proctor.core.task import Task
from proctor.core.verdict import Verdict

# As an agent would: in a shell of its own, with no copy of the script left behind.
_RUN_SCRIPT: Final = """
script=$(mktemp) && trap 'rm -f "$script"' EXIT && cat >"$script" || exit 1
"$(command -v bash || command -v sh)" "$script" </dev/null
"""
_DEFAULT_SECONDS: Final = 7200.0
_SHARED_SYSTEM_PREFIXES: Final = ("local:", "plain:")


Observe = Callable[[Task, Environment, Path], Awaitable[Prediction]]


def require_machine(environment: Environment, name: str) -> None:
    """Refuse a room that is no machine of its own.

    Raises:
        InfrastructureError: it shows this computer's own system, where nothing can be installed.
    """
    if environment.digest.startswith(_SHARED_SYSTEM_PREFIXES):
        raise no_machine_error(name)


async def state_after(
    benchmark: Benchmark, task: Task, script: bytes | None, context: GradingContext, observe: Observe
) -> tuple[Prediction, str]:
    """What the grader sees of a fresh room after the script has worked in it, or nobody; and how the script ended.

    Raises:
        InfrastructureError: no such room can be made here.
    """
    _require_containers(context.provider, benchmark.name)
    with tempfile.TemporaryDirectory(prefix="proctor-state-") as scratch:
        folder = Path(scratch)
        spec = await benchmark.prepare(task, folder)
        spec = msgspec.structs.replace(
            spec,
            image=context.options.image or spec.image,
            build=None if context.options.image else spec.build,
            limits=msgspec.structs.replace(task.public.limits, wall_seconds=None),
            labels={**spec.labels, "task": task.id},
        )
        async with await context.provider.start(spec) as room:
            said = "nobody has worked on it"
            async with benchmark.serve(task, room, folder):
                if script is not None:
                    seconds = task.public.limits.wall_seconds or _DEFAULT_SECONDS
                    done = await room.exec(["/bin/sh", "-c", _RUN_SCRIPT], stdin=script, timeout=seconds)
                    said = f"the script ended with {done.exit_code} after {done.seconds:.1f} s"
                    await asyncio.to_thread(_write_script_output, context, task, done.stdout, done.stderr)
            return await observe(task, room, folder), said


async def grade_state(
    benchmark: Benchmark,
    task: Task,
    prediction: Prediction,
    context: GradingContext,
    *,
    observe: Observe,
    judge: Callable[[bytes], Verdict],
) -> TaskEvaluation:
    """Judge what was seen of a room; or see what a script makes of a fresh one.

    Raises:
        UsageError: an answer is neither.
    """
    if prediction.patch_kind is PatchKind.SHELL_SCRIPT:
        return await _grade_script(benchmark, task, prediction, context, observe)
    if prediction.patch_kind is not PatchKind.STATE:
        raise UsageError(
            f"an answer to {task.id} is a machine's state, not a {prediction.patch_kind.value}",
            fix="hand in a shell script that does what is asked",
        )
    return TaskEvaluation(
        task_id=task.id,
        verdict=judge(prediction.content),
        tags=task.tags,
        model=prediction.model,
        patch_kind=PatchKind.STATE,
        patch_sha256=hashlib.sha256(prediction.content).hexdigest(),
    )


async def _grade_script(
    benchmark: Benchmark, task: Task, prediction: Prediction, context: GradingContext, observe: Observe
) -> TaskEvaluation:
    """Grade the state that a script brings a fresh room into."""
    state, said = await state_after(benchmark, task, prediction.content, context, observe)
    evaluated = await benchmark.grade(task, state, context)
    return msgspec.structs.replace(
        evaluated, notes=(*evaluated.notes, said), model=prediction.model, patch_kind=PatchKind.SHELL_SCRIPT
    )


async def check_state_health(benchmark: Benchmark, task: Task, context: GradingContext, observe: Observe) -> TaskHealth:
    """Nothing fails, and the reference answer, where there is one, passes as often as it is tried."""
    before = await _verdict_after(benchmark, task, None, context, observe)
    gold = benchmark.oracle(task)
    runs = 0 if gold is None else context.options.determinism_runs or 2
    after = [
        await _verdict_after(benchmark, task, gold.content if gold else None, context, observe) for _ in range(runs)
    ]
    problems = []
    if before.status is not Status.UNRESOLVED:
        problems.append(f"an untouched room is {before.status.value}: {before.reason}")
    solved = all(verdict.status is Status.RESOLVED for verdict in after)
    same = len({verdict.status for verdict in after}) <= 1
    if not solved:
        problems.append(f"the reference answer is not resolved: {after[0].reason}")
    if not same:
        problems.append("the reference answer does not always end alike")
    return TaskHealth(
        task_id=task.id,
        environment=context.provider.name,
        healthy=not problems,
        pre_patch_ok=before.status is Status.UNRESOLVED,
        oracle_ok=solved,
        determinism_ok=same,
        problems=tuple(problems),
    )


def state_prediction(task: Task, evidence: bytes) -> Prediction:
    """What was seen of a room, as what the attempt hands in."""
    return Prediction(task_id=task.id, patch_kind=PatchKind.STATE, content=evidence)


async def _verdict_after(
    benchmark: Benchmark, task: Task, script: bytes | None, context: GradingContext, observe: Observe
) -> Verdict:
    seen, _ = await state_after(benchmark, task, script, context, observe)
    return (await benchmark.grade(task, seen, context)).verdict


def _require_containers(provider: EnvironmentProvider, name: str) -> None:
    if provider.name == "local":
        raise no_machine_error(name)


def no_machine_error(name: str) -> InfrastructureError:
    """The error that rooms which show this computer's own system are refused with."""
    return InfrastructureError(
        f"tasks of {name} need a machine of their own to be root of",
        fix="use --runner docker",
        cause=Cause.NOT_RUNNABLE_HERE,
    )


def _write_script_output(context: GradingContext, task: Task, stdout: bytes, stderr: bytes) -> None:
    folder = context.folder / task.id.replace("/", "__")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "script.out").write_bytes(stdout)
    (folder / "script.err").write_bytes(stderr)
