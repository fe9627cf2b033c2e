"""Where SetupBench's data comes from."""

import asyncio
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from proctor.benchmarks.data import fetched, from_git, keep
from proctor.benchmarks.setupbench.benchmark import SetupBench
from proctor.benchmarks.setupbench.published import PUBLISHED
from proctor.benchmarks.setupbench.rows import FILES, fixtures_in, read_tasks, scenarios_in
from proctor.core.benchmark import BenchmarkSource, Fetched
from proctor.core.published import Published

REPOSITORY: Final = "https://github.com/microsoft/SetupBench"
REVISION: Final = "041a412f01348c2a6f8b1b6a910138fe01885aee"  # what our notes on single tasks hold for
_SPLIT: Final = "all"


class SetupBenchSource:
    """Implements `core.benchmark.BenchmarkSource`."""

    about = "machines to be set up: repositories, dependencies, databases, background services (93 tasks)"
    splits: tuple[str, ...] = (_SPLIT,)

    def open(self, split: str | None) -> SetupBench:
        """The benchmark, as it was fetched."""
        record, files = fetched(SetupBench.name, split or _SPLIT)
        return SetupBench(read_tasks(files), record)

    async def fetch(self, split: str | None, origin: Path | None, tell: Callable[[str], None]) -> Fetched:
        """From its repository, or from a checkout of it, or a folder with its four files."""
        return await asyncio.to_thread(self._fetch, split or _SPLIT, origin, tell)

    def _fetch(self, split: str, origin: Path | None, tell: Callable[[str], None]) -> Fetched:
        with tempfile.TemporaryDirectory(prefix="proctor-fetch-") as scratch:
            folder, revision = origin, ""
            if folder is None:
                folder = Path(scratch) / "repository"
                tell(f"fetching {REPOSITORY}")
                revision = from_git(REPOSITORY, folder, revision=REVISION)
            tasks = read_tasks(folder)
            missing = sum(task.missing is not None for task in tasks)
            if missing:
                tell(f"{missing} of {len(tasks)} tasks cannot be run: their fixtures are not in {folder}")
            return keep(
                SetupBench.name,
                split,
                lambda into: _copy(folder, into),
                origin=REPOSITORY if origin is None else str(origin),
                revision=revision,
                tasks=len(tasks),
            )

    def published(self) -> Sequence[Published]:
        """The paper's Table 2."""
        return PUBLISHED


def _copy(folder: Path, into: Path) -> None:
    scenarios, fixtures = scenarios_in(folder), fixtures_in(folder)
    (into / "scenarios").mkdir()
    for name in FILES:
        shutil.copyfile(scenarios / name, into / "scenarios" / name)
    if fixtures is not None:
        shutil.copytree(fixtures, into / "fixtures")


SOURCE: BenchmarkSource = SetupBenchSource()
