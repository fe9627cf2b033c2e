"""Runs of toy tasks on a cluster: started, waited for, and looked at."""

import asyncio
import random
from collections import Counter
from contextlib import suppress

import psutil

from cluster_world import BookProvider, ClusterWorld, WorldNode
from proctor.runner.run_cost import attempt_costs
from proctor.runner.run_cost import known_cost as sum_known
from waiting import eventually

TASKS, TURNS = 12, 6
NEEDED = TASKS * TURNS
# Two agents on each node, each with one request at a time.
IN_FLIGHT = 2
RANDOM = random.Random(17)


def moments(count: int, *, seed: int) -> list[int]:
    """After how many paid requests something happens."""
    chance = random.Random(seed)
    return [chance.randrange(2, NEEDED - 8) for _ in range(count)]


async def paid(provider: BookProvider, count: int, run: asyncio.subprocess.Process) -> None:
    """Wait until so many requests have arrived, and then for a part of one; or until the run has ended."""
    before = len(provider.books)
    while len(provider.books) - before < count and run.returncode is None:
        await asyncio.sleep(0.005)
    await asyncio.sleep(RANDOM.uniform(0, provider.delay))


async def ended(run: asyncio.subprocess.Process, seconds: float = 400) -> tuple[int, str]:
    output, _ = await asyncio.wait_for(run.communicate(), seconds)
    assert run.returncode is not None
    return run.returncode, output.decode(errors="replace")


async def said(run: asyncio.subprocess.Process, text: str) -> None:
    """Wait until a run has said this."""
    assert run.stdout is not None
    seen = b""
    while text.encode() not in seen:
        line = await asyncio.wait_for(run.stdout.readline(), 240)
        assert line, seen
        seen += line


def kill_driver(run: asyncio.subprocess.Process) -> None:
    """Kill the command itself: `nsenter`, which started it, is its parent."""
    for process in psutil.Process(run.pid).children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            process.kill()


def check_complete(world: ClusterWorld) -> None:
    """All trials are resolved, and each is recorded once."""
    results = list(world.store().results())
    assert Counter(result.status for result in results) == {"resolved": TASKS}
    recorded = Counter(entry.task_id for entry in world.journal() if entry.stage == "recorded")
    assert set(recorded.values()) == {1}


def known_cost(world: ClusterWorld) -> float:
    return sum_known(attempt_costs(world.store(), world.journal()))


def print_books(world: ClusterWorld, provider: BookProvider, event: str) -> None:
    """Say what a run was charged for, by the provider's books and by ours: `make cluster-test` shows it."""
    print(
        f"{event}: {TASKS * provider.turns} needed, {len(provider.books)} paid, {provider.paid_twice()} twice; "
        f"books ${provider.usd:.2f}, ledger ${known_cost(world):.2f}",
        flush=True,
    )


async def in_service(world: ClusterWorld, *nodes: WorldNode) -> None:
    """Have nodes that were lost start anew."""
    for node in nodes:
        await world.restart(node)


async def all_ask(world: ClusterWorld, provider: BookProvider, count: int, *more: object) -> asyncio.subprocess.Process:
    """Start a run, and wait until so many of its agents wait for the model."""
    provider.answers.clear()
    run = await world.start_run(provider, *more)
    await eventually(lambda: len(provider.books) == count or run.returncode is not None, "the requests", seconds=240)
    return run


async def drain(world: ClusterWorld, *names: str, undo: bool = False) -> None:
    for name in names:
        code, output = await world.proctor(
            "cluster", "drain", name, *(["--undo"] if undo else []), "--address", world.address
        )
        assert code == 0, output
