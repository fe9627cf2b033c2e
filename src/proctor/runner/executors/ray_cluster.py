"""The engine: everything that knows of Ray. Imported only for `--executor ray`.

None of the engine's own retries is used: work that is repeated without our knowledge is paid for twice.
"""

import asyncio
import atexit
import contextlib
import importlib.metadata
import logging
import os
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Self, TypeVar

from proctor.core.abrupt_exit import require_abrupt_exit
from proctor.core.errors import InfrastructureError
from proctor.runner.executors.cluster_address import find_cluster
from proctor.runner.executors.messages import NodeMessages
from proctor.runner.executors.node_worker import NodeWorker

T = TypeVar("T")

_NAMESPACE: Final = "proctor"
_DRAINED_PREFIX: Final = b"proctor:drained:"
# A function of Python itself: one of ours might not be there, or be another one.
_VERSION_OF: Final = importlib.metadata.version
_CHECK_SECONDS: Final = 30.0
_CALLS_AT_ONCE: Final = 64


class NodeGone(Exception):
    """The engine cannot reach what works on a node; the message says why. `ended`: it never will again."""

    def __init__(self, why: str, *, ended: bool = False) -> None:
        super().__init__(why)
        self.ended = ended


@dataclass(frozen=True, slots=True)
class ClusterNode:
    """A node that the engine knows to be alive."""

    id: str
    name: str
    address: str


class NodeActor:
    """The worker on one node: its methods, called over the network."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle

    async def call(self, method: str, *arguments: object) -> Any:
        """Call a method, and wait for its result.

        Raises:
            NodeGone: nothing answers.
        """
        from ray.exceptions import ActorDiedError, RayError

        try:
            return await getattr(self._handle, method).remote(*arguments)
        except RayError as error:
            raise NodeGone(_first_line(error), ended=isinstance(error, ActorDiedError)) from error

    def send(self, method: str, *arguments: object) -> None:
        """Call a method whose result does not matter."""
        with contextlib.suppress(Exception):  # its node may be gone, which is noticed otherwise
            getattr(self._handle, method).options(num_returns=0).remote(*arguments)

    async def stream(self, method: str, job: object) -> AsyncIterator[NodeMessages]:
        """Call a method that sends messages until it is done.

        Raises:
            NodeGone: nothing answers.
        """
        from ray.exceptions import RayError

        try:
            sent = getattr(self._handle, method).options(num_returns="streaming").remote(job)
            async for reference in sent:
                yield await reference
        except RayError as error:
            raise NodeGone(_first_line(error)) from error

    def kill(self) -> None:
        """End the worker's process."""
        import ray

        with contextlib.suppress(Exception):
            ray.kill(self._handle, no_restart=True)


class RayCluster:
    """A cluster to which this process is connected.

    Attributes:
        has_head: its head answers, as far as is known.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self.has_head = True

    @classmethod
    async def connect(cls, address: str | None, *, insecure: bool) -> Self:
        """Connect to the cluster that this machine is a node of.

        Raises:
            InfrastructureError: this machine is no node, or the cluster does not answer.
            UsageError: the engine is not installed, or the cluster lets in whoever reaches it.
        """
        # A minute by default, after which the engine would end this process in the middle of what it writes. It is read
        # when the engine is imported.
        os.environ.setdefault("RAY_gcs_rpc_server_reconnect_timeout_s", "3600")
        address = await asyncio.to_thread(find_cluster, address, insecure=insecure)
        try:
            await asyncio.to_thread(_connect, address)
        except Exception as error:
            raise InfrastructureError(
                f"the cluster cannot be joined: {_first_line(error)}",
                where=address,
                fix="see `ray status` on its head, and that this machine has its token",
            ) from error
        return cls(address)

    async def nodes(self) -> list[ClusterNode]:
        """The nodes that are alive; blocks in a thread for as long as the head does not answer."""
        import ray

        found = [node for node in await call_engine(ray.nodes) if node["Alive"]]
        # One that was started again is there twice for a while, with the same name and address.
        machines = {(node["NodeManagerHostname"], node["NodeManagerAddress"]) for node in found}
        hosts = [host for host, _ in machines]
        return [
            ClusterNode(
                node["NodeID"],
                node["NodeManagerHostname"]
                if hosts.count(node["NodeManagerHostname"]) == 1
                else f"{node['NodeManagerHostname']}@{node['NodeManagerAddress']}",
                node["NodeManagerAddress"],
            )
            for node in found
        ]

    async def drained(self) -> set[str]:
        """The ids of the nodes that get no further work."""
        from ray.experimental.internal_kv import _internal_kv_list

        keys = await call_engine(lambda: _internal_kv_list(_DRAINED_PREFIX, namespace=_NAMESPACE.encode()))
        return {key.removeprefix(_DRAINED_PREFIX).decode() for key in keys}

    async def drain(self, node: ClusterNode, *, undo: bool = False) -> None:
        """Give a node no further work; what is under way on it is finished."""
        from ray.experimental.internal_kv import _internal_kv_del, _internal_kv_put

        key = _DRAINED_PREFIX + node.id.encode()
        if undo:
            await call_engine(lambda: _internal_kv_del(key, namespace=_NAMESPACE.encode()))
        else:
            await call_engine(lambda: _internal_kv_put(key, b"1", namespace=_NAMESPACE.encode()))

    def start_worker(self, node: ClusterNode, lease_seconds: float, at_once: int) -> NodeActor:
        """Start a worker on exactly this node. It is never restarted, and no call to it is repeated."""
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        worker = ray.remote(NodeWorker).options(
            num_cpus=0,
            max_restarts=0,
            max_task_retries=0,
            max_concurrency=at_once + _CALLS_AT_ONCE,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node.id, soft=False),
        )
        return NodeActor(worker.remote(node.name, lease_seconds))

    async def run_on(self, node: ClusterNode, function: Any, *arguments: object) -> Any:
        """Run a function on a node, once.

        Raises:
            NodeGone: the node is not there any more.
        """
        import ray
        from ray.exceptions import RayError
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        options = {
            "num_cpus": 0,
            "max_retries": 0,
            "scheduling_strategy": NodeAffinitySchedulingStrategy(node.id, soft=False),
        }
        try:
            return await ray.remote(function).options(**options).remote(*arguments)
        except RayError as error:
            raise NodeGone(f"{node.name}: {_first_line(error)}") from error

    async def proctor_version(self, node: ClusterNode) -> str:
        """Which version of Proctor a node has, which may be too different to answer anything else; empty: none.

        Raises:
            NodeGone: the node does not answer.
        """
        try:
            async with asyncio.timeout(_CHECK_SECONDS):
                return str(await self.run_on(node, _VERSION_OF, "proctor"))
        except NodeGone as gone:
            if "PackageNotFoundError" in str(gone.__cause__):
                return ""
            raise
        except TimeoutError:
            raise NodeGone("it does not answer") from None

    async def close(self) -> None:
        """Leave the cluster."""
        import ray

        if self.has_head:
            await asyncio.to_thread(ray.shutdown)
        else:
            # It would wait for the head, and crash when this process ends.
            atexit.unregister(ray.shutdown)
            require_abrupt_exit()


async def call_engine(function: Callable[[], T]) -> T:
    """Have the engine do something that waits for its head; nobody waits for the thread of a call that was given up."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def deliver(action: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(lambda: None if done.done() else action())

    def run() -> None:
        try:
            result = function()
        except Exception as error:  # noqa: BLE001 - for whoever waits
            deliver(partial(done.set_exception, error))
        else:
            deliver(partial(done.set_result, result))

    threading.Thread(target=run, name="engine-call", daemon=True).start()
    return await done


def _connect(address: str) -> None:
    import ray

    # It says much that is not for users, among it that it sets no handler of signals: ours stay.
    logging.getLogger("ray").setLevel(logging.ERROR)
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    # Whatever it is told to log, it prints what happens to nodes on stdout, where results go.
    if hasattr(ray._private.worker, "print_to_stdstream"):  # noqa: SLF001 - there is no other way
        ray._private.worker.print_to_stdstream = lambda *_, **__: None  # noqa: SLF001 - likewise
    ray.init(
        address=address, namespace=_NAMESPACE, log_to_driver=False, logging_level=logging.ERROR, configure_logging=False
    )


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:300] if lines else type(error).__name__
