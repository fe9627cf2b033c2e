"""Import and export: formats of other tools.

Formats are registered through the entry point group ``proctor.formats``, the built-in ones too. A format converts; this
module decides what is written where, and that it is whole or not there.
"""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import EntryPoint
from pathlib import Path, PurePosixPath
from typing import Final

import msgspec

from proctor.core.benchmark import Benchmark, TaskHealth
from proctor.core.errors import InvalidData, UsageError
from proctor.core.evaluation import EvaluationReport
from proctor.core.machine import Machine
from proctor.core.plugins import entry_points
from proctor.core.record import Record, time_now
from proctor.core.result import Attempt, ModelUsage, TaskResult, Tokens
from proctor.core.run import JournalEntry, RunConfig
from proctor.core.task import Task
from proctor.results.run_names import new_run
from proctor.results.store import RunStore, summarise

ENTRY_POINT_GROUP: Final = "proctor.formats"


class ExportOptions(Record):
    """Options of an export.

    Attributes:
        name: the name of the submitter in files that have one; None: agent and model.
        image: what the images of tasks are built on, where a suite does not name it.
    """

    name: str | None = None
    image: str | None = None


class ExportResult(Record):
    """What an export wrote.

    Attributes:
        files: how many.
        left_out: what the format cannot hold, or the run does not have; a sentence each.
    """

    files: int
    left_out: tuple[str, ...] = ()


class ImportOptions(Record):
    """What the imported files do not contain."""

    benchmark: str | None = None
    agent: str | None = None
    model: str | None = None


@dataclass(frozen=True, slots=True)
class ExternalTrial:
    """One trial of an imported run.

    Attributes:
        result: its result; the run's id and the path of its logs are set when it is stored.
        files: the files for the logs of its attempt, by name: the submission, a trajectory, the originals.
    """

    result: TaskResult
    files: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ExternalRun:
    """A run to be imported: its configuration, as far as it is known, and its trials."""

    config: RunConfig
    trials: Iterable[ExternalTrial]


class EvaluationDocument(Record):
    """An evaluation as another tool reports it; `errors` are the tasks that this tool counts as errors."""

    data: bytes
    errors: int


class Format:
    """One format. Where only import or only export is possible, the other raises a `UsageError` that says why.

    Attributes:
        about: one line for the list of formats.
        suffix: how the name of an exported file ends; empty when an export is a folder.
        report_schemas: the `schema_version` of evaluation reports that `read_report` reads; the first is the report's.
        exports_tasks: it is for the tasks of a suite, not for runs.
        prints_documents: it has the documents that `bench eval`, `list` and `validate` print with `--format`.
    """

    about: str
    suffix: str = ""
    report_schemas: tuple[str, ...] = ()
    exports_tasks: bool = False
    prints_documents: bool = False

    def export_tasks(self, suite: str, target: Path, options: ExportOptions) -> ExportResult:
        """Write the tasks of a suite, by its path or name, to `target`, which does not exist yet."""
        raise NotImplementedError

    def export(self, run: RunStore, target: Path, options: ExportOptions) -> ExportResult:
        """Write the run to `target`, which does not exist yet: one file, or a folder."""
        raise NotImplementedError

    def read(self, source: Path, options: ImportOptions) -> ExternalRun:
        """Read a run.

        Raises:
            UsageError: something is missing in the files; names the option that gives it.
            InvalidData: they are not of this format, or are broken; says where.
        """
        raise NotImplementedError

    def read_report(self, data: bytes) -> EvaluationReport:
        """Read another tool's evaluation report, of one of `report_schemas`.

        Raises:
            InvalidData: it is not one.
        """
        raise NotImplementedError

    def evaluation_document(self, benchmark: Benchmark, report: EvaluationReport) -> EvaluationDocument:
        """An evaluation, as the format's own tool prints it."""
        raise NotImplementedError

    def task_list_document(self, benchmark: Benchmark, tasks: Sequence[Task]) -> bytes:
        """A list of tasks, as the format's own tool prints it."""
        raise NotImplementedError

    def health_document(self, benchmark: Benchmark, healths: Sequence[TaskHealth], seconds: float) -> bytes:
        """The health of tasks, as the format's own tool prints it; `seconds` is how long it took to learn."""
        raise NotImplementedError


def formats() -> dict[str, str]:
    """The installed formats, each with its description."""
    return {name: _load(entry).about for name, entry in sorted(_entries().items())}


def find_format(name: str) -> Format:
    """A format by its name.

    Raises:
        UsageError: there is none of this name.
    """
    known = _entries()
    if name not in known:
        raise UsageError(f"there is no format {name!r}", fix=f"choose one of {', '.join(sorted(known))}")
    return _load(known[name])


def format_of_report(schema_version: str) -> Format | None:
    """The format that reads evaluation reports of this version."""
    made = (_load(entry) for entry in _entries().values())
    return next((one for one in made if schema_version in one.report_schemas), None)


def export_run(
    run: RunStore, run_format: Format, target: Path, options: ExportOptions, *, replace: bool = False
) -> ExportResult:
    """Export a run; `target` is whole or not there.

    Raises:
        UsageError: `target` exists and `replace` is not set, or it contains more than the export; or it cannot be
            written.
    """
    exported = _write_whole(partial(run_format.export, run, options=options), target, replace=replace)
    return msgspec.structs.replace(exported, left_out=(*_missing_trials(run), *exported.left_out))


def export_suite(
    suite: str, tasks_format: Format, target: Path, options: ExportOptions, *, replace: bool = False
) -> ExportResult:
    """Export the tasks of a suite; `target` is whole or not there.

    Raises:
        UsageError: as of `export_run`.
        InvalidData: there is no such suite.
    """
    return _write_whole(partial(tasks_format.export_tasks, suite, options=options), target, replace=replace)


def _write_whole(write: Callable[..., ExportResult], target: Path, *, replace: bool) -> ExportResult:
    if target.exists() and not replace:
        raise UsageError("it exists already", where=target, fix="choose another name, or give --force")
    if not target.parent.is_dir():
        raise UsageError("there is no such folder", where=target.parent, fix="make it first")
    try:
        draft = tempfile.TemporaryDirectory(prefix=".export-", dir=target.parent)
    except OSError as error:
        raise UsageError(f"nothing can be written there: {error.strerror}", where=target.parent) from error
    with draft as folder:
        written = Path(folder, "new", target.name)
        written.parent.mkdir()
        exported = write(target=written)
        if target.exists():
            _check_replaceable(target, written)
            target.rename(Path(folder, "old"))
        written.rename(target)
    return exported


def _missing_trials(run: RunStore) -> Iterator[str]:
    config = run.config()
    left = len(config.tasks) * config.trials - sum(1 for _ in run.result_files())
    if left > 0:
        yield f"{left} {'trial' if left == 1 else 'trials'} that the run has not recorded"


def _check_replaceable(target: Path, written: Path) -> None:
    """--force replaces an earlier export, and nothing else: not a home folder, not a device."""
    advice = "remove it yourself, or choose another name"
    if target.is_dir() != written.is_dir() or not (target.is_dir() or target.is_file()):
        raise UsageError("it is not an earlier export: one is a file, the other a folder", where=target, fix=advice)
    if target.is_dir():
        new = _files_below(written)
        foreign = next((file for file in _files_below(target) if file not in new), None)
        if foreign is not None:
            raise UsageError(f"it contains {foreign}, which is not part of the export", where=target, fix=advice)


def _files_below(folder: Path) -> dict[str, None]:
    """Everything below a folder that is not a folder, by its relative path."""
    return {
        Path(parent, name).relative_to(folder).as_posix(): None
        for parent, _, files in os.walk(folder)
        for name in files
    }


def import_run(imported: ExternalRun, *, root: Path | None = None) -> RunStore:
    """Store an imported run. Its configuration, which makes it a run, is written last.

    Raises:
        InvalidData: a trial occurs twice, or has a file that is not below its logs.
    """
    store = new_run(imported.config.benchmark, root=root)
    try:
        results = [_store_trial(store, trial) for trial in imported.trials]
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
    runner: str = "elsewhere",
    data_digest: str = "",
) -> RunConfig:
    """The configuration of an imported run: what is unknown is empty.

    The run's id, its tasks and the number of trials are set when it is stored.
    """
    return RunConfig(
        run_id="",
        benchmark=benchmark,
        source=origin,
        agent=agent,
        model=model,
        preset="",
        runner=runner,
        grade_concurrency=1,
        max_turns=0,
        data_digest=data_digest,
        versions=dict(versions or {}),
        machine=Machine(platform="", python="", cpus=0, memory_mb=0),
        created_at=created_at or time_now(),
        origin=origin,
    )


def unknown_usage(model: str | None = None) -> tuple[ModelUsage, ...]:
    """Unknown usage: the cost is None, not zero."""
    return (ModelUsage(model=model or "unknown", requests=0, tokens=Tokens(), cost_usd=None),)


def _store_trial(store: RunStore, trial: ExternalTrial) -> TaskResult:
    result = trial.result
    number = max((attempt.number for attempt in result.attempts), default=1)
    logs = store.logs(result.task_id, result.trial, number)
    for name, content in trial.files.items():
        parts = PurePosixPath(name).parts
        if not parts or ".." in parts or name.startswith("/") or "\0" in name:
            raise InvalidData(f"{name!r} is not a path below the logs", where=result.task_id)
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
        raise InvalidData(f"trial {result.trial} of task {result.task_id!r} occurs twice")
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
    return {entry.name: entry for entry in entry_points(ENTRY_POINT_GROUP)}


def _load(entry: EntryPoint) -> Format:
    loaded: Format = entry.load()()
    return loaded


def count_files(target: Path) -> int:
    """The number of files of an export."""
    return 1 if target.is_file() else sum(len(files) for _, _, files in os.walk(target))
