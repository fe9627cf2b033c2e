"""What a cluster costs beside one machine, on nodes of this machine: wall time, the driver's CPU, the gate, memory.

    python perf/cluster.py [local] [gate] [nodes] [memory]          as root, on Linux, with the extra `ray`

Attempts are a few requests to a provider that answers after a second, and nothing else: what is measured is Proctor and
the engine. Numbers are ratios within one call of this program: a busy machine changes both sides of each.
"""

import asyncio
import os
import resource
import statistics
import sys
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path

TESTS = Path(__file__).parent.parent / "tests"
sys.path[:0] = [str(TESTS), str(TESTS / "standins"), str(Path(__file__).parent)]

os.environ.setdefault("CLUSTER_WORLD", "9")
import psutil  # noqa: E402 - as the others, after the path is set

from cluster_world import BookProvider, ClusterWorld, book_provider, missing  # noqa: E402
from proctor.results import RunStore  # noqa: E402
from proctor.results.journal import read_journal  # noqa: E402

TARGETS = {"wall": 1.1, "cpu": 2.0, "nodes": 2.7, "gate": 1.02}
TURNS = 3
SECONDS = 1.0
BIN = Path(sys.executable).parent


@dataclass(frozen=True)
class Measured:
    """One run: from its first attempt to its last result; the driver's CPU and largest size; the provider's books."""

    seconds: float
    cpu_seconds: float
    most_mb: float
    exchange_seconds: float


async def measure(
    world: ClusterWorld, provider: BookProvider, tasks: int, slots: int, *, local: bool = False, turns: int = TURNS
) -> Measured:
    """One run of cheap attempts, on one machine or on the cluster."""
    provider.books.clear()
    provider.turns = turns
    where = () if local else ("--executor", "ray", "--address", world.address, "--node-slots", slots)
    words = (
        *(
            BIN / "proctor",
            "bench",
            "run",
            "idle",
            "--agent",
            "talker",
            "--runner",
            "none",
            "--model",
            "claude-sonnet-4-5",
        ),
        *("--max-turns", turns, "--concurrency", slots, "--grade-concurrency", 4, "--quiet", *where),
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run = await world.spawn(world.head, *words, IDLE_TASKS=str(tasks), **world.access(provider))
    most = 0.0
    reading = asyncio.create_task(run.communicate())
    while not reading.done():
        for process in psutil.Process(run.pid).children(recursive=True) if run.returncode is None else ():
            try:
                if "bench" in process.cmdline():
                    most = max(most, process.memory_info().rss / 2**20)
            except psutil.Error:
                continue
        await asyncio.wait({reading}, timeout=0.5)
    output, _ = reading.result()
    if run.returncode:
        raise SystemExit(output.decode())
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    store = RunStore(max((world.head.folder / "results/idle").glob("run-*")))
    entries = list(read_journal(store.journal))
    begun = min(datetime.fromisoformat(entry.at) for entry in entries if entry.stage == "prepared")
    ended = max(datetime.fromisoformat(entry.at) for entry in entries if entry.stage == "recorded")
    by_task: dict[str, list[float]] = {}
    for entry in provider.books:
        by_task.setdefault(entry.turn.task, []).append(entry.at)
    gaps = [second - first for times in by_task.values() for first, second in pairwise(times)]
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Measured((ended - begun).total_seconds(), cpu, most, statistics.median(gaps) if gaps else 0.0)


def show(name: str, value: float, target: float, *, at_least: bool = False) -> bool:
    met = value >= target if at_least else value <= target
    print(f"{name}: {value:.3f} ({'at least' if at_least else 'at most'} {target}){'' if met else '  MISSED'}")
    return met


async def compare_with_local(world: ClusterWorld, provider: BookProvider) -> bool:
    """One node beside one machine."""
    await world.start(1)
    local = [await measure(world, provider, tasks, 8, local=True) for tasks in (24, 72)]
    one = [await measure(world, provider, tasks, 8) for tasks in (24, 72)]
    good = show("one node / local, wall time", one[1].seconds / local[1].seconds, TARGETS["wall"])
    per_task = [(large.cpu_seconds - small.cpu_seconds) / 48 * 1000 for small, large in (local, one)]
    print(f"the driver's CPU per task: {per_task[0]:.1f} ms on one machine, {per_task[1]:.1f} ms on a node")
    return show("one node / local, driver CPU per task", per_task[1] / per_task[0], TARGETS["cpu"]) and good


async def measure_gate(world: ClusterWorld, provider: BookProvider) -> bool:
    """What the gate adds to an exchange."""
    await world.start(1)
    gated = await measure(world, provider, 16, 8, turns=10)
    plugins = world.folder / "plugins/toy-1.0.dist-info/entry_points.txt"
    plugins.write_text(plugins.read_text().replace("cluster_plugins:Idle", "cluster_ungated:Idle"))
    open_ = await measure(world, provider, 16, 8, turns=10)
    plugins.write_text(plugins.read_text().replace("cluster_ungated:Idle", "cluster_plugins:Idle"))
    print(
        f"an exchange of {SECONDS:g} s takes {gated.exchange_seconds:.4f} s with the gate, "
        f"{open_.exchange_seconds:.4f} s without"
    )
    return show("with the gate / without", gated.exchange_seconds / open_.exchange_seconds, TARGETS["gate"])


async def measure_nodes(world: ClusterWorld, provider: BookProvider) -> bool:
    """Three nodes beside one."""
    await world.start(1)
    single = await measure(world, provider, 96, 8)
    await world.start(2, 3)
    three = await measure(world, provider, 96, 8)
    return show("three nodes / one, throughput", single.seconds / three.seconds, TARGETS["nodes"], at_least=True)


async def measure_memory(world: ClusterWorld, provider: BookProvider) -> bool:
    """A thousand attempts at once, and what the driver needs for them."""
    await world.start()
    sizes = {}
    provider.delay = 15.0
    for at_once in (250, 500, 1000):
        run = await measure(world, provider, at_once, at_once // 2 + 1, turns=2)
        sizes[at_once] = run.most_mb
        print(
            f"{at_once} attempts, {provider.most_under_way} requests at once: driver {run.most_mb:.0f} MiB, "
            f"{run.cpu_seconds / at_once * 1000:.0f} ms CPU each, {run.seconds:.0f} s"
        )
        provider.most_under_way = 0
    growth = (sizes[1000] - sizes[500]) / max(sizes[500] - sizes[250], 1.0)
    return show("memory of 500 more / 250 more (linear: 2)", growth, 3.0)


PARTS: dict[str, Callable[[ClusterWorld, BookProvider], Awaitable[bool]]] = {
    "local": compare_with_local,
    "gate": measure_gate,
    "nodes": measure_nodes,
    "memory": measure_memory,
}


async def measure_part(part: str, world: ClusterWorld) -> bool:
    async with book_provider(turns=TURNS, delay=SECONDS) as provider:
        return await PARTS[part](world, provider)


def main() -> int:
    if (reason := missing()) is not None:
        print(f"not measured: {reason}")
        return 0
    good = True
    for part in sys.argv[1:] or PARTS:
        with tempfile.TemporaryDirectory(prefix="cluster-", dir="/var/tmp") as folder:
            world = ClusterWorld(Path(folder))
            points = world.folder / "plugins/toy-1.0.dist-info/entry_points.txt"
            points.write_text(
                "[proctor.benchmarks]\nidle = cluster_plugins:Idle\n"
                "[proctor.agents]\ntalker = cluster_plugins:Talker\n"
                "[proctor.environments]\nnone = cluster_plugins:NoEnvironments\n"
            )
            world.python_path = str(Path(__file__).parent)
            world.open()
            try:
                good &= asyncio.run(measure_part(part, world))
            finally:
                world.close()
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
