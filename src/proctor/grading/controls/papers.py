"""Papers: the tests of a task with some of them altered, so that each test is seen as it is and altered.

Which tests of a paper are altered can be told from neither the names, the sizes nor the times of its files.
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

# Whoever guesses which tests are altered must be right this often: once in each paper for each test that decides.
MIN_GUESSES: Final = 8
_MAX_PADDING: Final = 64
FAILING: Final = frozenset({TestStatus.FAILED, TestStatus.ERROR})


class RequestedRun(Record):
    """A run of the tests that an exam or a proof asks for.

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
RunPaper = Callable[[Mapping[str, bytes], str], Awaitable[TestRun]]
"""Runs the tests on one tree with these files in place of its own; the text names the run's artifacts."""


async def make_runs(requests: Requests[T], run_paper: RunPaper, run_oracle: RunPaper | None = None) -> T:
    """Make all requested runs, those of the oracle by `run_oracle` where it is given; what they led to."""
    try:
        asked = next(requests)
        while True:
            run = run_oracle if asked.of_oracle and run_oracle is not None else run_paper
            asked = requests.send(await run(asked.files, asked.name))
    except StopIteration as end:
        result: T = end.value
        return result


class Paper(Record):
    """One way to give the tests: the twins with these positions in the control set, and all other tests as they are."""

    altered: tuple[int, ...] = ()


class ControlSet(Record):
    """The altered twins of a task's tests, and the papers made of them; proved with the oracle.

    Attributes:
        twins: one for each controlled test, or group of tests that share their code.
        tests: the tests that decide the verdict and have a twin.
        uncontrolled: those that have none.
        pairs: papers in pairs: what is altered in the first of a pair is original in the second.
        sizes: of the test files in every paper, by path.
        proved: the oracle fails every twin; otherwise each twin contradicts its original by itself.
        reason: why tests have no twin, where there is one reason for all.
    """

    twins: tuple[Alteration, ...] = ()
    tests: tuple[str, ...] = ()
    uncontrolled: tuple[str, ...] = ()
    pairs: tuple[tuple[Paper, Paper], ...] = ()
    sizes: dict[str, int] = field(default_factory=dict)
    proved: bool = True
    reason: str = ""
    schema_version: Literal["proctor.control_set@1"] = "proctor.control_set@1"

    def altered_tests(self, paper: Paper) -> frozenset[str]:
        """The tests that are altered in a paper, whether they decide or not."""
        return frozenset(test for position in paper.altered for test in self.twins[position].tests)


def pair_count(tests: int, wanted: int) -> int:
    """How many pairs of papers an exam has: as many as wanted, and more where there are few tests to guess."""
    return max(wanted, math.ceil(MIN_GUESSES / (2 * tests))) if tests else wanted


def halved_pairs(twins: int, pairs: int, chance: random.Random) -> tuple[tuple[Paper, Paper], ...]:
    """Pairs in which a random half of the twins is altered first, and the other half then."""
    made = []
    for _ in range(pairs):
        order = chance.sample(range(twins), twins)
        # The larger half comes first or second by chance: with one test, its twin does.
        middle = (twins + chance.randrange(2)) // 2
        made.append((Paper(altered=tuple(sorted(order[:middle]))), Paper(altered=tuple(sorted(order[middle:])))))
    return tuple(made)


def whole_pairs(twins: int, pairs: int) -> tuple[tuple[Paper, Paper], ...]:
    """Pairs of a paper without and one with all alterations, for tests that disturb each other when they fail.

    Who guesses which of the two it is has guessed for all tests, so there are as many pairs as for one test.
    """
    return ((Paper(), Paper(altered=tuple(range(twins)))),) * pair_count(1, pairs)


def file_sizes(twins: Sequence[Alteration], sources: Mapping[str, bytes], chance: random.Random) -> dict[str, int]:
    """A size for each file with twins that every paper fits in."""
    sizes = {}
    for path in dict.fromkeys(twin.path for twin in twins):
        growth = sum(
            max(0, len(edit.text.encode()) - (edit.end - edit.start))
            for twin in twins
            if twin.path == path
            for edit in twin.edits
        )
        sizes[path] = len(sources[path]) + growth + chance.randint(1, _MAX_PADDING)
    return sizes


def paper_files(controls: ControlSet, sources: Mapping[str, bytes], paper: Paper) -> dict[str, bytes]:
    """The test files of a paper, those in which nothing is altered too: all of them are written anew."""
    chosen = [controls.twins[position] for position in paper.altered]
    files = {}
    for path, size in controls.sizes.items():
        data = alter(sources[path], [twin for twin in chosen if twin.path == path])
        files[path] = data + b"\n" * (size - len(data))
    return files


def merge_papers(controls: ControlSet, seen: Sequence[tuple[Paper, TestRun]]) -> TestRun:
    """One run of the tests as they are, from several papers: of each test, what it gave where it was not altered.

    A test that was altered in all of them is not in it. A paper without a result decides.
    """
    tests: dict[str, TestStatus] = {}
    broken: dict[str, str] = {}
    for paper, run in seen:
        if isinstance(run.outcome, InconclusiveRun):
            return run
        broken |= run.outcome.broken
        altered = controls.altered_tests(paper)
        for test, status in run.outcome.tests.items():
            if test not in altered:
                record_status(tests, test, status)
    runs = [run for _, run in seen]
    outcomes = [run.outcome for run in runs]
    failed = broken or any(status in FAILING for status in tests.values())
    plain = [run.exit_code for paper, run in seen if not paper.altered]
    # With altered tests in it, a paper ends with an error code: that says nothing about the tests as they are.
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


class TwinResults(Record):
    """How the altered tests of some papers ended: those that passed, and those that neither passed nor failed."""

    passed: tuple[Alteration, ...] = ()
    lost: tuple[Alteration, ...] = ()


def twin_results(
    controls: ControlSet, seen: Sequence[tuple[Paper, TestRun]], passing: Sequence[TestStatus]
) -> TwinResults:
    """What became of the twins."""
    passed: dict[int, Alteration] = {}
    lost: dict[int, Alteration] = {}
    deciding = frozenset(controls.tests)
    for paper, run in seen:
        for position in paper.altered:
            twin = controls.twins[position]
            statuses = {run.tests.get(test, TestStatus.MISSING) for test in twin.tests if test in deciding}
            if statuses & {*passing}:
                passed[position] = twin
            elif not statuses <= FAILING:
                lost[position] = twin
    return TwinResults(passed=tuple(passed.values()), lost=tuple(lost.values()))
