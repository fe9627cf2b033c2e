"""The interface of executors. An executor makes whole attempts and gradings; the session owns everything else.

The run folder, its journal, the order of the trials, retries and money stay with the session, whichever executor works
for it. Nothing else knows which one that is.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from proctor.core.evaluation import Prediction, TaskEvaluation
from proctor.core.task import Task
from proctor.gateway import RunBudget
from proctor.runner.attempt import AttemptOutput, AttemptSpec
from proctor.runner.run_resources import MachineResources

if TYPE_CHECKING:
    from proctor.runner.state import RunSession


@dataclass(frozen=True, slots=True)
class GradingSpec:
    """A submission to be graded.

    Attributes:
        folder: where the grader's evidence goes.
        node: the node on which the submission was made, which is preferred.
        on_started: is called when grading starts, after waiting for its turn.
    """

    task: Task
    prediction: Prediction
    folder: Path
    node: str | None = None
    on_started: Callable[[], None] = lambda: None


class Assignment(ABC):
    """The right to make one attempt, where the executor has decided.

    Attributes:
        node: the name of the node; empty on one machine.
    """

    node: str = ""

    @abstractmethod
    def attempt(self, spec: AttemptSpec) -> Coroutine[Any, Any, AttemptOutput]:
        """Make the attempt. Nothing that the agent does, and no mistake of a plugin, raises out of here.

        Raises:
            UsageError: no attempt at any task can be made in this way.
        """


class Executor(ABC):
    """Makes attempts and gradings, as many at once as it has the means for.

    Attributes:
        max_trials: how many trials are worked on at once, those that wait included.
    """

    max_trials: int

    async def check(self) -> None:  # noqa: B027 - a default
        """See that it can be opened, before anything is written.

        Raises:
            ProctorError: it cannot.
        """

    @abstractmethod
    async def open(
        self, stack: AsyncExitStack, machine: MachineResources, runs: Sequence["RunSession"], budget: RunBudget
    ) -> None:
        """Prepare to work on these runs, until the stack is closed.

        Args:
            stack: closes what is opened.
            machine: what the runs share on the machine of the session.
            runs: the runs.
            budget: what all of them may spend together.
        """

    @abstractmethod
    def prefetch(self, tasks: Iterable[Task]) -> None:
        """These tasks will be worked on, in this order."""

    def release(self, task: Task) -> None:  # noqa: B027 - a default
        """The work on one of them is over."""

    @abstractmethod
    def assign(self, run: "RunSession", task: Task, spent_usd: float) -> AbstractAsyncContextManager[Assignment]:
        """Wait for the right to make an attempt; it ends with the block.

        `spent_usd` is what earlier attempts at the same trial have cost.

        Raises:
            LimitReached: the run's budget does not allow another attempt.
        """

    @abstractmethod
    async def grade(self, run: "RunSession", spec: GradingSpec) -> TaskEvaluation:
        """Grade a submission in fresh environments, as soon as it is its turn."""
