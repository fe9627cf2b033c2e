"""The trajectories of a run as ATIF files, and ATIF files as a run; `report.trajectories.atif` has the format."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from proctor.core.causes import Cause, Status
from proctor.core.disk_names import disk_name
from proctor.core.errors import InvalidData, UsageError
from proctor.core.record import read_bytes
from proctor.core.result import Attempt, TaskResult
from proctor.core.trajectory import Trajectory
from proctor.report.trajectories import (
    ATIF_FILE,
    from_atif,
    readable_trajectory,
    to_atif,
    trajectory_metrics,
    trajectory_usage,
)
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
    """A folder with one file per trial."""

    about = "trajectories for other viewers: ATIF, one file per trial"
    suffix = ""

    def export(self, run: RunStore, target: Path, options: ExportOptions) -> ExportResult:
        """Write the trajectory of every trial's last attempt."""
        target.mkdir()
        config, files, left_out = run.config(), 0, list[str]()
        for result in run.results():
            problems: list[str] = []
            trajectory = readable_trajectory(run, config, result, problems)
            if trajectory is None:
                left_out += problems or [f"{result.task_id}: no trajectory was stored"]
                continue
            trial = "" if result.trial == 1 else f"~{result.trial}"
            file = target / f"{disk_name(result.task_id)}{trial}{_SUFFIX}"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(to_atif(trajectory))
            files += 1
        return ExportResult(files=files, left_out=tuple(left_out))

    def read(self, source: Path, options: ImportOptions) -> ExternalRun:
        """Read one file, or every file in a folder. A trajectory has no verdict: the trials are not graded."""
        if options.benchmark is None:
            raise UsageError("a trajectory does not name the benchmark of its task", fix="give --benchmark BENCH")
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


def _read(file: Path) -> Trajectory:
    return from_atif(read_bytes(file), task_id=_task_id_from_path(file), where=file)


def _task_id_from_path(file: Path) -> str:
    """The task of a file that does not name it: the file's name, or where all have the same name, the folder's."""
    if file.name != ATIF_FILE:
        return file.stem
    folder = file.absolute().parent
    return folder.parent.name if folder.name == "agent" else folder.name


def _imported_trials(files: list[Path], benchmark: str) -> Iterator[ExternalTrial]:
    trials: Counter[str] = Counter()
    for file in files:
        trajectory = _read(file)
        trials[trajectory.task_id] += 1
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
            trial=trials[trajectory.task_id],
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
        yield ExternalTrial(result, {ATIF_FILE: read_bytes(file)})
