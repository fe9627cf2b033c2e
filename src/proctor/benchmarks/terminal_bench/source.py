"""Where the tasks of Terminal-Bench come from."""

import asyncio
import shutil
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from proctor.benchmarks.data import fetched, from_git, keep
from proctor.benchmarks.terminal_bench.benchmark import TerminalBench
from proctor.benchmarks.terminal_bench.convert import convert, variants
from proctor.benchmarks.terminal_bench.format import CONFIG
from proctor.benchmarks.terminal_bench.published import PUBLISHED
from proctor.core.benchmark import BenchmarkSource, Fetched
from proctor.core.errors import InvalidData, UsageError
from proctor.core.published import Published

OTHER: Final = "other"
# Where each version is published, and at which revision; None: the newest.
ORIGINS: Final = {
    "2.0": ("https://github.com/harbor-framework/terminal-bench-2", None),
    "2.1": ("https://github.com/harbor-framework/terminal-bench-2-1", None),
    "1.0": ("https://github.com/laude-institute/terminal-bench", "91e10457b5410f16c44364da1a34cb6de8c488a5"),
}
_OLD_CONFIG: Final = "task.yaml"
_DEEPEST: Final = 4


class TerminalBenchSource:
    """Implements `core.benchmark.BenchmarkSource`."""

    about = "hard tasks in a terminal, verified where they were done; any tasks in Harbor's format"
    splits: tuple[str, ...] = (*ORIGINS, OTHER)

    def open(self, split: str | None) -> TerminalBench:
        """The benchmark, as it was fetched."""
        chosen = split or self.splits[0]
        record, files = fetched(TerminalBench.name, chosen)
        return TerminalBench(files, record, chosen)

    async def fetch(self, split: str | None, origin: Path | None, tell: Callable[[str], None]) -> Fetched:
        """From its repository, or from a folder with tasks of Harbor's format or of the old one."""
        return await asyncio.to_thread(self._fetch, split or self.splits[0], origin, tell)

    def _fetch(self, split: str, origin: Path | None, tell: Callable[[str], None]) -> Fetched:
        if origin is None and split not in ORIGINS:
            raise UsageError(f"the split {split} is for tasks of your own", fix="say where they are with --from PATH")
        with tempfile.TemporaryDirectory(prefix="proctor-fetch-") as scratch:
            folder, revision, place = origin, "", str(origin)
            if folder is None:
                place, wanted = ORIGINS[split]
                folder = Path(scratch) / "repository"
                tell(f"fetching {place}")
                revision = from_git(place, folder, revision=wanted)
            made = Path(scratch) / "tasks"
            made.mkdir()
            count = gather(folder, made, tell)
            return keep(
                TerminalBench.name,
                split,
                partial(_move, made),
                origin=place,
                revision=revision,
                tasks=count,
            )

    def published(self) -> Sequence[Published]:
        """Rows of the official leaderboards."""
        return PUBLISHED


def gather(folder: Path, into: Path, tell: Callable[[str], None]) -> int:
    """Copy every task below `folder`, those of the old format converted; how many there are.

    Raises:
        InvalidData: there is none.
    """
    count = 0
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
                tell(f"{name} is left out: {error}")
    if not count:
        raise InvalidData(f"no task is here: no folder has a {CONFIG} or a {_OLD_CONFIG}", where=folder)
    return count


def _move(made: Path, into: Path) -> None:
    shutil.copytree(made, into, dirs_exist_ok=True, symlinks=True)


def _task_folders(folder: Path) -> list[Path]:
    found = {
        file.parent
        for name in (CONFIG, _OLD_CONFIG)
        for depth in range(_DEEPEST)
        for file in folder.glob(f"{'*/' * depth}{name}")
    }
    return sorted(found, key=lambda place: place.name)


SOURCE: BenchmarkSource = TerminalBenchSource()
