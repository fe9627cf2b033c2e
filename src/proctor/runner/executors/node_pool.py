"""The nodes of a cluster, for one session: found, opened, watched, and given out to whoever waits for one."""

import asyncio
import os
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Final, Literal

from proctor.core.errors import InfrastructureError
from proctor.gateway import RunBudget
from proctor.runner.executors.lease import END_SECONDS, lease_seconds
from proctor.runner.executors.node_client import NodeClient
from proctor.runner.executors.placement import choose_for_attempt, choose_for_grading
from proctor.runner.executors.ray_cluster import ClusterNode, NodeGone, RayCluster
from proctor.runner.observer import NodeStatus

_LOOK_SECONDS: Final = 5.0
_SILENT_HEAD_SECONDS: Final = 12.0
_NOTICE_SECONDS: Final = 5.0
_NO_NODE_SECONDS: Final = 600.0
_NO_NODE_VARIABLE: Final = "PROCTOR_NODE_WAIT_SECONDS"
_DRAINED: Final = "drained"
WorkKind = Literal["attempt", "grading"]


def no_node_seconds() -> float:
    """How long a session waits for a node where there is none."""
    try:
        return float(os.environ.get(_NO_NODE_VARIABLE, ""))
    except ValueError:
        return _NO_NODE_SECONDS


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """How a session uses a cluster.

    Attributes:
        places: agents running at once on each node; `grading_places` likewise for graders.
        log: receives what a user should know, a sentence each.
    """

    address: str | None
    insecure: bool
    places: int
    grading_places: int
    log: Callable[[str], None]
    lease_seconds: float = field(default_factory=lease_seconds)
    no_node_seconds: float = field(default_factory=no_node_seconds)


@dataclass(frozen=True, slots=True)
class PoolHooks:
    """What a session does with its nodes.

    Attributes:
        open: prepares a node that has joined; its `info` says whether it can be used.
        changed: a node has joined or left, or has got or finished some work.
        stop: the session must stop; why.
    """

    open: Callable[[NodeClient], Awaitable[None]]
    changed: Callable[[list[NodeStatus]], None]
    stop: Callable[[str], None]


@dataclass(frozen=True, slots=True)
class _Waiter:
    """Something that waits for a node; None: the session stops."""

    image: str | None
    preferred: str | None
    node: asyncio.Future[NodeClient | None]


class NodePool:
    """Gives out places on nodes, in the order in which they are asked for."""

    def __init__(self, settings: ClusterSettings, budget: RunBudget, hooks: PoolHooks) -> None:
        self._settings = settings
        self._budget = budget
        self._hooks = hooks
        self._nodes: dict[str, NodeClient] = {}
        self._joining: dict[str, asyncio.Task[None]] = {}
        self._waiting: dict[WorkKind, deque[_Waiter]] = {"attempt": deque(), "grading": deque()}
        self._closed: set[WorkKind] = set()

    @property
    def usable(self) -> list[NodeClient]:
        """The nodes that get work."""
        return [node for node in self._nodes.values() if node.usable]

    async def open(self, stack: AsyncExitStack) -> None:
        """Join the cluster, and open every node that is alive, before the first work is given out.

        Raises:
            InfrastructureError: no node can be used; says why, node by node.
        """
        self._cluster = await RayCluster.connect(self._settings.address, insecure=self._settings.insecure)
        stack.push_async_callback(self._cluster.close)
        stack.push_async_callback(self._close)
        await self._look_for_nodes()
        await asyncio.gather(*self._joining.values())
        if not self.usable:
            raise InfrastructureError(
                "no node of the cluster can be used",
                where=self._cluster.address,
                details=[f"{node.name}: {node.problem}" for node in self._nodes.values()],
            )
        watching = asyncio.create_task(self._watch())
        stack.push_async_callback(_end, watching)

    @asynccontextmanager
    async def place(
        self, kind: WorkKind, *, image: str | None = None, preferred: str | None = None
    ) -> AsyncIterator[NodeClient | None]:
        """Wait for a place on a node, for the length of the block; None where the session stops first."""
        node = await self._wait(kind, image, preferred)
        try:
            yield node
        finally:
            if node is not None:
                self._give_back(kind, node)

    def close_for(self, kind: WorkKind) -> None:
        """Give out no further places for this; those that wait get none."""
        self._closed.add(kind)
        waiting = self._waiting[kind]
        while waiting:
            waiter = waiting.popleft()
            if not waiter.node.done():
                waiter.node.set_result(None)

    async def _wait(self, kind: WorkKind, image: str | None, preferred: str | None) -> NodeClient | None:
        if kind in self._closed:
            return None
        waiter = _Waiter(image, preferred, asyncio.get_running_loop().create_future())
        self._waiting[kind].append(waiter)
        self._dispatch()
        try:
            return await waiter.node
        except asyncio.CancelledError:
            if waiter.node.done() and not waiter.node.cancelled() and (node := waiter.node.result()) is not None:
                self._give_back(kind, node)
            raise

    def _give_back(self, kind: WorkKind, node: NodeClient) -> None:
        if kind == "attempt":
            node.busy -= 1
        else:
            node.grading -= 1
        self.changed()

    def changed(self) -> None:
        """Something about a node has changed."""
        self._dispatch()
        self._hooks.changed(
            [
                NodeStatus(name=node.name, busy=node.busy, places=node.places, problem=node.problem)
                for node in self._nodes.values()
            ]
        )

    def _dispatch(self) -> None:
        usable = self.usable
        for kind, waiting in self._waiting.items():
            while waiting:
                waiter = waiting[0]
                if waiter.node.done():  # whoever waited has left
                    waiting.popleft()
                    continue
                if kind == "attempt":
                    node = choose_for_attempt(usable, waiter.image)
                else:
                    node = choose_for_grading(usable, waiter.preferred)
                if node is None:
                    break
                waiting.popleft()
                if kind == "attempt":
                    node.busy += 1
                    node.assigned += 1
                    node.images |= {waiter.image} if waiter.image is not None else set()
                else:
                    node.grading += 1
                waiter.node.set_result(node)

    async def _watch(self) -> None:
        """Look for nodes that join and leave; where none is left, or the head is silent, say so, and stop in time."""
        loop = asyncio.get_running_loop()
        alone_since: float | None = None
        noticed = False
        looking: asyncio.Task[None] | None = None
        looked_at = loop.time()
        while True:
            await asyncio.sleep(1)
            now = loop.time()
            if looking is None and now - looked_at >= _LOOK_SECONDS:
                looking, looked_at = asyncio.create_task(self._look_for_nodes()), now
            if looking is not None and looking.done() and looking.exception() is None:
                looking, looked_at = None, now
            elif looking is not None and now - looked_at > _SILENT_HEAD_SECONDS:
                looking.cancel()
                self._cluster.has_head = False
                self._give_up(f"the head of the cluster at {self._cluster.address} does not answer")
                return
            if self.usable or self._joining:
                alone_since, noticed = None, False
                continue
            alone_since = now if alone_since is None else alone_since
            if not noticed and now - alone_since > _NOTICE_SECONDS:
                noticed = True
                self._settings.log(
                    "no node of the cluster can be used now; the session stops if none joins within "
                    f"{self._settings.no_node_seconds:g} s"
                )
            if now - alone_since > self._settings.no_node_seconds:
                self._give_up("no node of the cluster could be used any more")
                return

    def _give_up(self, why: str) -> None:
        self._hooks.stop(why)
        self.close_for("attempt")
        self.close_for("grading")
        for node in self._nodes.values():
            node.lose(why)

    async def _look_for_nodes(self) -> None:
        alive = await self._cluster.nodes()
        drained = await self._cluster.drained()
        for node in alive:
            known = self._nodes.get(node.id)
            if known is None and node.id not in self._joining:
                self._joining[node.id] = asyncio.create_task(self._join(node))
            elif known is not None and known.drained in {"", _DRAINED}:
                known.drained = _DRAINED if node.id in drained else ""
        ids = {node.id for node in alive}
        for node_id, client in list(self._nodes.items()):
            if node_id not in ids:
                client.lose("the cluster has given it up")
            elif client.lost.is_set() and not client.refused and node_id not in self._joining:
                # It is alive after all: once its lease has ended, it begins anew.
                self._joining[node_id] = asyncio.create_task(self._rejoin(client))
        self.changed()

    async def _rejoin(self, client: NodeClient) -> None:
        await client.wait_for_lease_end()
        await asyncio.sleep(END_SECONDS)
        await client.close()
        await self._join(client.node)

    async def _join(self, node: ClusterNode) -> None:
        settings = self._settings
        client = NodeClient(
            node,
            self._cluster.start_worker(node, settings.lease_seconds, settings.places + settings.grading_places),
            lease_seconds=settings.lease_seconds,
            places=settings.places,
            grading_places=settings.grading_places,
            budget=self._budget,
            on_change=self.changed,
        )
        try:
            await client.connect()
            await self._hooks.open(client)
            if client.refused:
                settings.log(f"node {node.name} is refused: {client.problem}")
                await client.close()
            elif node.id in await self._cluster.drained():
                client.drained = _DRAINED
        except (NodeGone, TimeoutError) as error:
            client.lose(str(error) or "it does not answer")
            settings.log(f"node {node.name} cannot be used: {client.lost_reason}")
        finally:
            self._nodes[node.id] = client
            self._joining.pop(node.id, None)
            self.changed()

    async def _close(self) -> None:
        for task in list(self._joining.values()):
            await _end(task)
        await asyncio.gather(*(node.close() for node in self._nodes.values()))


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError, Exception):
        await task
