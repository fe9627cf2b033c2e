"""The four benchmarks as this package registers them: how their data comes here, and what others have published."""

import asyncio
import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from proctor.benchmarks.data import fetched, keep, read_rows
from proctor.benchmarks.swe.benchmark import SweBenchmark
from proctor.benchmarks.swe.evo import SweEvo
from proctor.benchmarks.swe.feature import FeatureBench
from proctor.benchmarks.swe.origins import (
    EVO_REPOSITORY,
    PRO_REPOSITORY,
    TASKS_REPOSITORY,
    Rows,
    evo_rows,
    from_copy,
    git_tree,
    hub_rows,
    pro_copy,
    with_environments,
    with_scripts,
)
from proctor.benchmarks.swe.pro import SweBenchPro
from proctor.benchmarks.swe.procedure import Procedure
from proctor.benchmarks.swe.published import published
from proctor.benchmarks.swe.rows import (
    EvoRow,
    FeatureRow,
    ProRow,
    Row,
    SweBenchRow,
    evo_row,
    feature_row,
    pro_row,
    read_all,
    swe_bench_row,
)
from proctor.benchmarks.swe.verified import SweBench
from proctor.core.benchmark import Fetched, Unusable
from proctor.core.errors import InfrastructureError, InvalidData
from proctor.core.published import Published

R = TypeVar("R", bound=Row)
_ROWS: Final = "rows.jsonl"
Remote = Callable[[str, Callable[[str], None]], tuple[Rows, str, str]]


class SweSource(Generic[R]):
    """Implements `core.benchmark.BenchmarkSource`.

    Args:
        read: reads one row.
        lacking: what a row lacks that grading needs; None when it lacks nothing.
        remote: rows, origin and revision of a split, from its official place.
        copy: rows from a copy on this machine.
        belongs: whether a row of a copy is one of a split.
    """

    def __init__(
        self,
        name: str,
        about: str,
        splits: tuple[str, ...],
        procedure: Procedure[R],
        *,
        read: Callable[[Mapping[str, Any]], R],
        lacking: Callable[[R], str | None],
        remote: Remote,
        copy: Callable[[Path], Rows] = from_copy,
        belongs: Callable[[Mapping[str, Any], str], bool] = lambda _row, _split: True,
    ) -> None:
        self.name = name
        self.about = about
        self.splits = splits
        self._procedure = procedure
        self._read = read
        self._lacking = lacking
        self._remote = remote
        self._copy = copy
        self._belongs = belongs

    def open(self, split: str | None) -> SweBenchmark[R]:
        """The benchmark, from what was fetched."""
        data, folder = fetched(self.name, split or self.splits[0])
        good, bad = self._usable(read_rows(folder / _ROWS))
        return SweBenchmark(self.name, data, good, bad, self._procedure)

    async def fetch(self, split: str | None, origin: Path | None, tell: Callable[[str], None]) -> Fetched:
        """Bring the rows here and keep them as one file of JSON lines."""
        split = split or self.splits[0]
        if origin is not None:
            rows, place, revision = await asyncio.to_thread(self._copy, origin), str(origin), ""
            rows = [row for row in rows if self._belongs(row, split)]
        else:
            rows, place, revision = await asyncio.to_thread(self._remote, split, tell)
        good, bad = read_all(rows, self._read)
        if not good:
            raise InvalidData(
                f"no row is one of {self.name}",
                where=place,
                details=[f"{row.task_id}: {row.problems[0]}" for row in bad],
            )
        if bad:
            tell(f"{len(bad)} of {len(rows)} rows cannot be used: {bad[0].task_id}: {bad[0].problems[0]}")
        rows.sort(key=lambda row: str(row.get("instance_id")))

        def fill(folder: Path) -> None:
            with (folder / _ROWS).open("w", encoding="utf-8", errors="surrogateescape") as file:
                for row in rows:
                    file.write(json.dumps(row, ensure_ascii=True, default=str) + "\n")

        return keep(self.name, split, fill, origin=place, revision=revision, tasks=len(good))

    def published(self) -> Sequence[Published]:
        """What others have published."""
        return published(self.name)

    def _usable(self, rows: Rows) -> tuple[list[R], list[Unusable]]:
        good, bad = read_all(rows, self._read)
        lacking = {row.instance_id: self._lacking(row) for row in good}
        bad += [Unusable(task_id=identity, problems=(what,)) for identity, what in lacking.items() if what]
        return [row for row in good if not lacking[row.instance_id]], bad


_SWE_BENCH: Final = {
    "verified": "SWE-bench/SWE-bench_Verified",
    "lite": "SWE-bench/SWE-bench_Lite",
    "full": "SWE-bench/SWE-bench",
    "multilingual": "SWE-bench/SWE-bench_Multilingual",
}


def _swe_bench(split: str, tell: Callable[[str], None]) -> tuple[Rows, str, str]:
    repo = _SWE_BENCH[split]
    tell(f"fetching {repo} from the hub")
    rows, revision = hub_rows(repo, ["*test*.parquet"])
    rows, environments = _with_environments(rows, "instance_id", tell)
    return rows, f"https://huggingface.co/datasets/{repo}", f"{revision}{environments}"


def _with_environments(rows: Rows, key: str, tell: Callable[[str], None]) -> tuple[Rows, str]:
    """The same rows with what running them without Docker takes, where that can be had."""
    tell(f"fetching environments from {TASKS_REPOSITORY}")
    with tempfile.TemporaryDirectory(prefix="proctor-fetch-") as folder:
        try:
            commit = git_tree(TASKS_REPOSITORY, Path(folder) / "tasks")
        except InfrastructureError as error:
            tell(f"without them, these tasks can be run in containers only: {error.what}")
            return rows, ""
        return with_environments(rows, Path(folder) / "tasks", key=key), f" with environments of {commit}"


def _pro(split: str, tell: Callable[[str], None]) -> tuple[Rows, str, str]:
    del split
    repo = "ScaleAI/SWE-bench_Pro"
    tell(f"fetching {repo} from the hub")
    rows, revision = hub_rows(repo, ["*test*.parquet"])
    tell(f"fetching run scripts from {PRO_REPOSITORY}")
    with tempfile.TemporaryDirectory(prefix="proctor-fetch-") as folder:
        scripts = git_tree(PRO_REPOSITORY, Path(folder) / "scripts")
        rows = with_scripts(rows, Path(folder) / "scripts")
    return rows, f"https://huggingface.co/datasets/{repo}", f"{revision} with scripts of {scripts}"


def _evo(split: str, tell: Callable[[str], None]) -> tuple[Rows, str, str]:
    del split
    tell(f"fetching {EVO_REPOSITORY}")
    with tempfile.TemporaryDirectory(prefix="proctor-fetch-") as folder:
        commit = git_tree(EVO_REPOSITORY, Path(folder) / "clone")
        rows = evo_rows(Path(folder) / "clone")
    rows, environments = _with_environments(rows, "instance_id_swe", tell)
    return rows, EVO_REPOSITORY, f"{commit}{environments}"


def _feature(split: str, tell: Callable[[str], None]) -> tuple[Rows, str, str]:
    repo = "LiberCoders/FeatureBench"
    tell(f"fetching {repo} ({split}) from the hub")
    rows, revision = hub_rows(repo, [f"*{split}*.parquet"])
    return rows, f"https://huggingface.co/datasets/{repo}", revision


def _is_member(row: Mapping[str, Any], split: str) -> bool:
    """Task folders hold all sets at once, and say which ones they are of; other copies are of one set."""
    sets = row.get("datasets")
    return not isinstance(sets, list) or (_SWE_BENCH[split] in sets and row.get("split", "test") == "test")


def _lacks_script(row: SweBenchRow) -> str | None:
    if row.eval_script and row.log_parser:
        return None
    return "it has no eval_script and log_parser; rows have them since SWE-bench 5: fetch a newer revision"


def _lacks_run_script(row: ProRow) -> str | None:
    if row.run_script and row.parser:
        return None
    return "its run_script.sh and parser.py are missing: fetch from the official place, or from a clone with the rows"


def _lacks_nothing(row: Row) -> str | None:
    del row
    return None


swe_bench_verified: Final[SweSource[SweBenchRow]] = SweSource(
    "swe_bench_verified",
    "issues of Python projects, solved by a patch (SWE-bench: Verified, Lite, full, Multilingual)",
    tuple(_SWE_BENCH),
    SweBench(),
    read=swe_bench_row,
    lacking=_lacks_script,
    remote=_swe_bench,
    belongs=_is_member,
)
swe_bench_pro: Final[SweSource[ProRow]] = SweSource(
    "swe_bench_pro",
    "long changes in Python, Go and JavaScript projects (SWE-bench Pro, the public part)",
    ("public",),
    SweBenchPro(),
    read=pro_row,
    lacking=_lacks_run_script,
    remote=_pro,
    copy=pro_copy,
)
swe_evo: Final[SweSource[EvoRow]] = SweSource(
    "swe_evo",
    "whole releases of Python projects, from their release notes (SWE-EVO)",
    ("test",),
    SweEvo(),
    read=evo_row,
    lacking=_lacks_nothing,
    remote=_evo,
    copy=evo_rows,
)
ace_bench: Final[SweSource[FeatureRow]] = SweSource(
    "ace_bench",
    "features of Python projects, taken out and to be written again (FeatureBench, before: ACE-Bench)",
    ("full", "fast", "lite"),
    FeatureBench(),
    read=feature_row,
    lacking=_lacks_nothing,
    remote=_feature,
)
