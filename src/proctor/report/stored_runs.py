"""Stored runs, read as far as a report needs them."""

from collections.abc import Callable, Collection, Iterable, Sequence

from msgspec.structs import replace

from proctor.analysis.comparability import differences
from proctor.analysis.observation import Observation
from proctor.analysis.runs import RunRow, run_row
from proctor.core.errors import UsageError
from proctor.core.run import RunConfig
from proctor.core.text import visible
from proctor.results import RunStore


def run_names(stores: Sequence[RunStore]) -> list[str]:
    """What to call these runs: their ids, or where two are called the same, their folders; each name once.

    Raises:
        UsageError: one run is there twice.
    """
    folders = [str(store.folder.resolve()) for store in stores]
    if len(set(folders)) < len(folders):
        raise UsageError("a run has nothing to be compared with in itself", fix="name another one")
    ids = [display_name(store) for store in stores]
    return ids if len(set(ids)) == len(ids) else list(map(visible, folders))


def display_name(store: RunStore) -> str:
    """A run's name: that of its folder, by which it can be asked for, whatever it was called when it was made."""
    return visible(store.run_id)


def run_rows(
    stores: Iterable[RunStore], healthy: Callable[[RunConfig], Collection[str] | None] = lambda _: None
) -> list[RunRow]:
    """Runs in numbers, one after the other: of a run that has been put into numbers, nothing else is kept.

    Args:
        stores: the runs.
        healthy: says which of a run's tasks are known to be sound, where anybody has tried.
    """
    rows = []
    for store in stores:
        config = store.config()
        row = run_row(config, store.results_as(Observation), healthy=healthy(config))
        rows.append(replace(row, run_id=display_name(store)))
    return rows


def condition_warnings(stores: Sequence[RunStore]) -> tuple[str, ...]:
    """A warning that names what was not the same in all of these runs, but for what a comparison may be about."""
    first, *others = [store.config() for store in stores]
    names = dict.fromkeys(one.name for other in others for one in differences(first, other) if not one.subject)
    if not names:
        return ()
    return (f"not the same in all of these runs: {', '.join(names)}; `proctor bench compare` says how",)
