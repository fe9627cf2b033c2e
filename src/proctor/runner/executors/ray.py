"""The executor of a cluster: attempts and gradings take place on the nodes of a Ray cluster.

The driver, which is this process, alone owns the run folder, the journal, the order and the money. A node may pay only
while it holds a lease that the driver renews, and only after the driver has synced and acknowledged the mark of the
request. An attempt whose node is lost is given out again when the lease has ended.
"""

import asyncio
import math
import shutil
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from proctor.core.causes import Cause
from proctor.core.errors import InfrastructureError, UsageError
from proctor.core.evaluation import Prediction, TaskEvaluation
from proctor.core.formatting import plural
from proctor.core.result import Attempt
from proctor.core.task import Task
from proctor.gateway import RunBudget
from proctor.gateway.sync_queue import SyncQueue
from proctor.runner.attempt import AttemptOutput, AttemptSpec
from proctor.runner.executors.base import Executor, MakeAttempt
from proctor.runner.executors.cluster_address import find_cluster
from proctor.runner.executors.cluster_attempt import ClusterAttempt, receive_grading
from proctor.runner.executors.messages import NodeGradingJob, NodeRun, NodeSetup, run_key
from proctor.runner.executors.node_check import program_versions
from proctor.runner.executors.node_client import NodeClient
from proctor.runner.executors.node_pool import ClusterSettings, NodePool, PoolHooks
from proctor.runner.executors.prefetch_plan import PrefetchPlan
from proctor.runner.executors.ray_cluster import NodeGone
from proctor.runner.executors.spool_collector import collect_spool
from proctor.runner.models import ModelAccess
from proctor.runner.observer import NodeStatus
from proctor.runner.prefetch import known_environment
from proctor.runner.run_cost import attempts_cost
from proctor.runner.run_resources import RunResources
from proctor.runner.state import RunSession

# Trials that are worked on or wait at once; nodes that join later find some that wait.
_MAX_TRIALS: Final = 2048
_PREFETCHED_PER_SLOT: Final = 2
_COLLECT_SECONDS: Final = 10.0
# What may be a node's fault and not a trial's, as where its engine has died: such a node has free slots all the time.
_NODE_CAUSES: Final = frozenset({Cause.ENVIRONMENT_FAILED, Cause.ENGINE_GONE})


class RayExecutor(Executor):
    """Gives attempts and gradings to the nodes of a cluster, one worker on each."""

    max_trials = _MAX_TRIALS

    def __init__(self, settings: ClusterSettings, access: ModelAccess) -> None:
        self._settings = settings
        self._access = access
        self._syncs = SyncQueue(max_wait_seconds=math.inf)
        self._prefetches = PrefetchPlan()
        self._attempts: set[ClusterAttempt] = set()
        self._failed_graders: dict[Path, set[str]] = {}

    async def check(self) -> None:
        """See that this machine is a node of a cluster that has a token."""
        await asyncio.to_thread(find_cluster, self._settings.address, insecure=self._settings.insecure)

    async def open(self, stack: AsyncExitStack, runs: Sequence[RunSession], budget: RunBudget) -> None:
        """Join the cluster, and open a worker on every node that is alive.

        Raises:
            InfrastructureError: no node of it can be used; says why, node by node.
        """
        self._shared, self._runs, self._budget = runs[0].resources, runs, budget
        self._setup = NodeSetup(
            tuple([await _node_run(run.resources) for run in runs]),
            self._shared.grace_seconds,
            budget.limit_usd,
            budget.spent_usd,
        )
        stack.push_async_callback(self._syncs.close)
        hooks = PoolHooks(open=self._open_node, changed=self._report_nodes, stop=self._stop)
        self._pool = NodePool(self._settings, budget, hooks)
        await self._pool.open(stack)
        stack.push_async_callback(self._collect_spools)
        stopping = asyncio.create_task(self._close_when_stopped())
        stack.callback(stopping.cancel)

    def prefetch(self, tasks: Iterable[Task]) -> None:
        """Have each node fetch what its first tasks need."""
        if self._shared.provider.uses_images:
            usable = self._pool.usable
            each = _PREFETCHED_PER_SLOT * self._settings.slots
            self._prefetches.start((task.id for task in tasks), [node.node.id for node in usable], each)
            for node in usable:
                self._prefetch_on(node)

    def _prefetch_on(self, node: NodeClient) -> None:
        """Have a node fetch what its next tasks need."""
        share = self._prefetches.claim(node.node.id, _PREFETCHED_PER_SLOT * node.slots)
        node.images |= {image for task_id in share if (image := self._image(self._shared.tasks[task_id]))}
        node.send("prefetch", share)

    @asynccontextmanager
    async def assign(self, run: RunSession, task: Task, earlier: Sequence[Attempt]) -> AsyncIterator[MakeAttempt]:
        """Reserve the money first, then wait for a node: no slot is idle while money is awaited.

        Where an environment failed, the node may be why: another one makes the next attempt.
        """
        cap = run.config.max_cost_per_task if run.resources.model is not None else None
        reservation = await self._budget.reserve(cap, spent_usd=attempts_cost(earlier))
        failed = {attempt.node for attempt in earlier if attempt.cause in _NODE_CAUSES}
        try:
            async with self._pool.place("attempt", image=self._image(task), avoided=failed) as node:
                if node is None:
                    yield _refuse
                    return
                self._pool.changed()
                if self._shared.provider.uses_images:
                    self._prefetches.given_out(task.id)
                    self._prefetch_on(node)
                attempt = ClusterAttempt(run, node, reservation, syncs=self._syncs, check_image=self._pool.check_image)
                self._attempts.add(attempt)
                try:
                    yield attempt.make
                    attempt.discard_spool()
                finally:
                    self._attempts.discard(attempt)
                    attempt.over.set()
        finally:
            reservation.release()

    async def grade(
        self, run: RunSession, prediction: Prediction, folder: Path, *, node: str | None, on_started: Callable[[], None]
    ) -> TaskEvaluation:
        """Grade on the node that ran the agent, if it has a free slot; where one is lost or fails, on another one."""
        failed = self._failed_graders.setdefault(folder.parent, set())

        async def grade_on(client: NodeClient) -> TaskEvaluation:
            on_started()
            job = NodeGradingJob(run_key(run.config), f"grading/{folder}", prediction)
            try:
                return await receive_grading(client, job, folder, self._pool.check_image)
            except NodeGone:
                await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
                raise
            except InfrastructureError:
                failed.add(client.name)
                raise

        evaluation = await self._pool.grade(grade_on, preferred=node, avoided=failed)
        if evaluation is None:
            raise _stopped()
        self._failed_graders.pop(folder.parent, None)
        return evaluation

    async def _open_node(self, node: NodeClient) -> None:
        """Open a worker on a node, and take over what it still has of earlier attempts."""
        await node.open("open", self._setup, self._access)
        if not node.refused:
            await collect_spool(node, self._runs, self._budget, self._wait_for_end)

    async def _wait_for_end(self, key: str) -> None:
        for attempt in [attempt for attempt in self._attempts if attempt.key == key]:
            await attempt.over.wait()

    async def _collect_spools(self) -> None:
        """Take over what could not be when the nodes joined: workers of a killed session may have been ending then."""
        for node in self._pool.usable:
            with suppress(NodeGone, TimeoutError):
                async with asyncio.timeout(_COLLECT_SECONDS):
                    await collect_spool(node, self._runs, self._budget, self._wait_for_end)

    async def _close_when_stopped(self) -> None:
        await self._runs[0].session.stopped.wait()
        self._pool.close_for("attempt")

    def _stop(self, why: str) -> None:
        self._runs[0].stop(Cause.NO_NODE, why)

    def _report_nodes(self, nodes: list[NodeStatus]) -> None:
        for gone in self._pool.unusable_ids:
            self._prefetches.forget(gone)
        for run in self._runs:
            run.observer.nodes_changed(nodes)

    def _image(self, task: Task) -> str | None:
        if not self._shared.provider.uses_images:
            return None
        spec = known_environment(self._shared.benchmark, task, self._shared.grade_options)
        return None if spec is None else spec.image


def _stopped() -> InfrastructureError:
    return InfrastructureError("the session has stopped", cause=Cause.INTERRUPTED)


async def _refuse(_: AttemptSpec) -> AttemptOutput:
    """Make no attempt: the session stops."""
    raise _stopped()


async def _node_run(run: RunResources) -> NodeRun:
    """A run, with the user's files that nodes need of it, and the versions that they must have."""
    model, prices = run.model, run.config.prices
    script = model.source if model is not None and model.kind == "script" else None
    table = prices if prices is not None and await asyncio.to_thread(Path(prices).is_file) else None
    versions = await program_versions(run.config, run.benchmark, run.tasks, run.provider)
    return NodeRun(run.config, model, versions, await _named_content(script), await _named_content(table))


async def _named_content(file: str | None) -> tuple[str, bytes] | None:
    return None if file is None else (Path(file).name, await asyncio.to_thread(Path(file).read_bytes))


def check_request(*, isolation: bool, own_login: bool, objects: Sequence[str]) -> None:
    """See that a request can be run on a cluster.

    Raises:
        UsageError: it cannot.
    """
    if not isolation:
        raise UsageError(
            "--isolation off is not for clusters: agents and tests could reach every node", fix="leave it out"
        )
    if own_login:
        raise UsageError("--own-login is for one machine: a login is not sent to other nodes", fix="use a key")
    if objects:
        raise UsageError(
            f"{plural(len(objects), 'object')} cannot be sent to other nodes: {', '.join(objects)}",
            fix="give them by name, as plugins that are installed on every node",
        )
