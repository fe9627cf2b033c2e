"""Makes the control set of a task, and proves it with the oracle.

A twin counts when the oracle fails it, at the changed assertion; a pair of papers when the oracle passes every
original and fails every twin in it.
"""

import random
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Final

import msgspec

from proctor.core.verdict import TestStatus
from proctor.grading.controls.alteration import Alteration, altered_lines, overlap
from proctor.grading.controls.languages import find_alterations
from proctor.grading.controls.papers import (
    FAILING,
    ControlSet,
    Paper,
    RequestedRun,
    Requests,
    file_sizes,
    halved_pairs,
    pair_count,
    paper_files,
    twin_results,
    whole_pairs,
)
from proctor.grading.outcome import TestRun
from proctor.grading.outcome_reader import EXIT_CODE_TEST

MAX_SAMPLE: Final = 20  # of the tests that passed before the submission
_MAX_RUNS: Final = 16


def sample_tests(pass_to_pass: Sequence[str], chance: random.Random) -> tuple[str, ...]:
    """Those of the tests that must go on passing that get twins."""
    return tuple(chance.sample(list(pass_to_pass), min(MAX_SAMPLE, len(pass_to_pass))))


def candidate_alterations(
    tests: Sequence[str], sources: Mapping[str, bytes], others: Sequence[str] = ()
) -> dict[str, tuple[Alteration, ...]]:
    """Every alteration that can be tried, by test."""
    found: dict[str, tuple[Alteration, ...]] = {}
    for path, source in sources.items():
        for test, alterations in find_alterations(path, source, (*tests, *others)).items():
            found[test] = (*found.get(test, ()), *alterations)
        if EXIT_CODE_TEST in tests:
            # The one test of a step whose exit code decides is whatever its scripts check.
            for alterations in find_alterations(path, source, (PurePosixPath(path).name,)).values():
                whole = (msgspec.structs.replace(one, tests=(EXIT_CODE_TEST,)) for one in alterations)
                found[EXIT_CODE_TEST] = (*found.get(EXIT_CODE_TEST, ()), *whole)
    return {test: found[test] for test in tests if test in found}


def prove_controls(
    fail_to_pass: Sequence[str],
    pass_to_pass: Sequence[str],
    sources: Mapping[str, bytes],
    *,
    pairs: int,
    others: Sequence[str] = (),
    whole_step: bool = False,
    passing: Sequence[TestStatus] = (TestStatus.PASSED,),
    chance: random.Random | None = None,
) -> Requests[ControlSet]:
    """The control set for these tests, by runs of the oracle.

    Args:
        fail_to_pass: the tests that decide whether the task was solved; the oracle passes them.
        pass_to_pass: those of the others that are controlled too.
        sources: the test files, by path, as they are given to a submission.
        pairs: how many pairs of papers are wanted.
        others: tests that must pass too and get no twins of their own; some may share the code of one that does.
        whole_step: the exit code of the test program decides too, so one paper of each pair has no alterations.
        passing: the statuses that count as a pass.
        chance: who cannot be predicted; the machine's source of randomness by default.
    """
    chance = chance or random.SystemRandom()
    tests = tuple(dict.fromkeys((*fail_to_pass, *pass_to_pass)))
    known = frozenset(tests)
    rest = tuple(test for test in others if test not in known)
    proof = _Proof(tests=tests, others=rest, sources=sources, passing=tuple(passing))
    twins = yield from proof.find_twins()
    if not twins:
        return ControlSet(uncontrolled=tests)
    controlled, uncontrolled = _split(tests, twins)
    deciding = frozenset(fail_to_pass)
    count = pair_count(sum(not deciding.isdisjoint(twin.tests) for twin in twins), pairs)
    controls = ControlSet(
        twins=twins,
        tests=controlled,
        uncontrolled=uncontrolled,
        sizes=file_sizes(twins, sources, chance),
    )
    if not whole_step:
        halved = msgspec.structs.replace(controls, pairs=halved_pairs(len(twins), count, chance))
        if (yield from proof.holds(halved)):
            return halved
    whole = yield from proof.all_altered(controls, count, sizes=controls.sizes)
    if not whole.pairs or (yield from proof.plain_holds(whole)):
        return whole
    # Tests that look at their own file do not bear to have it filled up.
    return (yield from proof.all_altered(controls, count, sizes=dict.fromkeys(controls.sizes, _NO_PADDING)))


def _split(tests: Sequence[str], twins: Iterable[Alteration]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The tests that have a twin, and those that have none."""
    covered = {test for twin in twins for test in twin.tests}
    with_twin = tuple(test for test in tests if test in covered)
    return with_twin, tuple(test for test in tests if test not in covered)


def unproved_controls(
    tests: Sequence[str], sources: Mapping[str, bytes], *, pairs: int, chance: random.Random | None = None
) -> ControlSet:
    """The control set of a task without an oracle: twins that contradict their originals by themselves."""
    twins: list[Alteration] = []
    for candidates in candidate_alterations(tests, sources).values():
        fitting = (one for one in candidates if one.contradicts and not any(overlap(one, other) for other in twins))
        twins += [one for one in [next(fitting, None)] if one is not None and one not in twins]
    controlled, uncontrolled = _split(tests, twins)
    return ControlSet(
        twins=tuple(twins),
        tests=controlled,
        uncontrolled=uncontrolled,
        pairs=whole_pairs(len(twins), pairs) if twins else (),
        sizes=file_sizes(twins, sources, chance or random.SystemRandom()),
        proved=False,
        reason="" if twins else "the task has no oracle to prove altered tests with",
    )


@dataclass(slots=True)
class _Proof:
    """The oracle's runs, of which there are not more than a bounded number."""

    tests: tuple[str, ...]
    others: tuple[str, ...]
    sources: Mapping[str, bytes]
    passing: tuple[TestStatus, ...]
    runs: int = 0
    tried: dict[str, int] = field(default_factory=dict)

    def find_twins(self) -> Requests[tuple[Alteration, ...]]:
        """One twin that the oracle fails for as many tests as possible."""
        candidates = candidate_alterations(self.tests, self.sources, self.others)
        twins: list[Alteration] = []
        while self.runs < _MAX_RUNS:
            chosen = self._choose(candidates, twins)
            if not chosen:
                break
            twins += yield from self._failed_by_oracle(chosen)
        return tuple(twins)

    def _choose(
        self, candidates: Mapping[str, tuple[Alteration, ...]], twins: Sequence[Alteration]
    ) -> list[Alteration]:
        """The next candidate of each test without a twin, as far as they can be made together."""
        chosen: list[Alteration] = []
        covered = {test for twin in twins for test in twin.tests}
        for test in self.tests:
            if test in covered:
                continue
            for position in range(self.tried.get(test, 0), len(candidates.get(test, ()))):
                one = candidates[test][position]
                self.tried[test] = position + 1
                if covered.isdisjoint(one.tests) and not any(overlap(one, other) for other in (*twins, *chosen)):
                    chosen.append(one)
                    covered |= set(one.tests)
                    break
        return chosen

    def _failed_by_oracle(self, chosen: list[Alteration]) -> Requests[list[Alteration]]:
        run = yield from self._run(chosen)
        if run is None:
            return []
        if run.complete and any(run.tests.get(test) is not None for one in chosen for test in one.tests):
            deciding = frozenset(self.tests)
            return [one for one in chosen if _all_fail(one, deciding, run) and self._fails_there(one, chosen, run)]
        if len(chosen) == 1:
            return []
        # One of them keeps all tests from running: the others are found by halves.
        middle = len(chosen) // 2
        first = yield from self._failed_by_oracle(chosen[:middle])
        return [*first, *(yield from self._failed_by_oracle(chosen[middle:]))]

    def _run(self, chosen: Sequence[Alteration]) -> Requests[TestRun | None]:
        if self.runs >= _MAX_RUNS:
            return None
        controls = ControlSet(twins=tuple(chosen), sizes=dict.fromkeys((one.path for one in chosen), _NO_PADDING))
        return (yield from self._run_paper(controls, Paper(altered=tuple(range(len(chosen))))))

    def _run_paper(self, controls: ControlSet, paper: Paper) -> Requests[TestRun]:
        self.runs += 1
        return (
            yield RequestedRun(
                files=paper_files(controls, self.sources, paper), name=f"controls{self.runs}", of_oracle=True
            )
        )

    def _fails_there(self, one: Alteration, together: Sequence[Alteration], run: TestRun) -> bool:
        """Whether the failure is one of the changed assertion."""
        here = [other for other in together if other.path == one.path]
        return is_named(run.log, one.path, altered_lines(self.sources[one.path], here, one))

    def holds(self, controls: ControlSet) -> Requests[bool]:
        """Whether the oracle passes each original and fails each twin in all papers."""
        for paper in dict.fromkeys(paper for pair in controls.pairs for paper in pair):
            run = yield from self._run_paper(controls, paper)
            altered = controls.altered_tests(paper)
            results = twin_results(controls, [(paper, run)], self.passing)
            every = (*self.tests, *self.others)
            originals = (run.tests.get(test) in self.passing for test in every if test not in altered)
            if not run.complete or results.passed or results.lost or not all(originals):
                return False
        return True

    def plain_holds(self, controls: ControlSet) -> Requests[bool]:
        """Whether the oracle passes every test in the paper without alterations."""
        run = yield from self._run_paper(controls, Paper())
        return run.complete and all(run.tests.get(test) in self.passing for test in (*self.tests, *self.others))

    def all_altered(self, controls: ControlSet, pairs: int, *, sizes: Mapping[str, int]) -> Requests[ControlSet]:
        """Papers without and with all alterations, with those of the twins that the oracle then fails."""
        everything = Paper(altered=tuple(range(len(controls.twins))))
        run = yield from self._run_paper(msgspec.structs.replace(controls, sizes=dict(sizes)), everything)
        deciding = frozenset(controls.tests)
        twins = tuple(twin for twin in controls.twins if _all_fail(twin, deciding, run))
        tests, _ = _split(controls.tests, twins)
        kept = frozenset(tests)
        lost = tuple(test for test in self.tests if test not in kept)
        if len(twins) < len(controls.twins):
            # Fewer alterations may disturb less, and must be seen to.
            fewer = ControlSet(twins=twins, tests=tests, uncontrolled=lost, sizes=dict(sizes))
            if not twins:
                return ControlSet(uncontrolled=self.tests)
            return (yield from self.all_altered(fewer, pairs, sizes=sizes))
        return ControlSet(
            twins=twins, tests=tests, uncontrolled=lost, sizes=dict(sizes), pairs=whole_pairs(len(twins), pairs)
        )


_NO_PADDING: Final = 0


def _all_fail(twin: Alteration, deciding: frozenset[str], run: TestRun) -> bool:
    return all(run.tests.get(test) in FAILING for test in twin.tests if test in deciding)


def is_named(log: bytes, path: str, lines: Iterable[int]) -> bool:
    """Whether a log of failures names one of these lines of a file; a log that names none of its lines cannot say."""
    name = re.escape(PurePosixPath(path).name.encode())
    named = {int(number) for number in re.findall(name + rb'"?(?:, line |:|\(|: line )(\d{1,7})\b', log)}
    return not named or not named.isdisjoint(lines)
