"""Test variants show each test as it is and altered, and nothing about a variant's files tells which is which."""

import json
import random

from grading.controls.toy_tests import FILE, find, source
from proctor.core.record import to_json
from proctor.core.verdict import TestStatus
from proctor.grading import TestResults, TestRun
from proctor.grading.controls.test_variants import (
    ControlSet,
    TestVariant,
    altered_test_results,
    file_sizes,
    halved_pairs,
    merge_variants,
    pair_count,
    variant_files,
    whole_pairs,
)

VALUES = {f"t{number}": number + 10 for number in range(9)}
SOURCE = source(**VALUES)
ALTERATIONS = tuple(found[-1] for found in find(FILE, SOURCE, list(VALUES)).values())
PASSED, FAILED, SKIPPED = TestStatus.PASSED, TestStatus.FAILED, TestStatus.SKIPPED


def control_set(pairs: tuple[tuple[TestVariant, TestVariant], ...] = ()) -> ControlSet:
    sizes = file_sizes(ALTERATIONS, {FILE: SOURCE}, random.Random(1))
    return ControlSet(alterations=ALTERATIONS, tests=tuple(VALUES), sizes=sizes, pairs=pairs)


def test_a_stored_control_set_keeps_its_keys() -> None:
    stored = json.loads(to_json(control_set(whole_pairs(9, 1))))
    always = {"twins", "tests", "uncontrolled", "pairs", "sizes", "proved", "reason", "schema_version"}
    assert set(stored) == always | {"disturbed"}
    assert set(stored["pairs"][0][1]) == {"altered"}


def test_each_test_is_altered_once_in_a_pair() -> None:
    for first, second in halved_pairs(9, 3, random.Random(5)):
        assert sorted((*first.altered, *second.altered)) == list(range(9))
        assert abs(len(first.altered) - len(second.altered)) == 1


def test_a_single_test_is_altered_first_or_second_by_chance() -> None:
    first = {halved_pairs(1, 1, random.Random(seed))[0][0].altered for seed in range(20)}
    assert first == {(), (0,)}


def test_few_tests_are_given_more_often() -> None:
    assert [pair_count(tests, 1) for tests in (0, 1, 2, 3, 4, 40)] == [1, 4, 2, 2, 1, 1]
    assert pair_count(1, 9) == 9


def test_all_variants_of_a_task_have_files_of_one_size() -> None:
    controls = control_set()
    sizes = {
        len(variant_files(controls, {FILE: SOURCE}, variant)[FILE]) for pair in whole_pairs(9, 1) for variant in pair
    }
    assert sizes == {controls.sizes[FILE]}
    assert controls.sizes[FILE] > len(SOURCE)


def test_a_variant_alters_its_tests_and_nothing_else() -> None:
    lines = variant_files(control_set(), {FILE: SOURCE}, TestVariant(altered=(2, 8)))[FILE].decode().splitlines()
    expected = {**VALUES, "t2": 13, "t8": 19}
    assert lines[:9] == [f"{name} {value}" for name, value in expected.items()]
    assert set(lines[9:]) == {""}


def _run(exit_code: int = 1, **statuses: TestStatus) -> TestRun:
    return TestRun(outcome=TestResults(tests=statuses), exit_code=exit_code)


def test_of_each_test_its_original_counts() -> None:
    one = (TestVariant(altered=(0,)), _run(t0=FAILED, t1=PASSED))
    other = (TestVariant(altered=(1,)), _run(t0=PASSED, t1=FAILED))
    merged = merge_variants(control_set(), [one, other])
    assert (dict(merged.tests), merged.exit_code) == ({"t0": PASSED, "t1": PASSED}, 0)
    assert dict(merge_variants(control_set(), [one]).tests) == {"t1": PASSED}


def test_an_original_that_failed_once_has_failed() -> None:
    variants = [(TestVariant(altered=(0,)), _run(t0=FAILED, t1=FAILED)), (TestVariant(), _run(t0=PASSED, t1=PASSED))]
    assert merge_variants(control_set(), variants).tests["t1"] is FAILED


def test_the_exit_code_is_that_of_the_unaltered_variant() -> None:
    variants = [(TestVariant(), _run(3, t0=PASSED)), (TestVariant(altered=(0,)), _run(1, t0=FAILED))]
    assert merge_variants(control_set(), variants).exit_code == 3


def test_altered_tests_fail_pass_or_have_no_result() -> None:
    run = _run(t0=PASSED, t1=SKIPPED, t2=FAILED)
    results = altered_test_results(control_set(), [(TestVariant(altered=(0, 1, 2, 3)), run)], (PASSED,))
    assert [alteration.tests for alteration in results.passed] == [("t0",)]
    assert [alteration.tests for alteration in results.lost] == [("t1",), ("t3",)]
