"""Grading without an agent on a cluster: `eval` and `validate` give each task to a node."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from proctor.core.benchmark import Benchmark, GradingContext, TaskHealth
from proctor.core.causes import Cause
from proctor.core.disk_names import disk_name
from proctor.core.errors import InfrastructureError
from proctor.core.evaluation import Prediction, TaskEvaluation
from proctor.core.request import EvaluateRequest
from proctor.core.task import Task
from proctor.gateway import RunBudget
from proctor.runner.executors.cluster_attempt import receive_work
from proctor.runner.executors.messages import (
    DigestFound,
    EvaluationSetup,
    GradingEnded,
    HealthFound,
    NodeEvaluationJob,
)
from proctor.runner.executors.node_client import NodeClient
from proctor.runner.executors.node_pool import ClusterSettings, NodePool, PoolHooks
from proctor.runner.observer import NodeStatus


class ClusterGrader:
    """Grades and validates tasks on the nodes of a cluster."""

    def __init__(self, settings: ClusterSettings, setup: EvaluationSetup) -> None:
        self._setup = setup
        self._stopped = ""
        self._last_nodes: dict[str, str] = {}
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
        ended = await self._evaluate(task, prediction, context)
        if not isinstance(ended, GradingEnded):
            raise InfrastructureError("the node has validated what was to be graded", cause=Cause.GRADER_FAILED)
        return ended.evaluation

    async def validate(self, task: Task, context: GradingContext) -> TaskHealth:
        """What `Benchmark.validate` does, on a node."""
        ended = await self._evaluate(task, None, context)
        if not isinstance(ended, HealthFound):
            raise InfrastructureError("the node has graded what was to be validated", cause=Cause.GRADER_FAILED)
        return ended.health

    async def digest(self, task: Task) -> str:
        """The digest of the task's environment: the node that is asked, and fetches its image, grades it next."""
        found = await self._receive("environment_digest", NodeEvaluationJob(task.id, task.id, None), Path())
        if not isinstance(found, DigestFound):
            raise InfrastructureError("the node has graded what it was to look at", cause=Cause.GRADER_FAILED)
        return found.digest

    async def _evaluate(
        self, task: Task, prediction: Prediction | None, context: GradingContext
    ) -> GradingEnded | HealthFound | DigestFound:
        job = NodeEvaluationJob(f"evaluation/{disk_name(task.id)}", task.id, prediction)
        return await self._receive("evaluate", job, context.folder)

    async def _receive(
        self, method: str, job: NodeEvaluationJob, folder: Path
    ) -> GradingEnded | HealthFound | DigestFound:
        async def receive_from(node: NodeClient) -> GradingEnded | HealthFound | DigestFound:
            self._last_nodes[job.task_id] = node.name
            return await receive_work(node, method, job, folder, self._pool.check_image)

        ended = await self._pool.grade(receive_from, preferred=self._last_nodes.get(job.task_id))
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
