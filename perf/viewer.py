"""The viewer on a run of 10,000 tasks: how long a first look, a search and a look at one task take.

Side by side with a bare loop that reads and decodes the same files, which nothing that reads them can beat.
"""

import asyncio
import json
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path

import aiohttp
import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from proctor.core.causes import Cause
from proctor.core.run import JournalEntry
from proctor.results import RunStore, new_run
from stored_runs import config, store_trial
from viewing import viewer

TASKS = 10_000
STAGES = ("prepared", "collected", "graded", "recorded")


def make_run(root: Path, tasks: int) -> RunStore:
    """A run like any other, but for its size."""
    store = new_run("toy", root=root)
    causes = (Cause.SOLVED, Cause.TESTS_FAILED, Cause.SOLVED, Cause.PROVIDER_ERROR)
    names = [f"repository-{number % 40}__task-{number:05}" for number in range(tasks)]
    templates = []
    for cause in causes:
        store_trial(store, "TEMPLATE", cause, logs=False)
        templates.append(store.result_file("TEMPLATE", 1).read_bytes())
    store.result_file("TEMPLATE", 1).unlink()
    for number, name in enumerate(names):
        store.result_file(name, 1).write_bytes(templates[number % 4].replace(b"TEMPLATE", name.encode()))
    entries = (
        JournalEntry(at="", task_id=name, trial=1, attempt=1, stage=stage, cause=causes[number % 4])
        for number, name in enumerate(names)
        for stage in STAGES
    )
    store.journal.write_bytes(b"".join(msgspec.json.encode(entry) + b"\n" for entry in entries))
    store.write_config(config(run_id=store.run_id, tasks=tuple(names)))
    return store


def bare_loop(store: RunStore) -> float:
    started = time.perf_counter()
    for file in (store.folder / "trials").iterdir():
        json.loads(file.read_bytes())
    return time.perf_counter() - started


async def timed(http: aiohttp.ClientSession, address: str) -> tuple[float, int]:
    started = time.perf_counter()
    async with http.get(address) as response:
        body = await response.read()
        assert response.status == 200, body
    return time.perf_counter() - started, len(body)


async def measure(root: Path) -> None:
    async with viewer(root) as address, aiohttp.ClientSession() as http:
        run = f"{address}/run/toy/run-001"
        first, size = await timed(http, run)
        print(f"{'first look at the run':36}{first * 1000:9.0f} ms   {size / 1000:.0f} kB")
        pages = {
            "the run again": run,
            "search for one task": f"{run}?q=task-09876",
            "search that half of them fit": f"{run}?q=passes&sort=cost&desc=1",
            "filter and last page": f"{run}?status=error&page=25",
            "one task": f"{run}/task?task=repository-1__task-00001",
            "compare it with itself": f"{address}/compare?run=toy/run-001&run=toy/run-001&q=00042",
        }
        for name, page in pages.items():
            times = sorted([(await timed(http, page))[0] for _ in range(9)])
            print(f"{name:36}{statistics.median(times) * 1000:9.0f} ms   worst {times[-1] * 1000:.0f} ms")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        store = make_run(root, TASKS)
        print(f"{TASKS:,} tasks")
        print(f"{'a bare loop over the results':36}{bare_loop(store) * 1000:9.0f} ms")
        asyncio.run(measure(root))
    print(f"{'memory at most':36}{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:9.0f} MB")


if __name__ == "__main__":
    main()
