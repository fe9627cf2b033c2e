"""Test variants: the tests of a task with some of them altered, so that each test is seen as it is and altered.

Which tests of a variant are altered can be told from neither the names, the sizes nor the times of its files.
"""

import math
import random
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from typing import Final, Literal, TypeVar

from msgspec import field

from proctor.core.record import Record
from proctor.core.verdict import TestStatus
from proctor.grading.controls.alteration import Alteration, alter
from proctor.grading.outcome import InconclusiveRun, TestResults, TestRun, record_status

T = TypeVar("T")

# Whoever guesses which tests are altered must be right this often: once in each variant for each test that decides.
MIN_GUESSES: Final = 8
_MAX_PADDING: Final = 64
FAILING: Final = frozenset({TestStatus.FAILED, TestStatus.ERROR})


class RequestedRun(Record):
    """A run of the tests that a control check or an oracle validation asks for.

    Attributes:
        files: what stands in place of the tree's own files, by path.
        name: of the run's artifacts.
        of_oracle: on the tree with the oracle applied; otherwise with the submission.
    """

    files: dict[str, bytes]
    name: str
    of_oracle: bool = False


Requests = Generator[RequestedRun, TestRun, T]
"""Asks for one run after the other, and is sent what each gave."""
RunVariant = Callable[[Mapping[str, bytes], str], Awaitable[TestRun]]
"""Runs the tests on one tree with these files in place of its own; the text names the run's artifacts."""


async def make_runs(requests: Requests[T], run_variant: RunVariant, run_oracle: RunVariant | None = None) -> T:
    """Make all requested runs, those of the oracle by `run_oracle` where it is given; what they led to."""
    try:
        asked = next(requests)
        while True:
            run = run_oracle if asked.of_oracle and run_oracle is not None else run_variant
            asked = requests.send(await run(asked.files, asked.name))
    except StopIteration as end:
        result: T = end.value
        return result


class TestVariant(Record):
    """The tests with the alterations at these positions of the control set; all other tests are unaltered."""

    __test__ = False

    altered: tuple[int, ...] = ()


class ControlSet(Record):
    """The altered versions of a task's tests, and the variants made of them; proved with the oracle.

    Attributes:
        alterations: one for each controlled test, or group of tests that share their code.
        tests: the tests that decide the verdict and have an alteration.
        uncontrolled: those that have none.
        pairs: variants in pairs: what is altered in the first of a pair is original in the second.
        sizes: of the test files in every variant, by path.
        disturbed: tests that the oracle fails in variants where they are not altered and all others are: altered tests
            that fail leave something behind. What they give there decides nothing.
        proved: the oracle fails every alteration; otherwise each alteration contradicts its original by itself.
        reason: why tests have no alteration, where there is one reason for all.
    """

    alterations: tuple[Alteration, ...] = field(default=(), name="twins")  # the stored key
    tests: tuple[str, ...] = ()
    uncontrolled: tuple[str, ...] = ()
    pairs: tuple[tuple[TestVariant, TestVariant], ...] = ()
    sizes: dict[str, int] = field(default_factory=dict)
    disturbed: tuple[str, ...] = ()
    proved: bool = True
    reason: str = ""
    schema_version: Literal["proctor.control_set@1"] = "proctor.control_set@1"

    def altered_ids(self, variant: TestVariant) -> frozenset[str]:
        """The tests that are altered in a variant, whether they decide or not."""
        return frozenset(test for position in variant.altered for test in self.alterations[position].tests)


def pair_count(tests: int, wanted: int) -> int:
    """How many control pairs a check has: as many as wanted, and more where there are few tests to guess."""
    return max(wanted, math.ceil(MIN_GUESSES / (2 * tests))) if tests else wanted


def halved_pairs(alterations: int, pairs: int, chance: random.Random) -> tuple[tuple[TestVariant, TestVariant], ...]:
    """Pairs in which a random half of the alterations is altered first, and the other half then."""
    made = []
    for _ in range(pairs):
        order = chance.sample(range(alterations), alterations)
        # The larger half comes first or second by chance: with one test, its alteration does.
        middle = (alterations + chance.randrange(2)) // 2
        made.append(
            (TestVariant(altered=tuple(sorted(order[:middle]))), TestVariant(altered=tuple(sorted(order[middle:]))))
        )
    return tuple(made)


def whole_pairs(alterations: int, pairs: int) -> tuple[tuple[TestVariant, TestVariant], ...]:
    """Pairs of a variant without and one with all alterations, for tests that disturb each other when they fail.

    Who guesses which of the two it is has guessed for all tests, so there are as many pairs as for one test.
    """
    return ((TestVariant(), TestVariant(altered=tuple(range(alterations)))),) * pair_count(1, pairs)


def file_sizes(
    alterations: Sequence[Alteration], sources: Mapping[str, bytes], chance: random.Random
) -> dict[str, int]:
    """A size for each file with alterations that every variant fits in."""
    sizes = {}
    for path in dict.fromkeys(alteration.path for alteration in alterations):
        growth = sum(
            max(0, len(edit.text.encode()) - (edit.end - edit.start))
            for alteration in alterations
            if alteration.path == path
            for edit in alteration.edits
        )
        sizes[path] = len(sources[path]) + growth + chance.randint(1, _MAX_PADDING)
    return sizes


def variant_files(controls: ControlSet, sources: Mapping[str, bytes], variant: TestVariant) -> dict[str, bytes]:
    """The test files of a variant, those in which nothing is altered too: all of them are written anew."""
    chosen = [controls.alterations[position] for position in variant.altered]
    files = {}
    for path, size in controls.sizes.items():
        data = alter(sources[path], [alteration for alteration in chosen if alteration.path == path])
        files[path] = data + b"\n" * (size - len(data))
    return files


def merge_variants(controls: ControlSet, seen: Sequence[tuple[TestVariant, TestRun]]) -> TestRun:
    """One run of the tests as they are, from several variants: of each test, what it gave where it was not altered.

    A test that was altered in all of them is not in it. A variant without a result decides.
    """
    tests: dict[str, TestStatus] = {}
    broken: dict[str, str] = {}
    disturbed = frozenset(controls.disturbed)
    for variant, run in seen:
        if isinstance(run.outcome, InconclusiveRun):
            return run
        broken |= run.outcome.broken
        undecided = controls.altered_ids(variant) | (disturbed if variant.altered else frozenset())
        for test, status in run.outcome.tests.items():
            if test not in undecided:
                record_status(tests, test, status)
    runs = [run for _, run in seen]
    outcomes = [run.outcome for run in runs]
    failed = broken or any(status in FAILING for status in tests.values())
    plain = [run.exit_code for variant, run in seen if not variant.altered]
    # With altered tests in it, a variant ends with an error code: that says nothing about the tests as they are.
    exit_code = plain[0] if plain else max(run.exit_code for run in runs) if failed else 0
    return TestRun(
        outcome=TestResults(
            tests=tests,
            broken=broken,
            tampered=tuple(dict.fromkeys(name for outcome in outcomes for name in outcome.tampered)),
        ),
        exit_code=exit_code,
        seconds=sum(run.seconds for run in runs),
        log=b"".join(run.log for run in runs),
    )


class AlteredTestResults(Record):
    """How the altered tests of some variants ended: those that passed, and those that neither passed nor failed."""

    passed: tuple[Alteration, ...] = ()
    lost: tuple[Alteration, ...] = ()


def altered_test_results(
    controls: ControlSet, seen: Sequence[tuple[TestVariant, TestRun]], passing: Sequence[TestStatus]
) -> AlteredTestResults:
    """What became of the alterations."""
    passed: dict[int, Alteration] = {}
    lost: dict[int, Alteration] = {}
    deciding = frozenset(controls.tests)
    for variant, run in seen:
        for position in variant.altered:
            alteration = controls.alterations[position]
            statuses = {run.tests.get(test, TestStatus.MISSING) for test in alteration.tests if test in deciding}
            if statuses & {*passing}:
                passed[position] = alteration
            elif not statuses <= FAILING:
                lost[position] = alteration
    return AlteredTestResults(passed=tuple(passed.values()), lost=tuple(lost.values()))
