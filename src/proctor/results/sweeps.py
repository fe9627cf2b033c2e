"""Sweeps on disk: ``results/<benchmark>/<sweep-id>/sweep.json``, their runs beside them."""

import re
from pathlib import Path
from typing import Final

import msgspec

from proctor.core.disk_names import disk_name
from proctor.core.errors import UsageError
from proctor.core.files import write_atomic
from proctor.core.record import read_record, to_json
from proctor.core.sweep import Sweep, SweepRun
from proctor.results.run_names import claim_folder, new_run
from proctor.results.store import CONFIG_FILE, RunStore, results_root

SWEEP_FILE: Final = "sweep.json"


class SweepStore:
    """One sweep's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def name(self) -> str:
        """Its name in commands: benchmark/sweep-id."""
        return f"{self.folder.parent.name}/{self.folder.name}"

    def sweep(self) -> Sweep:
        """The sweep's configuration."""
        return read_record(self.folder / SWEEP_FILE, Sweep)

    def write(self, sweep: Sweep) -> None:
        """Store the sweep's configuration; a folder without this file is not a sweep."""
        write_atomic(self.folder / SWEEP_FILE, to_json(sweep))

    def runs(self) -> list[tuple[str, RunStore]]:
        """Its runs, by label. A run that has no configuration because of a kill gets it now, from the sweep's."""
        found = []
        for run in self.sweep().runs:
            store = RunStore(self.folder.parent / run.config.run_id)
            if not (store.folder / CONFIG_FILE).exists():
                store.folder.mkdir(exist_ok=True)
                store.write_config(run.config)
            found.append((run.label, store))
        return found


def new_sweep(sweep: Sweep, *, root: Path | None = None) -> SweepStore:
    """Create the folders of a sweep and of its runs.

    The runs' folders are claimed first, and are not runs yet; their configurations are stored in the sweep's file. So a
    kill leaves empty folders, or a whole sweep.
    """
    base = root or results_root()
    store = SweepStore(claim_folder(base / disk_name(sweep.benchmark), "sweep"))
    runs = tuple(_with_run_id(run, store.name, new_run(sweep.benchmark, root=base)) for run in sweep.runs)
    store.write(msgspec.structs.replace(sweep, sweep_id=store.folder.name, runs=runs))
    return store


def find_sweep(name: str, *, root: Path | None = None) -> SweepStore | None:
    """A sweep by its folder, as ``benchmark/sweep-id``, or by an id that only one benchmark has; None: no sweep.

    Raises:
        UsageError: several sweeps have this name.
    """
    base = root or results_root()
    for path in (Path(name), base / name):
        if (path / SWEEP_FILE).is_file():
            return SweepStore(path.absolute())
    if not re.fullmatch(r"sweep-\d+", name):
        return None
    found = sorted(file.parent for file in base.glob(f"*/{name}/{SWEEP_FILE}"))
    if len(found) > 1:
        names = ", ".join(path.relative_to(base).as_posix() for path in found)
        raise UsageError(f"several sweeps are called {name!r}", fix=f"say which: {names}")
    return SweepStore(found[0]) if found else None


def sweep_beside(run: Path, name: str | None) -> SweepStore | None:
    """The sweep of this name, beside the folder of one of its runs; None for a run that is part of none."""
    return None if name is None else SweepStore(run.parent / name.rpartition("/")[2])


def _with_run_id(run: SweepRun, sweep: str, store: RunStore) -> SweepRun:
    config = msgspec.structs.replace(run.config, run_id=store.run_id, sweep=sweep, label=run.label)
    return msgspec.structs.replace(run, config=config)
