"""One row of `make perf`, measured once, with the Proctor that PYTHONPATH names; prints JSON.

    .venv/bin/python perf/rows.py ROW SIZE

A row compares something of ours with its alternative, done in turns in the same process. `table.py` runs rows for two
trees in turns, and holds them against their targets.
"""

import asyncio
import contextlib
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

BIN = Path(sys.executable).parent
# Where overlays work and nothing is kept in memory.
DISK = "/var/tmp"
Figures = dict[str, tuple[float, float]]
"""By what was measured: ours, and the alternative."""


def wall(action: Callable[[], object]) -> float:
    """Milliseconds."""
    started = time.perf_counter()
    action()
    return (time.perf_counter() - started) * 1000


def children_cpu(argv: list[str], rounds: int) -> float:
    """Milliseconds of CPU that a command takes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    for _ in range(rounds):
        subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime) / rounds * 1000


def help_page(rounds: int) -> Figures:
    return {
        "": (
            children_cpu([str(BIN / "proctor"), "bench", "run", "--help"], rounds),
            children_cpu([sys.executable, "-c", "pass"], rounds),
        )
    }


def all_mounts(folder: Path) -> Callable[[], None]:
    """What runs `true` in bubblewrap with the mounts of an environment, and does nothing else."""
    from proctor.core.environment import Network
    from proctor.environments import bubblewrap, visibility
    from proctor.environments.environment_process import filled_pipe
    from proctor.environments.seccomp import filter_program

    hidden = visibility.hidden_paths(())
    places = {name: str(folder / f"floor-{name}") for name in ("workspace", "tmp", "home", "overlay_work")}
    for place in places.values():
        Path(place).mkdir(parents=True)
    more: dict[str, str | None] = {"overlay_lower": None}
    with contextlib.suppress(ImportError):  # another tree, of before
        from proctor.environments.etc_layer import EtcLayers

        layer = EtcLayers(folder).get(hidden, Network.NONE)
        more["etc_layer"] = None if layer is None else str(layer)
    layout = bubblewrap.EnvironmentLayout(
        workdir="/workspace",
        network=Network.NONE,
        mounts=(),
        hidden=hidden,
        shared_memory_bytes=1 << 28,
        **places,
        **more,
    )

    def run() -> None:
        with filled_pipe(filter_program(keys=False)) as seccomp, Path(os.devnull).open("r+b") as null:
            gates = bubblewrap.OneShotDescriptors(status_fd=null.fileno(), start_fd=null.fileno(), seccomp_fd=seccomp)
            argv = bubblewrap.one_shot_argv(layout, gates, {"PATH": os.defpath}, "/", ["true"])
            subprocess.run(argv, check=True, pass_fds=[seccomp, null.fileno()])

    return run


async def _local_environment(rounds: int) -> Figures:
    from proctor.core.environment import EnvironmentSpec
    from proctor.environments.bubblewrap import find_bubblewrap
    from proctor.environments.local import LocalProvider
    from proctor.environments.visibility import interpreter

    bare = [find_bubblewrap(), "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", "--dev", "/dev"]
    with tempfile.TemporaryDirectory(dir=DISK) as name:
        provider, mounts = LocalProvider(environments_dir=Path(name)), all_mounts(Path(name))

        async def whole() -> None:
            async with await provider.start(EnvironmentSpec()) as environment:
                assert (await environment.exec(["true"])).exit_code == 0

        async def command(*argv: str) -> None:
            await asyncio.to_thread(subprocess.run, argv, check=True)

        actions: dict[str, Callable[[], Awaitable[object]]] = {
            "ours": whole,
            "bwrap": lambda: command(*bare, "--proc", "/proc", "true"),
            # What it is made of: all mounts with one command, and the start of the Python that is its first process.
            "mounts": lambda: asyncio.to_thread(mounts),
            "python": lambda: command(str(interpreter()[0]), "-I", "-S", "-B", "-c", "pass"),
        }
        times: dict[str, list[float]] = {name: [] for name in actions}
        for number in range(rounds + 1):
            for what, action in actions.items():
                started = time.perf_counter()
                await action()
                if number:
                    times[what].append((time.perf_counter() - started) * 1000)
        await provider.close()
    medians = {name: statistics.median(some) for name, some in times.items()}
    return {
        "": (medians["ours"], medians["bwrap"]),
        "(floor: all mounts, a Python)": (medians["mounts"] + medians["python"], medians["bwrap"]),
    }


def local_environment(rounds: int) -> Figures:
    return asyncio.run(_local_environment(rounds))


def evaluation(instances: int) -> Figures:
    import eval_overhead

    with tempfile.TemporaryDirectory(prefix="perf-eval-") as name:
        folder = Path(name)
        os.environ["PROCTOR_CACHE"] = str(folder / "cache")
        suite = eval_overhead.make_suite(folder, instances)
        ours, loop = eval_overhead.ours(folder, suite, 0), eval_overhead.loop(folder, suite, 1)
        mounts = all_mounts(folder / "environments")
        with ThreadPoolExecutor(eval_overhead.JOBS) as threads:
            twice = wall(lambda: list(threads.map(lambda _: mounts(), range(2 * instances))))
    floor = loop + twice / 1000
    return {
        "": (ours / instances * 1000, loop / instances * 1000),
        "(floor: loop, all mounts twice)": (floor / instances * 1000, loop / instances * 1000),
    }


def no_op_tasks(tasks: int) -> Figures:
    import runner

    with tempfile.TemporaryDirectory(prefix="perf-", dir=DISK) as name:
        os.environ["XDG_CACHE_HOME"] = f"{name}/cache"
        row = runner.measured("local", Path(name) / "local", tasks)
        loop = runner.measured("loop", Path(name) / "loop", tasks, like=Path(name) / "local")
        floor = runner.measured("floor", Path(name) / "floor", tasks, like=Path(name) / "local")
    own = {what: one["own"] / tasks * 1000 for what, one in {"ours": row, "loop": loop, "floor": floor}.items()}
    return {
        "": (own["ours"], own["loop"]),
        "(floor: loop, folder, process)": (own["floor"], own["loop"]),
    }


def resume(tasks: int) -> Figures:
    """Resuming a run of which nothing is left to do, against decoding the same files."""
    import msgspec

    import runner
    from proctor.results import list_runs

    with tempfile.TemporaryDirectory(prefix="perf-", dir=DISK) as name:
        folder = Path(name)
        os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
        asyncio.run(runner.session(folder, tasks, environments="none", only=2))
        (store,) = list_runs("nothing", root=folder)
        runner.fill_up(store.folder, tasks)
        best, floor = float("inf"), float("inf")
        for _ in range(3):
            started = time.process_time()
            asyncio.run(runner.session(folder, tasks, environments="none"))
            best = min(best, time.process_time() - started)
            started = time.process_time()
            for path in (store.folder / "trials").iterdir():
                msgspec.json.decode(path.read_bytes())
            floor = min(floor, time.process_time() - started)
    return {"": (best * 1000, floor * 1000)}


def sandboxes(count: int) -> Figures:
    from proctor.sandboxes import Sandboxes

    with tempfile.TemporaryDirectory(dir="/tmp", prefix="perf-") as name:
        store, copies = Sandboxes(Path(name) / "sandboxes"), Path(name) / "copies"
        copies.mkdir()
        names = [f"bench-{number}" for number in range(count)]

        def run(*argv: str | Path) -> None:
            subprocess.run(argv, check=True)

        def each(action: Callable[[str], object]) -> float:
            return wall(lambda: [action(name) for name in names]) / count

        create = each(lambda name: store.create(name, preset="opus"))
        copy = each(lambda name: run("cp", "-r", store.root / name, copies / name))
        reset = each(store.reset)
        remove = each(lambda name: run("rm", "-rf", copies / name))
        again = each(lambda name: run("cp", "-r", store.root / name, copies / name))
        destroy = each(store.destroy)
        remove_again = each(lambda name: run("rm", "-rf", copies / name))
        looks = each(lambda _: [look_at_processes() for _ in range(2)])
    return {
        "create": (create, copy),
        "reset": (reset, remove + again),
        "reset (floor: with two looks at all processes)": (remove + again + looks, remove + again),
        "destroy": (destroy, remove_again),
        "destroy (floor: with two looks at all processes)": (remove_again + looks, remove_again),
    }


def look_at_processes() -> int:
    """Read what every process of the machine was started with: how many there are."""
    seen = 0
    for name in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208 - as Proctor does it
        for file in ("cmdline", "environ"):
            with contextlib.suppress(OSError):
                descriptor = os.open(f"/proc/{name}/{file}", os.O_RDONLY)
                try:
                    os.read(descriptor, 1 << 16)
                finally:
                    os.close(descriptor)
        seen += 1
    return seen


def cold_workspace(commits: int) -> Figures:
    import workspaces
    from proctor.core.task import RepositorySource
    from proctor.workspaces import base_of, check_out

    with tempfile.TemporaryDirectory(prefix="perf-", dir=DISK) as name:
        folder = Path(name)
        history = workspaces.make_upstream(folder / "upstream", commits, commits * 3 // 2)
        middle = history[len(history) // 2]

        def clone() -> None:
            workspaces.git(folder, "clone", "--quiet", "--no-hardlinks", "--no-checkout", "upstream", "clone")
            workspaces.git(folder / "clone", "checkout", "--quiet", middle)

        def ours() -> None:
            source = RepositorySource(url=str(folder / "upstream"), commit=middle)
            check_out(base_of(source, cache=folder / "cache"), folder / "tree")

        theirs, mine = wall(clone), wall(ours)
    return {"": (mine, theirs)}


async def _copies(files: int) -> Figures:
    from proctor.core.environment import EnvironmentSpec
    from proctor.environments.local import LocalProvider

    with tempfile.TemporaryDirectory(prefix="perf-", dir=DISK) as name:
        folder, tree = Path(name), Path(name) / "tree"
        for number in range(files):
            if number % 100 == 0:
                part = tree / f"part{number // 100}"
                part.mkdir(parents=True)
            (part / f"file{number}").write_text(f"{number}\n" * 20)
        provider = LocalProvider(overlay=False, environments_dir=folder / "environments")

        def by_cp() -> None:
            subprocess.run(["cp", "-r", tree, folder / "copy"], check=True)

        by_cp()  # once for the cache
        shutil.rmtree(folder / "copy")
        copy = wall(by_cp)
        shutil.rmtree(folder / "copy")
        started = time.perf_counter()
        async with await provider.start(EnvironmentSpec(workspace=tree)) as environment:
            copied_in = (time.perf_counter() - started) * 1000
            started = time.perf_counter()
            await environment.get(environment.workdir, folder / "out")
            copied_out = (time.perf_counter() - started) * 1000
        await provider.close()
    return {"in": (copied_in, copy), "out": (copied_out, copy)}


def copies(files: int) -> Figures:
    return asyncio.run(_copies(files))


async def _state_grading(rounds: int) -> Figures:
    """From the end of the agent's work to the result of the success command, in a container."""
    from proctor.core.environment import EnvironmentSpec
    from proctor.environments.docker import DockerProvider
    from proctor.grading import state

    command = 'test -d /etc && python3 --version && grep -q root /etc/passwd && echo "Setup successful"'
    names = state.script_words(command)
    markers = state.GraderMarkers(strings=("Setup successful",))
    provider = DockerProvider(image="proctor-test/setup:bookworm")
    ours, bare = [], []
    try:
        for _ in range(rounds):
            with tempfile.TemporaryDirectory(prefix="perf-") as name:
                async with await provider.start(EnvironmentSpec()) as environment:
                    await state.take_snapshot(environment, names, Path(name) / "grading")
                    started = time.perf_counter()
                    ready = await state.quarantine(
                        environment,
                        Path(name) / "grading",
                        names=names,
                        policy=state.LeftoverPolicy.KEEP,
                        markers=markers,
                    )
                    if hasattr(state, "run_observed"):
                        seen = await state.run_observed(environment, ready, command, timeout=60)
                        left = state.started_since(seen.before, seen.after)
                    else:  # another tree, of before
                        before = await state.list_processes(environment, ready.search_path)
                        await state.run_in_fresh_shell(environment, ready, command, timeout=60)
                        left = state.started_since(before, await state.list_processes(environment, ready.search_path))
                    await state.kill_processes(environment, left)
                    ours.append((time.perf_counter() - started) * 1000)
                    started = time.perf_counter()
                    await environment.exec(["sh", "-c", command])
                    bare.append((time.perf_counter() - started) * 1000)
    finally:
        await provider.close()
    return {"": (statistics.median(ours), statistics.median(bare))}


def state_grading(rounds: int) -> Figures:
    return asyncio.run(_state_grading(rounds))


ROWS: dict[str, Callable[[int], Figures]] = {
    "help": help_page,
    "environment": local_environment,
    "eval": evaluation,
    "no-op": no_op_tasks,
    "resume": resume,
    "sandbox": sandboxes,
    "cold": cold_workspace,
    "copies": copies,
    "state": state_grading,
}

if __name__ == "__main__":
    with contextlib.redirect_stdout(sys.stderr):
        measured = ROWS[sys.argv[1]](int(sys.argv[2]))
    print(json.dumps(measured))
