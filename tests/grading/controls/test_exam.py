"""A submission is resolved when every original passes and every altered test fails."""

import random
from collections.abc import Sequence

from grading.controls.toy_tests import FILE, Program, ToyRunner, broken, passes_everything, right, source
from proctor.core.causes import Cause, Status
from proctor.core.verdict import TestStatus
from proctor.grading import Expectation, Resolution, TestResults, TestRun
from proctor.grading.controls import (
    Exam,
    RunPaper,
    control_findings,
    examine,
    make_runs,
    prove_controls,
    resolve_exam,
    stands_so_far,
)
from proctor.grading.controls.proof import unproved_controls

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
    run: RunPaper, *, pairs: int = 1, repeats: int = 1, plain: Sequence[TestRun] = ()
) -> tuple[Exam, Resolution]:
    oracle = ToyRunner(SOURCE, right(**VALUES))
    proof = prove_controls(tuple(VALUES), (), {FILE: SOURCE}, pairs=pairs, chance=random.Random(2))
    controls = await make_runs(proof, oracle)
    papers = examine(
        controls,
        {FILE: SOURCE},
        lambda seen, unseen: stands_so_far(BEFORE, seen, EXPECTATION, unseen),
        repeats=repeats,
        plain=plain,
    )
    exam = await make_runs(papers, run)
    return exam, resolve_exam(BEFORE, exam, controls, EXPECTATION)


def toy(program: Program) -> ToyRunner:
    return ToyRunner(SOURCE, program)


async def test_a_right_program_is_resolved() -> None:
    exam, resolution = await given(toy(right(**VALUES)))
    assert (resolution.status, resolution.cause) == (Status.RESOLVED, Cause.SOLVED)
    assert {test.id: test.after for test in resolution.tests} == dict.fromkeys(VALUES, TestStatus.PASSED)
    assert control_findings(exam) == ()


async def test_a_program_that_passes_everything_is_caught_with_evidence() -> None:
    exam, resolution = await given(toy(passes_everything))
    assert (resolution.status, resolution.cause) == (Status.UNRESOLVED, Cause.TAMPERED)
    assert sorted(found.detail for found in control_findings(exam))[1] == (
        "five passes with `5` changed to `10` in line 1"
    )


async def test_one_passing_twin_is_enough() -> None:
    def nearly_right(test: str, expected: int) -> bool:
        return test == "eight" or VALUES[test] == expected

    exam, resolution = await given(toy(nearly_right))
    assert resolution.cause is Cause.TAMPERED
    assert [twin.tests for twin in exam.twins.passed] == [("eight",)]


async def test_a_wrong_program_that_happens_to_pass_a_twin_is_only_wrong() -> None:
    runner = toy(right(five=10, six=6, seven=7, eight=8))
    exam, resolution = await given(runner)
    assert (resolution.status, resolution.cause) == (Status.UNRESOLVED, Cause.TESTS_FAILED)
    assert control_findings(exam) == ()


async def test_a_submission_that_fails_an_original_is_given_no_more_papers() -> None:
    runner = toy(lambda test, expected: False)
    exam, resolution = await given(runner, pairs=3)
    assert (len(runner.papers), exam.complete) == (1, False)
    assert resolution.cause is Cause.TESTS_FAILED
    assert None in {test.after for test in resolution.tests}  # altered in the only paper


async def test_a_plain_run_and_the_papers_count_together() -> None:
    plain = await toy(right(**VALUES))({}, "post_patch")
    _, resolution = await given(toy(lambda test, expected: False), plain=[plain])
    assert resolution.cause is Cause.TESTS_FAILED


async def test_a_paper_without_a_result_is_no_pass() -> None:
    _, resolution = await given(broken)
    assert (resolution.status, resolution.cause) == (Status.UNRESOLVED, Cause.TESTS_VANISHED)


async def test_a_twin_that_gives_no_result_is_no_failure() -> None:
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
    exams = [await given(toy(lambda test, expected: chance.random() < 0.5)) for _ in range(200)]
    assert sum(resolution.status is Status.RESOLVED for _, resolution in exams) <= 3  # one of 256 is expected


async def test_each_repetition_has_papers_of_its_own() -> None:
    runner = toy(right(**VALUES))
    exam, resolution = await given(runner, repeats=3)
    assert (len(exam.runs), len(runner.papers), resolution.status) == (3, 6, Status.RESOLVED)


async def unproved(run: RunPaper) -> tuple[Exam, Resolution]:
    controls = unproved_controls(tuple(VALUES), {FILE: SOURCE}, pairs=1)
    papers = examine(controls, {FILE: SOURCE}, lambda seen, unseen: stands_so_far(BEFORE, seen, EXPECTATION, unseen))
    exam = await make_runs(papers, run)
    return exam, resolve_exam(BEFORE, exam, controls, EXPECTATION)


async def test_without_an_oracle_twins_that_contradict_their_originals_decide() -> None:
    assert (await unproved(toy(right(**VALUES))))[1].status is Status.RESOLVED
    exam, resolution = await unproved(toy(passes_everything))
    assert (resolution.cause, len(exam.twins.passed)) == (Cause.TAMPERED, 3)


async def test_without_an_oracle_a_disturbed_twin_is_no_proof() -> None:
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
