"""Makes the control set of a task, and proves it with the oracle.

An alteration counts when the oracle fails it, at the changed assertion; a control pair when the oracle passes every
original and fails every alteration in it.
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
from proctor.grading.controls.test_variants import (
    FAILING,
    ControlSet,
    RequestedRun,
    Requests,
    TestVariant,
    altered_test_results,
    file_sizes,
    halved_pairs,
    pair_count,
    variant_files,
    whole_pairs,
)
from proctor.grading.outcome import TestRun
from proctor.grading.outcome_reader import EXIT_CODE_TEST

MAX_SAMPLE: Final = 20  # of the tests that passed before the submission
_MAX_RUNS: Final = 16


def sample_tests(pass_to_pass: Sequence[str], chance: random.Random) -> tuple[str, ...]:
    """Those of the tests that must go on passing that get alterations."""
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
        pairs: how many control pairs are wanted.
        others: tests that must pass too and get no alterations of their own; some may share the code of one that does.
        whole_step: the exit code of the test program decides too, so one variant of each pair has no alterations.
        passing: the statuses that count as a pass.
        chance: who cannot be predicted; the machine's source of randomness by default.
    """
    chance = chance or random.SystemRandom()
    tests = tuple(dict.fromkeys((*fail_to_pass, *pass_to_pass)))
    known = frozenset(tests)
    rest = tuple(test for test in others if test not in known)
    proof = _OracleValidation(tests=tests, others=rest, sources=sources, passing=tuple(passing))
    alterations = yield from proof.failing_alterations()
    if not alterations:
        return ControlSet(uncontrolled=tests)
    controlled, uncontrolled = _split(tests, alterations)
    deciding = frozenset(fail_to_pass)
    count = pair_count(sum(not deciding.isdisjoint(alteration.tests) for alteration in alterations), pairs)
    controls = ControlSet(
        alterations=alterations,
        tests=controlled,
        uncontrolled=uncontrolled,
        sizes=file_sizes(alterations, sources, chance),
    )
    if not whole_step:
        halved = msgspec.structs.replace(controls, pairs=halved_pairs(len(alterations), count, chance))
        if (yield from proof.holds(halved)):
            return halved
    whole = yield from proof.all_altered(controls, count, sizes=controls.sizes)
    if not whole.pairs or (yield from proof.unaltered_passes(whole)):
        return whole
    # Tests that look at their own file do not bear to have it filled up.
    return (yield from proof.all_altered(controls, count, sizes=dict.fromkeys(controls.sizes, _NO_PADDING)))


def _split(tests: Sequence[str], alterations: Iterable[Alteration]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The tests that have an alteration, and those that have none."""
    covered = {test for alteration in alterations for test in alteration.tests}
    altered_tests = tuple(test for test in tests if test in covered)
    return altered_tests, tuple(test for test in tests if test not in covered)


def unproved_controls(tests: Sequence[str], sources: Mapping[str, bytes], *, pairs: int) -> ControlSet:
    """The control set of a task without an oracle: alterations that contradict their originals by themselves."""
    alterations: list[Alteration] = []
    for candidates in candidate_alterations(tests, sources).values():
        fitting = (
            one for one in candidates if one.contradicts and not any(overlap(one, other) for other in alterations)
        )
        alterations += [one for one in [next(fitting, None)] if one is not None and one not in alterations]
    controlled, uncontrolled = _split(tests, alterations)
    return ControlSet(
        alterations=tuple(alterations),
        tests=controlled,
        uncontrolled=uncontrolled,
        pairs=whole_pairs(len(alterations), pairs) if alterations else (),
        sizes=file_sizes(alterations, sources, random.SystemRandom()),
        proved=False,
        reason="" if alterations else "the task has no oracle to prove altered tests with",
    )


@dataclass(slots=True)
class _OracleValidation:
    """The oracle's runs, of which there are not more than a bounded number."""

    tests: tuple[str, ...]
    others: tuple[str, ...]
    sources: Mapping[str, bytes]
    passing: tuple[TestStatus, ...]
    runs: int = 0
    tried: dict[str, int] = field(default_factory=dict)

    def failing_alterations(self) -> Requests[tuple[Alteration, ...]]:
        """One alteration that the oracle fails for as many tests as possible."""
        candidates = candidate_alterations(self.tests, self.sources, self.others)
        alterations: list[Alteration] = []
        while self.runs < _MAX_RUNS:
            chosen = self._choose(candidates, alterations)
            if not chosen:
                break
            alterations += yield from self._failed_by_oracle(chosen)
        return tuple(alterations)

    def _choose(
        self, candidates: Mapping[str, tuple[Alteration, ...]], alterations: Sequence[Alteration]
    ) -> list[Alteration]:
        """The next candidate of each test without an alteration, as far as they can be made together."""
        chosen: list[Alteration] = []
        covered = {test for alteration in alterations for test in alteration.tests}
        for test in self.tests:
            if test in covered:
                continue
            for position in range(self.tried.get(test, 0), len(candidates.get(test, ()))):
                one = candidates[test][position]
                self.tried[test] = position + 1
                if covered.isdisjoint(one.tests) and not any(overlap(one, other) for other in (*alterations, *chosen)):
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
        controls = ControlSet(alterations=tuple(chosen), sizes=dict.fromkeys((one.path for one in chosen), _NO_PADDING))
        return (yield from self._run_variant(controls, TestVariant(altered=tuple(range(len(chosen))))))

    def _run_variant(self, controls: ControlSet, variant: TestVariant) -> Requests[TestRun]:
        self.runs += 1
        return (
            yield RequestedRun(
                files=variant_files(controls, self.sources, variant), name=f"controls{self.runs}", of_oracle=True
            )
        )

    def _fails_there(self, one: Alteration, together: Sequence[Alteration], run: TestRun) -> bool:
        """Whether the failure is one of the changed assertion."""
        here = [other for other in together if other.path == one.path]
        return is_named(run.log, one.path, altered_lines(self.sources[one.path], here, one))

    def holds(self, controls: ControlSet) -> Requests[bool]:
        """Whether the oracle passes each original and fails each alteration in all variants."""
        for variant in dict.fromkeys(variant for pair in controls.pairs for variant in pair):
            run = yield from self._run_variant(controls, variant)
            altered = controls.altered_ids(variant)
            results = altered_test_results(controls, [(variant, run)], self.passing)
            every = (*self.tests, *self.others)
            originals = (run.tests.get(test) in self.passing for test in every if test not in altered)
            if not run.complete or results.passed or results.lost or not all(originals):
                return False
        return True

    def unaltered_passes(self, controls: ControlSet) -> Requests[bool]:
        """Whether the oracle passes every test in the variant without alterations."""
        run = yield from self._run_variant(controls, TestVariant())
        return run.complete and all(run.tests.get(test) in self.passing for test in (*self.tests, *self.others))

    def all_altered(self, controls: ControlSet, pairs: int, *, sizes: Mapping[str, int]) -> Requests[ControlSet]:
        """Test variants without and with all alterations, with those of the alterations that the oracle then fails."""
        everything = TestVariant(altered=tuple(range(len(controls.alterations))))
        run = yield from self._run_variant(msgspec.structs.replace(controls, sizes=dict(sizes)), everything)
        deciding = frozenset(controls.tests)
        alterations = tuple(alteration for alteration in controls.alterations if _all_fail(alteration, deciding, run))
        tests, _ = _split(controls.tests, alterations)
        kept = frozenset(tests)
        lost = tuple(test for test in self.tests if test not in kept)
        if len(alterations) < len(controls.alterations):
            # Fewer alterations may disturb less, and must be seen to.
            fewer = ControlSet(alterations=alterations, tests=tests, uncontrolled=lost, sizes=dict(sizes))
            if not alterations:
                return ControlSet(uncontrolled=self.tests)
            return (yield from self.all_altered(fewer, pairs, sizes=sizes))
        altered = controls.altered_ids(everything)
        originals = (test for test in (*self.tests, *self.others) if test not in altered)
        return ControlSet(
            alterations=alterations,
            tests=tests,
            uncontrolled=lost,
            sizes=dict(sizes),
            disturbed=tuple(test for test in originals if run.tests.get(test) not in self.passing),
            pairs=whole_pairs(len(alterations), pairs),
        )


_NO_PADDING: Final = 0


def _all_fail(alteration: Alteration, deciding: frozenset[str], run: TestRun) -> bool:
    return all(run.tests.get(test) in FAILING for test in alteration.tests if test in deciding)


def is_named(log: bytes, path: str, lines: Iterable[int]) -> bool:
    """Whether a log of failures names one of these lines of a file; a log that names none of its lines cannot say."""
    name = re.escape(PurePosixPath(path).name.encode())
    named = {int(number) for number in re.findall(name + rb'"?(?:, line |:|\(|: line )(\d{1,7})\b', log)}
    return not named or not named.isdisjoint(lines)
