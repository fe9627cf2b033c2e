"""Runs on disk: ``results/<benchmark>/<run-id>/{config,summary}.json, journal.jsonl, trials/, logs/``.

Version 1 stored results in ``tasks/`` and called the second trial of a task ``<task>~2``, which is now ``<task>.2``. A
run of version 1 keeps its names, also when it is resumed.
"""

import errno
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from proctor.core.causes import Cause, Status
from proctor.core.disk_names import disk_name
from proctor.core.errors import InvalidData, UsageError
from proctor.core.files import file_lock, write_atomic
from proctor.core.formatting import plural
from proctor.core.record import Record, read_record, to_json
from proctor.core.result import ModelUsage, TaskResult, estimated_cost, sum_costs, usage_cost
from proctor.core.run import JournalEntry, RunConfig, RunSummary
from proctor.core.user_files import MAX_BYTES

CONFIG_FILE: Final = "config.json"
SUMMARY_FILE: Final = "summary.json"
JOURNAL_FILE: Final = "journal.jsonl"
_CONFIG_LOCK: Final = ".config.lock"
_TRIALS_DIR: Final = "trials"
_VERSION_1_TRIALS_DIR: Final = "tasks"
_NUMBER: Final = re.compile(r"\.(?=\d+$)")
T = TypeVar("T", bound=Record)


_chosen_root: Final[ContextVar[Path | None]] = ContextVar("results_root", default=None)


def results_root() -> Path:
    """Where runs are stored: as chosen by the command, PROCTOR_RESULTS, or ``results`` in the current folder."""
    return (_chosen_root.get() or Path(os.environ.get("PROCTOR_RESULTS") or "results")).absolute()


@contextmanager
def use_results(folder: Path) -> Iterator[None]:
    """Store and look for runs there, in the block and in the tasks and threads that it starts."""
    token = _chosen_root.set(folder)
    try:
        yield
    finally:
        _chosen_root.reset(token)


class CountedResult(NamedTuple):
    """What a summary counts of a result."""

    task_id: str
    status: Status
    cause: Cause
    agent_seconds: float
    usage: tuple[ModelUsage, ...]


def counted(result: TaskResult) -> CountedResult:
    """The part of a result that a summary counts."""
    return CountedResult(result.task_id, result.status, result.cause, result.agent_seconds, result.usage)


class RunStore:
    """One run's folder.

    Attributes:
        unreadable: the files of results that could not be read so far, each with the reason; they are left out.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.unreadable: dict[str, str] = {}

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self.folder.name

    @property
    def name(self) -> str:
        """As commands know it: benchmark/run-id."""
        return f"{self.folder.parent.name}/{self.run_id}"

    @property
    def journal(self) -> Path:
        """The journal's file."""
        return self.folder / JOURNAL_FILE

    def config(self) -> RunConfig:
        """The run's configuration."""
        return read_record(self.folder / CONFIG_FILE, RunConfig)

    def write_config(self, config: RunConfig) -> None:
        """Store the run's configuration; a folder without this file is not a run."""
        if self._is_version_1:
            self._trials_dir.mkdir(exist_ok=True)  # says so from now on, as the configuration does not
        write_atomic(self.folder / CONFIG_FILE, to_json(config))

    def update_config(self, **changes: Any) -> RunConfig:
        """Change fields of the stored configuration, one writer at a time."""
        with file_lock(self.folder / _CONFIG_LOCK, what=f"the configuration of run {self.name}"):
            config = msgspec.structs.replace(self.config(), **changes)
            self.write_config(config)
        return config

    def logs(self, task_id: str, trial: int, attempt: int | None = None) -> Path:
        """The folder for the logs of a trial, or of one attempt at it; it may not exist yet."""
        folder = self.folder / "logs" / self._trial_name(task_id, trial)
        return folder if attempt is None else folder / attempt_dir_name(attempt)

    def result_file(self, task_id: str, trial: int) -> Path:
        """Where the result of one trial is stored."""
        return self._trials_dir / f"{self._trial_name(task_id, trial)}.json"

    def result_files(self) -> Iterator[str]:
        """The files of all stored results, in the order of their names."""
        for folder, folders, files in os.walk(self._trials_dir):
            folders.sort()
            names = [name.removesuffix(".json") for name in files if name.endswith(".json") and name[0] != "."]
            for name in sorted(names):
                yield f"{folder}/{name}.json"

    def write_result(self, result: TaskResult) -> None:
        """Store the result of one trial."""
        file = self.result_file(result.task_id, result.trial)
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(file, to_json(result))

    def result(self, task_id: str, trial: int = 1) -> TaskResult:
        """The stored result of one trial.

        Raises:
            UsageError: there is none.
        """
        file = self.result_file(task_id, trial)
        if not file.is_file():
            which = "" if trial == 1 else f", trial {trial}"
            raise UsageError(
                f"run {self.run_id} has no result of task {task_id!r}{which}",
                where=self.folder,
                fix=f"`proctor bench show {self.name}` lists what it has",
            )
        return read_record(file, TaskResult)

    def results(self) -> Iterator[TaskResult]:
        """All stored results, one at a time, in the order of their files' names.

        One that cannot be read is left out, and named in `unreadable`.
        """
        return self.results_as(TaskResult)

    def results_as(self, kind: type[T]) -> Iterator[T]:
        """The same, as records of another type that has some of a result's fields, and its `schema_version`."""
        return (result for _, result in self.results_by_file(kind))

    def results_by_file(self, kind: type[T]) -> Iterator[tuple[str, T]]:
        """The same, each with its file."""
        decode = msgspec.json.Decoder(kind).decode
        for file in self.result_files():
            if (result := self._read_result(file, kind, decode)) is not None:
                yield file, result

    def counted_results(self, known: Mapping[str, CountedResult]) -> Iterator[CountedResult]:
        """What a summary counts of all stored results. Those whose files are known are not read again."""
        decode = msgspec.json.Decoder(TaskResult).decode
        for file in self.result_files():
            if (counts := known.get(file)) is not None:
                yield counts
            elif (result := self._read_result(file, TaskResult, decode)) is not None:
                yield counted(result)

    def _read_result(self, file: str, kind: type[T], decode: Callable[[bytes], T]) -> T | None:
        try:
            return decode(_read_bytes(file))
        except (OSError, msgspec.DecodeError, RecursionError):
            try:
                return read_record(Path(file), kind)  # an older version, or one that cannot be read
            except InvalidData as error:
                self.unreadable[file] = error.what
                return None

    def unreadable_note(self) -> str | None:
        """Which results were left out because they cannot be read, and what to do; None where all could be."""
        if not self.unreadable:
            return None
        (file, why), count = next(iter(self.unreadable.items())), len(self.unreadable)
        more = f", and {count - 1:,} more" if count > 1 else ""
        return (
            f"{self.name}: {plural(count, 'result')} cannot be read and {'is' if count == 1 else 'are'} left out "
            f"({file}: {why}{more}); `proctor bench resume {self.name}` grades or runs such trials again"
        )

    def write_summary(self, summary: RunSummary) -> None:
        """Store the aggregate; it can be computed again from the results at any time."""
        write_atomic(self.folder / SUMMARY_FILE, to_json(summary))

    @cached_property
    def _is_version_1(self) -> bool:
        """Whether the run's files are named as version 1 named them."""
        if (self.folder / _TRIALS_DIR).is_dir():
            return False
        if (self.folder / _VERSION_1_TRIALS_DIR).is_dir():
            return True
        try:
            return b'"proctor.run_config@1"' in (self.folder / CONFIG_FILE).read_bytes()
        except OSError:
            return False

    @property
    def _trials_dir(self) -> Path:
        return self.folder / (_VERSION_1_TRIALS_DIR if self._is_version_1 else _TRIALS_DIR)

    def _trial_name(self, task_id: str, trial: int) -> str:
        if self._is_version_1:
            return disk_name(task_id) if trial == 1 else f"{disk_name(task_id)}~{trial}"
        # A task whose id ends in a number, as "python-3.2", must not be taken for a trial of another task.
        name = _NUMBER.sub("%2e", disk_name(task_id))
        return name if trial == 1 else f"{name}.{trial}"


def list_runs(benchmark: str, *, root: Path | None = None) -> list[RunStore]:
    """The runs of a benchmark, oldest first."""
    folder = (root or results_root()) / disk_name(benchmark)
    return [RunStore(file.parent) for file in sorted(folder.glob(f"*/{CONFIG_FILE}"), key=run_order)]


def summarise(
    config: RunConfig,
    results: Iterable[TaskResult | CountedResult],
    unfinished: Sequence[JournalEntry] = (),
) -> RunSummary:
    """Count a run's results. A cost is unknown (None) as soon as any model's price is.

    `unfinished` says what each attempt has cost whose trial has no result yet.
    """
    statuses: dict[Status, int] = dict.fromkeys(Status, 0)
    causes: dict[str, int] = {}
    cost: float | None = 0.0
    estimated = sum(attempt.estimated_usd for attempt in unfinished)
    tokens, seconds, tasks = 0, 0.0, 0
    by_task: dict[str, list[bool]] = {}
    for result in results:
        tasks += 1
        statuses[result.status] += 1
        causes[result.cause] = causes.get(result.cause, 0) + 1
        if result.status in {Status.RESOLVED, Status.UNRESOLVED}:  # causes that are not counted have another status
            by_task.setdefault(result.task_id, []).append(result.status is Status.RESOLVED)
        seconds += result.agent_seconds
        if result.usage:
            cost = sum_costs((cost, usage_cost(result.usage)))
            estimated += estimated_cost(result.usage)
            tokens += sum(usage.tokens.total for usage in result.usage)
    return RunSummary(
        run_id=config.run_id,
        benchmark=config.benchmark,
        tasks=tasks,
        resolved=statuses[Status.RESOLVED],
        unresolved=statuses[Status.UNRESOLVED],
        errors=statuses[Status.ERROR],
        skipped=statuses[Status.SKIPPED],
        cost_usd=cost,
        tokens=tokens,
        agent_seconds=seconds,
        unfinished_usd=sum_costs(attempt.cost_usd for attempt in unfinished),
        estimated_usd=round(estimated, 12),
        causes=dict(sorted(causes.items())),
        task_rates=dict(sorted(Counter(f"{sum(some)}/{len(some)}" for some in by_task.values()).items())),
    )


def attempt_dir_name(number: int) -> str:
    """The name of an attempt's folder among a trial's logs."""
    return f"attempt-{number}"


def _read_bytes(file: str) -> bytes:
    """A whole file. A report reads up to a hundred thousand of them, and `open` takes longer than the rest.

    Raises:
        OSError: it cannot be read, or not in this way.
    """
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        size = os.fstat(descriptor).st_size
        if size > MAX_BYTES:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), file)
        return os.read(descriptor, size)
    finally:
        os.close(descriptor)


def run_order(config: Path) -> tuple[int, str]:
    """The place of a run among those of its benchmark, by its configuration's file: oldest first."""
    number = re.fullmatch(r"run-(\d+)", config.parent.name)
    return (int(number[1]) if number else 0, config.parent.name)
