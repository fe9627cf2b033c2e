"""Where SetupBench's data comes from."""

import asyncio
import shutil
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from proctor.benchmarks.data import download_from_git, published_results, store_dataset, stored_dataset
from proctor.benchmarks.setupbench.benchmark import SetupBench
from proctor.benchmarks.setupbench.log_measures import measure_setups
from proctor.benchmarks.setupbench.rows import FILES, fixtures_dir, read_tasks, scenarios_dir
from proctor.core.benchmark import AttemptLogs, BenchmarkSource, DatasetInfo
from proctor.core.published_result import PublishedResult
from proctor.core.trajectory import LogMeasure

REPOSITORY: Final = "https://github.com/microsoft/SetupBench"
REVISION: Final = "041a412f01348c2a6f8b1b6a910138fe01885aee"  # what our notes on single tasks hold for
_SPLIT: Final = "all"


class SetupBenchSource(BenchmarkSource):
    """Implements `core.benchmark.BenchmarkSource`."""

    about = "machines to be set up: repositories, dependencies, databases, background services (93 tasks)"
    splits: tuple[str, ...] = (_SPLIT,)

    def open(self, split: str | None) -> SetupBench:
        """The benchmark, as it was fetched."""
        record, files = stored_dataset(SetupBench.name, split or _SPLIT)
        return SetupBench(read_tasks(files), record)

    async def fetch(self, split: str | None, origin: Path | None, log: Callable[[str], None]) -> DatasetInfo:
        """From its repository, or from a checkout of it, or a folder with its four files."""
        return await asyncio.to_thread(self._fetch, split or _SPLIT, origin, log)

    def _fetch(self, split: str, origin: Path | None, log: Callable[[str], None]) -> DatasetInfo:
        with tempfile.TemporaryDirectory(prefix="proctor-fetch-") as scratch:
            folder, revision = origin, ""
            if folder is None:
                folder = Path(scratch) / "repository"
                log(f"fetching {REPOSITORY}")
                revision = download_from_git(REPOSITORY, folder, revision=REVISION)
            tasks = read_tasks(folder)
            missing = sum(task.missing is not None for task in tasks)
            if missing:
                log(f"{missing} of {len(tasks)} tasks cannot be run: their fixtures are not in {folder}")
            return store_dataset(
                SetupBench.name,
                split,
                lambda into: _copy(folder, into),
                origin=REPOSITORY if origin is None else str(origin),
                revision=revision,
                tasks=len(tasks),
            )

    def published(self) -> Sequence[PublishedResult]:
        """The paper's Table 2."""
        return published_results("setupbench")

    def measure_logs(self, attempts: Iterable[AttemptLogs]) -> Sequence[LogMeasure]:
        """The paper's failure modes and wasted steps."""
        return measure_setups(attempts)


def _copy(folder: Path, into: Path) -> None:
    scenarios, fixtures = scenarios_dir(folder), fixtures_dir(folder)
    (into / "scenarios").mkdir()
    for name in FILES:
        shutil.copyfile(scenarios / name, into / "scenarios" / name)
    if fixtures is not None:
        shutil.copytree(fixtures, into / "fixtures")


SOURCE: BenchmarkSource = SetupBenchSource()
