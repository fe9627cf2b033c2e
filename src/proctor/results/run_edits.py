"""What can be changed about a stored run: what it is called, whether it is listed, whether it is there."""

import shutil
from collections.abc import Sequence
from typing import Final

from proctor.core.errors import UsageError
from proctor.core.files import file_lock
from proctor.core.options import InvalidValue, read_run_name, read_run_tags
from proctor.core.run import RunConfig
from proctor.results.store import CONFIG_FILE, RunStore
from proctor.results.sweeps import SWEEP_FILE, SweepStore

_LOCK_FILE: Final = ".lock"


def rename_run(store: RunStore, name: str | None) -> RunConfig:
    """Give a run a name, or none.

    Raises:
        UsageError: it cannot be a name.
    """
    try:
        return store.update_config(name=None if name is None else read_run_name(name))
    except InvalidValue as bad:
        raise UsageError(f"a name {bad}, not {name!r}") from None


def tag_run(store: RunStore, added: Sequence[str], removed: Sequence[str]) -> RunConfig:
    """Add tags to a run, each as NAME=VALUE, and remove others by name.

    Raises:
        UsageError: a tag has no value, or one that is to be removed is not there.
    """
    tags = dict(store.config().run_tags)
    for name in removed:
        if name not in tags:
            raise UsageError(f"run {store.name} has no tag {name!r}", fix=f"it has: {', '.join(tags) or 'none'}")
        del tags[name]
    try:
        return store.update_config(run_tags={**tags, **read_run_tags(tuple(added))})
    except InvalidValue as bad:
        raise UsageError(f"a tag {bad}") from None


def delete_runs(stores: Sequence[RunStore], sweep: SweepStore | None = None) -> None:
    """Remove runs, or a whole sweep, from the disk.

    Raises:
        UsageError: one is part of a sweep that stays.
        RetryableError: a session is working on one of them; none is removed.
    """
    for store in stores:
        part_of = store.config().sweep
        if sweep is None and part_of is not None and _sweep_folder_exists(store, part_of):
            raise UsageError(
                f"run {store.name} is part of {part_of}",
                fix=f"delete the whole sweep with `proctor runs delete {part_of}`, or archive the run",
            )
    for store in stores:
        with file_lock(store.folder / _LOCK_FILE, what=f"run {store.name}", wait_seconds=0):
            pass  # all are asked before the first is removed
    if sweep is not None:
        (sweep.folder / SWEEP_FILE).unlink()
    for store in stores:
        with file_lock(store.folder / _LOCK_FILE, what=f"run {store.name}", wait_seconds=0):
            (store.folder / CONFIG_FILE).unlink()  # from here on it is no run
            shutil.rmtree(store.folder)
    if sweep is not None:
        shutil.rmtree(sweep.folder)


def _sweep_folder_exists(store: RunStore, sweep: str) -> bool:
    return (store.folder.parent / sweep.rpartition("/")[2] / SWEEP_FILE).is_file()
