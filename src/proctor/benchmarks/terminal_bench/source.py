"""Where the tasks of Terminal-Bench come from."""

import asyncio
import shutil
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from proctor.benchmarks.data import download_from_git, published_results, store_dataset, stored_dataset
from proctor.benchmarks.harbor.benchmark import HarborBenchmark
from proctor.benchmarks.harbor.datasets import MAX_DEPTH, local_tasks
from proctor.benchmarks.harbor.task_format import CONFIG
from proctor.benchmarks.terminal_bench.convert import convert, variants
from proctor.core.benchmark import BenchmarkSource, DatasetInfo
from proctor.core.errors import InvalidData, UsageError
from proctor.core.formatting import reason_lines
from proctor.core.published_result import PublishedResult

NAME: Final = "terminal_bench"
OTHER: Final = "other"
# Where each version is published, and at which revision; None: the newest.
ORIGINS: Final = {
    "2.0": ("https://github.com/harbor-framework/terminal-bench-2", None),
    "2.1": ("https://github.com/harbor-framework/terminal-bench-2-1", None),
    "1.0": ("https://github.com/laude-institute/terminal-bench", "91e10457b5410f16c44364da1a34cb6de8c488a5"),
}
_OLD_CONFIG: Final = "task.yaml"


class TerminalBenchSource(BenchmarkSource):
    """Implements `core.benchmark.BenchmarkSource`."""

    about = "hard tasks in a terminal, verified where they were done"
    splits: tuple[str, ...] = (*ORIGINS, OTHER)

    def open(self, split: str | None) -> HarborBenchmark:
        """The benchmark, as it was fetched."""
        chosen = split or self.splits[0]
        record, files = stored_dataset(NAME, chosen)
        return HarborBenchmark(NAME, local_tasks(files), record, chosen)

    async def fetch(self, split: str | None, origin: Path | None, log: Callable[[str], None]) -> DatasetInfo:
        """From its repository, or from a folder with tasks of Harbor's format or of the old one."""
        return await asyncio.to_thread(self._fetch, split or self.splits[0], origin, log)

    def _fetch(self, split: str, origin: Path | None, log: Callable[[str], None]) -> DatasetInfo:
        if origin is None and split not in ORIGINS:
            raise UsageError(f"the split {split} is for tasks of your own", fix="say where they are with --from PATH")
        with tempfile.TemporaryDirectory(prefix="proctor-fetch-") as scratch:
            folder, revision, place = origin, "", str(origin)
            if folder is None:
                place, wanted = ORIGINS[split]
                folder = Path(scratch) / "repository"
                log(f"fetching {place}")
                revision = download_from_git(place, folder, revision=wanted)
            made = Path(scratch) / "tasks"
            made.mkdir()
            count = collect_tasks(folder, made, log)
            return store_dataset(
                NAME,
                split,
                partial(_copy_tasks, made),
                origin=place,
                revision=revision,
                tasks=count,
            )

    def published(self) -> Sequence[PublishedResult]:
        """Rows of the official leaderboards."""
        return published_results(NAME)


def collect_tasks(folder: Path, into: Path, log: Callable[[str], None]) -> int:
    """Copy every task below `folder`, those of the old format converted; how many there are.

    Raises:
        InvalidData: there is none.
    """
    count, left_out = 0, dict[str, str]()
    for place in _task_folders(folder):
        if (place / CONFIG).is_file():
            shutil.copytree(place, into / place.name, symlinks=True)
            count += 1
            continue
        for name, config in variants(place).items():
            try:
                convert(place, into / name, config.name)
                count += 1
            except InvalidData as error:
                shutil.rmtree(into / name, ignore_errors=True)
                left_out[name] = str(error)
    for line in reason_lines(left_out):
        log(f"left out: {line}")
    if not count:
        raise InvalidData(f"no task is here: no folder has a {CONFIG} or a {_OLD_CONFIG}", where=folder)
    return count


def _copy_tasks(tasks_dir: Path, into: Path) -> None:
    shutil.copytree(tasks_dir, into, dirs_exist_ok=True, symlinks=True)


def _task_folders(folder: Path) -> list[Path]:
    found = {
        file.parent
        for name in (CONFIG, _OLD_CONFIG)
        for depth in range(MAX_DEPTH)
        for file in folder.glob(f"{'*/' * depth}{name}")
    }
    return sorted(found, key=lambda place: place.name)


SOURCE: BenchmarkSource = TerminalBenchSource()
