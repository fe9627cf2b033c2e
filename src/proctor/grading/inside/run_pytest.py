"""Runs pytest, the one that is installed in the room, and reports each test.

A test's id is its node id relative to the workspace. Configuration comes from a private file that Proctor chose;
the workspace's own is not read. Plugins are those that were asked for.
"""

import importlib
import os
import sys

MYPY = False
if MYPY:
    from collections.abc import Iterator
    from typing import Any

FAMILIES = tuple(
    "pytest _pytest pluggy unittest contextlib ast importlib _frozen_importlib _frozen_importlib_external".split()
)
# Puts the old path attributes back onto pytest's own classes when pytest starts.
PATCHERS = ("_pytest.legacypath",)
RANK = ("passed", "xfailed", "xpassed", "skipped", "failed", "error")
# Exit codes after which the tests that were found need not be all the tests there are.
ENDED_EARLY = {2: "pytest was interrupted", 3: "an internal error of pytest", 4: "pytest refused its arguments"}


def status_of(report: "Any") -> "str | None":
    """What one phase's report means for the test; None when it says nothing."""
    if report.outcome == "failed":
        return "failed" if report.when == "call" else "error"
    if report.outcome == "skipped":
        return "xfailed" if hasattr(report, "wasxfail") else "skipped"
    if report.outcome == "passed" and report.when == "call":
        return "xpassed" if hasattr(report, "wasxfail") else "passed"
    return None


class Plugin:
    """Hears pytest out; the worst that it says of a test is the test's status."""

    def __init__(self, to: "Any", skipped: "Any") -> "None":
        self.to = to
        self.skipped = skipped
        self.heard = []  # type: list[str]
        self.plugins = set()  # type: set[int]

    def pytest_load_initial_conftests(self) -> "Iterator[None]":
        # The last moment before code of the workspace runs; plugins have been loaded, and may have patched pytest.
        self.to.watch.learn()
        yield

    def pytest_collectreport(self, report: "Any") -> "None":
        if report.failed:
            self.to.broken(report.nodeid or "collection", str(report.longrepr))

    def pytest_collection_finish(self, session: "Any") -> "None":
        self.plugins = set(map(id, session.config.pluginmanager.get_plugins()))
        for item in session.items:
            function = getattr(item, "function", None)
            holder = getattr(item, "cls", None) or getattr(item, "module", None)
            self.to.collect(item.nodeid, holder, getattr(function, "__name__", ""))
        self.to.collected()

    def pytest_runtest_protocol(self, item: "Any") -> "Iterator[None]":
        heard = self.heard = []
        self.to.start(item.nodeid)
        yield
        self.to.finish(item.nodeid, max(heard, key=RANK.index) if heard else "error")

    def pytest_runtest_makereport(self, call: "Any") -> "Iterator[None]":
        raised = call.excinfo
        outcome = yield  # type: Any
        raised = raised or call.excinfo  # for a test of unittest, pytest fills it in only now
        is_bad = raised is not None and not raised.errisinstance(self.skipped)
        if is_bad and outcome.get_result().outcome == "passed":
            self.to.tampered("pytest's report of what a test raised")

    def pytest_runtest_logreport(self, report: "Any") -> "None":
        status = status_of(report)
        if status:
            self.heard.append(status)

    def pytest_sessionfinish(self, session: "Any") -> "None":
        now = set(map(id, session.config.pluginmanager.get_plugins()))
        if self.plugins and now - self.plugins:
            self.to.tampered("pytest's plugins, after the tests were collected")


def place_config(config: "Any", path: "str") -> "None":
    """Paths in a configuration are relative to its file: let them mean what they mean in the workspace."""
    original = config.determine_setup

    def determine_setup(*arguments: "Any", **options: "Any") -> "Any":
        rootdir, file, *rest = original(*arguments, **options)
        return (rootdir, type(file)(path), *rest)

    config.determine_setup = determine_setup


def make_plugin(pytest: "Any", to: "Any") -> "Plugin":
    for hook in ("pytest_runtest_logreport", "pytest_sessionfinish"):
        pytest.hookimpl(tryfirst=True)(getattr(Plugin, hook))
    for hook in ("pytest_load_initial_conftests", "pytest_runtest_protocol", "pytest_runtest_makereport"):
        pytest.hookimpl(hookwrapper=True, tryfirst=True)(getattr(Plugin, hook))
    pytest.hookimpl(trylast=True)(Plugin.pytest_collection_finish)
    return Plugin(to, pytest.skip.Exception)


def run(report: "Any", job: "dict[str, Any]") -> "int":
    work, private = job["workdir"], job["private"]
    if not job["autoload"]:
        os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    import pytest  # the room's own, found only after its site-packages are open
    from _pytest import config

    for name in config.default_plugins:
        importlib.import_module("_pytest." + name)
    rewrite = sys.modules["_pytest.assertion.rewrite"]  # type: Any
    if hasattr(rewrite, "_read_pyc"):
        rewrite._read_pyc = lambda *_, **__: None  # rewritten tests are cached too, and a cache may lie
    place_config(config, os.path.join(work, job["config_name"]))
    arguments = ["--rootdir", work, "--confcutdir", work, "-c", os.path.join(private, job["config_name"])]
    arguments += ["-o", "cache_dir=" + os.path.join(private, "cache"), "--continue-on-collection-errors"]
    arguments += ["--maxfail=0", "--color=no", "--tb=short", "-q"]
    for name in job["plugins"]:
        arguments += ["-p", name]
    arguments += job["options"] + job["targets"]
    sys.argv[:] = [pytest.__file__] + arguments
    plugin = make_plugin(pytest, report)
    report.begin()
    code = int(pytest.main(arguments, plugins=[plugin]))
    if code in ENDED_EARLY:
        report.stop(ENDED_EARLY[code])
    return code
