"""Grading without an agent on a cluster: `eval` and `validate` give each task to a node."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from proctor.core.benchmark import Benchmark, GradingContext, TaskHealth
from proctor.core.causes import Cause
from proctor.core.disk_names import disk_name
from proctor.core.errors import InfrastructureError
from proctor.core.evaluation import Prediction, TaskEvaluation
from proctor.core.request import EvaluateRequest
from proctor.core.task import Task
from proctor.gateway import RunBudget
from proctor.runner.executors.cluster_attempt import receive_work
from proctor.runner.executors.messages import EvaluationSetup, GradingEnded, HealthFound, NodeEvaluationJob
from proctor.runner.executors.node_client import NodeClient
from proctor.runner.executors.node_pool import ClusterSettings, NodePool, PoolHooks
from proctor.runner.observer import NodeStatus


class ClusterGrader:
    """Grades and validates tasks on the nodes of a cluster."""

    def __init__(self, settings: ClusterSettings, setup: EvaluationSetup) -> None:
        self._setup = setup
        self._stopped = ""
        hooks = PoolHooks(open=self._open_node, changed=lambda _: None, stop=self._stop)
        self._pool = NodePool(settings, RunBudget(), hooks)

    async def open(self, stack: AsyncExitStack) -> None:
        """Join the cluster.

        Raises:
            InfrastructureError: no node of it can be used.
        """
        await self._pool.open(stack)

    @property
    def nodes(self) -> list[NodeStatus]:
        """The nodes, and how busy they are."""
        return self._pool.statuses("grading")

    async def grade(self, task: Task, prediction: Prediction, context: GradingContext) -> TaskEvaluation:
        """What `Benchmark.grade` does, on a node."""
        ended = await self._run(task, prediction, context)
        if not isinstance(ended, GradingEnded):
            raise InfrastructureError("the node has validated what was to be graded", cause=Cause.GRADER_FAILED)
        return ended.evaluation

    async def validate(self, task: Task, context: GradingContext) -> TaskHealth:
        """What `Benchmark.validate` does, on a node."""
        ended = await self._run(task, None, context)
        if not isinstance(ended, HealthFound):
            raise InfrastructureError("the node has graded what was to be validated", cause=Cause.GRADER_FAILED)
        return ended.health

    async def _run(
        self, task: Task, prediction: Prediction | None, context: GradingContext
    ) -> GradingEnded | HealthFound:
        job = NodeEvaluationJob(f"evaluation/{disk_name(task.id)}", task.id, prediction)

        async def evaluate_on(node: NodeClient) -> GradingEnded | HealthFound:
            return await receive_work(node, "evaluate", job, context.folder, self._pool.check_image)

        ended = await self._pool.grade(evaluate_on)
        if ended is None:
            raise InfrastructureError(self._stopped, cause=Cause.NO_NODE)
        return ended

    async def _open_node(self, node: NodeClient) -> None:
        await node.open("open_evaluation", self._setup)

    def _stop(self, why: str) -> None:
        self._stopped = why


@asynccontextmanager
async def cluster_grader(
    request: EvaluateRequest, benchmark: Benchmark, settings: ClusterSettings
) -> AsyncIterator[ClusterGrader]:
    """A cluster that grades for this request, for the length of the block."""
    setup = EvaluationSetup(request, benchmark.name, benchmark.source, benchmark.split, benchmark.digest())
    async with AsyncExitStack() as stack:
        grader = ClusterGrader(settings, setup)
        await grader.open(stack)
        yield grader
