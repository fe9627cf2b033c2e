"""Commands of Proctor as processes of their own, many of them in little time."""

import asyncio
import atexit
import functools
import json
import os
import select
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
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
        if self.poll() is None:
            with self._ending() as descriptor:
                loop, ended = asyncio.get_running_loop(), asyncio.Event()
                loop.add_reader(descriptor, ended.set)
                try:
                    async with asyncio.timeout(seconds):
                        await ended.wait()
                except TimeoutError:
                    pass
                finally:
                    loop.remove_reader(descriptor)
        return self._done()

    def wait_here(self, seconds: float = PATIENCE) -> Done:
        """The same without an event loop."""
        if self.poll() is None:
            with self._ending() as descriptor:
                ends = select.poll()
                ends.register(descriptor, select.POLLIN)
                ends.poll(1000 * seconds)
        return self._done()

    @contextmanager
    def _ending(self) -> Iterator[int]:
        """A descriptor that can be read once the process, which has not been reaped, has ended."""
        descriptor = os.pidfd_open(self.pid)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def _done(self) -> Done:
        code = self.poll()
        assert code is not None, f"still running: {self.stderr.read_text()[-2000:]}"
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
