"""The command line behind a fork: imports once, then runs each command that is asked for in a child of its own.

A child is the real thing: the same code, its own process, environment, files and exit code. Only the half second that
Python takes to import everything is not spent again for every command of a test.
"""

import gc
import importlib
import json
import os
import signal
import sys
import tempfile
from typing import Any

from proctor.core.abrupt_exit import require_abrupt_exit

# A child that cleaned up what was imported before it was there would copy all of it. Registered before all others, this
# comes after them.
require_abrupt_exit()
for name in (
    "proctor.benchmarks.commit0.source",
    "proctor.benchmarks.re_bench.source",
    "proctor.benchmarks.setupbench",
    "proctor.benchmarks.suites.benchmark",
    "proctor.benchmarks.swe.sources",
    "proctor.benchmarks.terminal_bench",
    "proctor.benchmarks.x07.format",
    "proctor.benchmarks.x07.instance",
    "proctor.cli.bench",
    "proctor.cli.bench.grading",
    "proctor.cli.bench.progress",
    "proctor.cli.dispatch",
    "proctor.cli.sandbox",
    "proctor.environments.local",
    "proctor.gateway.app",
    "proctor.gateway.upstream",
    "proctor.cli.bench.session",
    "proctor.runner.evaluate",
    "psutil",
):
    importlib.import_module(name)
# What has been imported is no garbage: a child that looked through it would copy all of it, and again when it ends.
gc.collect()
gc.freeze()


def become(asked: dict[str, Any]) -> list[str]:
    """In the child: put on what the command was given."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if asked.get("terminal"):
        os.setsid()
    for target, (path, flags) in enumerate(
        ((os.devnull, os.O_RDONLY), (asked["stdout"], os.O_WRONLY), (asked["stderr"], os.O_WRONLY))
    ):
        descriptor = os.open(path, flags | os.O_CREAT, 0o600)
        os.dup2(descriptor, target)
        if descriptor > 2:
            os.close(descriptor)
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["env"])
    sys.path[:0] = [path for path in asked["env"].get("PYTHONPATH", "").split(":") if path]
    tempfile.tempdir = None
    arguments: list[str] = asked["argv"]
    sys.argv = ["proctor", *arguments]
    return arguments


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for line in sys.stdin:
        asked = json.loads(line)
        if "poll" in asked:
            pid, status = os.waitpid(asked["poll"], os.WNOHANG)
            reply: Any = os.waitstatus_to_exitcode(status) if pid else None
        else:
            reply = os.fork()
            if reply == 0:
                arguments = become(asked)
                from proctor.cli.dispatch import dispatch

                sys.exit(dispatch(arguments))
        sys.stdout.write(json.dumps(reply) + "\n")
        sys.stdout.flush()


main()
