"""What the tests of a change really do: run before and after it, several times, without network, under two dates."""

import asyncio
import dataclasses
import functools
import platform
import shutil
from collections.abc import Collection
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import msgspec

from proctor.benchmarks.suites.benchmark import SuiteBenchmark
from proctor.benchmarks.suites.grade import SuiteGradingJob, lay_out_submission
from proctor.benchmarks.suites.installed import fetched_package
from proctor.benchmarks.suites.load import load_suite
from proctor.benchmarks.suites.tests_instance import TestsInstance
from proctor.core.benchmark import GradeOptions, GradingContext
from proctor.core.environment import EnvironmentProvider, Mount, Network
from proctor.core.errors import InfrastructureError
from proctor.core.record import Record
from proctor.core.task import Task
from proctor.core.verdict import TestStatus
from proctor.grading import InconclusiveRun, TestRun, lay_out
from proctor.mining.labels import DEPENDS_ON_DATE, NEEDS_NETWORK, Labels, label_tests
from proctor.mining.task_files import TaskDraft

# Another year, month, weekday and hour: whatever of the clock a test looks at, it is another.
_SHIFT: Final = timedelta(days=1207, hours=7)
_FAKETIME: Final = "lib*/*/faketime/libfaketime.so.1"
_FAKETIME_VERSION: Final = "3.0.1"
_FAKETIME_PATH: Final = "/proctor-faketime/libfaketime.so.1"
_REASON_LINES: Final = 3
_MAX_LOG: Final = 20_000


class NoLabels(Exception):
    """A change whose tests show nothing: a code for counting, and the reason."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class BeforeAfterRuns(Record):
    """What the runs showed.

    Attributes:
        loaded_only_after: failing tests that pass before the change in the file as it was then.
        seconds: that one run of the tests takes.
        failure_log: what the tests print before the change.
    """

    labels: Labels
    loaded_only_after: tuple[str, ...]
    seconds: float
    failure_log: str = ""


def draft_benchmark(draft: TaskDraft, provider: EnvironmentProvider) -> tuple[SuiteBenchmark, Task]:
    """A draft as a suite with one task.

    Raises:
        InvalidData: its trees hold what no suite may hold.
        NoLabels: its files are not those of an instance.
    """
    suite = load_suite(draft.folder)
    if suite.invalid:
        raise NoLabels("invalid", "; ".join(problem.message for problem in suite.invalid[0].problems))
    benchmark = SuiteBenchmark(suite).for_provider(provider)
    return benchmark, benchmark.tasks()[0]


async def run_before_and_after(
    benchmark: SuiteBenchmark, task: Task, provider: EnvironmentProvider, folder: Path, *, runs: int
) -> BeforeAfterRuns:
    """Run the tests of a draft whose environment is installed.

    Raises:
        NoLabels: they cannot be run after the change, or none goes from failing to passing every time.
        InfrastructureError: an environment failed.
    """
    context = GradingContext(provider=provider, folder=folder / "artifacts", options=GradeOptions(), use_cache=False)
    job = benchmark.grading_job(task, context)
    instance = job.instance
    assert isinstance(instance, TestsInstance)  # noqa: S101 - a draft has no other kind
    await asyncio.to_thread(job.reset_folder)
    oracle = benchmark.oracle(task)
    assert oracle is not None  # noqa: S101 - every draft has one
    pristine, solved = folder / "before", folder / "solved"
    for tree in (pristine, solved):
        await asyncio.to_thread(shutil.rmtree, tree, ignore_errors=True)
    try:
        applied = await asyncio.to_thread(lay_out_submission, job, oracle, solved)
        await asyncio.to_thread(lay_out, instance.repo, pristine, overlay=instance.hidden)

        async def run(
            tree: Path, name: str, *, faketime: Path | None = None, network: Network = Network.NONE
        ) -> TestRun:
            touched = applied.touched if tree is solved else None
            spec = msgspec.structs.replace(job.spec, network=network)
            one, timeout = instance, job.timeout
            if faketime is not None:
                spec = msgspec.structs.replace(
                    spec, mounts=(*spec.mounts, Mount(source=str(faketime), target=_FAKETIME_PATH))
                )
                one, timeout = shifted_instance(instance), shifted_timeout(job.timeout, after[0].seconds)
            other = dataclasses.replace(job, spec=spec, timeout=timeout)
            return (await one.run_tests(other, tree, name, touched=touched, permit=nullcontext())).run

        after = [await run(solved, "after.1")]
        # Tests are run with the network for one reason: to name those that fail without it.
        failing = _failing(after[0])
        online = await run(solved, "after.online", network=Network.OPEN) if failing else None
        need_network = {test for test in failing if online.tests.get(test) is TestStatus.PASSED} if online else set()
        _require_results(after[0], need_network)
        before = [await run(pristine, "before.1")]
        _require_failing(label_tests(before, after, need_network=need_network), after[0])
        for number in range(2, runs + 1):
            after.append(await run(solved, f"after.{number}"))
            before.append(await run(pristine, f"before.{number}"))
        faketime = await asyncio.to_thread(find_faketime)
        other_date = await run(solved, "after.other_date", faketime=faketime) if faketime is not None else None
        labels = label_tests(before, after, other_date, need_network=need_network)
        _require_failing(labels, after[0])
        loading = await _loaded_only_after(job, instance, before[0], labels, folder / "base")
    finally:
        for tree in (pristine, solved):
            await asyncio.to_thread(shutil.rmtree, tree, ignore_errors=True)
    return BeforeAfterRuns(
        labels=labels,
        loaded_only_after=loading,
        seconds=after[0].seconds,
        failure_log=before[0].log.decode("utf-8", "replace")[-_MAX_LOG:],
    )


def _failing(run: TestRun) -> set[str]:
    """The tests of a run that fail in it."""
    results = run.outcome.partial if isinstance(run.outcome, InconclusiveRun) else run.outcome.tests
    return {test for test, status in results.items() if status in {TestStatus.FAILED, TestStatus.ERROR}}


def _require_results(run: TestRun, need_network: Collection[str]) -> None:
    if need_network and TestStatus.PASSED not in run.tests.values():
        raise NoLabels("network", f"its tests need the network: {', '.join(sorted(need_network)[:3])}")
    if isinstance(run.outcome, InconclusiveRun):
        raise NoLabels("tests-do-not-run", f"after the change: {run.outcome.reason}{_last_lines(run)}")
    if TestStatus.PASSED not in run.tests.values():
        broken = next(iter(run.outcome.broken.values()), "")
        why = broken.strip().splitlines()[-1] if broken.strip() else _last_lines(run).removeprefix(": ")
        raise NoLabels("tests-do-not-run", f"after the change, no test passes: {why}")


def _last_lines(run: TestRun) -> str:
    lines = [line.strip() for line in run.log.decode("utf-8", "replace").splitlines() if line.strip()]
    return f": {' / '.join(lines[-_REASON_LINES:])[-300:]}" if lines else ""


def _require_failing(labels: Labels, after: TestRun) -> None:
    if labels.fail_to_pass:
        return
    flaky = [test.id for test in labels.excluded if "flips" in test.reason]
    if flaky:
        raise NoLabels("flaky", f"the only tests that it fixes flip: {', '.join(flaky[:3])}")
    online = [test.id for test in labels.excluded if test.reason == NEEDS_NETWORK]
    if online:
        raise NoLabels("network", f"the only tests that it may fix need the network: {', '.join(online[:3])}")
    dated = [test.id for test in labels.excluded if test.reason == DEPENDS_ON_DATE]
    if dated:
        raise NoLabels("clock", f"the only tests that it fixes depend on the date: {', '.join(dated[:3])}")
    skipped = sum(status is TestStatus.SKIPPED for status in after.tests.values())
    others = {"fail after it": len(_failing(after)), "are skipped here": skipped}
    counts = ", ".join(f"{count} {what}" for what, count in others.items() if count)
    more = f"; of {len(after.tests)} tests {counts}" if counts else ""
    raise NoLabels("no-fail-to-pass", f"no test fails before it and passes after it{more}")


async def _loaded_only_after(
    job: SuiteGradingJob, instance: TestsInstance, before: TestRun, labels: Labels, tree: Path
) -> tuple[str, ...]:
    """The failing tests that passed before in the file as it was: they fail now because the file cannot be loaded, or
    because the test program ends at another one.
    """
    all_ran = before.tests.keys() >= set(labels.fail_to_pass)
    if before.complete and all_ran and not before.outcome.broken:  # type: ignore[union-attr]
        return ()
    given = instance.file.eval
    arguments = tuple(path for path in given.arguments if (instance.repo / path).exists())
    if given.arguments and not arguments:
        return ()
    old = msgspec.structs.replace(
        instance,
        file=msgspec.structs.replace(instance.file, eval=msgspec.structs.replace(given, arguments=arguments)),
    )
    await asyncio.to_thread(shutil.rmtree, tree, ignore_errors=True)
    await asyncio.to_thread(lay_out, instance.repo, tree)
    try:
        run = (await old.run_tests(job, tree, "base", touched=None, permit=nullcontext())).run
    finally:
        await asyncio.to_thread(shutil.rmtree, tree, ignore_errors=True)
    return tuple(test for test in labels.fail_to_pass if run.tests.get(test) is TestStatus.PASSED)


@functools.cache
def find_faketime() -> Path | None:
    """The library that gives programs another date: this machine's own, or one that is fetched once; None without."""
    found = next(iter(sorted(Path("/usr").glob(_FAKETIME))), None)
    if found is not None or platform.machine() != "x86_64":
        return found
    try:
        folder = fetched_package("libfaketime", _FAKETIME_VERSION)
    except InfrastructureError:
        return None
    return next(iter(sorted(folder.rglob("libfaketime.so.1"))), None)


def shifted_instance(instance: TestsInstance) -> TestsInstance:
    """The same instance under another date, where the library is mounted that gives it."""
    given = instance.file.eval
    variables = {**given.variables, **shift_variables(_FAKETIME_PATH, datetime.now(UTC) + _SHIFT)}
    evaluation = msgspec.structs.replace(given, variables=variables)
    return msgspec.structs.replace(instance, file=msgspec.structs.replace(instance.file, eval=evaluation))


def shifted_timeout(timeout: float, seconds: float) -> float:
    """How long tests that take these seconds may run under another date: some waits never end under it."""
    return min(timeout, 30 + 5 * seconds)


def shift_variables(library: str, date: datetime) -> dict[str, str]:
    """The variables with which programs are given a date by the library."""
    return {
        "LD_PRELOAD": library,
        "FAKETIME": f"@{date:%Y-%m-%d %H:%M:%S}",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        # The library corrects waits by the monotonic clock as if it gave that another time too: those of Java would
        # end at once, and its programs spin.
        "FAKETIME_FORCE_MONOTONIC_FIX": "0",
        "FAKETIME_NO_CACHE": "1",
    }
