"""Where the data comes from: rows from the Hugging Face hub, lists of tests from the benchmark's own package, trees
from the libraries' repositories; or all of it from a folder that has it.
"""

import asyncio
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from proctor.benchmarks.commit0.benchmark import Commit0
from proctor.benchmarks.commit0.library import Library, bring, repository
from proctor.benchmarks.commit0.published import PUBLISHED
from proctor.benchmarks.commit0.rows import Row, in_split, read_ids, read_row
from proctor.benchmarks.data import fetched, from_hub, keep, read_rows
from proctor.core.benchmark import BenchmarkSource, Fetched, Unusable
from proctor.core.errors import InfrastructureError, InvalidData
from proctor.core.published import Published
from proctor.core.record import to_json

DATA_SET: Final = "wentingzhao/commit0_combined"
PACKAGE: Final = "commit0==0.1.8"
_ROWS: Final = "rows.json"
_IDS: Final = "test_ids"
_TREES: Final = "trees"
_REPOSITORIES: Final = "repos"
_KINDS: Final = (".json", ".jsonl", ".parquet")
_PIP_SECONDS: Final = 300.0
_IN_WHEEL: Final = "commit0/data/test_ids/"


class Commit0Source:
    """Implements `core.benchmark.BenchmarkSource`."""

    about = "Commit0: write 54 Python libraries from their stubs, tests and specification (lite: 16 of them)"
    splits: tuple[str, ...] = ("lite", "all")

    def open(self, split: str | None) -> Commit0:
        """The libraries that were fetched."""
        chosen = split or self.splits[0]
        record, files = fetched("commit0", chosen)
        rows = in_split(load_rows(files / _ROWS), chosen)
        libraries, unusable = [], []
        for row in rows:
            ids = read_ids(files / _IDS / row.ids_file)
            problems = [*row.problems(), *(() if ids else ("there is no list of its tests",))]
            if problems:
                unusable.append(Unusable(task_id=row.instance_id, problems=tuple(problems)))
            else:
                libraries.append(Library(row=row, ids=ids or (), trees=files / _TREES))
        return Commit0(libraries, unusable, split=chosen, source=record.origin)

    async def fetch(self, split: str | None, origin: Path | None, tell: Callable[[str], None]) -> Fetched:
        """Bring the data here.

        `origin` is a file of rows, or a folder: rows in any form at its top or in ``data``, lists of tests in
        ``test_ids``, clones in ``repos``, as the official tool lays them out. What it lacks of these is fetched.
        """
        return await asyncio.to_thread(_fetch, split or self.splits[0], origin, tell)

    def published(self) -> Sequence[Published]:
        """The official leaderboard."""
        return PUBLISHED


SOURCE: BenchmarkSource = Commit0Source()


def load_rows(file: Path) -> list[Row]:
    """Every row of a file.

    Raises:
        InvalidData: it has none, or broken ones, or one of them twice.
    """
    rows = [read_row(raw, f"{file}: row {number}") for number, raw in enumerate(read_rows(file), 1)]
    if not rows:
        raise InvalidData("there are no rows", where=file)
    names = [row.instance_id for row in rows]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InvalidData(f"{twice} is there twice", where=file)
    return rows


def _fetch(split: str, origin: Path | None, tell: Callable[[str], None]) -> Fetched:
    with tempfile.TemporaryDirectory(prefix="proctor-commit0-") as scratch:
        folder, revision = Path(scratch), ""
        if origin is None:
            tell(f"fetching {DATA_SET}")
            (folder / "hub").mkdir()
            revision = from_hub(DATA_SET, ["data/*.parquet", "*.parquet"], folder / "hub", revision=None)
        rows = in_split(load_rows(_rows_file(origin or folder / "hub")), split)
        ids = _ids_folder(origin, folder, tell)

        def fill(files: Path) -> None:
            (files / _ROWS).write_bytes(to_json(rows))
            _copy_ids(rows, ids, files / _IDS)
            for row in rows:
                _bring_trees(row, origin, files / _TREES, tell)

        place = str(origin or f"huggingface.co/datasets/{DATA_SET}")
        return keep("commit0", split, fill, origin=place, revision=revision, tasks=len(rows))


def _rows_file(origin: Path) -> Path:
    if origin.is_file():
        return origin
    found = sorted(
        file
        for place in (origin, origin / "data")
        if place.is_dir()
        for file in place.iterdir()
        if file.suffix in _KINDS
    )
    if not found:
        raise InvalidData(f"no {', '.join(_KINDS)} file with the rows is there", where=origin)
    return found[0]


def _ids_folder(origin: Path | None, folder: Path, tell: Callable[[str], None]) -> Path:
    """The lists of tests: beside the rows, or in the official package."""
    beside = None if origin is None else (origin if origin.is_dir() else origin.parent) / _IDS
    if beside is not None and beside.is_dir():
        return beside
    tell(f"fetching the lists of tests with {PACKAGE} from the package index")
    words = [*(sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps")]
    words += ["--only-binary", ":all:", "--dest", str(folder), PACKAGE]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=_PIP_SECONDS)
        if done.returncode:
            raise _no_lists(done.stderr.strip().rpartition("\n")[2])
        with zipfile.ZipFile(next(folder.glob("commit0-*.whl"))) as wheel:
            wheel.extractall(folder, [name for name in wheel.namelist() if name.startswith(_IN_WHEEL)])
    except (OSError, StopIteration, subprocess.TimeoutExpired, zipfile.BadZipFile) as error:
        raise _no_lists(str(error)) from error
    return folder / _IN_WHEEL


def _no_lists(why: str) -> InfrastructureError:
    return InfrastructureError(
        f"the lists of tests cannot be fetched: {why}",
        where=PACKAGE,
        fix=f"put them beside the rows, in a folder {_IDS}, and give both with --from PATH",
    )


def _copy_ids(rows: Iterable[Row], source: Path, target: Path) -> None:
    target.mkdir()
    for row in rows:
        if (source / row.ids_file).is_file():
            shutil.copyfile(source / row.ids_file, target / row.ids_file)


def _bring_trees(row: Row, origin: Path | None, trees: Path, tell: Callable[[str], None]) -> None:
    """Both trees of a library, from a clone beside the rows, or from its repository.

    Rows that came without clones keep none: a library's trees are fetched when it is first worked on.
    """
    clone = None if origin is None else origin / _REPOSITORIES / row.name
    if row.problems() or (clone is not None and not clone.is_dir()):
        return
    tell(f"fetching {row.name}")
    url = repository(row) if clone is None else str(clone)
    for commit in filter(None, (row.base_commit, row.reference_commit)):
        tree = trees / row.name / commit
        tree.parent.mkdir(parents=True, exist_ok=True)
        if not tree.is_dir():
            bring(url, commit, tree)
