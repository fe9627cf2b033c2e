"""What can be changed about a stored run: what it is called, whether it is listed, whether it is there."""

import shutil
from collections.abc import Iterable, Sequence

from proctor.core.errors import InvalidData, UsageError
from proctor.core.files import file_lock
from proctor.core.options import InvalidValue, read_run_name, read_run_tags
from proctor.core.run import RunConfig
from proctor.results.run_lock import LOCK_FILE
from proctor.results.run_names import run_heading
from proctor.results.store import CONFIG_FILE, RunStore
from proctor.results.sweeps import SWEEP_FILE, SweepStore, sweep_beside


def rename_run(store: RunStore, name: str | None) -> RunConfig:
    """Give a run a name, or none.

    Raises:
        UsageError: it cannot be a name.
    """
    try:
        return store.update_config(name=None if name is None else read_run_name(name))
    except InvalidValue as bad:
        raise UsageError(f"a name {bad}: {name!r}") from None


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


def check_deletable(stores: Iterable[RunStore], sweeps: Sequence[SweepStore] = ()) -> None:
    """See that these runs, and these sweeps with them, can all be removed.

    Raises:
        UsageError: a run is part of a sweep that stays.
        RetryableError: a session is working on one of them.
    """
    removed = {sweep.folder.resolve() for sweep in sweeps}
    for store in stores:
        part_of = _sweep_of(store)
        if part_of is not None and part_of.folder.resolve() not in removed:
            raise UsageError(
                f"run {store.name} is part of {part_of.name}",
                fix=f"delete the whole sweep with `proctor runs delete {part_of.name}`, or archive the run",
            )
        with file_lock(store.folder / LOCK_FILE, what=f"run {store.name}", wait_seconds=0):
            pass


def delete_runs(stores: Sequence[RunStore], sweeps: Sequence[SweepStore] = ()) -> None:
    """Remove runs, and sweeps whose runs are among them, from the disk. All are asked before the first is removed.

    Raises:
        UsageError: a run is part of a sweep that stays.
        RetryableError: a session is working on one of them.
    """
    check_deletable(stores, sweeps)
    for sweep in sweeps:
        (sweep.folder / SWEEP_FILE).unlink()
    for store in stores:
        with file_lock(store.folder / LOCK_FILE, what=f"run {store.name}", wait_seconds=0):
            (store.folder / CONFIG_FILE).unlink()  # from here on it is no run
            shutil.rmtree(store.folder)
    for sweep in sweeps:
        shutil.rmtree(sweep.folder)


def _sweep_of(store: RunStore) -> SweepStore | None:
    """The sweep that a run is part of, if that is there. A run that cannot be read does not say."""
    try:
        name = run_heading(store).sweep
    except InvalidData:
        return None
    sweep = sweep_beside(store.folder, name)
    return sweep if sweep is not None and (sweep.folder / SWEEP_FILE).is_file() else None
