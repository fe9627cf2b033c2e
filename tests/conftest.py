"""What holds for all tests."""

import os
from collections.abc import Generator

import pytest
from hypothesis import settings

# A property that holds is not broken by a machine that is busy; half the usual examples, each run has others.
settings.register_profile("proctor", deadline=None, max_examples=50)
settings.load_profile("proctor")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Each worker begins with its share of the slow tests: whoever has one left at the end keeps all others waiting.

    Shares are cut as pytest-xdist cuts the whole: one piece for each worker.
    """
    workers = getattr(config, "workerinput", {}).get("workercount", 1)
    slow = [item for item in items if item.get_closest_marker("slow")]
    rest = [item for item in items if not item.get_closest_marker("slow")]

    def share(of: list[pytest.Item], worker: int) -> list[pytest.Item]:
        return of[len(of) * worker // workers : len(of) * (worker + 1) // workers]

    items[:] = [item for worker in range(workers) for item in (*share(slow, worker), *share(rest, worker))]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: "pytest.CallInfo[None]"
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """With PROCTOR_TESTS_COMPLETE set, as in CI, a test that is skipped for want of something has failed."""
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and os.environ.get("PROCTOR_TESTS_COMPLETE"):
        report.outcome = "failed"
        report.longrepr = f"skipped, but nothing may be missing here: {call.excinfo.value if call.excinfo else ''}"
    return report
