"""What holds for all tests."""

import gc
import itertools
import os
import signal
from collections.abc import Generator

import pytest
from hypothesis import settings

from lanes import LANES, lane_of
from paths import OPTIONAL_AGENT, PYTHON, REAL_SAMPLES

# `python3` is the interpreter itself, and no script in front of it that looks for one, ten times as long as it starts.
os.environ["PATH"] = os.pathsep.join([str(PYTHON.parent), os.environ.get("PATH", os.defpath)])

# Who starts us in the background may have us ignore interrupts, and then all that we start would do so too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# A property that holds is not broken by a machine that is busy; fewer examples than usual, each run has others.
settings.register_profile("proctor", deadline=None, max_examples=30)
settings.load_profile("proctor")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--lane", choices=LANES, help="only the tests of one lane; CI runs all lanes side by side")
    parser.addoption("--long", action="store_true", help="only the tests of the long proof (`make proof`)")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Each worker begins with its share of the slow tests: whoever has one left at the end keeps all others waiting.

    Those of one module stay together, as what they share is made once for each worker. Pieces are as long as those into
    which pytest-xdist cuts the whole, one for each worker.
    """
    if (lane := config.getoption("--lane")) is not None:
        others = [item for item in items if lane_of(item) != lane]
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if lane_of(item) == lane]
    of_proof = [item for item in items if item.get_closest_marker("long")]
    chosen = of_proof if config.getoption("--long") else [item for item in items if item not in set(of_proof)]
    config.hook.pytest_deselected(items=[item for item in items if item not in set(chosen)])
    items[:] = chosen
    workers = getattr(config, "workerinput", {}).get("workercount", 1)
    slow = [item for item in items if item.get_closest_marker("slow")]
    shares: list[list[pytest.Item]] = [[] for _ in range(workers)]
    for _, module in itertools.groupby(slow, key=lambda item: item.path):
        min(shares, key=len).extend(module)
    rest = iter([item for item in items if not item.get_closest_marker("slow")])
    left = len(items)
    items.clear()
    for number, share in enumerate(shares):
        length = left // (workers - number)
        left -= length
        items += [*share, *itertools.islice(rest, max(0, length - len(share)))]
    items += rest


def pytest_collection_finish() -> None:
    """What all tests share lives as long as they do: it is not looked through for garbage again and again."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: "pytest.CallInfo[None]"
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """With PROCTOR_TESTS_COMPLETE set, as in CI, a test that is skipped for want of something has failed.

    Only the real samples may be missing, as what is tried on them has been tried on ours, and the programs of some
    agents.
    """
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and os.environ.get("PROCTOR_TESTS_COMPLETE"):
        reason = str(call.excinfo.value) if call.excinfo else ""
        if not reason.startswith((REAL_SAMPLES, OPTIONAL_AGENT)):
            report.outcome = "failed"
            report.longrepr = f"skipped, but nothing may be missing here: {reason}"
    return report
