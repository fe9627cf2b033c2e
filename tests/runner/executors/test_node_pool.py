"""Nodes that are given out, and lost."""

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from proctor.core.causes import Cause
from proctor.core.errors import InfrastructureError
from proctor.gateway import RunBudget
from proctor.runner.executors.node_client import NodeClient
from proctor.runner.executors.node_pool import ClusterSettings, NodePool, PoolHooks
from proctor.runner.executors.ray_cluster import ClusterNode, NodeActor, NodeGone
from proctor.runner.retry import MAX_FREE_RETRIES


async def _never() -> None:
    raise AssertionError


SETTINGS = ClusterSettings("first:6379", False, 1, 1, lambda _: None)
HOOKS = PoolHooks(open=lambda _: _never(), changed=lambda _: None, stop=lambda _: None)


class PoolOfNewNodes(NodePool):
    """Each place is on a node that has just joined; None once there are no more."""

    def __init__(self, nodes: int) -> None:
        super().__init__(SETTINGS, RunBudget(), HOOKS)
        self.given = [_node(f"node{number}") for number in range(nodes)]
        self.left = list(self.given)

    @asynccontextmanager
    async def place(self, *_: Any, **__: Any) -> AsyncIterator[NodeClient | None]:
        yield self.left.pop(0) if self.left else None


class PoolOfUsableNodes(NodePool):
    """A pool with these nodes."""

    usable: list[NodeClient] = []  # noqa: RUF012 - set below

    def __init__(self, nodes: list[NodeClient]) -> None:
        super().__init__(SETTINGS, RunBudget(), HOOKS)
        self.usable = nodes


def _node(name: str) -> NodeClient:
    return NodeClient(
        ClusterNode(name, name, "10.0.0.1"),
        NodeActor(None),
        lease_seconds=20,
        slots=1,
        grading_slots=1,
        budget=RunBudget(),
        on_change=lambda: None,
    )


async def _lost(node: NodeClient) -> str:
    node.lose("its worker was killed")
    raise NodeGone("its worker was killed")


async def test_a_trial_that_failed_on_a_node_waits_for_another_one_and_holds_up_nobody() -> None:
    bad, good = _node("bad"), _node("good")
    pool = PoolOfUsableNodes([bad, good])
    async with AsyncExitStack() as stack:
        assert await stack.enter_async_context(pool.place("attempt", avoided={"bad"})) is good
        async with asyncio.TaskGroup() as group:
            again = group.create_task(_place(pool, avoided={"bad"}))
            other = group.create_task(_place(pool))
            await asyncio.wait({other}, timeout=20)
            assert other.result() is bad
            assert not again.done()
            await stack.aclose()
    assert again.result() is good
    pool.usable.remove(good)
    assert await _place(pool, avoided={"bad"}) is bad, "there is no other"


async def _place(pool: NodePool, avoided: Collection[str] = ()) -> NodeClient | None:
    async with pool.place("attempt", avoided=avoided) as node:
        return node


async def test_a_grading_that_ends_every_node_is_an_error_and_no_endless_loop() -> None:
    pool = PoolOfNewNodes(100)
    with pytest.raises(InfrastructureError, match="11 nodes were lost as they graded it, at last node10: ") as raised:
        await pool.grade(_lost)
    assert raised.value.cause is Cause.NODE_LOST
    assert len(pool.left) == 100 - MAX_FREE_RETRIES - 1


async def test_nodes_that_refuse_a_grading_are_passed_over_however_many_they_are() -> None:
    pool = PoolOfNewNodes(40)

    async def refused(node: NodeClient) -> str:
        if node is pool.given[-1]:
            return "graded"
        node.drained = "its image is another one"
        raise NodeGone(node.drained)

    assert await pool.grade(refused) == "graded"


async def test_where_the_session_stops_there_is_no_grading() -> None:
    assert await PoolOfNewNodes(0).grade(_lost) is None
