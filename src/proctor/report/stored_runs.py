"""Stored runs as reports and the viewer read them: names, numbers, whether one is running."""

import os
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Final, Literal

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from proctor.analysis.comparability import differences
from proctor.analysis.log_stats import LogStats
from proctor.analysis.observation import Observation
from proctor.analysis.runs import RunRow, run_row
from proctor.core.errors import UsageError
from proctor.core.formatting import visible
from proctor.core.published_result import PublishedResult
from proctor.core.record import Record
from proctor.core.run import RunConfig
from proctor.results import RunStore
from proctor.results.run_lock import LOCK_FILE, is_held_elsewhere
from proctor.results.run_names import run_heading, run_title

_RECENT_SECONDS: Final = 30.0
_KERNEL_LOCKS: Final = Path("/proc/locks")


class RunsReport(Record):
    """`bench report`: all runs of a benchmark in numbers, and published results.

    Attributes:
        log_stats: statistics of the logs, by run; only with `--logs`.
    """

    benchmark: str
    runs: tuple[RunRow, ...]
    published: tuple[PublishedResult, ...]
    log_stats: tuple[LogStats, ...] | UnsetType = UNSET
    schema_version: Literal["proctor.runs_report@2"] = "proctor.runs_report@2"


def run_names(stores: Sequence[RunStore]) -> list[str]:
    """What to call these runs: by their ids and names, or by their folders where two are called the same.

    Raises:
        UsageError: a run is named twice.
    """
    folders = [str(store.folder.resolve()) for store in stores]
    if len(set(folders)) < len(folders):
        raise UsageError("a run cannot be compared with itself", fix="name another one")
    ids = [display_name(store) for store in stores]
    return ids if len(set(ids)) == len(ids) else list(map(visible, folders))


def display_name(store: RunStore) -> str:
    """A run as reports call it: by the id that its folder has, and the name or label that it was given."""
    return run_title(store.run_id, run_heading(store).given_name)


def import_note(title: str, origin: str) -> str:
    """What is to be known of a run that was imported."""
    return f"{title} is imported from {origin}: its verdicts were made there."


def import_notes(stores: Iterable[RunStore]) -> tuple[str, ...]:
    """A note for each of these runs that was imported."""
    configs = [(store, store.config().origin) for store in stores]
    return tuple(import_note(display_name(store), origin) for store, origin in configs if origin is not None)


def called(row: RunRow, store: RunStore, name: str | None = None) -> RunRow:
    """The same, with the id that the run's folder has; or called by `name`, where that is not what it is called anyway.

    A folder may have been copied or renamed since the configuration was written.
    """
    own = replace(row, run_id=visible(store.run_id))
    return own if name in {None, own.title} else replace(own, run_id=name, name="")


def run_rows(
    stores: Iterable[RunStore], healthy: Callable[[RunConfig], Collection[str] | None] = lambda _: None
) -> list[RunRow]:
    """Runs in numbers, read one after the other: nothing else of a run is kept in memory.

    Args:
        stores: the runs.
        healthy: the tasks of a run that are known to be healthy, where they were validated.
    """
    rows = []
    for store in stores:
        config = store.config()
        rows.append(called(run_row(config, store.results_as(Observation), healthy=healthy(config)), store))
    return rows


def condition_warnings(stores: Sequence[RunStore]) -> tuple[str, ...]:
    """A warning that names the conditions that differ between these runs."""
    first, *others = [store.config() for store in stores]
    names = dict.fromkeys(one.name for other in others for one in differences(first, other) if not one.subject)
    if not names:
        return ()
    return (f"not the same in all of these runs: {', '.join(names)}; `proctor bench compare` shows the values",)


HeldLocks = list[tuple[str, str]]


def read_held_locks(kernel_locks: Path = _KERNEL_LOCKS) -> HeldLocks | None:
    """The process and the file of every lock that is held on this machine; None where the kernel does not say."""
    try:
        lines = [line.split() for line in kernel_locks.read_text().splitlines()]
    except OSError:
        return None
    return [(pid, where) for _, kind, _, _, pid, where, *_ in lines if kind == "FLOCK"]  # who waits begins otherwise


def is_running(store: RunStore, *, held: HeldLocks | None = None, kernel_locks: Path = _KERNEL_LOCKS) -> bool:
    """Whether a session is working on this run.

    A session holds a lock on the run. Trying the lock could block a session that is starting, so the kernel's list of
    locks is read instead; without one, a journal that has just grown is the sign. A session on another machine shows a
    sign of life. Who asks about many runs gives the list, `held`.
    """
    try:
        lock = (store.folder / LOCK_FILE).stat()
    except OSError:
        return False
    held = read_held_locks(kernel_locks) if held is None else held
    if held is None:
        return _journal_is_recent(store)
    found = [(pid, where) for pid, where in held if where.endswith(f":{lock.st_ino}")]
    device = f"{os.major(lock.st_dev):02x}:{os.minor(lock.st_dev):02x}:{lock.st_ino}"
    if any(where == device for _, where in found):
        return True
    # Some file systems have other device numbers here than in the list of locks; and on another device, a file that has
    # nothing to do with this run may have the same number.
    return any(_has_open(pid, lock) for pid, _ in found) or is_held_elsewhere(store)


def _has_open(pid: str, file: os.stat_result) -> bool:
    """Whether a process has this file open, as far as we may look."""
    for descriptor in Path("/proc", pid, "fd").glob("*"):
        try:
            if os.path.samestat(descriptor.stat(), file):
                return True
        except OSError:
            continue
    return False


def _journal_is_recent(store: RunStore) -> bool:
    try:
        return time.time() - store.journal.stat().st_mtime < _RECENT_SECONDS
    except OSError:
        return False
