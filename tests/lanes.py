"""Lanes: kinds of tests, by what they need. Those of one can be run alone (`--lane`), and each has its seconds told."""

import itertools
from collections.abc import Sequence
from pathlib import Path

import pytest

LANES = ("fast", "containers", "agents")
# With which lane each of four workers begins: containers are waited for, agents keep a processor busy.
_FIRST = ("containers", "agents", "fast", "fast")
# Real agents, browsers and whole commands: they wait for programs more than they work.
_AGENTS = (
    "agents",
    "e2e",
    "gateway/test_claude_code.py",
    "report/trajectories/test_real_claude_code.py",
    "report/viewer/test_chromium.py",
    "report/viewer/test_chromium_runs.py",
    "sandboxes/test_first_run_dialogs.py",
)
_CONTAINERS = (
    "benchmarks/terminal_bench/test_attacks.py",
    "benchmarks/terminal_bench/test_benchmark.py",
    "runner/executors/test_ray.py",
    "runner/executors/test_ray_nodes.py",
)
_FOR_CONTAINERS = {"need_docker", "need_machines", "own_base"}
_CONTAINER_FIXTURES = {"docker", "evo", "feature", "pro", "swe_python", "verified"}


_LANE = pytest.StashKey[str]()


def lane_of(item: pytest.Item) -> str:
    """The lane that a test runs in: every test is in exactly one."""
    if _LANE not in item.stash:
        item.stash[_LANE] = _find_lane(item)
    return item.stash[_LANE]


def _find_lane(item: pytest.Item) -> str:
    parameters = getattr(item, "callspec", None)
    if parameters is not None and "docker" in parameters.params.values():
        return "containers"
    if _CONTAINER_FIXTURES & set(getattr(item, "fixturenames", ())):
        return "containers"
    path = item.path.relative_to(Path(__file__).parent).as_posix()
    if path in _CONTAINERS:
        return "containers"
    if any(path == place or path.startswith(f"{place}/") for place in _AGENTS):
        return "agents"
    module = getattr(item, "module", None)
    return "containers" if module is not None and _FOR_CONTAINERS & set(vars(module)) else "fast"


def starting_elsewhere(tests: Path, left_out: Sequence[str], worker: int, workers: int) -> list[Path]:
    """The folders and files of all tests, from another one on for each worker; between them is as much to collect."""
    counts = {path: 1 if path.match("test_*.py") else len(list(path.rglob("test_*.py"))) for path in tests.iterdir()}
    places = sorted(path for path, count in counts.items() if count and not any(map(path.match, left_out)))
    files = [place for place in places for _ in range(counts[place])]
    first = places.index(files[worker * len(files) // workers])
    return [*places[first:], *places[:first]]


def in_order(items: Sequence[pytest.Item], workers: int) -> list[pytest.Item]:
    """Tests in as many pieces as there are workers, each as long as those into which pytest-xdist cuts the whole.

    Each piece begins with tests of one lane, those in modules with slow ones first, and ends with fast tests, which
    workers that are done take over: whoever has a slow one left at the end keeps all others waiting. Tests of a module
    stay together, as what they share is made once for each worker.
    """
    shares: list[list[pytest.Item]] = [[] for _ in range(workers)]
    rest: list[pytest.Item] = []
    for lane in LANES:
        of_lane = [item for item in items if lane_of(item) == lane]
        modules = [list(module) for _, module in itertools.groupby(of_lane, key=lambda item: item.path)]
        slow = [module for module in modules if any(item.get_closest_marker("slow") for item in module)]
        quick = [module for module in modules if module not in slow]
        own = [share for number, share in enumerate(shares) if _FIRST[number % len(_FIRST)] == lane] or shares
        for module in slow if lane == "fast" else [*slow, *quick]:
            min(own, key=len).extend(module)
        if lane == "fast":
            rest = list(itertools.chain.from_iterable(quick))
    left, ordered, remaining = len(items), list[pytest.Item](), iter(rest)
    for number, share in enumerate(shares):
        length = left // (workers - number)
        left -= length
        ordered += [*share, *itertools.islice(remaining, max(0, length - len(share)))]
    return [*ordered, *remaining]
