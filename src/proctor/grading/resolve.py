"""From test results to a verdict: pure rules, and a sentence for whatever they decide.

With labels, the named tests decide: every fail-to-pass test fails before the submission and passes after it, every
pass-to-pass test passes both times. Without labels, the whole test step decides: it must not be green before, and
must be green after.

Blame goes where it belongs. Labels that do not fit the pristine tree are the task's fault; a test that was there
before the submission and is gone after it is the submission's.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Final

import msgspec

from proctor.core.causes import Cause, Status
from proctor.core.record import Record
from proctor.core.verdict import TestOutcome, TestStatus
from proctor.grading.outcome import InconclusiveKind, InconclusiveRun, TestResults, TestRun

# A test that is skipped, or expected to fail, may stay so; it may not become so.
_NEUTRAL: Final = frozenset({TestStatus.SKIPPED, TestStatus.XFAILED, TestStatus.XPASSED})
_MAX_NAMES: Final = 3
_MAX_NAME_LENGTH: Final = 200


class Expectation(Record):
    """What must be true of the results.

    Attributes:
        passing: the statuses that count as a pass of a labelled test.
        expected: tests that must be there after the submission, labelled or not.
        count: how many tests there must be at least.
        exit_zero: a labelled task also needs exit code 0 (without labels that is always needed).
        proven_stable: `validate` saw these tests repeat on this machine, so a test that flips is the submission's
            doing and not the task's.
    """

    fail_to_pass: tuple[str, ...] = ()
    pass_to_pass: tuple[str, ...] = ()
    passing: tuple[TestStatus, ...] = (TestStatus.PASSED,)
    expected: tuple[str, ...] = ()
    count: int = 0
    exit_zero: bool = False
    proven_stable: bool = False

    @property
    def labels(self) -> tuple[str, ...]:
        """All labelled tests, each once."""
        return tuple(dict.fromkeys((*self.fail_to_pass, *self.pass_to_pass)))

    def without(self, tests: Collection[str]) -> "Expectation":
        """The same for all but these tests."""
        return msgspec.structs.replace(
            self,
            fail_to_pass=tuple(test for test in self.fail_to_pass if test not in tests),
            pass_to_pass=tuple(test for test in self.pass_to_pass if test not in tests),
            expected=tuple(test for test in self.expected if test not in tests),
            count=max(0, self.count - len(tests)),
        )


class Resolution(Record):
    """The parts of a verdict that the test results decide."""

    status: Status
    cause: Cause
    reason: str
    tests: tuple[TestOutcome, ...] = ()
    flaky: tuple[str, ...] = ()


def resolve(
    before: TestRun | None, after: TestRun, expectation: Expectation, *, reruns: Sequence[TestRun] = ()
) -> Resolution:
    """Judge a submission.

    `before` is the pristine tree with the task's tests (None: not run, and then not judged), `after` the submission,
    `reruns` the submission again.
    """
    flaky = flaky_tests([after, *reruns])
    status, cause, reason = _judge(before, after, expectation, reruns, flaky)
    return Resolution(
        status=status, cause=cause, reason=reason, tests=_outcomes(before, after, expectation), flaky=flaky
    )


_Judgement = tuple[Status, Cause, str]


def _judge(
    before: TestRun | None, after: TestRun, expectation: Expectation, reruns: Sequence[TestRun], flaky: tuple[str, ...]
) -> _Judgement:
    if before is not None:
        problem = pre_patch_problem(before, expectation)
        if problem is not None:
            return Status.ERROR, *problem
    verdicts = [_judge_run(before, run, expectation) for run in (after, *reruns)]
    if len({status for status, _, _ in verdicts}) > 1:
        reason = f"the same submission gave different results: {join_names(flaky) or 'not every run was complete'}"
        if expectation.proven_stable:
            return Status.UNRESOLVED, Cause.TESTS_FAILED, reason
        return Status.ERROR, Cause.FLAKY, reason
    return verdicts[0]


def pre_patch_problem(before: TestRun, expectation: Expectation) -> tuple[Cause, str] | None:
    """What is wrong with the task, or with this machine, as far as the pristine tree shows; None when all is well."""
    outcome = before.outcome
    if isinstance(outcome, InconclusiveRun) and outcome.kind is InconclusiveKind.NOT_STARTED:
        return Cause.MISSING_PROGRAM, f"the tests could not be started: {outcome.reason}"
    both = set(expectation.fail_to_pass) & set(expectation.pass_to_pass)
    if both:
        return Cause.INVALID_TASK, f"labelled both fail_to_pass and pass_to_pass: {join_names(sorted(both))}"
    if not expectation.labels:
        if is_green(before, None, expectation):
            return Cause.INVALID_TASK, "the tests already pass without a submission"
        return None
    known = outcome.tests if isinstance(outcome, TestResults) else outcome.partial
    for test in expectation.fail_to_pass:
        if known.get(test) in expectation.passing:
            return Cause.INVALID_TASK, f"fail_to_pass {test!r} passes already without a submission"
    for test in expectation.pass_to_pass:
        if known.get(test) not in expectation.passing:
            found = f"is {known[test].value}" if test in known else "is not there"
            why = "" if isinstance(outcome, TestResults) else f" ({outcome.reason})"
            return Cause.INVALID_TASK, f"pass_to_pass {test!r} {found} without a submission{why}"
    return None


def _judge_run(before: TestRun | None, after: TestRun, expectation: Expectation) -> _Judgement:
    outcome = after.outcome
    if isinstance(outcome, InconclusiveRun):
        return _judge_inconclusive(before, outcome)
    if tampered := _newly_tampered(before, outcome):
        reason = f"the submission changed the test machinery while it was running: {join_names(tampered)}"
        return Status.UNRESOLVED, Cause.TAMPERED, reason
    judge = _judge_labels if expectation.labels else _judge_all
    return judge(before, after, outcome, expectation)


def _judge_inconclusive(before: TestRun | None, outcome: InconclusiveRun) -> _Judgement:
    if outcome.kind is InconclusiveKind.TIMED_OUT:
        return Status.UNRESOLVED, Cause.TEST_TIMEOUT, outcome.reason
    if outcome.kind is InconclusiveKind.NOT_STARTED and before is None:
        return Status.ERROR, Cause.MISSING_PROGRAM, f"the tests could not be started: {outcome.reason}"
    # They started on the pristine tree, in the same kind of environment: what stopped them came with the submission.
    cause = Cause.TAMPERED if outcome.kind is InconclusiveKind.FORGED else Cause.TESTS_VANISHED
    return Status.UNRESOLVED, cause, f"there are no results: {outcome.reason}"


def _newly_tampered(before: TestRun | None, outcome: TestResults) -> list[str]:
    """What the pristine tree does to the test machinery by itself is the repository's way, not the submission's."""
    usual = before.outcome.tampered if before is not None else ()
    return [name for name in outcome.tampered if name not in usual]


def _judge_labels(
    before: TestRun | None,  # noqa: ARG001 - the two judges are called alike
    after: TestRun,
    outcome: TestResults,
    expectation: Expectation,
) -> _Judgement:
    tests = outcome.tests
    vanished = _missing_tests(tests, (*expectation.labels, *expectation.expected))
    unfixed = [test for test in expectation.fail_to_pass if tests.get(test) not in expectation.passing]
    hurt = [test for test in expectation.pass_to_pass if tests.get(test) not in expectation.passing]
    if vanished and outcome.broken:
        cause = Cause.TESTS_FAILED if unfixed else Cause.REGRESSION
        return Status.UNRESOLVED, cause, f"could not be loaded: {join_names(outcome.broken)}"
    if vanished or len(tests) < expectation.count:
        return _judge_missing_tests(vanished, tests, expectation)
    if unfixed:
        return Status.UNRESOLVED, Cause.TESTS_FAILED, f"still failing: {join_names(unfixed)}"
    if hurt:
        return Status.UNRESOLVED, Cause.REGRESSION, f"passed before and no longer do: {join_names(hurt)}"
    if expectation.exit_zero and after.exit_code != 0:
        reason = f"the labelled tests pass, but the test step ended with exit code {after.exit_code}"
        return Status.UNRESOLVED, Cause.TESTS_FAILED, reason
    return Status.RESOLVED, Cause.SOLVED, f"all {len(expectation.labels)} labelled tests pass"


def _judge_all(before: TestRun | None, after: TestRun, outcome: TestResults, expectation: Expectation) -> _Judgement:
    tests = outcome.tests
    if outcome.broken:
        return Status.UNRESOLVED, Cause.TESTS_FAILED, f"could not be loaded: {join_names(outcome.broken)}"
    earlier = before.tests if before is not None else {}
    vanished = _missing_tests(tests, (*expectation.expected, *earlier))
    if vanished or len(tests) < expectation.count or not tests:
        return _judge_missing_tests(vanished, tests, expectation)
    failing = [test for test in tests if not _is_acceptable(test, before, after, expectation)]
    if failing:
        all_new = all(earlier.get(test) in expectation.passing for test in failing)
        cause = Cause.REGRESSION if all_new else Cause.TESTS_FAILED
        return Status.UNRESOLVED, cause, f"not passing: {join_names(failing)}"
    if not is_green(after, before, expectation):
        reason = f"no test failed, but the test step ended with exit code {after.exit_code}"
        if after.exit_code == 0:
            reason = "no test passed"
        return Status.UNRESOLVED, Cause.TESTS_FAILED, reason
    return Status.RESOLVED, Cause.SOLVED, f"all {len(tests)} tests pass"


def _judge_missing_tests(vanished: list[str], tests: dict[str, TestStatus], expectation: Expectation) -> _Judgement:
    if vanished:
        return Status.UNRESOLVED, Cause.TESTS_VANISHED, f"gone since the submission: {join_names(vanished)}"
    reason = f"only {len(tests)} tests ran, of at least {max(expectation.count, 1)}"
    return Status.UNRESOLVED, Cause.TESTS_VANISHED, reason


def _missing_tests(tests: dict[str, TestStatus], wanted: Iterable[str]) -> list[str]:
    return [test for test in dict.fromkeys(wanted) if tests.get(test, TestStatus.MISSING) is TestStatus.MISSING]


def _is_acceptable(test: str, before: TestRun | None, after: TestRun, expectation: Expectation) -> bool:
    status = after.tests[test]
    if status in expectation.passing:
        return True
    return status in _NEUTRAL and (before is None or before.tests.get(test) is status)


def is_green(run: TestRun, before: TestRun | None, expectation: Expectation) -> bool:
    """Whether a whole test step succeeded: complete, exit code 0, nothing failing, something passing."""
    if not isinstance(run.outcome, TestResults) or run.outcome.broken or run.exit_code != 0:
        return False
    tests = run.outcome.tests
    return any(status in expectation.passing for status in tests.values()) and all(
        _is_acceptable(test, before, run, expectation) for test in tests
    )


def flaky_tests(runs: Sequence[TestRun]) -> tuple[str, ...]:
    """The tests that did not end alike in all of these runs."""
    seen: dict[str, set[TestStatus]] = {}
    names = {name for run in runs for name in run.tests}
    for name in names:
        seen[name] = {run.tests.get(name, TestStatus.MISSING) for run in runs}
    return tuple(sorted(name for name, statuses in seen.items() if len(statuses) > 1))


def _outcomes(before: TestRun | None, after: TestRun, expectation: Expectation) -> tuple[TestOutcome, ...]:
    """Labelled tests first, in their order, then the others by name."""
    earlier = before.tests if before is not None else {}
    names = dict.fromkeys((*expectation.labels, *expectation.expected, *sorted({*earlier, *after.tests})))
    return tuple(
        TestOutcome(
            id=name,
            before=None if before is None else earlier.get(name, TestStatus.MISSING),
            after=after.tests.get(name, TestStatus.MISSING),
        )
        for name in names
    )


def join_names(names: Iterable[str]) -> str:
    """The first few names, each on one line and of bearable length, and how many more there are."""
    every = [" ".join(name.split())[:_MAX_NAME_LENGTH] for name in names]
    text = ", ".join(every[:_MAX_NAMES])
    rest = len(every) - _MAX_NAMES
    return f"{text} and {rest} more" if rest > 0 else text
