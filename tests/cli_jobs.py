"""Commands of Proctor as processes of their own, many of them in little time."""

import asyncio
import atexit
import functools
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from documents import checked
from paths import REPOSITORY

PATIENCE = 200.0


class Done(NamedTuple):
    """How a command ended."""

    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        return checked(self.stdout)


class Job:
    """A command that was started."""

    def __init__(self, commands: "Commands", pid: int, stdout: Path, stderr: Path) -> None:
        self.pid = pid
        self.stdout = stdout
        self.stderr = stderr
        self._commands = commands
        self._code: int | None = None

    def poll(self) -> int | None:
        if self._code is None:
            self._code = self._commands.ask({"poll": self.pid})
        return self._code

    def signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    async def wait(self, seconds: float = PATIENCE) -> Done:
        deadline = time.monotonic() + seconds
        while (done := self.done(deadline)) is None:
            await asyncio.sleep(0.01)
        return done

    def wait_here(self, seconds: float = PATIENCE) -> Done:
        """The same without an event loop."""
        deadline = time.monotonic() + seconds
        while (done := self.done(deadline)) is None:
            time.sleep(0.01)
        return done

    def done(self, deadline: float) -> Done | None:
        """How it ended; None: it still runs."""
        code = self.poll()
        if code is None:
            assert time.monotonic() < deadline, f"still running: {self.stderr.read_text()[-2000:]}"
            return None
        shown = [path.read_text(errors="replace") if path.is_file() else "" for path in (self.stdout, self.stderr)]
        return Done(code, *shown)


@functools.cache
def commands() -> "Commands":
    """Those of this process; they end with it."""
    started = Commands()
    atexit.register(started.close)
    return started


class Commands:
    """Starts commands; see `standins/forking_cli.py`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers = 0
        self._server = subprocess.Popen(
            [sys.executable, REPOSITORY / "tests/standins/forking_cli.py"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, question: Any) -> Any:
        with self._lock:
            assert self._server.stdin is not None
            assert self._server.stdout is not None
            self._server.stdin.write(json.dumps(question) + "\n")
            self._server.stdin.flush()
            return json.loads(self._server.stdout.readline())

    def start(self, *arguments: object, cwd: Path, env: Mapping[str, str], terminal: str | None = None) -> Job:
        self._numbers += 1
        streams = cwd / ".streams"
        streams.mkdir(exist_ok=True)
        out, err = streams / f"{self._numbers}.out", streams / f"{self._numbers}.err"
        pid = self.ask(
            {
                "argv": [str(argument) for argument in arguments],
                "env": dict(env),
                "cwd": str(cwd),
                "stdout": str(out),
                "stderr": terminal or str(err),
                "terminal": terminal is not None,
            }
        )
        return Job(self, pid, out, err)

    def close(self) -> None:
        """End whatever starts them."""
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.close()
        self._server.wait()
        self._server.stdout.close()
