"""Lanes: tests that need the same things run side by side with those of the other lanes (`--lane`, `.ci/run`)."""

from pathlib import Path

import pytest

LANES = ("fast", "containers", "agents")
# Real agents, browsers and whole commands: they wait for programs more than they work.
_AGENTS = (
    "agents",
    "e2e",
    "gateway/test_claude_code.py",
    "report/trajectories/test_real_claude_code.py",
    "report/viewer/test_chromium.py",
    "sandboxes/test_questions.py",
)
_CONTAINERS = ("benchmarks/terminal_bench/test_attacks.py", "benchmarks/terminal_bench/test_benchmark.py")
_FOR_CONTAINERS = {"need_docker", "need_machines", "own_base"}
_CONTAINER_FIXTURES = {"docker", "evo", "feature", "pro", "swe_python", "verified"}


def lane_of(item: pytest.Item) -> str:
    """The lane that a test runs in: every test is in exactly one."""
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
