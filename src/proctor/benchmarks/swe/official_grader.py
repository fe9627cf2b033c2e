"""What each of the four benchmarks does in its own way."""

from typing import Protocol, TypeVar

from proctor.benchmarks.swe.environment_steps import SweTestRun
from proctor.benchmarks.swe.instance_setup import InstanceSetup, StartState
from proctor.benchmarks.swe.rows import SweRow
from proctor.core.environment import Environment

R_contra = TypeVar("R_contra", bound=SweRow, contravariant=True)


class OfficialGrader(Protocol[R_contra]):
    """An official procedure, instance by instance.

    Attributes:
        grader: names the official grader and its version.
        seconds: how long the tests may run.
        grades_empty: whether its grader runs the tests for an empty patch too.
        degree: the name of the score by which it grades beside resolved or not; None where it has none.
    """

    grader_version: str
    timeout_seconds: float
    grades_empty: bool
    score_name: str | None

    def start_state(self, row: R_contra) -> StartState:
        """What an agent starts from."""
        ...

    def instruction(self, row: R_contra) -> str:
        """All that an agent is told."""
        ...

    def oracle_patch(self, row: R_contra) -> bytes | None:
        """The reference answer as a patch against what an agent starts from; None where there is none."""
        ...

    async def run_tests(
        self,
        environment: Environment,
        row: R_contra,
        setup: InstanceSetup,
        patch: bytes,
        *,
        restore: tuple[str, ...],
        seconds: float,
    ) -> SweTestRun:
        """Test an answer in a fresh room of the recipe.

        `restore` are paths of it that are put back as they were before the tests run: none for what the official
        grader says, the protected ones for what we say.
        """
        ...
