"""Runs the tests of a submission under control: what suites, the SWE family and plugins share.

A control set that is known is used at once. Where none is, the tests run as they are first: only a submission that
passes them is worth making one.
"""

import os
import random
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from proctor.core.causes import Status
from proctor.core.evaluation import Prediction
from proctor.core.record import Record
from proctor.core.trees import LINK, file_paths, read_entry
from proctor.core.verdict import ControlSummary, Finding
from proctor.grading.controls.control_check import (
    control_findings,
    control_summary,
    may_be_resolved,
    resolve_control_check,
    run_test_variants,
)
from proctor.grading.controls.languages import has_finder, installed_grammars, missing_grammar
from proctor.grading.controls.oracle_validation import prove_controls, sample_tests, unproved_controls
from proctor.grading.controls.test_variants import ControlSet, RequestedRun, Requests, RunVariant, make_runs
from proctor.grading.job import GradingJob, submission_digest
from proctor.grading.outcome import TestRun
from proctor.grading.protected_patterns import is_protected
from proctor.grading.resolve import Expectation, Resolution, resolve
from proctor.results.cache import RecordCache, cache_key

CONTROL_CACHE: Final = "control_sets"
_VERSION: Final = "2"  # of how control sets are made: those of before do not say which tests are disturbed


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlledTests:
    """The tests of a task, as their control needs them.

    Attributes:
        key: identifies all that the control set depends on: environment, tests, oracle, grader.
        sources: reads the test files, by path, as they are when the tests run.
        has_oracle: whether there is an oracle to prove the control set with.
        pairs: of variants; 0 turns control checks off.
    """

    key: str
    expectation: Expectation
    sources: Callable[[], Mapping[str, bytes]]
    has_oracle: bool
    pairs: int
    use_cache: bool = True

    @property
    def _full_key(self) -> str:
        return cache_key(_VERSION, self.key, *installed_grammars())

    @property
    def _cache(self) -> RecordCache[ControlSet]:
        return RecordCache(ControlSet, CONTROL_CACHE)

    def known(self) -> ControlSet | None:
        """The control set, where it was made before."""
        return self._cache.get(self._full_key) if self.use_cache and self.pairs else None

    @asynccontextmanager
    async def lock(self) -> AsyncIterator[None]:
        """Held while the control set may be made: whoever needs the same one meanwhile waits for it."""
        if self.use_cache and self.pairs and self.known() is None:
            async with self._cache.lock(self._full_key):
                yield
        else:
            yield

    def proof(self, before: TestRun | None) -> Requests[ControlSet]:
        """The control set, made and proved where it is not known."""
        controls = self.known()
        if controls is None:
            controls = yield from self._prove(before)
            if self.use_cache:
                self._cache.put(self._full_key, controls)
        return controls

    def _prove(self, before: TestRun | None) -> Requests[ControlSet]:
        expectation, sources = self.expectation, self.sources()
        if not self.has_oracle:
            return unproved_controls(expectation.labels, sources, pairs=self.pairs)
        fail_to_pass, pass_to_pass = expectation.fail_to_pass, expectation.pass_to_pass
        if not expectation.labels:
            solved = (yield RequestedRun(files={}, name="controls0", of_oracle=True)).tests
            passing = [test for test, status in solved.items() if status in expectation.passing]
            earlier = before.tests if before is not None else {}
            fail_to_pass = tuple(test for test in passing if earlier.get(test) not in expectation.passing)
            pass_to_pass = tuple(test for test in passing if earlier.get(test) in expectation.passing)
        controls = yield from prove_controls(
            fail_to_pass,
            sample_tests(pass_to_pass, random.SystemRandom()),
            sources,
            pairs=self.pairs,
            others=pass_to_pass,
            whole_step=expectation.exit_zero or not expectation.labels,
            passing=expectation.passing,
        )
        missing = filter(None, (missing_grammar(path, source) for path, source in sources.items()))
        reason = next(missing, "") if controls.uncontrolled else ""
        return msgspec.structs.replace(controls, reason=reason)


async def controlled_tests(
    job: GradingJob, base: Path, expectation: Expectation, oracle: Prediction | None, *, fingerprint: str
) -> ControlledTests:
    """What controls the tests of a task; `base` is the tree that its submissions start from.

    The fingerprint identifies all of the task that a verdict depends on, but for its oracle.
    """
    environment = await job.context.provider.digest(job.spec)
    pairs = job.context.options.controls
    proof = submission_digest(oracle) if oracle else ""
    return ControlledTests(
        key=cache_key(job.grader, environment, fingerprint, proof, str(pairs)),
        expectation=expectation,
        sources=lambda: read_sources(base, job.overlay, job.protected),
        has_oracle=oracle is not None,
        pairs=pairs,
        use_cache=job.context.use_cache,
    )


class ControlledRun(Record):
    """How the tests of a submission ended.

    Attributes:
        resolution: the verdict's parts that they decide.
        runs: the tests as they are; the first one is judged, the others are repetitions.
        plain: the first run gave all tests as they are, so its artifacts are those of the whole.
        findings: proof that the submission passes tests that a right program fails.
        controls: how far the verdict was controlled; None where controls are turned off.
    """

    resolution: Resolution
    runs: tuple[TestRun, ...]
    plain: bool
    findings: tuple[Finding, ...] = ()
    controls: ControlSummary | None = None


def controlled_check(
    tests: ControlledTests, before: Callable[[], TestRun | None], *, repeats: int = 1
) -> Requests[ControlledRun]:
    """Ask for runs of the tests on a submission, as they are and altered, and judge it.

    Args:
        tests: of the task; their lock is held.
        before: the run on the pristine tree, which has ended when the first requested run has.
        repeats: how many independent results are wanted.
    """
    controls = tests.known()
    plain: list[TestRun] = []
    if controls is None or not controls.pairs:
        for name in ("post_patch", *(f"post_patch.det{number}" for number in range(1, repeats))):
            run = yield RequestedRun(files={}, name=name)
            plain.append(run)
        resolution = resolve(before(), plain[0], tests.expectation, reruns=plain[1:])
        ended = ControlledRun(resolution=resolution, runs=tuple(plain), plain=True)
        if not tests.pairs:
            return ended
        if controls is None and resolution.status is Status.RESOLVED:
            controls = yield from tests.proof(before())
        if controls is None or not controls.pairs:
            summary = control_summary(controls, None) if controls is not None else None
            return msgspec.structs.replace(ended, controls=summary)
    control_check = yield from run_test_variants(
        controls,
        tests.sources(),
        lambda run, unseen: may_be_resolved(before(), run, tests.expectation, unseen),
        repeats=repeats,
        plain=plain,
        passing=tests.expectation.passing,
    )
    return ControlledRun(
        resolution=resolve_control_check(before(), control_check, controls, tests.expectation),
        runs=control_check.runs,
        plain=bool(plain),
        findings=control_findings(control_check) if control_check.complete else (),
        controls=control_summary(controls, control_check),
    )


async def run_controlled(
    tests: ControlledTests, run_variant: RunVariant, run_oracle: RunVariant, before: TestRun | None, *, repeats: int = 1
) -> ControlledRun:
    """The same with everything run: by `run_variant` on the submission, by `run_oracle` on the oracle."""
    async with tests.lock():
        return await make_runs(controlled_check(tests, lambda: before, repeats=repeats), run_variant, run_oracle)


async def find_or_prove(tests: ControlledTests, run_oracle: RunVariant, before: TestRun | None) -> ControlSet:
    """The control set of a task, made and proved where it is not known."""
    async with tests.lock():
        return await make_runs(tests.proof(before), run_oracle)


def read_sources(base: Path, overlay: Path | None, protected: tuple[str, ...]) -> dict[str, bytes]:
    """The test files of a task in languages whose tests can be altered: protected ones, and those of the overlay."""
    sources = {}
    for root in filter(None, (base, overlay)):
        for path in file_paths(root):
            name = os.fsdecode(path)
            if root is base and not is_protected(name, protected):
                continue
            entry = read_entry(root, path)
            if entry is not None and entry.mode != LINK and has_finder(name, entry.data):
                sources[name] = entry.data
    return sources
