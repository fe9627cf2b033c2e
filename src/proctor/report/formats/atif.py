"""The trajectories of a run as ATIF files, and ATIF files as a run."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from proctor.core.causes import Cause, Status
from proctor.core.disk_names import disk_name
from proctor.core.errors import InvalidData, UsageError
from proctor.core.result import AgentMetrics, Attempt, ModelUsage, TaskResult
from proctor.core.run import RunConfig
from proctor.core.trajectory import Step, Trajectory, sum_steps
from proctor.report.trajectories import ATIF_FILE, from_atif, read_trajectory, to_atif
from proctor.results import RunStore
from proctor.results.formats import (
    ExportOptions,
    ExportResult,
    ExternalRun,
    ExternalTrial,
    Format,
    ImportOptions,
    external_config,
)

_SUFFIX: Final = ".json"


class AtifFormat(Format):
    """A folder with one file for each answer."""

    about = "trajectories for other viewers: ATIF, one file for each answer"
    suffix = ""

    def export(self, run: RunStore, target: Path, options: ExportOptions) -> ExportResult:  # noqa: ARG002 - no name in it
        """Write the trajectory of every answer's last attempt."""
        target.mkdir()
        config, files, left_out = run.config(), 0, list[str]()
        for result in run.results():
            known = len(left_out)
            trajectory = readable_trajectory(run, config, result, left_out)
            if trajectory is None:
                if len(left_out) == known:
                    left_out.append(f"{result.task_id}: nothing was kept of what its agent did")
                continue
            sample = "" if result.trial == 1 else f"~{result.trial}"
            file = target / f"{disk_name(result.task_id)}{sample}{_SUFFIX}"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(to_atif(trajectory))
            files += 1
        return ExportResult(files=files, left_out=tuple(left_out))

    def read(self, source: Path, options: ImportOptions) -> ExternalRun:
        """Read one file, or every file in a folder. A trajectory says what was done, not whether it was right."""
        if options.benchmark is None:
            raise UsageError("a trajectory does not say of which benchmark its task is", fix="give --benchmark BENCH")
        files = sorted(source.rglob(f"*{_SUFFIX}")) if source.is_dir() else [source]
        if not files:
            raise InvalidData("there is no trajectory here", where=source)
        first = _read(files[0])
        config = external_config(
            benchmark=options.benchmark,
            origin=str(source),
            agent=options.agent or first.agent,
            model=options.model or first.model,
            versions={first.agent: first.version} if first.version else {},
        )
        return ExternalRun(config, _imported_trials(files, options.benchmark))


def trial_trajectory(run: RunStore, config: RunConfig, result: TaskResult) -> Trajectory | None:
    """What was done at the attempt that decided an answer."""
    if not result.attempts:
        return None
    version = agent_version(config)
    logs = run.folder / result.attempts[-1].logs
    return read_trajectory(logs, task_id=result.task_id, agent=config.agent, version=version)


def readable_trajectory(run: RunStore, config: RunConfig, result: TaskResult, left_out: list[str]) -> Trajectory | None:
    """The same, if there is anything in it. One that is broken costs itself, not the whole export, and is named."""
    try:
        trajectory = trial_trajectory(run, config, result)
    except InvalidData as error:
        left_out.append(f"{result.task_id}: what its agent did cannot be read: {error.sentence}")
        return None
    return trajectory if trajectory is not None and trajectory.steps else None


def agent_version(config: RunConfig) -> str:
    """The version of the program that answered; empty when the run does not say."""
    ours = {"proctor", "environment", "harbor"}
    own = {name: version for name, version in config.versions.items() if name not in ours}
    return own.get(config.agent) or next(iter(own.values()), "")


def _read(file: Path) -> Trajectory:
    try:
        data = file.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read it: {error.strerror}", where=file) from error
    return from_atif(data, task_id=_task_id_from_path(file), where=file)


def _task_id_from_path(file: Path) -> str:
    """What a file that does not say is about: its name, or where that is the same for all, that of its folder."""
    if file.name != ATIF_FILE:
        return file.stem
    folder = file.absolute().parent
    return folder.parent.name if folder.name == "agent" else folder.name


def _imported_trials(files: list[Path], benchmark: str) -> Iterator[ExternalTrial]:
    samples: dict[str, int] = {}
    for file in files:
        trajectory = _read(file)
        sample = samples[trajectory.task_id] = samples.get(trajectory.task_id, 0) + 1
        times = [step.at for step in trajectory.steps if step.at]
        usage = trajectory_usage(trajectory)
        attempt = Attempt(
            number=1,
            started_at=min(times, default=""),
            ended_at=max(times, default=""),
            cause=Cause.NO_SUBMISSION,
            detail="only its trajectory was imported",
            logs="",
            usage=usage,
        )
        result = TaskResult(
            run_id="",
            benchmark=benchmark,
            task_id=trajectory.task_id,
            trial=sample,
            status=Status.SKIPPED,
            cause=Cause.NO_SUBMISSION,
            verdict=None,
            attempts=(attempt,),
            usage=usage,
            metrics=trajectory_metrics(trajectory),
            agent_seconds=0.0,
            grade_seconds=0.0,
            categories={},
        )
        yield ExternalTrial(result, {ATIF_FILE: file.read_bytes()})


def trajectory_usage(trajectory: Trajectory) -> tuple[ModelUsage, ...]:
    """What each model was asked for, as the steps say."""
    by_model: dict[str, list[Step]] = {}
    for step in trajectory.steps:
        if step.source == "agent":
            by_model.setdefault(step.model or "unknown", []).append(step)
    return tuple(
        ModelUsage(model=model, requests=len(steps), tokens=totals.tokens, cost_usd=totals.cost_usd)
        for model, steps in sorted(by_model.items())
        for totals in [sum_steps(steps)]
    )


def trajectory_metrics(trajectory: Trajectory) -> AgentMetrics:
    """How many turns and calls there were."""
    return AgentMetrics(
        agents=max(1, len({lane.agent for lane in trajectory.lanes})),
        turns=sum(step.source == "agent" for step in trajectory.steps),
        steps=sum(len(step.calls) for step in trajectory.steps),
        compactions=sum(step.kind == "compaction" for step in trajectory.steps),
    )
