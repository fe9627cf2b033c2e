"""Whether a task is sound on this machine: what `bench validate` checks in the results."""

from collections.abc import Sequence
from enum import StrEnum

from proctor.core.causes import Status
from proctor.core.record import Record
from proctor.core.verdict import TestOutcome, TestStatus
from proctor.grading.outcome import InconclusiveRun, TestRun
from proctor.grading.resolve import Expectation, flaky_tests, join_names, pre_patch_problem, resolve


class TaskProblemCode(StrEnum):
    """What can be wrong with a task."""

    PRE_PATCH = "pre_patch"  # the pristine tree does not fail for the labelled reason
    ORACLE = "oracle"  # the oracle is not graded as resolved
    LABEL_MISSING = "label_missing"  # a label names a test that does not exist even with the oracle
    UNLABELLED_CHANGE = "unlabelled_change"  # the oracle changes a test that no label names
    NOT_REPEATABLE = "not_repeatable"  # the same tree gave different results


class TaskProblem(Record):
    """One thing that is wrong, in a sentence."""

    code: TaskProblemCode
    detail: str


class TaskValidation(Record):
    """What was learned about a task.

    Attributes:
        flaky: the tests that did not end alike in all runs.
        label_deviations: the labelled tests that with the oracle do not go from failing to passing, or stay passing, as
            their labels say.
    """

    problems: tuple[TaskProblem, ...] = ()
    flaky: tuple[str, ...] = ()
    label_deviations: tuple[TestOutcome, ...] = ()

    @property
    def oracle_status(self) -> Status:
        """How the oracle is graded: an error where the task itself is wrong, or its results do not repeat."""
        codes = {problem.code for problem in self.problems}
        if codes & {TaskProblemCode.PRE_PATCH, TaskProblemCode.LABEL_MISSING, TaskProblemCode.NOT_REPEATABLE}:
            return Status.ERROR
        return Status.UNRESOLVED if TaskProblemCode.ORACLE in codes else Status.RESOLVED

    @property
    def valid(self) -> bool:
        """Whether the task can be used on this machine."""
        return not self.problems


def validate(pre_patch: Sequence[TestRun], oracle: Sequence[TestRun], expectation: Expectation) -> TaskValidation:
    """Judge a task by one or more runs of its pristine tree and of its oracle."""
    flaky = tuple(sorted({*flaky_tests(pre_patch), *flaky_tests(oracle)}))
    unfit = _pre_patch_problems(pre_patch[0], expectation)
    problems = [
        *unfit,
        # What is wrong without a submission is reported once.
        *_oracle_problems(None if unfit else pre_patch[0], oracle[0], expectation),
        *_unlabelled_problems(pre_patch[0], oracle[0], expectation),
        *_repeat_problems("without a submission", pre_patch),
        *_repeat_problems("with the oracle", oracle),
    ]
    return TaskValidation(
        problems=tuple(problems), flaky=flaky, label_deviations=_label_deviations(pre_patch[0], oracle[0], expectation)
    )


def _label_deviations(before: TestRun, after: TestRun, expectation: Expectation) -> tuple[TestOutcome, ...]:
    found = []
    for label in expectation.labels:
        one = TestOutcome(id=label, before=before.tests.get(label), after=after.tests.get(label))
        was_passing = one.before is TestStatus.PASSED
        fits = one.before is not None and was_passing is (label in expectation.pass_to_pass)
        if not fits or one.after is not TestStatus.PASSED:
            found.append(one)
    return tuple(found)


def _pre_patch_problems(run: TestRun, expectation: Expectation) -> list[TaskProblem]:
    problem = pre_patch_problem(run, expectation)
    return [] if problem is None else [TaskProblem(code=TaskProblemCode.PRE_PATCH, detail=problem[1])]


def _oracle_problems(before: TestRun | None, run: TestRun, expectation: Expectation) -> list[TaskProblem]:
    resolution = resolve(before, run, expectation)
    if resolution.status is Status.RESOLVED:
        return []
    missing = [label for label in expectation.labels if run.complete and label not in run.tests]
    if missing:
        detail = f"not there even with the oracle: {join_names(missing)}"
        return [TaskProblem(code=TaskProblemCode.LABEL_MISSING, detail=detail)]
    return [TaskProblem(code=TaskProblemCode.ORACLE, detail=f"with the oracle: {resolution.reason}")]


def _unlabelled_problems(before: TestRun, after: TestRun, expectation: Expectation) -> list[TaskProblem]:
    if not expectation.labels or not before.complete or not after.complete:
        return []
    problems = []
    for test in sorted({*before.tests, *after.tests} - set(expectation.labels)):
        was = before.tests.get(test, TestStatus.MISSING)
        became = after.tests.get(test, TestStatus.MISSING)
        if was is not became:
            detail = f"no label names {test!r}, which goes from {was.value} to {became.value}"
            problems.append(TaskProblem(code=TaskProblemCode.UNLABELLED_CHANGE, detail=detail))
    return problems


def _repeat_problems(when: str, runs: Sequence[TestRun]) -> list[TaskProblem]:
    changed = flaky_tests(runs)
    if changed:
        return [TaskProblem(code=TaskProblemCode.NOT_REPEATABLE, detail=f"{when}, these flip: {join_names(changed)}")]
    if len({(run.exit_code, _inconclusive_kind(run)) for run in runs}) > 1:
        return [
            TaskProblem(code=TaskProblemCode.NOT_REPEATABLE, detail=f"{when}, the test step ends in different ways")
        ]
    return []


def _inconclusive_kind(run: TestRun) -> str:
    return run.outcome.kind.value if isinstance(run.outcome, InconclusiveRun) else ""
