"""The interface of executors. An executor makes whole attempts and gradings; the session owns everything else.

The run folder, its journal, the order of the trials, retries and money stay with the session, whichever executor works
for it. Nothing else knows which one that is.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from proctor.core.evaluation import Prediction, TaskEvaluation
from proctor.core.result import Attempt
from proctor.core.task import Task
from proctor.gateway import RunBudget
from proctor.runner.attempt import AttemptOutput, AttemptSpec

if TYPE_CHECKING:
    from proctor.runner.state import RunSession

# Makes one attempt. Nothing that the agent does, and no mistake of a plugin, raises; a UsageError says that no attempt
# at any task can be made in this way.
MakeAttempt = Callable[[AttemptSpec], Coroutine[Any, Any, AttemptOutput]]


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
    async def open(self, stack: AsyncExitStack, runs: Sequence["RunSession"], budget: RunBudget) -> None:
        """Prepare to work on these runs, until the stack is closed; `budget` is what all may spend together."""

    @abstractmethod
    def prefetch(self, tasks: Iterable[Task]) -> None:
        """These tasks will be worked on, in this order."""

    def release(self, task: Task) -> None:  # noqa: B027 - a default
        """The work on one of them is over."""

    @abstractmethod
    def assign(
        self, run: "RunSession", task: Task, earlier: Sequence[Attempt]
    ) -> AbstractAsyncContextManager[MakeAttempt]:
        """Wait for the right to make an attempt; it ends with the block.

        `earlier` are the attempts at the same trial that were made before.

        Raises:
            LimitReached: the run's budget does not allow another attempt.
        """

    @abstractmethod
    async def grade(
        self,
        run: "RunSession",
        prediction: Prediction,
        folder: Path,
        *,
        node: str | None,
        on_started: Callable[[], None],
    ) -> TaskEvaluation:
        """Grade a submission in fresh environments, as soon as it is its turn.

        Args:
            run: whose submission it is.
            prediction: the submission.
            folder: where the grader's evidence goes.
            node: the node on which the submission was made, which is preferred; None on one machine.
            on_started: is called when grading starts, after waiting for its turn.
        """
