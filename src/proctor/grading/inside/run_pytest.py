"""Runs the pytest that is installed in the environment, and reports each test.

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

WATCHED_PACKAGES = ("pytest", "_pytest", "pluggy", "unittest", "contextlib")
# Restores the old path attributes of pytest's own classes when pytest starts.
PATCHING_MODULES = ("_pytest.legacypath",)
RANK = ("passed", "xfailed", "xpassed", "skipped", "failed", "error")
# Exit codes after which the tests that were found need not be all the tests there are.
ENDED_EARLY = {2: "pytest was interrupted", 3: "an internal error of pytest", 4: "pytest refused its arguments"}


def status_of(report: "Any") -> "str | None":
    """What one phase's report means for the test; None when it means nothing."""
    if report.outcome == "failed":
        return "failed" if report.when == "call" else "error"
    if report.outcome == "skipped":
        return "xfailed" if hasattr(report, "wasxfail") else "skipped"
    if report.outcome == "passed" and report.when == "call":
        return "xpassed" if hasattr(report, "wasxfail") else "passed"
    return None


def make_plugin(pytest: "Any", reporter: "Any", started: "int", look: "Any" = os.stat) -> "Any":
    """A plugin that pytest reports to; the worst that it reports of a test is the test's status.

    `started` is a time of change, in nanoseconds, from before anything of the workspace ran.
    """
    skipped = pytest.skip.Exception
    statuses = []  # type: list[str]
    functions = {}  # type: dict[int, Any]
    plugins = set()  # type: set[int]

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)  # type: ignore[untyped-decorator]
    def pytest_load_initial_conftests() -> "Iterator[None]":
        # The last moment before code of the workspace runs; plugins have been loaded, and may have patched pytest.
        reporter.add_loaded_modules()
        yield

    def pytest_plugin_registered(plugin: "Any") -> "None":
        file = getattr(plugin, "__file__", None)
        if isinstance(file, str) and os.path.basename(file) == "conftest.py":
            try:
                is_new = look(file).st_ctime_ns > started
            except OSError:
                is_new = True
            if is_new:
                reporter.tampered(file + ", while the tests were running")

    def pytest_collectreport(report: "Any") -> "None":
        if report.failed:
            reporter.broken(report.nodeid or "collection", str(report.longrepr))

    @pytest.hookimpl(trylast=True)  # type: ignore[untyped-decorator]
    def pytest_collection_finish(session: "Any") -> "None":
        plugins.update(map(id, session.config.pluginmanager.get_plugins()))
        for item in session.items:
            function = functions[id(item)] = getattr(item, "function", None)
            holder = getattr(item, "cls", None) or getattr(item, "module", None)
            reporter.collect(item.nodeid, holder, getattr(function, "__name__", ""))
        reporter.collected()

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)  # type: ignore[untyped-decorator]
    def pytest_runtest_protocol(item: "Any") -> "Iterator[None]":
        del statuses[:]
        reporter.start(item.nodeid)
        if getattr(item, "function", None) is not functions.get(id(item)) or is_overridden(item):
            reporter.tampered("the code of " + item.nodeid)
        yield
        reporter.finish(item.nodeid, max(statuses, key=RANK.index) if statuses else "error")

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)  # type: ignore[untyped-decorator]
    def pytest_runtest_makereport(call: "Any") -> "Iterator[None]":
        raised = call.excinfo
        outcome = yield  # type: Any
        raised = raised or call.excinfo  # for a test of unittest, pytest fills it in only now
        is_bad = raised is not None and not raised.errisinstance(skipped)
        if is_bad and outcome.get_result().outcome == "passed":
            reporter.tampered("pytest's report of what a test raised")

    @pytest.hookimpl(tryfirst=True)  # type: ignore[untyped-decorator]
    def pytest_runtest_logreport(report: "Any") -> "None":
        status = status_of(report)
        if status:
            statuses.append(status)

    @pytest.hookimpl(tryfirst=True)  # type: ignore[untyped-decorator]
    def pytest_sessionfinish(session: "Any") -> "None":
        now = set(map(id, session.config.pluginmanager.get_plugins()))
        if plugins and now - plugins:
            reporter.tampered("pytest's plugins, after the tests were collected")

    plugin = type(sys)("proctor's reporter")
    for hook in (
        pytest_load_initial_conftests,
        pytest_plugin_registered,
        pytest_collectreport,
        pytest_collection_finish,
        pytest_runtest_protocol,
        pytest_runtest_makereport,
        pytest_runtest_logreport,
        pytest_sessionfinish,
    ):
        setattr(plugin, hook.__name__, hook)
    return plugin


def is_overridden(item: "Any") -> "bool":
    """Whether a test has something of its own in place of what its class has for running it."""
    return any(name in vars(item) for name in ("runtest", "setup", "teardown", "repr_failure"))


def override_config_path(config: "Any", chosen: "str", path: "str", without_globals: "Any") -> "None":
    """Paths in a configuration are relative to its file: let them mean what they mean in the workspace.

    Tests may run a pytest of their own, which has another file, or none.
    """
    original = config.determine_setup

    def determine_setup(*arguments: "Any", **options: "Any") -> "Any":
        rootdir, file, *rest = original(*arguments, **options)
        return (rootdir, type(file)(path) if str(file) == chosen else file, *rest)

    config.determine_setup = without_globals(determine_setup)


def run(report: "Any", job: "dict[str, Any]", open_workspace: "Any") -> "int":
    work, private = job["workdir"], job["private"]
    if not job["autoload"]:
        os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    import pytest  # the environment's own, found only after its site-packages are set up
    from _pytest import config

    version = [int(part) for part in pytest.__version__.split(".")[:2] if part.isdigit()]
    if version and version < [3, 5]:
        raise RuntimeError("pytest " + pytest.__version__ + " is too old: 3.5 is needed")
    for name in config.default_plugins:
        importlib.import_module("_pytest." + name)
    rewrite = sys.modules["_pytest.assertion.rewrite"]  # type: Any
    if hasattr(rewrite, "_read_pyc"):
        rewrite._read_pyc = job["without_globals"](
            lambda *_, **__: None
        )  # rewritten tests are cached too, and a cache may lie
    chosen = os.path.abspath(os.path.join(private, job["config_name"]))
    override_config_path(config, chosen, os.path.join(work, job["config_name"]), job["without_globals"])
    arguments = ["--rootdir", work, "--confcutdir", work, "-c", chosen]
    arguments += ["-o", "cache_dir=" + os.path.join(private, "cache"), "--continue-on-collection-errors"]
    arguments += ["--maxfail=0", "--color=no", "--tb=short", "-q"]
    for name in job["plugins"]:
        arguments += ["-p", name]
    arguments += job["options"] + job["targets"]
    sys.argv[:] = [pytest.__file__] + arguments
    plugin = make_plugin(pytest, report, os.stat(os.path.join(private, job["config_name"])).st_ctime_ns)
    report.begin(open_workspace)
    code = int(pytest.main(arguments, plugins=[plugin]))
    if code in ENDED_EARLY:
        report.stop(ENDED_EARLY[code])
    return code
