"""Other people's formats: a stored run becomes their files, and their files become a stored run.

Formats register through the entry point group ``proctor.formats``, those of the package like a stranger's. A format
only translates; what is written where, whole or not at all, is decided here.
"""

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path, PurePosixPath
from typing import Final, Protocol

import msgspec

from proctor.core.environment import Limits
from proctor.core.errors import InvalidData, UsageError
from proctor.core.record import Record
from proctor.core.result import Attempt, ModelUsage, TaskResult, Tokens
from proctor.core.run import Budget, JournalEntry, Machine, Mode, RunConfig
from proctor.results.store import RunStore, new_run, summarise

ENTRY_POINT_GROUP: Final = "proctor.formats"


class ExportOptions(Record):
    """What an export may be told.

    Attributes:
        name: what the answers go by in files that name who gave them; None: made from agent and model.
    """

    name: str | None = None


class ExportResult(Record):
    """What an export wrote.

    Attributes:
        files: how many.
        left_out: what the format has no place for, or what the run did not have; a sentence each.
    """

    files: int
    left_out: tuple[str, ...] = ()


class ImportOptions(Record):
    """What the files to be imported do not say about themselves."""

    benchmark: str | None = None
    agent: str | None = None
    model: str | None = None


@dataclass(frozen=True, slots=True)
class ExternalTrial:
    """One answer of somebody else's.

    Attributes:
        result: its outcome; the run's id and the place of its logs are filled in when it is stored.
        files: what is kept in the logs of its attempt, by name: what was handed in, a trajectory, the originals.
    """

    result: TaskResult
    files: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ExternalRun:
    """Somebody else's run: how it was made, as far as that is known, and its answers."""

    config: RunConfig
    trials: Iterable[ExternalTrial]


class Format(Protocol):
    """One format. Where only one way is possible, the other raises a `UsageError` that says why.

    Attributes:
        about: one line for the list of formats.
        suffix: how the name of an exported file ends; empty when an export is a folder.
    """

    about: str
    suffix: str

    def export(self, run: RunStore, target: Path, options: ExportOptions) -> ExportResult:
        """Write the run to `target`, which is not there yet: one file, or a folder. It is called as the user wishes."""
        ...

    def read(self, source: Path, options: ImportOptions) -> ExternalRun:
        """Read somebody's files.

        Raises:
            UsageError: these files do not say enough; says which option does.
            InvalidData: they are not of this format, or are broken; says where.
        """
        ...


def formats() -> dict[str, str]:
    """The formats that this installation knows, each with its line."""
    return {name: _load(entry).about for name, entry in sorted(_entries().items())}


def find_format(name: str) -> Format:
    """A format by its name.

    Raises:
        UsageError: none is called so.
    """
    known = _entries()
    if name not in known:
        raise UsageError(f"there is no format {name!r}", fix=f"choose one of {', '.join(sorted(known))}")
    return _load(known[name])


def export_run(
    run: RunStore, run_format: Format, target: Path, options: ExportOptions, *, replace: bool = False
) -> ExportResult:
    """Export a run; `target` is whole or not there.

    Raises:
        UsageError: something is there already, and `replace` does not say to write over it, or it is more than what
            would be written; or the place cannot be written to.
    """
    if target.exists() and not replace:
        raise UsageError("there is something already", where=target, fix="choose another name, or give --force")
    if not target.parent.is_dir():
        raise UsageError("there is no such folder", where=target.parent, fix="make it first")
    try:
        draft = tempfile.TemporaryDirectory(prefix=".export-", dir=target.parent)
    except OSError as error:
        raise UsageError(f"nothing can be written there: {error.strerror}", where=target.parent) from error
    with draft as folder:
        written = Path(folder, "new", target.name)
        written.parent.mkdir()
        exported = run_format.export(run, written, options)
        if target.exists():
            _check_replaceable(target, written)
            target.rename(Path(folder, "old"))
        written.rename(target)
    return msgspec.structs.replace(exported, left_out=(*_missing_trials(run), *exported.left_out))


def _missing_trials(run: RunStore) -> Iterator[str]:
    config = run.config()
    left = len(config.tasks) * config.trials - sum(1 for _ in run.result_files())
    if left > 0:
        yield f"{left} {'answer' if left == 1 else 'answers'} that the run was asked for and has not recorded"


def _check_replaceable(target: Path, written: Path) -> None:
    """Whoever says --force wants the last export gone, and nothing else: not a home folder, not a device."""
    advice = "remove it yourself, or choose another name"
    if target.is_dir() != written.is_dir() or not (target.is_dir() or target.is_file()):
        raise UsageError("what is there is of another kind than the export", where=target, fix=advice)
    if target.is_dir():
        new = _files_below(written)
        strange = next((file for file in _files_below(target) if file not in new), None)
        if strange is not None:
            raise UsageError(f"{strange} is there, and not in the export", where=target, fix=advice)


def _files_below(folder: Path) -> dict[str, None]:
    """Everything below a folder that is not a folder, by its place."""
    return {
        Path(parent, name).relative_to(folder).as_posix(): None
        for parent, _, files in os.walk(folder)
        for name in files
    }


def import_run(imported: ExternalRun, *, root: Path | None = None) -> RunStore:
    """Store somebody else's run as one of ours. It becomes a run with its configuration, which is written last.

    Raises:
        InvalidData: an answer is there twice, or wants a file that is not below its logs.
    """
    store = new_run(imported.config.benchmark, root=root)
    try:
        results = [_store_trial(store, answer) for answer in imported.trials]
        config = msgspec.structs.replace(
            imported.config,
            run_id=store.run_id,
            tasks=tuple(sorted({result.task_id for result in results})),
            trials=max((result.trial for result in results), default=1),
        )
        store.journal.write_bytes(b"".join(_journal_line(result) for result in results))
        store.write_summary(summarise(config, results))
        store.write_config(config)
    except BaseException:
        shutil.rmtree(store.folder, ignore_errors=True)
        raise
    return store


def external_config(
    *,
    benchmark: str,
    origin: str,
    agent: str,
    model: str | None = None,
    versions: Mapping[str, str] | None = None,
    created_at: str | None = None,
    concurrency: int = 1,
    limits: Limits | None = None,
    runner: str = "elsewhere",
    data_digest: str = "",
) -> RunConfig:
    """The configuration of a run that was not made here: what is unknown is empty, and the origin says so.

    The run's id, its tasks and the number of samples are filled in when it is stored.
    """
    return RunConfig(
        run_id="",
        benchmark=benchmark,
        source=origin,
        mode=Mode.BASELINE,
        agent=agent,
        command=(),
        model=model,
        preset="",
        pod_template=None,
        variables={},
        runner=runner,
        image=None,
        isolation=True,
        network=None,
        trials=1,
        concurrency=concurrency,
        grade_concurrency=1,
        limits=limits or Limits(),
        max_turns=0,
        budget=Budget(),
        tasks=(),
        excluded=(),
        data_digest=data_digest,
        versions=dict(versions or {}),
        machine=Machine(platform="", python="", cpus=0, memory_mb=0),
        created_at=created_at or datetime.now(UTC).isoformat(timespec="milliseconds"),
        origin=origin,
    )


def unknown_usage(model: str | None = None) -> tuple[ModelUsage, ...]:
    """What an answer used if nobody says what: its cost is not known, which is not the same as none."""
    return (ModelUsage(model=model or "unknown", requests=0, tokens=Tokens(), cost_usd=None),)


def _store_trial(store: RunStore, trial: ExternalTrial) -> TaskResult:
    result = trial.result
    number = max((attempt.number for attempt in result.attempts), default=1)
    logs = store.logs(result.task_id, result.trial, number)
    for name, content in trial.files.items():
        parts = PurePosixPath(name).parts
        if not parts or ".." in parts or name.startswith("/") or "\0" in name:
            raise InvalidData(f"{name!r} is no name for a file below the logs", where=result.task_id)
        file = logs.joinpath(*parts)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    stored = msgspec.structs.replace(
        result,
        run_id=store.run_id,
        attempts=tuple(_with_local_logs(store, result, attempt) for attempt in result.attempts),
    )
    file = store.result_file(result.task_id, result.trial)
    if file.exists():
        raise InvalidData(f"there are two results of one answer to task {result.task_id!r}")
    store.write_result(stored)
    return stored


def _with_local_logs(store: RunStore, result: TaskResult, attempt: Attempt) -> Attempt:
    logs = store.logs(result.task_id, result.trial, attempt.number).relative_to(store.folder)
    return msgspec.structs.replace(attempt, logs=logs.as_posix())


def _journal_line(result: TaskResult) -> bytes:
    last = result.attempts[-1] if result.attempts else None
    entry = JournalEntry(
        at=last.ended_at if last else "",
        task_id=result.task_id,
        trial=result.trial,
        attempt=last.number if last else 1,
        stage="recorded",
        cause=result.cause,
    )
    return msgspec.json.encode(entry) + b"\n"


def _entries() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=ENTRY_POINT_GROUP)}


def _load(entry: EntryPoint) -> Format:
    made: Format = entry.load()()
    return made


def count_files(target: Path) -> int:
    """How many files an export holds."""
    return 1 if target.is_file() else sum(len(files) for _, _, files in os.walk(target))
