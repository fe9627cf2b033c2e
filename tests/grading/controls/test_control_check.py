"""A submission is resolved when every original passes and every altered test fails."""

import random
from collections.abc import Sequence

from grading.controls.toy_tests import FILE, Program, ToyRunner, broken, passes_everything, right, source
from proctor.core.causes import Cause, Status
from proctor.core.verdict import TestStatus
from proctor.grading import Expectation, Resolution, TestResults, TestRun
from proctor.grading.controls import (
    ControlCheck,
    RunVariant,
    control_findings,
    make_runs,
    may_be_resolved,
    prove_controls,
    resolve_control_check,
    run_test_variants,
)
from proctor.grading.controls.oracle_validation import unproved_controls

VALUES = {"five": 5, "six": 6, "seven": 7, "eight": 8}
SOURCE = source(**VALUES)
EXPECTATION = Expectation(fail_to_pass=("five", "six"), pass_to_pass=("seven", "eight"))
BEFORE = TestRun(
    outcome=TestResults(
        tests={name: TestStatus.PASSED if value > 6 else TestStatus.FAILED for name, value in VALUES.items()}
    ),
    exit_code=1,
)


async def given(
    run: RunVariant, *, pairs: int = 1, repeats: int = 1, plain: Sequence[TestRun] = ()
) -> tuple[ControlCheck, Resolution]:
    oracle = ToyRunner(SOURCE, right(**VALUES))
    proof = prove_controls(tuple(VALUES), (), {FILE: SOURCE}, pairs=pairs, chance=random.Random(2))
    controls = await make_runs(proof, oracle)
    variants = run_test_variants(
        controls,
        {FILE: SOURCE},
        lambda seen, unseen: may_be_resolved(BEFORE, seen, EXPECTATION, unseen),
        repeats=repeats,
        plain=plain,
    )
    control_check = await make_runs(variants, run)
    return control_check, resolve_control_check(BEFORE, control_check, controls, EXPECTATION)


def toy(program: Program) -> ToyRunner:
    return ToyRunner(SOURCE, program)


async def test_a_right_program_is_resolved() -> None:
    control_check, resolution = await given(toy(right(**VALUES)))
    assert (resolution.status, resolution.cause) == (Status.RESOLVED, Cause.SOLVED)
    assert {test.id: test.after for test in resolution.tests} == dict.fromkeys(VALUES, TestStatus.PASSED)
    assert control_findings(control_check) == ()


async def test_a_program_that_passes_everything_is_caught_with_evidence() -> None:
    control_check, resolution = await given(toy(passes_everything))
    assert (resolution.status, resolution.cause) == (Status.UNRESOLVED, Cause.TAMPERED)
    assert sorted(found.detail for found in control_findings(control_check))[1] == (
        "five passes with `5` changed to `10` in line 1"
    )


async def test_one_passing_altered_test_is_enough() -> None:
    def nearly_right(test: str, expected: int) -> bool:
        return test == "eight" or VALUES[test] == expected

    control_check, resolution = await given(toy(nearly_right))
    assert resolution.cause is Cause.TAMPERED
    assert [alteration.tests for alteration in control_check.altered.passed] == [("eight",)]


async def test_a_wrong_program_that_passes_an_altered_test_is_only_wrong() -> None:
    runner = toy(right(five=10, six=6, seven=7, eight=8))
    control_check, resolution = await given(runner)
    assert (resolution.status, resolution.cause) == (Status.UNRESOLVED, Cause.TESTS_FAILED)
    assert control_findings(control_check) == ()


async def test_a_submission_that_fails_an_unaltered_test_gets_no_more_variants() -> None:
    runner = toy(lambda test, expected: False)
    control_check, resolution = await given(runner, pairs=3)
    assert (len(runner.variants), control_check.complete) == (1, False)
    assert resolution.cause is Cause.TESTS_FAILED
    assert None in {test.after for test in resolution.tests}  # altered in the only variant


async def test_an_unaltered_run_and_the_variants_count_together() -> None:
    plain = await toy(right(**VALUES))({}, "post_patch")
    _, resolution = await given(toy(lambda test, expected: False), plain=[plain])
    assert resolution.cause is Cause.TESTS_FAILED


async def test_a_variant_without_a_result_does_not_pass() -> None:
    _, resolution = await given(broken)
    assert (resolution.status, resolution.cause) == (Status.UNRESOLVED, Cause.TESTS_VANISHED)


async def test_an_altered_test_without_a_result_has_not_failed() -> None:
    class Skips(ToyRunner):
        async def __call__(self, files, name):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN204
            run = await super().__call__(files, name)
            tests: dict[str, TestStatus] = {
                test: TestStatus.SKIPPED if status is TestStatus.FAILED else status
                for test, status in run.tests.items()
            }
            return TestRun(outcome=TestResults(tests=tests), exit_code=0)

    _, resolution = await given(Skips(SOURCE, right(**VALUES)))
    assert (resolution.status, resolution.cause) == (Status.UNRESOLVED, Cause.TESTS_VANISHED)


async def test_random_results_are_hardly_ever_resolved() -> None:
    chance = random.Random(7)
    checks = [await given(toy(lambda test, expected: chance.random() < 0.5)) for _ in range(200)]
    assert sum(resolution.status is Status.RESOLVED for _, resolution in checks) <= 3  # one of 256 is expected


async def test_each_repetition_has_variants_of_its_own() -> None:
    runner = toy(right(**VALUES))
    control_check, resolution = await given(runner, repeats=3)
    assert (len(control_check.runs), len(runner.variants), resolution.status) == (3, 6, Status.RESOLVED)


async def unproved(run: RunVariant) -> tuple[ControlCheck, Resolution]:
    controls = unproved_controls(tuple(VALUES), {FILE: SOURCE}, pairs=1)
    variants = run_test_variants(
        controls, {FILE: SOURCE}, lambda seen, unseen: may_be_resolved(BEFORE, seen, EXPECTATION, unseen)
    )
    control_check = await make_runs(variants, run)
    return control_check, resolve_control_check(BEFORE, control_check, controls, EXPECTATION)


async def test_without_an_oracle_contradicting_alterations_decide() -> None:
    assert (await unproved(toy(right(**VALUES))))[1].status is Status.RESOLVED
    control_check, resolution = await unproved(toy(passes_everything))
    assert (resolution.cause, len(control_check.altered.passed)) == (Cause.TAMPERED, 3)


async def test_without_an_oracle_a_disturbed_altered_test_is_no_proof() -> None:
    failed: set[str] = set()

    def counts(test: str, expected: int) -> bool:
        """A right program but for a counter that each failing test before it has moved on."""
        passes = VALUES[test] + 3 * (test == "eight" and len(failed) + 5) * bool(failed) == expected
        failed.update([] if passes else [test])
        return passes

    class Fresh(ToyRunner):
        async def __call__(self, files, name):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN204
            failed.clear()
            return await super().__call__(files, name)

    assert (await unproved(Fresh(SOURCE, counts)))[1].status is Status.RESOLVED
