"""What holds for all tests."""

import gc
import os
import signal
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import settings

from lanes import LANES, in_order, lane_of, starting_elsewhere
from paths import OPTIONAL_AGENT, OPTIONAL_PLUGIN, PYTHON, REAL_SAMPLES

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
    parser.addoption("--lane", choices=LANES, help="only the tests of one lane")
    parser.addoption("--long", action="store_true", help="only the tests of the long proof (`make proof`)")


def pytest_configure(config: pytest.Config) -> None:
    """Workers begin to collect at different folders: in a new clone, each finds most of the tests compiled."""
    tests = Path(__file__).parent
    worker = getattr(config, "workerinput", None)
    if worker is not None and [Path(argument).resolve() for argument in config.args] == [tests]:
        number = int(worker["workerid"].removeprefix("gw"))
        places = starting_elsewhere(tests, config.getini("norecursedirs"), number, worker["workercount"])
        config.args = [str(path) for path in places]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The tests that were asked for, in the order in which workers have the most of each other."""
    items.sort(key=lambda item: item.path)
    if (lane := config.getoption("--lane")) is not None:
        others = [item for item in items if lane_of(item) != lane]
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if lane_of(item) == lane]
    long = config.getoption("--long")
    others = [item for item in items if (item.get_closest_marker("long") is not None) != long]
    config.hook.pytest_deselected(items=others)
    items[:] = [item for item in items if (item.get_closest_marker("long") is not None) == long]
    workers = getattr(config, "workerinput", {}).get("workercount", 1)
    items[:] = in_order(items, workers)


def pytest_collection_finish() -> None:
    """What all tests share lives as long as they do: it is not looked through for garbage again and again."""
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How long the tests of each lane took, however many ran at the same time."""
    took: defaultdict[str, float] = defaultdict(float)
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                took[str(dict(report.user_properties).get("lane"))] += report.duration
    for lane, seconds in took.items():
        terminalreporter.write_line(f"{lane}: {seconds:.0f} s")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: "pytest.CallInfo[None]"
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """With PROCTOR_TESTS_COMPLETE set, as in CI, a test that is skipped for want of something has failed.

    Only the real samples may be missing, as what is tried on them has been tried on ours, and the programs of some
    agents.
    """
    report = yield
    report.user_properties.append(("lane", lane_of(item)))
    if report.skipped and not hasattr(report, "wasxfail") and os.environ.get("PROCTOR_TESTS_COMPLETE"):
        reason = str(call.excinfo.value) if call.excinfo else ""
        if not reason.startswith((REAL_SAMPLES, OPTIONAL_AGENT, OPTIONAL_PLUGIN)):
            report.outcome = "failed"
            report.longrepr = f"skipped, but nothing may be missing here: {reason}"
    return report
