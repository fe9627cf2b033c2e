"""Alterations and variants count only when the oracle shows that they work."""

import random
from collections.abc import Mapping

import pytest

from grading.controls.toy_tests import FILE, ToyRunner, broken, right, source
from proctor.core.causes import Status
from proctor.core.verdict import TestStatus
from proctor.grading import TestResults, TestRun
from proctor.grading.controls import ControlSet, alter, make_runs, prove_controls, sample_tests
from proctor.grading.controls.control_check import resolve_control_check, run_test_variants
from proctor.grading.controls.oracle_validation import MAX_SAMPLE, candidate_alterations, is_named
from proctor.grading.controls.test_variants import variant_files
from proctor.grading.resolve import Expectation

VALUES = {"nothing": 0, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9}
SOURCE = source(**VALUES)


async def prove(runner: ToyRunner, *, pairs: int = 1, whole_step: bool = False) -> ControlSet:
    first, *others = VALUES
    proof = prove_controls(
        (first, others[0], others[1], others[2]),
        others[3:],
        {FILE: SOURCE},
        pairs=pairs,
        whole_step=whole_step,
        chance=random.Random(3),
    )
    return await make_runs(proof, runner)


async def test_an_alteration_that_the_oracle_passes_is_not_used() -> None:
    controls = await prove(ToyRunner(SOURCE, right(**VALUES)))
    altered = {alteration.tests[0]: alteration.altered for alteration in controls.alterations}
    assert altered == {"nothing": "1", "five": "10", "six": "12", "seven": "14", "eight": "16", "nine": "18"}
    assert (set(controls.tests), controls.uncontrolled) == (set(VALUES), ())


async def test_variants_alter_halves_where_tests_are_independent() -> None:
    oracle = ToyRunner(SOURCE, right(**VALUES))
    controls = await prove(oracle)
    ((first, second),) = controls.pairs
    assert (len(first.altered), len(second.altered)) == (3, 3)
    assert len(oracle.variants) == 2 + 2  # two rounds of candidates, two variants


class DisturbedRunner(ToyRunner):
    """A right program, whose test `nine` also fails where `five` failed before it."""

    def __init__(self) -> None:
        super().__init__(SOURCE, self._passes)
        self._failed: set[str] = set()

    def _passes(self, test: str, expected: int) -> bool:
        self._failed.update([test] if VALUES[test] != expected else [])
        return VALUES[test] == expected and not (test == "nine" and "five" in self._failed)

    async def __call__(self, files: Mapping[str, bytes], name: str) -> TestRun:
        self._failed.clear()
        return await super().__call__(files, name)


async def test_variants_alter_all_tests_where_failures_disturb_others() -> None:
    controls = await prove(DisturbedRunner(), pairs=4)
    assert [(len(first.altered), len(second.altered)) for first, second in controls.pairs] == [(0, 6)] * 4
    assert controls.disturbed == ()


async def test_a_test_that_altered_ones_disturb_is_judged_where_none_is_altered() -> None:
    altered, others = ("nothing", "five", "six"), ("seven", "eight", "nine")
    sources = {FILE: SOURCE}
    controls = await make_runs(prove_controls(altered, (), sources, pairs=1, others=others), DisturbedRunner())
    assert controls.disturbed == ("nine",)
    expectation = Expectation(fail_to_pass=altered, pass_to_pass=others)
    before = await ToyRunner(SOURCE, lambda test, expected: test in others)({}, "pre_patch")

    async def status(runner: ToyRunner) -> Status:
        check = run_test_variants(controls, sources, lambda run, unseen: True)
        return resolve_control_check(before, await make_runs(check, runner), controls, expectation).status

    assert await status(DisturbedRunner()) is Status.RESOLVED
    assert await status(ToyRunner(SOURCE, right(**{**VALUES, "nine": 1}))) is Status.UNRESOLVED
    assert await status(ToyRunner(SOURCE, right(**{**VALUES, "eight": 1}))) is Status.UNRESOLVED


async def test_variants_alter_all_tests_where_the_exit_code_decides() -> None:
    controls = await prove(ToyRunner(SOURCE, right(**VALUES)), whole_step=True)
    assert [len(variant.altered) for variant in controls.pairs[0]] == [0, 6]


async def test_tests_without_a_result_are_uncontrolled() -> None:
    controls = await prove(ToyRunner(SOURCE, right(**VALUES), fail_fast=True))
    assert controls.tests == ("nothing",)
    assert set(controls.uncontrolled) == {"five", "six", "seven", "eight", "nine"}


async def test_without_any_alteration_all_is_uncontrolled() -> None:
    controls = await make_runs(prove_controls(tuple(VALUES), (), {FILE: SOURCE}, pairs=1), broken)
    assert (controls.pairs, set(controls.uncontrolled)) == ((), set(VALUES))


@pytest.mark.parametrize(
    ("log", "named"),
    [
        (b'File "/w/tests/test_a.py", line 12, in test_x', True),
        (b'File "/w/tests/test_a.py", line 99, in helper', False),
        (b"tests/test_a.py:12: AssertionError", True),
        (b"test_a.py:120: AssertionError", False),
        (b"at Object.<anonymous> (/w/tests/test_a.py:12:3)", True),
        (b"no lines at all", True),
    ],
)
def test_a_failure_at_another_line_does_not_count(log: bytes, named: bool) -> None:
    assert is_named(log, "tests/test_a.py", range(11, 14)) is named


async def test_a_task_with_one_test_to_fix_has_more_pairs() -> None:
    oracle = ToyRunner(SOURCE, right(**VALUES))
    tests = tuple(VALUES)
    controls = await make_runs(prove_controls(tests[:1], tests[1:], {FILE: SOURCE}, pairs=1), oracle)
    assert len(controls.pairs) == 4


async def test_an_alteration_names_every_test_that_shares_its_code() -> None:
    file, cases = "tests/test_a.py", tuple(f"tests/test_a.py::test_x[{number}]" for number in range(3))
    code = b"@pytest.mark.parametrize('n', range(3))\ndef test_x(n):\n    assert n - n == 0\n"

    async def oracle(files: Mapping[str, bytes], name: str) -> TestRun:
        is_altered = files[file].strip() != code.strip()
        status = TestStatus.FAILED if is_altered else TestStatus.PASSED
        log = b"tests/test_a.py:3: AssertionError" if is_altered else b""
        return TestRun(outcome=TestResults(tests=dict.fromkeys(cases, status)), exit_code=int(is_altered), log=log)

    controls = await make_runs(prove_controls(cases[:1], (), {file: code}, pairs=1, others=cases), oracle)
    assert controls.tests == cases[:1]
    assert [set(alteration.tests) for alteration in controls.alterations] == [set(cases)]


async def test_a_file_whose_tests_look_at_it_is_not_filled_up() -> None:
    file, test = "tests/test_a.py", "tests/test_a.py::test_x"
    code = b"def test_x():\n    assert len(open(__file__).read()) == 61\n"

    async def oracle(files: Mapping[str, bytes], name: str) -> TestRun:
        status = TestStatus.PASSED if files[file] == code else TestStatus.FAILED
        return TestRun(outcome=TestResults(tests={test: status}), exit_code=0, log=b"tests/test_a.py:2: AssertionError")

    controls = await make_runs(prove_controls((test,), (), {file: code}, pairs=1), oracle)
    assert controls.tests == (test,)
    for plain, altered in controls.pairs:
        assert variant_files(controls, {file: code}, plain) == {file: code}
        assert variant_files(controls, {file: code}, altered) != {file: code}


def test_some_tests_that_passed_before_are_controlled() -> None:
    chosen = sample_tests(tuple(f"p{number}" for number in range(100)), random.Random(1))
    assert len(set(chosen)) == MAX_SAMPLE
    assert sample_tests(("a",), random.Random(1)) == ("a",)


def test_a_step_whose_exit_code_decides_is_controlled_by_what_its_script_checks() -> None:
    sources = {"tests/check.sh": b'[ "$(sh bin/greet Ada)" = "hello Ada" ]\n'}
    found = candidate_alterations(("exit code",), sources)["exit code"]
    assert {one.tests for one in found} == {("exit code",)}
    assert b"hello Adb" in alter(sources["tests/check.sh"], found[:1])
