"""What mining found, and why the rest fell away: `mining.json` of a suite."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from typing import Final, Literal

from msgspec import field

from proctor.benchmarks.suites.load import SUITE_FILE, load_suite
from proctor.benchmarks.suites.tests_instance import TestsInstance
from proctor.core.record import Record, read_record
from proctor.core.trees import disk_bytes
from proctor.mining.candidates import Stage
from proctor.mining.journal import MiningJournal

REPORT_FILE: Final = "mining.json"


class MinedCommit(Record):
    """One commit of the range, and what became of it."""

    commit: str
    day: str
    subject: str
    stage: Stage
    code: str = ""
    reason: str = ""
    task_id: str | None = None


class MiningReport(Record):
    """`mining.json`: every commit of the range, newest first. The same history gives the same bytes.

    Attributes:
        repository: its address, or its folder's name.
        head: where the main line ended.
        unseen: commits of the range that were not tried, because there were tasks enough.
    """

    suite: str
    repository: str
    head: str
    commits: tuple[MinedCommit, ...]
    unseen: int = 0
    schema_version: Literal["proctor.mining_report@1"] = "proctor.mining_report@1"


class FunnelStep(Record):
    """How many commits were left at a stage, and why others left there."""

    stage: str
    left: int
    dropped: dict[str, int] = field(default_factory=dict)


class SuiteSummary(Record):
    """What `proctor suite show` prints of a suite."""

    suite: str
    tasks: int
    description: str = ""
    repository: str = ""
    funnel: tuple[FunnelStep, ...] = ()
    languages: dict[str, int] = field(default_factory=dict)
    months: dict[str, int] = field(default_factory=dict)
    flags: dict[str, int] = field(default_factory=dict)
    licences: dict[str, int] = field(default_factory=dict)
    instructions: dict[str, int] = field(default_factory=dict)
    fair: int = 0
    environments: int = 0
    environment_bytes: int = 0
    median_lines: float = 0.0
    median_fail_to_pass: float = 0.0
    median_pass_to_pass: float = 0.0
    excluded_tests: int = 0
    disk_bytes: int = 0
    seconds_per_task: float | None = None
    seconds_per_candidate: float | None = None
    test_seconds: float | None = None
    task_rows: tuple["SuiteTaskRow", ...] = ()
    schema_version: Literal["proctor.suite_summary@1"] = "proctor.suite_summary@1"


class SuiteTaskRow(Record):
    """One task of a suite."""

    id: str
    created: str = ""
    language: str = ""
    fail_to_pass: int = 0
    pass_to_pass: int = 0
    lines: int = 0
    flags: tuple[str, ...] = ()
    seconds: float | None = None


def funnel(commits: Iterable[MinedCommit]) -> tuple[FunnelStep, ...]:
    """The stages in order, with how many commits were left after each, and the reasons of those that were not."""
    listed = list(commits)
    left = len(listed)
    steps = [FunnelStep(stage="commits", left=left)]
    names = {Stage.COMMIT: "candidates", Stage.SETUP: "installed", Stage.TESTS: "fail to pass", Stage.PROOF: "tasks"}
    for stage, name in names.items():
        dropped = Counter(commit.code for commit in listed if commit.stage is stage)
        left -= sum(dropped.values())
        steps.append(
            FunnelStep(stage=name, left=left, dropped=dict(sorted(dropped.items(), key=lambda one: (-one[1], one[0]))))
        )
    return tuple(steps)


def summarise_suite(where: str | Path) -> SuiteSummary:
    """What is to say of a suite, mined or not.

    Raises:
        InvalidData: there is no such suite, or its files are bad.
    """
    if (Path(where) / REPORT_FILE).is_file() and not (Path(where) / SUITE_FILE).exists():
        return _without_tasks(Path(where))
    suite = load_suite(where)
    folder = suite.path.parent
    file = folder / REPORT_FILE
    report = read_record(file, MiningReport) if file.is_file() else None
    tried = list(MiningJournal(folder).results().values())
    measured = {result.task_id: result.measures for result in tried if result.task_id}
    sizes = {result.environment: result.measures.environment_bytes for result in tried if result.task_id}
    mined = [instance for instance in suite.instances if isinstance(instance, TestsInstance)]
    rows, environments = [], set()
    for instance in suite.instances:
        own = instance.file.provenance if isinstance(instance, TestsInstance) else None
        measures = measured.get(instance.id)
        rows.append(
            SuiteTaskRow(
                id=instance.id,
                created=instance.created or "",
                language=instance.file.language or "",
                fail_to_pass=len(instance.file.eval.fail_to_pass),
                pass_to_pass=len(instance.file.eval.pass_to_pass),
                lines=own.lines if own else 0,
                flags=own.flags if own else (),
                seconds=measures.test_seconds if measures else None,
            )
        )
        if instance.environment is not None:
            environments.add(instance.environment)
    provenances = [instance.file.provenance for instance in mined if instance.file.provenance is not None]
    times = [row.seconds for row in rows if row.seconds is not None]
    return SuiteSummary(
        suite=suite.id,
        description=suite.file.description,
        tasks=len(rows),
        repository=report.repository if report else "",
        funnel=funnel(report.commits) if report else (),
        languages=_counted(row.language for row in rows if row.language),
        months=_counted(row.created[:7] for row in rows if row.created),
        flags=_counted(flag for row in rows for flag in row.flags),
        licences=_counted(one.licence or "unknown" for one in provenances),
        instructions=_counted(one.instruction for one in provenances),
        fair=sum(not row.flags for row in rows) if provenances else 0,
        environments=len(environments),
        environment_bytes=sum(sizes.values()),
        median_lines=float(median([row.lines for row in rows])) if rows else 0.0,
        median_fail_to_pass=float(median([row.fail_to_pass for row in rows])) if rows else 0.0,
        median_pass_to_pass=float(median([row.pass_to_pass for row in rows])) if rows else 0.0,
        excluded_tests=sum(len(one.excluded) for one in provenances),
        disk_bytes=disk_bytes(folder),
        seconds_per_task=_mean([one.measures.seconds for one in tried if one.stage is Stage.TASK]),
        seconds_per_candidate=_mean([one.measures.seconds for one in tried]),
        test_seconds=_mean(times),
        task_rows=tuple(rows),
    )


def _without_tasks(folder: Path) -> SuiteSummary:
    """What is to say where mining has made no task."""
    report = read_record(folder / REPORT_FILE, MiningReport)
    tried = MiningJournal(folder).results().values()
    return SuiteSummary(
        suite=report.suite,
        tasks=0,
        repository=report.repository,
        funnel=funnel(report.commits),
        disk_bytes=disk_bytes(folder),
        seconds_per_candidate=_mean([one.measures.seconds for one in tried]),
    )


def _counted(values: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(values).items()))


def _mean(values: list[float]) -> float | None:
    return round(sum(values) / len(values), 1) if values else None
