"""Where tasks of Harbor's format come from: folders, data sets' files, repositories."""

import asyncio
import hashlib
import shutil
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from proctor.benchmarks.data import download_from_git, store_dataset, stored_dataset, stored_splits
from proctor.benchmarks.harbor.benchmark import HarborBenchmark
from proctor.benchmarks.harbor.datasets import copy_task, dataset_name, fetch_listed, is_tasks, local_tasks
from proctor.benchmarks.harbor.task_format import package_digest
from proctor.core.benchmark import BenchmarkSource, DatasetInfo
from proctor.core.errors import InvalidData, UsageError

NAME: Final = "harbor"
_DEFAULT_SPLIT: Final = "default"


class HarborSource(BenchmarkSource):
    """Implements `core.benchmark.BenchmarkSource`; its splits are what was fetched, by the names given then."""

    about = "any tasks in Harbor's format: your own, or an adapter's; splits are what was fetched"
    names_splits = True

    @property
    def splits(self) -> tuple[str, ...]:  # type: ignore[override]
        """What was fetched."""
        return stored_splits(NAME) or (_DEFAULT_SPLIT,)

    def open(self, split: str | None) -> HarborBenchmark:
        """The tasks, as they were fetched."""
        chosen = split or self.splits[0]
        record, files = stored_dataset(NAME, chosen)
        return HarborBenchmark(NAME, local_tasks(files), record, chosen)

    async def fetch(self, split: str | None, origin: Path | None, log: Callable[[str], None]) -> DatasetInfo:
        """From a folder of tasks, or a data set's file."""
        if origin is None:
            raise UsageError(
                "it is not said where the tasks are", fix="give --from PATH, or the address of a repository"
            )
        return await asyncio.to_thread(_fetch, split, origin, log)

    async def fetch_repository(self, split: str | None, url: str, log: Callable[[str], None]) -> DatasetInfo:
        """From a repository with tasks, anywhere in it."""
        return await asyncio.to_thread(_fetch, split, url, log)


def harbor_suite(where: Path) -> HarborBenchmark | None:
    """The tasks at a path as a benchmark, read where they lie; None: it is something else.

    Raises:
        InvalidData: a data set's file there names a task that is not beside it.
    """
    if not is_tasks(where):
        return None
    place = where.absolute()
    folders = local_tasks(place)
    digests = "\n".join(package_digest(folder) for folder in folders)
    record = DatasetInfo(
        benchmark=dataset_name(place),
        split="",
        origin=str(place),
        revision="",
        digest=hashlib.sha256(digests.encode()).hexdigest(),
        tasks=len(folders),
        fetched_at="",
    )
    return HarborBenchmark(record.benchmark, folders, record)


def _fetch(split: str | None, origin: Path | str, log: Callable[[str], None]) -> DatasetInfo:
    with tempfile.TemporaryDirectory(prefix="proctor-fetch-") as scratch:
        place, revision = Path(origin), ""
        if isinstance(origin, str):
            place = Path(scratch) / "repository"
            log(f"fetching {origin}")
            revision = download_from_git(origin, place)
        made = Path(scratch) / "tasks"
        made.mkdir()
        is_file = place.is_file()
        try:
            folders = fetch_listed(place, split, Path(scratch), log) if is_file else local_tasks(place)
        except InvalidData as error:
            # What is wrong is in the repository, not in our copy of it, which is gone by then.
            where = (error.where or "").replace(str(place), str(origin))
            raise InvalidData(error.what, where=where, fix=error.fix) from error
        for folder in folders:
            copy_task(folder, made)
        return store_dataset(
            NAME,
            split or _DEFAULT_SPLIT,
            partial(_copy_all, made),
            origin=str(origin),
            revision=revision,
            tasks=len(folders),
        )


def _copy_all(tasks_dir: Path, into: Path) -> None:
    shutil.copytree(tasks_dir, into, dirs_exist_ok=True, symlinks=True)


SOURCE: BenchmarkSource = HarborSource()
