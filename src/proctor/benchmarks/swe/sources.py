"""The four benchmarks as this package registers them: how their data comes here, and what others have published."""

import asyncio
import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Generic

from proctor.benchmarks.data import download_from_git, published_results, read_rows, store_dataset, stored_dataset
from proctor.benchmarks.swe.benchmark import SweBenchmark
from proctor.benchmarks.swe.evo_grader import SweEvoGrader
from proctor.benchmarks.swe.feature_grader import FeatureBenchGrader
from proctor.benchmarks.swe.official_grader import OfficialGrader
from proctor.benchmarks.swe.pro_grader import SweBenchProGrader
from proctor.benchmarks.swe.row_loading import (
    EVO_REPOSITORY,
    PRO_REPOSITORY,
    TASKS_REPOSITORY,
    RawRows,
    evo_rows,
    hub_rows,
    pro_rows_from_copy,
    rows_from_copy,
    with_environments,
    with_scripts,
)
from proctor.benchmarks.swe.rows import (
    FeatureBenchRow,
    R,
    SweBenchProRow,
    SweBenchRow,
    SweEvoRow,
    evo_row,
    feature_row,
    pro_row,
    read_swe_rows,
    swe_bench_row,
)
from proctor.benchmarks.swe.swe_bench_grader import SweBenchGrader
from proctor.core.benchmark import BenchmarkSource, DatasetInfo, InvalidTask
from proctor.core.errors import InfrastructureError, InvalidData
from proctor.core.formatting import reason_lines
from proctor.core.published_result import PublishedResult

_ROWS: Final = "rows.jsonl"
RowFetcher = Callable[[str, Callable[[str], None]], tuple[RawRows, str, str]]


class SweSource(BenchmarkSource, Generic[R]):
    """Implements `core.benchmark.BenchmarkSource`.

    Args:
        read: reads one row.
        missing_data: what a row does not have that grading needs; None when it has everything.
        remote: rows, origin and revision of a split, from its official place.
        copy: rows from a copy on this machine.
        belongs: whether a row of a copy is one of a split.
    """

    def __init__(
        self,
        name: str,
        about: str,
        splits: tuple[str, ...],
        official_grader: OfficialGrader[R],
        *,
        read_row: Callable[[Mapping[str, Any]], R],
        fetch_rows: RowFetcher,
        missing_data: Callable[[R], str | None] = lambda _: None,
        read_copy: Callable[[Path], RawRows] = rows_from_copy,
        is_in_split: Callable[[Mapping[str, Any], str], bool] = lambda _row, _split: True,
    ) -> None:
        self.name = name
        self.about = about
        self.splits = splits
        self._official_grader = official_grader
        self._read_row = read_row
        self._missing_data = missing_data
        self._fetch_rows = fetch_rows
        self._read_copy = read_copy
        self._is_in_split = is_in_split

    def open(self, split: str | None) -> SweBenchmark[R]:
        """The benchmark, from what was fetched."""
        data, folder = stored_dataset(self.name, split or self.splits[0])
        good, bad = self._split_usable(read_rows(folder / _ROWS))
        return SweBenchmark(self.name, data, good, bad, self._official_grader)

    async def fetch(self, split: str | None, origin: Path | None, log: Callable[[str], None]) -> DatasetInfo:
        """Bring the rows here and keep them as one file of JSON lines."""
        split = split or self.splits[0]
        if origin is not None:
            rows, place, revision = await asyncio.to_thread(self._read_copy, origin), str(origin), ""
            rows = [row for row in rows if self._is_in_split(row, split)]
        else:
            rows, place, revision = await asyncio.to_thread(self._fetch_rows, split, log)
        good, bad = read_swe_rows(rows, self._read_row)
        if not good:
            raise InvalidData(
                f"no row is one of {self.name}",
                where=place,
                details=reason_lines({row.task_id: row.problems[0] for row in bad}),
            )
        unusable = {row.task_id: row.problems[0] for row in bad}
        unusable |= {row.instance_id: why for row in good if (why := self._missing_data(row))}
        for line in reason_lines(unusable):
            log(f"cannot be used: {line}")
        rows.sort(key=lambda row: str(row.get("instance_id")))

        def fill(folder: Path) -> None:
            with (folder / _ROWS).open("w", encoding="utf-8", errors="surrogateescape") as file:
                for row in rows:
                    file.write(json.dumps(row, ensure_ascii=True, default=str) + "\n")

        return store_dataset(self.name, split, fill, origin=place, revision=revision, tasks=len(good))

    def published(self) -> Sequence[PublishedResult]:
        """What others have published."""
        return published_results(self.name)

    def _split_usable(self, rows: RawRows) -> tuple[list[R], list[InvalidTask]]:
        good, bad = read_swe_rows(rows, self._read_row)
        missing = {row.instance_id: self._missing_data(row) for row in good}
        bad += [InvalidTask(task_id=identity, problems=(what,)) for identity, what in missing.items() if what]
        return [row for row in good if not missing[row.instance_id]], bad


_SWE_BENCH_REPOS: Final = {
    "verified": "SWE-bench/SWE-bench_Verified",
    "lite": "SWE-bench/SWE-bench_Lite",
    "full": "SWE-bench/SWE-bench",
    "multilingual": "SWE-bench/SWE-bench_Multilingual",
}


def _fetch_swe_bench(split: str, log: Callable[[str], None]) -> tuple[RawRows, str, str]:
    repo = _SWE_BENCH_REPOS[split]
    log(f"fetching {repo} from the hub")
    rows, revision = hub_rows(repo, ["*test*.parquet"])
    rows, environments = _fetch_environments(rows, "instance_id", log)
    return rows, f"https://huggingface.co/datasets/{repo}", f"{revision}{environments}"


def _fetch_environments(rows: RawRows, key: str, log: Callable[[str], None]) -> tuple[RawRows, str]:
    """The same rows with what running them without Docker takes, where that can be had."""
    log(f"fetching environments from {TASKS_REPOSITORY}")
    with tempfile.TemporaryDirectory(prefix="proctor-fetch-") as folder:
        try:
            commit = download_from_git(TASKS_REPOSITORY, Path(folder) / "tasks")
        except InfrastructureError as error:
            log(f"without them, these tasks can be run in containers only: {error.what}")
            return rows, ""
        return with_environments(rows, Path(folder) / "tasks", key=key), f" with environments of {commit}"


def _fetch_pro(split: str, log: Callable[[str], None]) -> tuple[RawRows, str, str]:
    del split
    repo = "ScaleAI/SWE-bench_Pro"
    log(f"fetching {repo} from the hub")
    rows, revision = hub_rows(repo, ["*test*.parquet"])
    log(f"fetching run scripts from {PRO_REPOSITORY}")
    with tempfile.TemporaryDirectory(prefix="proctor-fetch-") as folder:
        scripts = download_from_git(PRO_REPOSITORY, Path(folder) / "scripts")
        rows = with_scripts(rows, Path(folder) / "scripts")
    return rows, f"https://huggingface.co/datasets/{repo}", f"{revision} with scripts of {scripts}"


def _fetch_evo(split: str, log: Callable[[str], None]) -> tuple[RawRows, str, str]:
    del split
    log(f"fetching {EVO_REPOSITORY}")
    with tempfile.TemporaryDirectory(prefix="proctor-fetch-") as folder:
        commit = download_from_git(EVO_REPOSITORY, Path(folder) / "clone")
        rows = evo_rows(Path(folder) / "clone")
    rows, environments = _fetch_environments(rows, "instance_id_swe", log)
    return rows, EVO_REPOSITORY, f"{commit}{environments}"


def _fetch_feature(split: str, log: Callable[[str], None]) -> tuple[RawRows, str, str]:
    repo = "LiberCoders/FeatureBench"
    log(f"fetching {repo} ({split}) from the hub")
    rows, revision = hub_rows(repo, [f"*{split}*.parquet"])
    return rows, f"https://huggingface.co/datasets/{repo}", revision


def _is_in_split(row: Mapping[str, Any], split: str) -> bool:
    """Task folders hold all sets at once, and say which ones they are of; other copies are of one set."""
    sets = row.get("datasets")
    return not isinstance(sets, list) or (_SWE_BENCH_REPOS[split] in sets and row.get("split", "test") == "test")


def _missing_eval_script(row: SweBenchRow) -> str | None:
    if row.eval_script and row.log_parser:
        return None
    return "it has no eval_script and log_parser; rows have them since SWE-bench 5: fetch a newer revision"


def _missing_run_script(row: SweBenchProRow) -> str | None:
    if row.run_script and row.parser:
        return None
    return "its run_script.sh and parser.py are missing: fetch from the official place, or from a clone with the rows"


swe_bench_verified: Final[SweSource[SweBenchRow]] = SweSource(
    "swe_bench_verified",
    "issues of Python projects, solved by a patch (SWE-bench: Verified, Lite, full, Multilingual)",
    tuple(_SWE_BENCH_REPOS),
    SweBenchGrader(),
    read_row=swe_bench_row,
    missing_data=_missing_eval_script,
    fetch_rows=_fetch_swe_bench,
    is_in_split=_is_in_split,
)
swe_bench_pro: Final[SweSource[SweBenchProRow]] = SweSource(
    "swe_bench_pro",
    "long changes in Python, Go and JavaScript projects (SWE-bench Pro, the public part)",
    ("public",),
    SweBenchProGrader(),
    read_row=pro_row,
    missing_data=_missing_run_script,
    fetch_rows=_fetch_pro,
    read_copy=pro_rows_from_copy,
)
swe_evo: Final[SweSource[SweEvoRow]] = SweSource(
    "swe_evo",
    "whole releases of Python projects, from their release notes (SWE-EVO)",
    ("test",),
    SweEvoGrader(),
    read_row=evo_row,
    fetch_rows=_fetch_evo,
    read_copy=evo_rows,
)
ace_bench: Final[SweSource[FeatureBenchRow]] = SweSource(
    "ace_bench",
    "features of Python projects, taken out and to be written again (FeatureBench, before: ACE-Bench)",
    ("full", "fast", "lite"),
    FeatureBenchGrader(),
    read_row=feature_row,
    fetch_rows=_fetch_feature,
)
