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
from proctor.benchmarks.commit0.library import Commit0Library, fetch_tree
from proctor.benchmarks.commit0.rows import Commit0Row, in_split, read_row, read_test_ids
from proctor.benchmarks.data import (
    download_from_hub,
    published_results,
    read_rows,
    repository_url,
    store_dataset,
    stored_dataset,
)
from proctor.core.benchmark import BenchmarkSource, DatasetInfo, InvalidTask
from proctor.core.errors import InfrastructureError, InvalidData
from proctor.core.published_result import PublishedResult
from proctor.core.record import to_json

DATA_SET: Final = "wentingzhao/commit0_combined"
PACKAGE: Final = "commit0==0.1.8"
_ROWS: Final = "rows.json"
_TEST_IDS: Final = "test_ids"
_TREES: Final = "trees"
_REPOSITORIES: Final = "repos"
_SUFFIXES: Final = (".json", ".jsonl", ".parquet")
_PIP_SECONDS: Final = 300.0
_WHEEL_TEST_IDS: Final = "commit0/data/test_ids/"


class Commit0Source(BenchmarkSource):
    """Implements `core.benchmark.BenchmarkSource`."""

    about = "Commit0: write 54 Python libraries from their stubs, tests and specification (lite: 16 of them)"
    splits: tuple[str, ...] = ("lite", "all")

    def open(self, split: str | None) -> Commit0:
        """The libraries that were fetched."""
        chosen = split or self.splits[0]
        record, files = stored_dataset("commit0", chosen)
        rows = in_split(load_rows(files / _ROWS), chosen)
        libraries, unusable = [], []
        for row in rows:
            ids = read_test_ids(files / _TEST_IDS / row.ids_file)
            problems = [*row.problems(), *(() if ids else ("there is no list of its tests",))]
            if problems:
                unusable.append(InvalidTask(task_id=row.instance_id, problems=tuple(problems)))
            else:
                libraries.append(Commit0Library(row=row, test_ids=ids or (), trees=files / _TREES))
        return Commit0(libraries, unusable, split=chosen, source=record.origin)

    async def fetch(self, split: str | None, origin: Path | None, log: Callable[[str], None]) -> DatasetInfo:
        """Bring the data here.

        `origin` is a file of rows, or a folder: rows in any form at its top or in ``data``, lists of tests in
        ``test_ids``, clones in ``repos``, as the official tool lays them out. What is missing is fetched.
        """
        return await asyncio.to_thread(_fetch, split or self.splits[0], origin, log)

    def published(self) -> Sequence[PublishedResult]:
        """The official leaderboard."""
        return published_results("commit0")


SOURCE: BenchmarkSource = Commit0Source()


def load_rows(file: Path) -> list[Commit0Row]:
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


def _fetch(split: str, origin: Path | None, log: Callable[[str], None]) -> DatasetInfo:
    with tempfile.TemporaryDirectory(prefix="proctor-commit0-") as scratch:
        folder, revision = Path(scratch), ""
        if origin is None:
            log(f"fetching {DATA_SET}")
            (folder / "hub").mkdir()
            revision = download_from_hub(DATA_SET, ["data/*.parquet", "*.parquet"], folder / "hub")
        rows = in_split(load_rows(_rows_file(origin or folder / "hub")), split)
        ids = _test_ids_dir(origin, folder, log)

        def fill(files: Path) -> None:
            (files / _ROWS).write_bytes(to_json(rows))
            _copy_test_ids(rows, ids, files / _TEST_IDS)
            for row in rows:
                _fetch_trees(row, origin, files / _TREES, log)

        place = str(origin or f"huggingface.co/datasets/{DATA_SET}")
        return store_dataset("commit0", split, fill, origin=place, revision=revision, tasks=len(rows))


def _rows_file(origin: Path) -> Path:
    if origin.is_file():
        return origin
    found = sorted(
        file
        for place in (origin, origin / "data")
        if place.is_dir()
        for file in place.iterdir()
        if file.suffix in _SUFFIXES
    )
    if not found:
        raise InvalidData(f"no {', '.join(_SUFFIXES)} file with the rows is there", where=origin)
    return found[0]


def _test_ids_dir(origin: Path | None, folder: Path, log: Callable[[str], None]) -> Path:
    """The lists of tests: beside the rows, or in the official package."""
    beside = None if origin is None else (origin if origin.is_dir() else origin.parent) / _TEST_IDS
    if beside is not None and beside.is_dir():
        return beside
    log(f"fetching the lists of tests with {PACKAGE} from the package index")
    words = [*(sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps")]
    words += ["--only-binary", ":all:", "--dest", str(folder), PACKAGE]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=_PIP_SECONDS)
        if done.returncode:
            raise _test_ids_error(done.stderr.strip().rpartition("\n")[2])
        with zipfile.ZipFile(next(folder.glob("commit0-*.whl"))) as wheel:
            wheel.extractall(folder, [name for name in wheel.namelist() if name.startswith(_WHEEL_TEST_IDS)])
    except (OSError, StopIteration, subprocess.TimeoutExpired, zipfile.BadZipFile) as error:
        raise _test_ids_error(str(error)) from error
    return folder / _WHEEL_TEST_IDS


def _test_ids_error(why: str) -> InfrastructureError:
    return InfrastructureError(
        f"the lists of tests cannot be fetched: {why}",
        where=PACKAGE,
        fix=f"put them beside the rows, in a folder {_TEST_IDS}, and give both with --from PATH",
    )


def _copy_test_ids(rows: Iterable[Commit0Row], source: Path, target: Path) -> None:
    target.mkdir()
    for row in rows:
        if (source / row.ids_file).is_file():
            shutil.copyfile(source / row.ids_file, target / row.ids_file)


def _fetch_trees(row: Commit0Row, origin: Path | None, trees: Path, log: Callable[[str], None]) -> None:
    """Both trees of a library, from a clone beside the rows, or from its repository.

    Rows that came without clones keep none: a library's trees are fetched when it is first worked on.
    """
    clone = None if origin is None else origin / _REPOSITORIES / row.name
    if row.problems() or (clone is not None and not clone.is_dir()):
        return
    log(f"fetching {row.name}")
    url = repository_url(row.repo) if clone is None else str(clone)
    for commit in filter(None, (row.base_commit, row.reference_commit)):
        tree = trees / row.name / commit
        tree.parent.mkdir(parents=True, exist_ok=True)
        if not tree.is_dir():
            fetch_tree(url, commit, tree)
