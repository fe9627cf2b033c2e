"""Runs the tests of an exported task, and writes the reward: 1 when every test that it names passes.

It is copied into the task, beside ``plan.json`` and the files to restore, and needs Python 3.8 and nothing else.
"""

import ctypes
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from typing import Any, Dict, List

HERE = os.path.dirname(os.path.abspath(__file__))
LOGS = "/logs/verifier"

UNITTEST = """
import fnmatch, json, os, sys, unittest

class Result(unittest.TestResult):
    statuses = {}
    def record(self, test, status):
        old = self.statuses.get(test.id())
        self.statuses[test.id()] = status if old in (None, "passed") else old
    def addSuccess(self, test): self.record(test, "passed")
    def addFailure(self, test, error): self.record(test, "failed")
    def addError(self, test, error): self.record(test, "error")
    def addSkip(self, test, reason): self.record(test, "skipped")
    def addExpectedFailure(self, test, error): self.record(test, "xfailed")
    def addUnexpectedSuccess(self, test): self.record(test, "xpassed")
    def addSubTest(self, test, subtest, error):
        if error is not None: self.record(test, "failed")

report, paths, targets = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3:]
sys.path[:0] = [os.path.abspath(path) for path in paths]

def test_files(folder):
    for entry in sorted(os.listdir(folder)):
        path = os.path.join(folder, entry)
        if os.path.isfile(path) and fnmatch.fnmatch(entry, "test*.py") and entry[:-3].isidentifier():
            yield path
        elif os.path.isfile(os.path.join(path, "__init__.py")) and entry.isidentifier():
            yield from test_files(path)

def module_name(path):
    parts = os.path.relpath(path[:-3]).split(os.sep)
    names = []
    while parts and parts[-1].isidentifier():
        names.insert(0, parts.pop())
    names = names or [parts.pop()]
    sys.path.insert(0, os.path.join(os.getcwd(), *parts))
    return ".".join(names)

loader, suite = unittest.TestLoader(), unittest.TestSuite()
for target in targets or ["."]:
    folder = target if os.path.isdir(target) else os.path.join(*target.split("."))
    if os.path.isfile(target):
        suite.addTest(loader.loadTestsFromName(module_name(target)))
    elif os.path.isdir(folder):
        suite.addTests(loader.loadTestsFromName(module_name(path)) for path in test_files(folder))
    else:
        suite.addTest(loader.loadTestsFromName(target))
result = Result()
suite.run(result)
with open(report, "w") as file:
    json.dump(result.statuses, file)
"""

PYTEST = """
import json, os, sys
import pytest

class Reporter:
    statuses = {}
    def pytest_runtest_logreport(self, report):
        old = self.statuses.get(report.nodeid)
        if report.failed:
            self.statuses[report.nodeid] = "failed" if report.when == "call" else "error"
        elif report.skipped:
            self.statuses[report.nodeid] = "xfailed" if hasattr(report, "wasxfail") else "skipped"
        elif report.when == "call":
            self.statuses[report.nodeid] = "xpassed" if hasattr(report, "wasxfail") else "passed"

report, paths, words = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3:]
sys.path[:0] = [os.path.abspath(path) for path in paths]
pytest.main(words, plugins=[Reporter()])
with open(report, "w") as file:
    json.dump(Reporter.statuses, file)
"""


def restore(plan: "Dict[str, Any]") -> None:
    """Put the tests, and what runs them, back as they were; remove what was added among them."""
    sys.path.insert(0, HERE)
    from protected_patterns import is_protected  # type: ignore[import-not-found]

    kept = {os.path.relpath(os.path.join(top, name), HERE + "/restore")
            for top, _, names in os.walk(HERE + "/restore") for name in names}  # fmt: skip
    for top, _, names in os.walk("."):
        for name in names:
            path = os.path.relpath(os.path.join(top, name), ".")
            if path not in kept and not path.startswith(".git/") and is_protected(path, plan["protected"]):
                os.unlink(path)
    for path in sorted(kept):
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        if os.path.lexists(path):
            os.unlink(path)
        shutil.copy2(os.path.join(HERE, "restore", path), path)


def run(plan: "Dict[str, Any]") -> "Dict[str, str]":
    """How each test ended."""
    environment = {**os.environ, **plan["variables"]}
    for command in plan["setup"]:
        subprocess.run(command, env=environment, check=True, timeout=600)
    if plan["setup"]:
        restore(plan)  # the submission's own code may have run there
    for command in plan["services"]:
        subprocess.run(["sh", "-c", command], env=environment, check=True, timeout=600, stdin=subprocess.DEVNULL)
    with tempfile.TemporaryDirectory() as scratch:
        report = os.path.join(scratch, "report")
        python = plan["python"] or "python3"
        paths = json.dumps(plan["paths"])
        if plan["format"] == "unittest":
            command = [python, "-c", UNITTEST, report, paths, *plan["arguments"]]
        elif plan["format"] == "pytest":
            own = ["-p", "no:cacheprovider", "--rootdir=.", *plan["options"]]
            config = plan["config_path"] or os.path.join(scratch, "pytest.ini")
            if not plan["config_path"]:
                with open(config, "w") as file:
                    file.write("[pytest]\n")
            if not plan["autoload"]:
                environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
            command = [python, "-c", PYTEST, report, paths, "-c", config, *own, *plan["arguments"]]
        else:
            command = [word.replace("{report}", report) for word in plan["command"]]
        done = subprocess.run(
            command,
            env=environment,
            timeout=plan["timeout"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            preexec_fn=drop_capabilities,
        )
        sys.stdout.buffer.write(done.stdout)
        sys.stdout.flush()
        return READERS[plan["format"]](done, read_reports(report))


def drop_capabilities() -> None:
    """Give up root's access to every file: tests that expect to be refused one pass for ordinary users only."""
    libc = ctypes.CDLL(None)
    for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
        libc.prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP; it fails where there is nothing to drop


def read_reports(place: str) -> "List[bytes]":
    """The report that the tests left, or the files of a folder of them."""
    names = [place] if os.path.isfile(place) else [os.path.join(top, name) for top, _, names in os.walk(place)
                                                   for name in sorted(names)]  # fmt: skip
    reports = []
    for name in names:
        with open(name, "rb") as file:
            reports.append(file.read())
    return reports


def read_exit_code(done: "subprocess.CompletedProcess[bytes]", _reports: "List[bytes]") -> "Dict[str, str]":
    """By how the command ended."""
    return {"exit code": "passed" if done.returncode == 0 else "failed"}


def read_statuses(_done: "subprocess.CompletedProcess[bytes]", reports: "List[bytes]") -> "Dict[str, str]":
    """As the programs above wrote them."""
    return dict(json.loads(reports[0])) if reports else {}


def read_junit(_done: "subprocess.CompletedProcess[bytes]", reports: "List[bytes]") -> "Dict[str, str]":
    """From JUnit's XML."""
    statuses = {}  # type: Dict[str, str]
    for suite in (suite for report in reports for suite in ET.fromstring(report).iter("testsuite")):
        for case in suite.findall("testcase"):
            place = case.get("classname") or suite.get("name") or ""
            name = "%s::%s" % (place, case.get("name", "")) if place else case.get("name", "")
            bad = [child.tag for child in case if child.tag in ("failure", "error", "skipped")]
            status = {"failure": "failed", "error": "error", "skipped": "skipped"}[bad[0]] if bad else "passed"
            statuses[name] = status if statuses.get(name) in (None, "passed") else statuses[name]
    return statuses


def read_go(done: "subprocess.CompletedProcess[bytes]", _reports: "List[bytes]") -> "Dict[str, str]":
    """From the events of ``go test -json``."""
    statuses = {}  # type: Dict[str, str]
    for line in done.stdout.split(b"\n"):
        try:
            event = json.loads(line) if line.startswith(b"{") else {}
        except ValueError:
            continue
        if event.get("Test") and event.get("Action") in ("pass", "fail", "skip"):
            name = "%s::%s" % (event.get("Package"), event["Test"])
            statuses[name] = {"pass": "passed", "fail": "failed", "skip": "skipped"}[event["Action"]]
    return statuses


def read_tap(done: "subprocess.CompletedProcess[bytes]", _reports: "List[bytes]") -> "Dict[str, str]":
    """From the lines of a TAP stream; subtests are indented, and come before the test that sums them up."""
    levels = [[]]  # type: List[List[tuple[str, str]]]
    counts = [0]  # of the tests of each level
    for line in done.stdout.decode("utf-8", "replace").split("\n"):
        found = re.match(r"((?:    )*)(not )?ok(?![^ \t])[ \t]*(\d+)?[ \t]*(?:-[ \t])?(.*)$", line.rstrip("\r"))
        if not found:
            continue
        depth = len(found.group(1)) // 4
        children = levels.pop() if len(levels) == depth + 2 else []
        levels += [[] for _ in range(depth + 1 - len(levels))]
        counts[depth + 1 :] = []
        counts += [0] * (depth + 1 - len(counts))
        counts[depth] += 1
        directive = re.search(r"(?<!\\)(?:\\\\)*#[ \t]*(skip|todo)", found.group(4), re.IGNORECASE)
        name = found.group(4)[: directive.start()] if directive else found.group(4)
        name = re.sub(r"\\([\\#])", r"\1", name).strip() or found.group(3) or str(counts[depth])
        levels[depth] += [("%s > %s" % (name, child), status) for child, status in children]
        levels[depth].append((name, "failed" if found.group(2) or directive else "passed"))
    statuses = {}  # type: Dict[str, str]
    for name, status in levels[0]:
        statuses[name] = status if statuses.get(name) in (None, "passed") else statuses[name]
    return statuses


READERS = {
    "unittest": read_statuses,
    "pytest": read_statuses,
    "junit": read_junit,
    "go-test-json": read_go,
    "tap": read_tap,
    "exit-code": read_exit_code,
}


def main() -> None:
    """Restore, run, and write the reward."""
    with open(os.path.join(HERE, "plan.json")) as file:
        plan = json.load(file)
    wanted = plan["fail_to_pass"] + plan["pass_to_pass"]
    try:
        restore(plan)
        statuses = run(plan)
    except Exception as error:
        print("the tests could not be run: %r" % (error,))
        statuses = {}
    ended = {test: statuses.get(test, "missing") for test in wanted} or statuses
    passed = [test for test, status in ended.items() if status == "passed"]
    tests = [
        {"name": test, "status": "passed" if status == "passed" else "failed", "duration": 0}
        for test, status in ended.items()
    ]
    summary = {"tests": len(tests), "passed": len(passed), "failed": len(tests) - len(passed)}
    summary.update(skipped=0, pending=0, other=0)
    with open(LOGS + "/ctrf.json", "w") as file:
        json.dump({"results": {"tool": {"name": "proctor"}, "summary": summary, "tests": tests}}, file)
    with open(LOGS + "/reward.txt", "w") as file:
        file.write("1\n" if tests and len(passed) == len(tests) else "0\n")


if __name__ == "__main__":
    main()
