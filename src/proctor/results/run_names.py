"""What runs are called: their ids, the names that users give them, their labels in sweeps; and finding a run by these.

A run is named by its folder, as ``benchmark/run-id``, by its id, its name or its label; a name or label, too, may stand
behind ``benchmark/``, and a label behind ``sweep-id/``.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, Literal

import msgspec

from proctor.core.disk_names import disk_name
from proctor.core.errors import InfrastructureError, InvalidData, UsageError
from proctor.core.formatting import visible
from proctor.core.record import Record, read_record
from proctor.core.suggestions import closest, suggest
from proctor.results.store import CONFIG_FILE, RunStore, results_root, run_order

_MAX_LISTED: Final = 8


class RunHeading(Record):
    """The part of a run's configuration that says what it is called."""

    name: str | None = None
    label: str | None = None
    sweep: str | None = None
    archived: bool = False
    schema_version: Literal["proctor.run_config@3"] = "proctor.run_config@3"

    @property
    def given_name(self) -> str:
        """Its name, or else its label in a sweep; empty where it has neither."""
        return self.name or self.label or ""


_decode: Final = msgspec.json.Decoder(RunHeading).decode


def run_heading(store: RunStore) -> RunHeading:
    """What a run is called.

    Raises:
        InvalidData: its configuration cannot be read.
    """
    file = store.folder / CONFIG_FILE
    try:
        return _decode(file.read_bytes())
    except (OSError, msgspec.DecodeError):
        return read_record(file, RunHeading)  # an older version, or an error that names the file


def run_title(run_id: str, given_name: str) -> str:
    """A run as reports call it: its id, and in brackets the name or label that it has."""
    return visible(f"{run_id} ({given_name})" if given_name else run_id)


def all_runs(root: Path | None = None) -> list[RunStore]:
    """All runs of all benchmarks, by benchmark and age."""
    configs = (root or results_root()).glob(f"*/*/{CONFIG_FILE}")
    found = sorted(configs, key=lambda file: (file.parent.parent.name, *run_order(file)))
    return [RunStore(file.parent) for file in found]


def find_run(name: str, *, root: Path | None = None) -> RunStore:
    """A run by its folder, as ``benchmark/run-id``, or by an id, a name or a label that only one run has.

    Raises:
        UsageError: no run is called that, or several are.
    """
    base = root or results_root()
    direct = [path for path in (Path(name), base / name) if (path / CONFIG_FILE).is_file()]
    if direct:
        return RunStore(direct[0].absolute())
    if name in {"", ".", ".."}:
        raise UsageError(f"there is no run {name!r}", fix="give a run's folder, benchmark/run-id, run-id, or name")
    stores = all_runs(base)
    found = [store for store in stores if store.run_id == name] or _with_given_name(name, stores)
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(store.name for store in found[:_MAX_LISTED])
        more = f", and {len(found) - _MAX_LISTED} more" if len(found) > _MAX_LISTED else ""
        raise UsageError(f"several runs are called {name!r}", fix=f"say which: {names}{more}")
    fix = suggest(name, _all_names(stores), "`proctor runs` lists all runs")
    raise UsageError(f"there is no run {name!r}", where=base, fix=fix)


def no_runs_of(benchmark: str) -> UsageError:
    """The error of a benchmark that has no runs."""
    known = {store.folder.parent.name for store in all_runs()}
    near = closest(benchmark, known)
    fix = f"did you mean {near!r}?" if near else "make one with `proctor bench run`"
    return UsageError(f"there are no runs of {benchmark!r}", where=results_root(), fix=fix)


def _with_given_name(name: str, stores: Iterable[RunStore]) -> list[RunStore]:
    return [store for store, called in _headings(stores) if name in called]


def names_of(store: RunStore) -> list[str]:
    """The name and the label of a run, where it has them."""
    return next(([name for name in names if "/" not in name] for _, names in _headings([store])), [])


def _headings(stores: Iterable[RunStore]) -> Iterator[tuple[RunStore, list[str]]]:
    """Each run with all that it can be called by beside its id."""
    for store in stores:
        try:
            heading = run_heading(store)
        except InvalidData:
            continue  # whoever lists the runs is told; to be found by name, a run must be readable
        benchmark = store.folder.parent.name
        names = [one for one in (heading.name, heading.label) if one]
        if heading.label and heading.sweep:
            names.append(f"{heading.sweep.rpartition('/')[2]}/{heading.label}")
        yield store, [*names, *(f"{benchmark}/{one}" for one in names)]


def _all_names(stores: Sequence[RunStore]) -> Iterator[str]:
    for store in stores:
        yield from (store.run_id, store.name)
    for _, names in _headings(stores):
        yield from names


def new_run(benchmark: str, *, root: Path | None = None) -> RunStore:
    """Claim the next free run id of a benchmark: ``run-001``, ``run-002``, …; concurrent callers get different ones."""
    return RunStore(claim_folder((root or results_root()) / disk_name(benchmark), "run"))


def claim_folder(parent: Path, kind: str) -> Path:
    """Make the next free folder ``<kind>-001``, ``<kind>-002``, …; concurrent callers get different ones."""
    try:
        parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        is_file = isinstance(error, FileExistsError | NotADirectoryError)
        why = "it is a file, or below one" if is_file else error.strerror
        raise (UsageError if is_file else InfrastructureError)(
            f"results cannot be stored here: {why}", where=parent, fix="PROCTOR_RESULTS names the folder for them"
        ) from error
    taken = [int(match[1]) for path in parent.iterdir() if (match := re.fullmatch(rf"{kind}-(\d+)", path.name))]
    number = max(taken, default=0) + 1
    while True:
        folder = parent / f"{kind}-{number:03}"
        try:
            folder.mkdir()
        except FileExistsError:
            number += 1
        else:
            return folder
