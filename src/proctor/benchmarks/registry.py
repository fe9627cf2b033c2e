"""Finding a benchmark: by entry point, or as a suite."""

import re
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from proctor.benchmarks.plugins import GROUP, registered_source, source_of
from proctor.core.benchmark import Benchmark, BenchmarkSource, DatasetInfo
from proctor.core.errors import ProctorError, UsageError
from proctor.core.evaluation import TaskEvaluation
from proctor.core.plugins import entry_points
from proctor.core.record import Record
from proctor.core.suggestions import suggest

if TYPE_CHECKING:
    from proctor.benchmarks.swe.harness_reports import SweOutcome
    from proctor.benchmarks.swe.parity import Parity

_SPLIT_NAME: Final = re.compile(r"[A-Za-z0-9][\w.@+-]{0,99}", re.ASCII)


class BenchmarkRow(Record):
    """One line of the list of benchmarks. `tasks` is None while its data is not on this machine."""

    name: str
    kind: str
    tasks: int | None
    about: str
    splits: tuple[str, ...] = ()
    schema_version: Literal["proctor.benchmark_row@1"] = "proctor.benchmark_row@1"


def benchmark(name: str, split: str | None = None) -> Benchmark:
    """A benchmark by its name: one that a package registers, or a shipped suite.

    Raises:
        UsageError: none is called so, it has no such split, or its data is not here.
    """
    from proctor.benchmarks.suites.load import shipped_suites

    source = registered_source(name)
    if source is not None:
        return source.open(checked_split(name, source, split))
    shipped = shipped_suites()
    if name not in shipped:
        names = sorted({entry.name for entry in entry_points(GROUP)} | set(shipped))
        fix = suggest(name, names, f"choose one of {', '.join(names)}, or give --suite PATH")
        raise UsageError(f"there is no benchmark {name!r}", fix=fix)
    if split is not None:
        raise UsageError(f"the suite {name} has no splits", fix="leave --split out")
    return suite_benchmark(str(shipped[name]))


def benchmark_source(name: str) -> BenchmarkSource:
    """Where the data of a benchmark comes from.

    Raises:
        UsageError: no benchmark is called so, or it is a suite, which lies on this machine already.
    """
    source = registered_source(name)
    if source is None:
        names = sorted(entry.name for entry in entry_points(GROUP))
        fix = suggest(name, names, f"choose one of {', '.join(names) or 'none'}")
        raise UsageError(f"{name!r} is not a benchmark whose data is downloaded", fix=fix)
    return source


async def fetch_dataset(
    name: str, split: str | None, origin: Path | str | None, log: Callable[[str], None]
) -> DatasetInfo:
    """Bring the data of a benchmark here, from its official place or from `origin`: a path, or, as a text, the address
    of a repository.

    Raises:
        InfrastructureError: its official place cannot be reached, whatever its source raised.
        InvalidData: what is there is not this benchmark's data.
        UsageError: it has no data that is fetched, or no such split.
    """
    from proctor.benchmarks.data.download import download_error
    from proctor.benchmarks.data.network_errors import is_network_error

    source = benchmark_source(name)
    wanted = _new_split(split) if source.names_splits else checked_split(name, source, split)
    try:
        if isinstance(origin, str):
            return await source.fetch_repository(wanted, origin, log)
        return await source.fetch(wanted, origin, log)
    except ProctorError:
        raise
    except Exception as error:
        if not is_network_error(error):
            raise
        raise download_error(name, error) from error


def _new_split(split: str | None) -> str | None:
    """A split as whoever fetches names it: it becomes a folder's name."""
    if split is not None and not _SPLIT_NAME.fullmatch(split):
        raise UsageError(
            f"{split!r} is no name for a split", fix="use letters, digits, and any of . _ @ + - after them"
        )
    return split


def checked_split(name: str, source: BenchmarkSource, split: str | None) -> str | None:
    """The split that is meant: the first one, where none is named.

    Raises:
        UsageError: there is no such split.
    """
    if split is None:
        return source.splits[0] if source.splits else None
    if split not in source.splits:
        fix = f"choose one of {', '.join(source.splits)}" if source.splits else "leave --split out"
        raise UsageError(f"{name} has no split {split!r}", fix=fix)
    return split


def suite_benchmark(where: str) -> Benchmark:
    """A suite by its path or name; or a folder of Harbor's tasks, or a data set's file that names them.

    Raises:
        InvalidData: there is no such suite, or its file is bad.
    """
    place = Path(where)
    if place.exists() and not (place / "suite.json").exists() and (place.suffix != ".json" or _is_list(place)):
        from proctor.benchmarks.harbor import harbor_suite

        tasks = harbor_suite(place)
        if tasks is not None:
            return tasks
    from proctor.benchmarks.suites.benchmark import SuiteBenchmark
    from proctor.benchmarks.suites.load import load_suite

    return SuiteBenchmark(load_suite(where))


def harness_outcomes(file: Path) -> "Sequence[SweOutcome]":
    """What another harness's report says of each prediction.

    Raises:
        UsageError: it cannot be read, or nothing there is a report.
        InvalidData: it is no report that we know.
    """
    from proctor.benchmarks.swe.harness_reports import read_outcomes

    return read_outcomes(file)


def parity(name: str, theirs: "Sequence[SweOutcome]", ours: Mapping[str, TaskEvaluation]) -> "Parity":
    """Where another harness's verdicts and the official rule here differ."""
    from proctor.benchmarks.swe.parity import compare

    return compare(name, theirs, ours)


def reopen(name: str, source: str, split: str | None = None) -> Benchmark:
    """The benchmark that a stored run was made with."""
    known = {entry.name for entry in entry_points(GROUP)}
    return benchmark(name, split) if name in known else suite_benchmark(source)


def _is_list(file: Path) -> bool:
    """Whether a JSON document is a list: a registry of data sets is one, and a suite is none."""
    if not file.is_file():
        return False
    with file.open("rb") as stream:
        return stream.read(64).lstrip().startswith(b"[")


def benchmark_table() -> tuple[BenchmarkRow, ...]:
    """All benchmarks that this installation knows."""
    from proctor.benchmarks.suites.load import load_suite, shipped_suites

    rows = [_row(entry) for entry in sorted(entry_points(GROUP), key=lambda entry: entry.name)]
    for name, path in shipped_suites().items():
        suite = load_suite(path)
        rows.append(BenchmarkRow(name=name, kind="suite", tasks=len(suite.instances), about=suite.file.description))
    return tuple(rows)


def _row(entry: EntryPoint) -> BenchmarkRow:
    """A benchmark's line; its tasks are counted where its data is here. One that is broken costs its own line only."""
    from proctor.benchmarks.data import stored_dataset

    try:
        source = source_of(entry)
    except UsageError as error:
        return BenchmarkRow(name=entry.name, kind="benchmark", tasks=None, about=error.sentence)
    split = source.splits[0] if source.splits else None
    try:
        # What has no splits lies on this machine already.
        tasks = len(source.open(None).tasks()) if split is None else stored_dataset(entry.name, split)[0].tasks
    except Exception:  # noqa: BLE001 - whatever it is: `bench list NAME` reports it
        tasks = None
    return BenchmarkRow(name=entry.name, kind="benchmark", tasks=tasks, about=source.about, splits=source.splits)
