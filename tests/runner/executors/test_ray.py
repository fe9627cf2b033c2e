"""Runs on a cluster of three nodes, against a provider that keeps its own books: what is paid for, and what is lost.

Those that are not `long` are part of all test runs; the others, with events at many random moments, are
`make cluster-test`.
"""

import asyncio
import random
import signal
import time
from collections import Counter

import psutil
import pytest

from cluster_runs import (
    IN_FLIGHT,
    NEEDED,
    TASKS,
    TURNS,
    all_ask,
    check_complete,
    ended,
    in_service,
    kill_driver,
    known_cost,
    moments,
    paid,
    print_books,
)
from cluster_world import BookProvider, ClusterWorld, WorldNode, book_provider, is_of, result_rows
from proctor.gateway import load_recording
from proctor.results.attempt_record import RECORDING_FILE
from toy_provider import ANSWER_USD
from waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(7200)]


async def test_without_an_event_all_is_paid_once_and_results_are_those_of_one_machine(
    world: ClusterWorld, provider: BookProvider
) -> None:
    code, output = await ended(await world.start_run(provider))
    assert code == 0, output
    check_complete(world)
    print_books(world, provider, "without an event")
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
    assert rows
    words = list(world.toy_words(provider))
    model = words.index("--model") + 1
    words[model] = f"replay:toy/{ours.run_id}"
    local = words[: words.index("--executor")]
    for arguments in (local, words):
        code, output = await world.run(world.head, *arguments)
        assert code == 0, output
        assert result_rows(world.store()) == rows
    assert len(provider.books) == NEEDED


@pytest.mark.parametrize(
    ("part", "left"), [(0, 1), *(pytest.param(part, 10, marks=pytest.mark.long) for part in range(1, 6))]
)
async def test_a_driver_that_is_killed_is_resumed_and_nothing_is_lost(
    world: ClusterWorld, provider: BookProvider, part: int, left: int
) -> None:
    chance = random.Random(20 + part)
    while left > 0:
        provider.books.clear()
        run = await world.start_run(provider, "--retries", 0)
        kills = 0
        while left > 0:
            await paid(provider, chance.randrange(1, 30), run)
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
        print_books(world, provider, f"driver killed {kills} times")
        # One that was in flight on each of six slots, each time.
        assert provider.paid_twice() <= kills * 3 * IN_FLIGHT
        assert known_cost(world) >= provider.usd - 1e-9
        assert world.spools() == []
    await eventually(lambda: not world.left_over(), "the end of all that killed sessions had started", seconds=60)


@pytest.mark.long
async def test_a_budget_holds_over_the_whole_cluster(world: ClusterWorld, provider: BookProvider) -> None:
    task_usd = TURNS * ANSWER_USD
    caps = ("--max-cost", 3 * task_usd, "--max-cost-per-task", task_usd)
    code, output = await ended(await world.start_run(provider, *caps))
    print_books(world, provider, "with money for three tasks")
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


async def test_without_caps_of_tasks_it_is_exceeded_by_the_requests_in_flight_at_most(
    world: ClusterWorld, provider: BookProvider
) -> None:
    limit = 20 * ANSWER_USD
    code, output = await ended(await world.start_run(provider, "--max-cost", limit))
    print_books(world, provider, "with money for 20 requests")
    assert code == 12, output
    assert limit - 1e-9 <= provider.usd <= limit + 3 * IN_FLIGHT * ANSWER_USD + 1e-9
    assert known_cost(world) == pytest.approx(provider.usd)


@pytest.mark.long
@pytest.mark.parametrize("part", range(4))
async def test_a_node_that_is_switched_off_costs_at_most_what_it_had_in_flight(
    world: ClusterWorld, provider: BookProvider, part: int
) -> None:
    for number, moment in enumerate(moments(5, seed=part)):
        provider.books.clear()
        run = await world.start_run(provider, "--retries", 0)
        await paid(provider, moment, run)
        node = world.nodes[2 + number % 2]
        world.kill(node)
        # It may come back while the run goes on: then it is used again.
        back = asyncio.create_task(in_service(world, node))
        code, output = await ended(run)
        await back
        assert code == 0, output
        check_complete(world)
        print_books(world, provider, f"switched off after {moment} requests")
        assert provider.paid_twice() <= IN_FLIGHT, moment
        assert known_cost(world) >= provider.usd - 1e-9, moment


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
    return provider.paid_twice(), overlapping_tasks(provider, node), known_cost(world)


def overlapping_tasks(provider: BookProvider, node: WorldNode) -> list[str]:
    """Tasks at which a node still paid after another one had started to."""
    mine = [entry for entry in provider.books if entry.address == node.provider_address]
    found = []
    for task in {entry.turn.task for entry in mine}:
        last = max(entry.at for entry in mine if entry.turn.task == task)
        others = [entry.at for entry in provider.books if entry.turn.task == task and entry not in mine]
        if others and last > min(others):
            found.append(task)
    return found


@pytest.mark.parametrize(
    ("part", "count"), [(0, 1), *(pytest.param(part, 5, marks=pytest.mark.long) for part in range(1, 5))]
)
async def test_a_node_that_is_cut_off_pays_for_no_more_than_it_had_in_flight(
    world: ClusterWorld, provider: BookProvider, part: int, count: int
) -> None:
    for number, moment in enumerate(moments(count, seed=10 + part)):
        await world.restore()
        node = world.nodes[2 + number % 2]
        twice, overlapping, ledger = await cut_run(world, provider, node, moment)
        print_books(world, provider, f"cut off after {moment} requests")
        assert twice <= IN_FLIGHT, moment
        assert overlapping == [], moment
        assert ledger >= provider.usd - 1e-9, moment


def waiting_attempts(node: WorldNode) -> int:
    """How many attempts of a node have marked a request that has no response yet."""
    recordings = node.folder.glob(f"cache/proctor/spool/*/*/*/{RECORDING_FILE}")
    return sum(bool(load_recording(recording).unanswered) for recording in recordings)


async def paused_run(world: ClusterWorld, provider: BookProvider, node: WorldNode) -> list[str]:
    """A run in which a worker is paused when it may send its next requests, until others have its tasks; nobody who
    could end it reaches it meanwhile.

    Returns the tasks at which it paid after the others had started to.
    """
    before = waiting_attempts(node)  # of other runs, which were not resumed
    run = await world.start_run(provider, "--retries", 0, PROCTOR_LEASE_SECONDS="25")
    await paid(provider, 20, run)
    (driver,) = [one for one in psutil.Process(run.pid).children(recursive=True) if "bench" in one.cmdline()]
    (worker,) = world.workers(node)
    # While the driver acknowledges nothing, all agents come to wait for it: their marks are on the way to it.
    driver.suspend()
    all_wait = before + IN_FLIGHT
    await eventually(lambda: provider.under_way == 0 and waiting_attempts(node) == all_wait, "the agents", seconds=20)
    await asyncio.sleep(2)
    worker.suspend()
    driver.resume()
    psutil.Process(run.pid).resume()  # `nsenter` stops with what it has started
    mine = {entry.turn.task for entry in provider.books if entry.address == node.provider_address}
    at = time.monotonic()

    def given_out_again() -> bool:
        others = [entry for entry in provider.books if entry.at > at and entry.address != node.provider_address]
        return bool(mine & {entry.turn.task for entry in others}) or run.returncode is not None

    await asyncio.sleep(2)  # for what the driver has acknowledged to be on the paused worker's side
    world.cut(node)
    try:
        await eventually(given_out_again, "its tasks on another node", seconds=240)
        worker.resume()
        code, output = await ended(run)
    finally:
        world.heal(node)
    assert code == 0, output
    check_complete(world)
    return overlapping_tasks(provider, node)


@pytest.mark.long
async def test_a_worker_that_was_paused_for_longer_than_its_lease_pays_for_nothing_more(world: ClusterWorld) -> None:
    async with book_provider(turns=14) as slow:
        assert await paused_run(world, slow, world.nodes[3]) == []
        print_books(world, slow, "paused for longer than its lease")
        assert slow.paid_twice() <= IN_FLIGHT


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
        async with book_provider(turns=14, delay=0.5 if safeguard == "gate" else 0.2) as slow:
            if safeguard == "gate":
                twice, overlapping, _ = await cut_run(world, slow, node, 20)
            else:
                overlapping = await paused_run(world, slow, node)
            print_books(world, slow, f"without the {safeguard}, two nodes pay at once for {len(overlapping)} tasks")
            if safeguard == "gate":
                assert twice > IN_FLIGHT
            else:
                assert overlapping
    finally:
        world.variables.clear()
        entry_points.write_text(before)
        await in_service(world, node)


@pytest.mark.long
async def test_what_a_lost_node_has_recorded_corrects_the_cost_when_it_comes_back(world: ClusterWorld) -> None:
    node = world.nodes[3]
    async with book_provider(turns=TURNS) as provider:
        run = await all_ask(world, provider, 3 * IN_FLIGHT)
        world.cut(node)
        provider.answers.set()  # which reach the node, and stay there
        code, output = await ended(run)
        assert code == 0, output
        check_complete(world)
        assert len(world.spools()) == IN_FLIGHT
        print_books(world, provider, "cut off while it waits for answers")
        assert known_cost(world) > provider.usd
        world.heal(node)
        await in_service(world, node)
        code, output = await world.resume(provider)
        assert code == 0, output
        assert world.spools() == []
        print_books(world, provider, "and when it is back")
        assert known_cost(world) == pytest.approx(provider.usd)
        results = list(world.store().results())
        assert sum(usage.cost_usd or 0 for one in results for usage in one.usage) == pytest.approx(provider.usd)
        assert not any(usage.estimated_requests for one in results for usage in one.usage)


@pytest.mark.long
async def test_a_cut_that_is_shorter_than_a_lease_loses_nothing(world: ClusterWorld, provider: BookProvider) -> None:
    run = await world.start_run(provider, "--retries", 0)
    await paid(provider, 20, run)
    world.cut(world.nodes[3])
    await asyncio.sleep(3)
    world.heal(world.nodes[3])
    code, output = await ended(run)
    assert code == 0, output
    check_complete(world)
    print_books(world, provider, "cut off for 3 s")
    assert provider.paid_twice() <= IN_FLIGHT
    assert known_cost(world) >= provider.usd - 1e-9


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
    assert code == 12, output
    assert "the head of the cluster" in output
    assert "start the cluster again, and resume the run" in output
    provider.delay = 0.05
    for node in world.nodes.values():
        world.kill(node)
    await world.start()
    code, output = await world.resume(provider)
    assert code == 0, output
    assert Counter(result.status for result in world.store().results()) == {"resolved": TASKS}
    print_books(world, provider, "head killed, resumed on another")
    assert provider.paid_twice() <= 3 * IN_FLIGHT
