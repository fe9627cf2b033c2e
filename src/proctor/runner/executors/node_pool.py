"""The nodes of a cluster, for one session: found, opened, watched, and given out to whoever waits for one."""

import asyncio
import os
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, Literal, TypeVar

from proctor.core import VERSION
from proctor.core.causes import Cause
from proctor.core.errors import InfrastructureError
from proctor.gateway import RunBudget
from proctor.runner.executors.lease import END_SECONDS, lease_seconds
from proctor.runner.executors.messages import ImageUsed, NodeInfo
from proctor.runner.executors.node_check import other_proctor
from proctor.runner.executors.node_client import NodeClient
from proctor.runner.executors.placement import choose_for_attempt, choose_for_grading, choose_waiting, not_avoided
from proctor.runner.executors.ray_cluster import ClusterNode, NodeGone, RayCluster
from proctor.runner.observer import NodeStatus
from proctor.runner.retry import MAX_FREE_RETRIES

T = TypeVar("T")

_LOOK_SECONDS: Final = 5.0
_SILENT_HEAD_SECONDS: Final = 20.0
_NOTICE_SECONDS: Final = 3.0
# A session that starts says after so long whom it waits for, and goes without them after so long.
_JOIN_NOTICE_SECONDS: Final = 8.0
_JOIN_SECONDS: Final = 30.0
_NO_NODE_SECONDS: Final = 600.0
_NO_NODE_VARIABLE: Final = "PROCTOR_NODE_WAIT_SECONDS"
_DRAINED: Final = "drained"
# A trial may be taken before so many earlier ones where the node has its image; each is passed over so often at most.
_MAX_AHEAD: Final = 8
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
        slots: agents running at once on each node; `grading_slots` likewise for graders.
        log: receives what a user should know, a sentence each.
    """

    address: str | None
    insecure: bool
    slots: int
    grading_slots: int
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


@dataclass(slots=True, eq=False)
class _Waiter:
    """Something that waits for a node; None: the session stops. `passed`: how often a later one was taken first."""

    image: str | None
    preferred: str | None
    avoided: Collection[str]
    node: asyncio.Future[NodeClient | None]
    passed: int = 0


class NodePool:
    """Gives out slots on nodes, in the order of the requests."""

    def __init__(self, settings: ClusterSettings, budget: RunBudget, hooks: PoolHooks) -> None:
        self._settings = settings
        self._budget = budget
        self._hooks = hooks
        self._nodes: dict[str, NodeClient] = {}
        self._joining: dict[str, asyncio.Task[None]] = {}
        self._waiting: dict[WorkKind, deque[_Waiter]] = {"attempt": deque(), "grading": deque()}
        self._closed: set[WorkKind] = set()
        self._found: list[ClusterNode] = []
        self._reported: set[tuple[str, str]] = set()
        self._images: dict[str, str] = {}

    @property
    def usable(self) -> list[NodeClient]:
        """The nodes that get work."""
        return [node for node in self._nodes.values() if node.usable]

    @property
    def unusable_ids(self) -> list[str]:
        """The ids of the nodes that get no work."""
        return [node_id for node_id, node in self._nodes.items() if not node.usable]

    async def open(self, stack: AsyncExitStack) -> None:
        """Join the cluster, and open every node that is alive, before the first work is given out.

        Raises:
            InfrastructureError: no node can be used; says why, node by node.
        """
        self._cluster = await RayCluster.connect(self._settings.address, insecure=self._settings.insecure)
        stack.push_async_callback(self._cluster.close)
        stack.push_async_callback(self._close)
        await self._look_for_nodes()
        await self._wait_for_joining()
        if not self.usable:
            raise InfrastructureError(
                "no node of the cluster can be used",
                where=self._cluster.address,
                details=[f"{node.name}: {node.problem}" for node in self._nodes.values()],
            )
        watching = asyncio.create_task(self._watch())
        stack.push_async_callback(_end, watching)

    async def _wait_for_joining(self) -> None:
        """Wait for all nodes, so that the first ones do not get all the work; for slow ones not for long."""
        started, noticed = asyncio.get_running_loop().time(), False
        while joining := list(self._joining.values()):
            await asyncio.wait(joining, timeout=1)
            waited = asyncio.get_running_loop().time() - started
            names = sorted(node.name for node in self._found if node.id in self._joining)
            if names and not noticed and waited > _JOIN_NOTICE_SECONDS:
                noticed = True
                self._settings.log(f"waiting for {', '.join(names)} to answer")
            if names and self.usable and waited > _JOIN_SECONDS:
                self._settings.log(f"starting without {', '.join(names)}: used as soon as they answer")
                return

    @asynccontextmanager
    async def place(
        self, kind: WorkKind, *, image: str | None = None, preferred: str | None = None, avoided: Collection[str] = ()
    ) -> AsyncIterator[NodeClient | None]:
        """Wait for a place on a node, for the length of the block; None where the session stops first.

        `avoided` names nodes that are not to be used as long as there are others.
        """
        node = await self._wait(kind, image, preferred, avoided)
        try:
            yield node
        finally:
            if node is not None:
                self._give_back(kind, node)

    async def grade(
        self, work: Callable[[NodeClient], Awaitable[T]], *, preferred: str | None = None, avoided: Collection[str] = ()
    ) -> T | None:
        """Grade something on a node, and where that is lost meanwhile on another one; None: the session stops first.

        Raises:
            InfrastructureError: so many nodes were lost that the grading may be what ends them.
        """
        lost = 0
        while True:
            async with self.place("grading", preferred=preferred, avoided=avoided) as node:
                if node is None:
                    return None
                try:
                    return await work(node)
                except NodeGone as gone:
                    if node.usable:
                        node.lose(str(gone))
                    lost += node.lost.is_set()
                    if lost > MAX_FREE_RETRIES:
                        raise InfrastructureError(
                            f"{lost} nodes were lost as they graded it, at last {node.name}: {gone}",
                            cause=Cause.NODE_LOST,
                        ) from gone

    def close_for(self, kind: WorkKind) -> None:
        """Give out no further slots for this; waiting requests get none."""
        self._closed.add(kind)
        waiting = self._waiting[kind]
        while waiting:
            waiter = waiting.popleft()
            if not waiter.node.done():
                waiter.node.set_result(None)

    async def _wait(
        self, kind: WorkKind, image: str | None, preferred: str | None, avoided: Collection[str]
    ) -> NodeClient | None:
        if kind in self._closed:
            return None
        waiter = _Waiter(image, preferred, avoided, asyncio.get_running_loop().create_future())
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
        self._hooks.changed(self.statuses("attempt"))

    def check_image(self, node: NodeClient, used: ImageUsed) -> bool:
        """Whether a node's image is the one that other nodes have by this name; if not, it is refused from now on."""
        known = self._images.setdefault(used.image, used.digest)
        if known != used.digest:
            node.drained = f"its image {used.image or '(the default)'} is {used.digest}, and other nodes have {known}"
            self._report_once(node.node, f"is refused: {node.drained}")
        return known == used.digest

    def statuses(self, kind: WorkKind) -> list[NodeStatus]:
        """How busy each node is with this."""
        return [
            NodeStatus(name=node.name, busy=node.busy, slots=node.slots, problem=node.problem)
            if kind == "attempt"
            else NodeStatus(name=node.name, busy=node.grading, slots=node.grading_slots, problem=node.problem)
            for node in self._nodes.values()
        ]

    def _dispatch(self) -> None:
        usable = self.usable
        while (found := self._next_attempt(usable)) is not None:
            waiter, node = found
            node.busy += 1
            node.assigned += 1
            node.images |= {waiter.image} if waiter.image is not None else set()
            self._waiting["attempt"].remove(waiter)
            waiter.node.set_result(node)
        while (found := self._next_grading(usable)) is not None:
            waiter, node = found
            node.grading += 1
            self._waiting["grading"].remove(waiter)
            waiter.node.set_result(node)

    def _next_attempt(self, usable: Sequence[NodeClient]) -> tuple[_Waiter, NodeClient] | None:
        """The next trial that a free slot can be given to, and whose it is."""
        if all(node.busy >= node.slots for node in usable):
            return None
        waiting = self._still_waiting("attempt")
        for waiter in waiting:
            if (node := choose_for_attempt(not_avoided(usable, waiter.avoided), waiter.image)) is not None:
                ahead = [one for one in islice(waiting, _MAX_AHEAD) if node in not_avoided(usable, one.avoided)]
                return choose_waiting(ahead, node) if ahead else waiter, node
        return None

    def _next_grading(self, usable: Sequence[NodeClient]) -> tuple[_Waiter, NodeClient] | None:
        """Likewise of the gradings."""
        if all(node.grading >= node.grading_slots for node in usable):
            return None
        for waiter in self._still_waiting("grading"):
            if (node := choose_for_grading(not_avoided(usable, waiter.avoided), waiter.preferred)) is not None:
                return waiter, node
        return None

    def _still_waiting(self, kind: WorkKind) -> deque[_Waiter]:
        """What waits, without those that have left."""
        waiting = self._waiting[kind]
        for waiter in [waiter for waiter in waiting if waiter.node.done()]:
            waiting.remove(waiter)
        return waiting

    async def _watch(self) -> None:
        """Look for nodes that join and leave; where none is left, or the head is silent, say so, and stop in time."""
        loop = asyncio.get_running_loop()
        alone_since: float | None = None
        noticed = head_noticed = False
        looking: asyncio.Task[None] | None = None
        looked_at = loop.time()
        while True:
            await asyncio.sleep(1)
            now = loop.time()
            if looking is None and now - looked_at >= _LOOK_SECONDS:
                looking, looked_at = asyncio.create_task(self._look_for_nodes()), now
            if looking is not None and looking.done():
                if looking.exception() is None:
                    looking, looked_at, head_noticed = None, now, False
                else:
                    looking = asyncio.create_task(self._look_for_nodes())  # the head may come back
            if looking is not None and now - looked_at > _SILENT_HEAD_SECONDS:
                looking.cancel()
                self._cluster.has_head = False
                self._give_up(f"{self._silent_head}; start the cluster again, and resume the run")
                return
            if looking is not None and not head_noticed and now - looked_at > _NOTICE_SECONDS:
                head_noticed = True
                self._settings.log(f"{self._silent_head}; the session stops after {_SILENT_HEAD_SECONDS:g} s of this")
            if any(node.answers for node in self.usable):
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

    @property
    def _silent_head(self) -> str:
        return f"the head of the cluster at {self._cluster.address} does not answer"

    def _give_up(self, why: str) -> None:
        self._hooks.stop(why)
        self.close_for("attempt")
        self.close_for("grading")
        for node in self._nodes.values():
            node.lose(why)

    async def _look_for_nodes(self) -> None:
        alive = await self._cluster.nodes()
        drained = await self._cluster.drained()
        self._found = alive
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
            self._cluster.start_worker(node, settings.lease_seconds, settings.slots + settings.grading_slots),
            lease_seconds=settings.lease_seconds,
            slots=settings.slots,
            grading_slots=settings.grading_slots,
            budget=self._budget,
            on_change=self.changed,
        )
        try:
            await client.connect()
            await self._hooks.open(client)
            if not client.refused and node.id in await self._cluster.drained():
                client.drained = _DRAINED
        except Exception as error:  # noqa: BLE001 - a node's trouble is not the session's
            if (problem := await self._other_version(node)) is not None:
                client.info = NodeInfo(name=node.name, machine=None, proctor="", problems=(problem,))
            else:
                client.lose(str(error) or "it does not answer")
                self._report_once(node, f"cannot be used: {client.lost_reason}")
        finally:
            if client.refused:
                self._report_once(node, f"is refused: {client.problem}")
                await client.close()
            self._nodes[node.id] = client
            self._joining.pop(node.id, None)
            self.changed()

    async def _other_version(self, node: ClusterNode) -> str | None:
        """What is wrong with a node's Proctor, where that is why it does not understand what it is asked."""
        try:
            found = await self._cluster.proctor_version(node)
        except NodeGone:
            return None
        return other_proctor(found, VERSION)

    def _report_once(self, node: ClusterNode, problem: str) -> None:
        """Nodes that cannot be used are tried again and again; each reason is worth a line once."""
        if (node.name, problem) not in self._reported:
            self._reported.add((node.name, problem))
            self._settings.log(f"node {node.name} {problem}")

    async def _close(self) -> None:
        for task in list(self._joining.values()):
            await _end(task)
        await asyncio.gather(*(node.close() for node in self._nodes.values()))


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError, Exception):
        await task
