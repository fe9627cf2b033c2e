"""A node as the driver sees it: its worker, its lease, and how much of it is in use."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any, Final

from proctor.gateway import RunBudget
from proctor.runner.executors.lease import DriverLease
from proctor.runner.executors.messages import NodeInfo, NodeMessages
from proctor.runner.executors.ray_cluster import ClusterNode, NodeActor, NodeGone, call_engine
from proctor.runner.models import ModelAccess

# How often a lease is renewed while it lasts.
_RENEWALS_PER_LEASE: Final = 10
_CONNECT_SECONDS: Final = 60.0
_OPEN_SECONDS: Final = 300.0
_CLOSE_SECONDS: Final = 20.0
_SILENT_SECONDS: Final = 5.0


class NodeClient:
    """One node of the cluster, for one session.

    Attributes:
        info: what it says of itself, once it is open.
        busy: attempts that are under way on it, of at most `slots`; `grading` and `grading_slots` likewise.
        assigned: attempts that it was ever given.
        drained: it gets no further work; why.
    """

    def __init__(
        self,
        node: ClusterNode,
        actor: NodeActor,
        *,
        lease_seconds: float,
        slots: int,
        grading_slots: int,
        budget: RunBudget,
        on_change: Callable[[], None],
    ) -> None:
        self.node = node
        self.name = node.name
        self.info: NodeInfo | None = None
        self.busy = 0
        self.slots = slots
        self.grading = 0
        self.grading_slots = grading_slots
        self.assigned = 0
        self.drained = ""
        self.images: set[str] = set()
        self._acknowledged: dict[str, int] = {}
        self.lost = asyncio.Event()
        self.lost_reason = ""
        self._actor = actor
        self._lease_seconds = lease_seconds
        self._lease: DriverLease | None = None
        self._budget = budget
        self._on_change = on_change
        self._renewing: asyncio.Task[None] | None = None

    @property
    def usable(self) -> bool:
        """Whether it gets work."""
        return self.info is not None and not self.problem

    def has_image(self, image: str | None) -> bool:
        """Whether it has worked with this image, or was told to fetch it."""
        return image is None or image in self.images

    @property
    def refused(self) -> bool:
        """Whether it differs from what the session needs."""
        return self.info is not None and bool(self.info.problems)

    @property
    def problem(self) -> str:
        """Why it gets no work; empty where it does."""
        if self.info is not None and self.info.problems:
            return "; ".join(self.info.problems)
        return f"lost: {self.lost_reason}" if self.lost.is_set() else self.drained

    @property
    def answers(self) -> bool:
        """Whether it has answered lately; one that does not may still come back before its lease ends."""
        return self._lease is not None and self._lease.silent_seconds < _SILENT_SECONDS

    async def connect(self) -> None:
        """Wait for its worker, and renew its lease from now on.

        Raises:
            NodeGone: it does not answer, or not in time.
        """
        async with asyncio.timeout(_CONNECT_SECONDS):
            reported_at = await self._actor.call("renew", None)
        self._lease = DriverLease(self._lease_seconds, reported_at)
        self._renewing = asyncio.create_task(self._renew(), name=f"lease of {self.name}")

    async def open(self, method: str, setup: object, access: ModelAccess | None = None) -> None:
        """Have it prepare for the session.

        Raises:
            NodeGone: it does not answer.
        """
        async with asyncio.timeout(_OPEN_SECONDS):
            if access is not None:
                # By itself, and small: larger arguments are kept in shared memory, which is a file.
                await self.call("set_access", access)
            self.info = await self.call(method, setup)

    async def call(self, method: str, *arguments: object) -> Any:
        """Call a method of the worker.

        Raises:
            NodeGone: it does not answer, or is lost meanwhile.
        """
        return await self._unless_lost(self._actor.call(method, *arguments))

    def send(self, method: str, *arguments: object) -> None:
        """Call a method whose result does not matter."""
        self._actor.send(method, *arguments)

    def acknowledge(self, key: str, size: int) -> None:
        """So much of an attempt's recording is synced. Renewals say it again until `finish`, as a call can be lost."""
        self._acknowledged[key] = size
        self.send("acknowledge", key, size, self._budget.spent_usd)

    def finish(self, key: str) -> None:
        """An attempt is over."""
        self._acknowledged.pop(key, None)

    def stream(self, method: str, job: object) -> AsyncIterator[NodeMessages]:
        """Call a method that sends messages."""
        return self._actor.stream(method, job)

    def drain_full_disk(self, detail: str) -> None:
        """Its disk is full: it gets no further work in this session, and what it works on goes on."""
        self.drained = f"its disk is full: {detail}"
        self._on_change()

    def lose(self, reason: str) -> None:
        """Give the node up: its lease is not renewed any more."""
        if not self.lost.is_set():
            self.lost_reason = reason
            self.lost.set()
            if self._renewing is not None:
                self._renewing.cancel()
            self._on_change()

    async def wait_for_lease_end(self) -> None:
        """Return when the lost node cannot pay for anything any more."""
        if self._lease is not None:  # which is not renewed any more
            await asyncio.sleep(self._lease.seconds_left)

    async def close(self) -> None:
        """Have it end all work, and end its worker."""
        if not self.lost.is_set() and self._lease is not None:
            with suppress(NodeGone, TimeoutError):
                await asyncio.wait_for(self._actor.call("close"), _CLOSE_SECONDS)
            self.lose("the session has ended")
            with suppress(TimeoutError):
                await asyncio.wait_for(call_engine(self._actor.kill), _CLOSE_SECONDS)
        # A worker that is lost ends by itself, with its lease.

    async def _unless_lost(self, calling: Any) -> Any:
        task = asyncio.ensure_future(calling)
        lost = asyncio.create_task(self.lost.wait())
        try:
            await asyncio.wait({task, lost}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise NodeGone(self.lost_reason)
            return task.result()
        finally:
            lost.cancel()
            task.cancel()

    async def _renew(self) -> None:
        lease = self._lease
        while lease is not None:
            try:
                async with asyncio.timeout(lease.seconds / 2):
                    known = dict(self._acknowledged)
                    renewal = self._actor.call("renew", lease.reported_at, self._budget.spent_usd, known)
                    lease.renewed(await renewal)
            except (NodeGone, TimeoutError) as error:
                # One that does not answer for a while keeps what it does: only the end of the lease is certain.
                if lease.overdue or (isinstance(error, NodeGone) and error.ended):
                    self.lose(str(error) or "it does not answer")
                    return
            await asyncio.sleep(lease.seconds / _RENEWALS_PER_LEASE)
