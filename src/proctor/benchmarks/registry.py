"""Finding a benchmark: by entry point, or as a suite."""

from collections.abc import Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Final

from proctor.core.benchmark import Benchmark, Health
from proctor.core.errors import UsageError
from proctor.core.evaluation import EvaluationReport, Prediction
from proctor.core.programs import find_x07, first_line
from proctor.core.record import Record
from proctor.core.task import Task

GROUP: Final = "proctor.benchmarks"


class BenchmarkRow(Record):
    """One line of the list of benchmarks."""

    name: str
    kind: str
    tasks: int | None
    about: str


def benchmark(name: str) -> Benchmark:
    """A benchmark by its name: one that a package registers, or a shipped suite.

    Raises:
        UsageError: none is called so.
    """
    from proctor.benchmarks.suites.load import shipped_suites  # noqa: PLC0415 - for names that need it only

    found = entry_points(group=GROUP, name=name)
    for entry in found:
        made: Benchmark = entry.load()()
        return made
    shipped = shipped_suites()
    if name in shipped:
        return suite_benchmark(str(shipped[name]))
    names = sorted({entry.name for entry in entry_points(group=GROUP)} | set(shipped))
    raise UsageError(f"there is no benchmark {name!r}", fix=f"choose one of {', '.join(names)}, or give --suite PATH")


def suite_benchmark(where: str) -> Benchmark:
    """A suite by its path or name.

    Raises:
        InvalidData: there is no such suite, or its file is bad.
    """
    from proctor.benchmarks.suites.benchmark import SuiteBenchmark  # noqa: PLC0415 - as above
    from proctor.benchmarks.suites.load import load_suite  # noqa: PLC0415

    return SuiteBenchmark(load_suite(where))


def read_predictions(file: Path) -> dict[str, Prediction]:
    """The answers in a predictions file.

    Raises:
        UsageError: it has bad lines.
    """
    from proctor.benchmarks.suites.predictions import read_predictions as read  # noqa: PLC0415 - as above

    return read(file)


def x07_document(source: Benchmark, report: EvaluationReport) -> tuple[bytes, int]:
    """A report in x07's words, and how many of its instances x07 calls errors."""
    from proctor.benchmarks.suites.benchmark import SuiteBenchmark  # noqa: PLC0415 - as above
    from proctor.benchmarks.suites.x07_report import x07_json, x07_report  # noqa: PLC0415

    suite = source.suite if isinstance(source, SuiteBenchmark) else None
    document = x07_report(report, suite=suite, x07_version=_x07_version())
    return x07_json(document), document["summary"]["errors"]


def _x07_version() -> str | None:
    program = find_x07()
    try:
        return first_line([program.path, "--version"]).split()[-1] if program else None
    except OSError:
        return None


def x07_list_document(source: Benchmark, tasks: Sequence[Task]) -> bytes:
    """A list of tasks in x07's words."""
    from proctor.benchmarks.suites.x07_report import x07_json, x07_list_report  # noqa: PLC0415 - as above

    return x07_json(x07_list_report(source.source, source.name, [task.id for task in tasks]))


def x07_health_document(source: Benchmark, healths: Sequence[Health], seconds: float) -> bytes:
    """What `validate` found, in x07's words."""
    from proctor.benchmarks.suites.x07_report import x07_json, x07_validate_report  # noqa: PLC0415 - as above

    return x07_json(x07_validate_report(healths, suite_path=source.source, suite_id=source.name, seconds=seconds))


def reopen(name: str, source: str) -> Benchmark:
    """The benchmark that a stored run was made with."""
    known = {entry.name for entry in entry_points(group=GROUP)}
    return benchmark(name) if name in known else suite_benchmark(source)


def benchmark_table() -> tuple[BenchmarkRow, ...]:
    """All benchmarks that this installation knows."""
    from proctor.benchmarks.suites.load import load_suite, shipped_suites  # noqa: PLC0415 - as above

    rows = [
        BenchmarkRow(name=entry.name, kind="benchmark", tasks=None, about=entry.value)
        for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name)
    ]
    for name, path in shipped_suites().items():
        suite = load_suite(path)
        rows.append(BenchmarkRow(name=name, kind="suite", tasks=len(suite.instances), about=suite.file.description))
    return tuple(rows)
