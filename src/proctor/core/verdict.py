"""The graded outcome of a submission, with the evidence for it."""

from enum import StrEnum
from typing import Literal

from msgspec import field

from proctor.core.causes import Cause, Status
from proctor.core.record import Record


class TestStatus(StrEnum):
    """How one test ended. MISSING: it was expected and no result came."""

    __test__ = False  # pytest: this is not a test class

    PASSED = "passed"
    FAILED = "failed"
    ERROR = "error"
    SKIPPED = "skipped"
    XFAILED = "xfailed"
    XPASSED = "xpassed"
    MISSING = "missing"


class TestOutcome(Record):
    """One test before and after the submission; None: it was not run then."""

    __test__ = False

    id: str
    before: TestStatus | None
    after: TestStatus | None


class Finding(Record):
    """Something suspicious in a submission. It is shown and counted, and never changes a verdict by itself."""

    code: str
    path: str
    detail: str


class ControlSummary(Record):
    """How far a verdict was controlled: a right program fails the tests once their expectations are altered.

    Attributes:
        pairs: control pairs that the submission was given; 0 for one that failed before.
        controlled: how many of the tests that decide have an altered version.
        uncontrolled: those that have none: passing them proves no more than it says.
        passed: the tests that it passed as they are and altered.
        reason: why tests have no alteration, where there is one reason for all.
    """

    pairs: int
    controlled: int
    uncontrolled: tuple[str, ...] = ()
    passed: tuple[str, ...] = ()
    reason: str = ""


class Verdict(Record):
    """What grading decided about one submission.

    Attributes:
        reason: one sentence for people; `cause` is the same for programs.
        score: between 0 and 1 where the benchmark grades by degree.
        scores: further numbers of the benchmark's own, by name: fix rate, pass rate, coverage, …; `normalised` is
            the score on a scale that may exceed 1.
        official: what the benchmark's own grader would say, where it differs from ours on purpose.
        applied_with: the fallback that was needed to apply the patch; None when it applied strictly.
        flaky: the tests whose results differed between reruns.
        deviations: how the environment differed from the official one, each in a few words.
        controls: how far it was controlled; None where controls were turned off or do not apply.
        cache_key: digest of environment, submission, tests and grader version.
    """

    task_id: str
    status: Status
    cause: Cause
    reason: str
    score: float | None = None
    scores: dict[str, float] = field(default_factory=dict)
    official: Status | None = None
    tests: tuple[TestOutcome, ...] = ()
    findings: tuple[Finding, ...] = ()
    applied_with: str | None = None
    flaky: tuple[str, ...] = ()
    deviations: tuple[str, ...] = ()
    controls: ControlSummary | None = None
    grader: str = ""
    cache_key: str = ""
    seconds: float = 0.0
    schema_version: Literal["proctor.verdict@1"] = "proctor.verdict@1"
