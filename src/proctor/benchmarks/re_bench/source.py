"""Where the families come from: METR's repository, a copy of it, or this package."""

import asyncio
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from proctor.benchmarks.data import download_from_git, published_results, store_dataset, stored_dataset
from proctor.benchmarks.re_bench.benchmark import ReBench
from proctor.benchmarks.re_bench.families import (
    DESCRIPTION_FILE,
    SCALES,
    family_folders,
    load_families,
    read_description,
)
from proctor.benchmarks.re_bench.task_standard import (
    DEFAULT_FAMILY_DIR,
    FamilyDescription,
    driver_request,
    driver_source,
)
from proctor.core.benchmark import BenchmarkSource, DatasetInfo
from proctor.core.environment import EnvironmentProvider, EnvironmentSpec, Mount
from proctor.core.errors import InvalidData, UsageError
from proctor.core.published_result import PublishedResult
from proctor.core.record import to_json
from proctor.environments import provider as find_provider

REPOSITORY: Final = "https://github.com/METR/RE-Bench"
_SPLIT: Final = "main"
_DESCRIBE_SECONDS: Final = 120.0


class ReBenchSource(BenchmarkSource):
    """METR's seven families."""

    about = "RE-Bench: seven open-ended research engineering environments, scored over hours (METR)"
    splits: tuple[str, ...] = (_SPLIT,)

    def open(self, split: str | None) -> ReBench:
        """The families that were fetched."""
        chosen = split or _SPLIT
        record, files = stored_dataset("re_bench", chosen)
        families, unusable = load_families(files)
        return ReBench("re_bench", families, unusable, source=record.origin, split=chosen)

    async def fetch(self, split: str | None, origin: Path | None, log: Callable[[str], None]) -> DatasetInfo:
        """Fetch the families, and ask each for its instructions: its code runs in an environment without network."""
        with tempfile.TemporaryDirectory(prefix="proctor-re-bench-") as scratch:
            tree = Path(scratch) / "tree"
            revision = ""
            if origin is None:
                log(f"fetching {REPOSITORY}")
                revision = await asyncio.to_thread(lambda: download_from_git(REPOSITORY, tree))
            else:
                await asyncio.to_thread(shutil.copytree, origin, tree, ignore=shutil.ignore_patterns(".git"))
            folders = [folder for folder in family_folders(tree) if folder.name in SCALES or origin is not None]
            if not folders:
                raise InvalidData("there is no task family in it", where=origin or REPOSITORY)
            local = find_provider("local")
            try:
                for folder in folders:
                    log(f"reading {folder.name}")
                    await _write_description(local, folder)
            finally:
                await local.close()

            def fill(files: Path) -> None:
                for folder in folders:
                    shutil.copytree(folder, files / folder.name)

            return await asyncio.to_thread(
                lambda: store_dataset(
                    "re_bench",
                    split or _SPLIT,
                    fill,
                    origin=str(origin or REPOSITORY),
                    revision=revision,
                    tasks=len(folders),
                )
            )

    def published(self) -> Sequence[PublishedResult]:
        """What METR has published."""
        return published_results("re_bench")


async def _write_description(provider: EnvironmentProvider, folder: Path) -> None:
    """Let a family say what its tasks are; one that cannot is kept, and named when it is opened."""
    mount = Mount(source=str(folder), target=DEFAULT_FAMILY_DIR)
    async with await provider.start(EnvironmentSpec(mounts=(mount,))) as environment:
        given, word = driver_request("describe", folder.name, DEFAULT_FAMILY_DIR)
        done = await environment.exec(
            ["python3", "-B", "-c", driver_source()], stdin=given, cwd="/", timeout=_DESCRIBE_SECONDS
        )
    try:
        described = read_description(done.stdout, word, where=folder.name, stderr=done.stderr)
    except InvalidData as error:
        described = FamilyDescription(problem=error.what)
    (folder / DESCRIPTION_FILE).write_bytes(to_json(described))


class ReBenchDemoSource(BenchmarkSource):
    """Two small families of ours."""

    about = "two small task families that run on any machine: one by its best score, one by its last"
    splits: tuple[str, ...] = ()

    def open(self, split: str | None) -> ReBench:
        """They come with the package."""
        root = Path(__file__).parent / "families"
        families, unusable = load_families(root, trusted=True)
        return ReBench("re_bench_demo", families, unusable, source=str(root))

    async def fetch(self, split: str | None, origin: Path | None, log: Callable[[str], None]) -> DatasetInfo:
        """Nothing has to be fetched."""
        raise UsageError("re_bench_demo comes with Proctor", fix="just run it")


SOURCE: BenchmarkSource = ReBenchSource()
DEMO: BenchmarkSource = ReBenchDemoSource()
