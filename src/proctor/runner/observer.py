"""How a run reports its progress to a program or a person."""

from collections.abc import Sequence

from proctor.core.causes import Cause
from proctor.core.formatting import plural
from proctor.core.record import Record
from proctor.core.result import TaskResult
from proctor.core.run import Trial
from proctor.gateway import ExchangeFinished


class NodeStatus(Record):
    """A node of a cluster; `problem`: why it gets no work, where it does not."""

    name: str
    busy: int
    slots: int
    problem: str = ""


def describe_nodes(nodes: Sequence[NodeStatus]) -> str:
    """How many nodes work, how full they are, and which ones do not; nothing on one machine."""
    if not nodes:
        return ""
    working = [node for node in nodes if not node.problem]
    slots = f"{sum(node.busy for node in working)} of {sum(node.slots for node in working)} slots"
    others = "".join(f"; {node.name} {node.problem}" for node in nodes if node.problem)
    return f"; {plural(len(working), 'node')}, {slots} busy{others}"


class RunObserver:
    """Receives what happens in a run. Every method does nothing; override those of interest."""

    def attempt_started(self, trial: Trial) -> None:
        """An attempt at a trial has started."""

    def progress(self, trial: Trial, message: str) -> None:
        """What is being done for a trial now."""

    def model_responded(self, trial: Trial, event: ExchangeFinished) -> None:
        """The model has responded to the trial's agent."""

    def attempt_retrying(self, trial: Trial, cause: Cause, detail: str, seconds: float) -> None:
        """An attempt failed without the agent's fault, and is repeated after so many seconds."""

    def trial_finished(self, trial: Trial, result: TaskResult | None) -> None:
        """A trial's result is recorded; None: it is left for another session."""

    def nodes_changed(self, nodes: Sequence[NodeStatus]) -> None:
        """The nodes of a cluster, after one has joined or left, or has got or finished some work."""

    def run_stopping(self, cause: Cause, detail: str) -> None:
        """No later trial can fare better, so none is started."""
