"""What differs between the four benchmarks of the family."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Generic, TypeVar

from proctor.benchmarks.swe.environment_steps import SweTestRun
from proctor.benchmarks.swe.instance_setup import InstanceSetup, StartState
from proctor.benchmarks.swe.rows import SweRow
from proctor.core.environment import Environment
from proctor.core.record import Record

R_contra = TypeVar("R_contra", bound=SweRow, contravariant=True)


class SweSubmission(Record):
    """A submission as one run tests it.

    Attributes:
        protected: patterns of paths that are restored before the tests run: none for the official verdict, the task's
            for ours.
        variant: test files, by path, that take the place of the benchmark's own.
    """

    patch: bytes
    protected: tuple[str, ...] = ()
    variant: Mapping[str, bytes] = {}


class OfficialGrader(ABC, Generic[R_contra]):
    """An official procedure, instance by instance.

    Attributes:
        grader_version: names the official grader and its version.
        grades_empty: whether its grader runs the tests for an empty patch too.
        score_name: the name of the score that it gives beside resolved or not; None where it has none.
        test_seconds: how long the tests may run where the run does not say otherwise.
    """

    grader_version: ClassVar[str]
    grades_empty: ClassVar[bool] = True
    score_name: ClassVar[str | None] = None
    test_seconds: ClassVar[float]

    def timeout_seconds(self, row: R_contra) -> float:
        """How long the tests of this instance may run, likewise."""
        return self.test_seconds

    @abstractmethod
    def start_state(self, row: R_contra) -> StartState:
        """What an agent starts from."""

    @abstractmethod
    def instruction(self, row: R_contra) -> str:
        """The instruction for the agent."""

    def oracle_patch(self, row: R_contra) -> bytes | None:
        """The oracle as a patch against what an agent starts from; None where there is none."""
        return row.patch.encode("utf-8", "surrogateescape")

    @abstractmethod
    async def run_tests(
        self, environment: Environment, row: R_contra, setup: InstanceSetup, submission: SweSubmission, seconds: float
    ) -> SweTestRun:
        """Test a submission in a fresh environment of the setup."""
