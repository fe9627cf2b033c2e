"""The chains of calls from a command to the agent, and from grading to the test process, taken from a real run.

    python -m call_chains          with this folder on the path; `make trace` does it

A chain counts the frames of our own code: what awaits, across tasks and threads, whoever created them, and nothing of
the libraries between. The first frame of a chain is where it starts, so that a chain of n frames has n - 1 calls.
"""

import asyncio
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from types import FrameType
from typing import Any
from weakref import WeakKeyDictionary

import proctor
from proctor.agents.oracle import OracleAgent
from proctor.cli.dispatch import dispatch

SOURCE = str(Path(proctor.__file__).parent)
MOST_CALLS = 8
Chain = list[str]


class CallChains:
    """What was called by whom when the agent started, and when each process was started under `grade`."""

    def __init__(self) -> None:
        self.agent: Chain = []
        self.processes: list[Chain] = []
        self._open = False
        self._of_task: WeakKeyDictionary[asyncio.Task[Any], Chain] = WeakKeyDictionary()
        self._of_thread = threading.local()

    def here(self, frame: FrameType | None) -> Chain:
        """Our frames that lead to this one, the outermost first."""
        own: Chain = []
        while frame is not None:
            file, name = frame.f_code.co_filename, frame.f_code.co_qualname
            if file.endswith("asyncio/events.py") and name == "Handle._run":
                task = asyncio.current_task()
                return (self._of_task.get(task, []) if task else []) + own[::-1]
            if file == __file__ and name.endswith("in_thread"):
                return list(self._of_thread.chain) + own[::-1]
            if file.startswith(SOURCE):
                own.append(f"{file.removeprefix(SOURCE + '/')}: {name}")
            frame = frame.f_back
        return own[::-1]

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Take the chains of what runs in this block."""
        create_task, submit, solve = asyncio.BaseEventLoop.create_task, ThreadPoolExecutor.submit, OracleAgent.solve

        def creating(loop: Any, coroutine: Any, **settings: Any) -> Any:
            chain = self.here(sys._getframe(1))
            task = create_task(loop, coroutine, **settings)
            self._of_task[task] = chain
            return task

        def submitting(pool: Any, work: Callable[..., Any], /, *arguments: Any, **named: Any) -> Any:
            chain = self.here(sys._getframe(1))

            def in_thread() -> Any:
                self._of_thread.chain = chain
                return work(*arguments, **named)

            return submit(pool, in_thread)

        async def solving(agent: Any, *arguments: Any) -> Any:
            self.agent = [*self.here(sys._getframe(1)), "agent: solve"]
            return await solve(agent, *arguments)

        def on_event(event: str, _: Any) -> None:
            if self._open and event in {"subprocess.Popen", "os.posix_spawn", "os.fork"}:
                chain = self.here(sys._getframe(1))
                started = next((n for n, call in enumerate(chain) if call.endswith("Benchmark.grade")), None)
                if started is not None and any(call.startswith("environments/") for call in chain[started:]):
                    self.processes.append(chain[started:])

        self._open = True
        sys.addaudithook(on_event)
        with (
            _replaced(asyncio.BaseEventLoop, "create_task", creating),
            _replaced(ThreadPoolExecutor, "submit", submitting),
            _replaced(OracleAgent, "solve", solving),
        ):
            try:
                yield
            finally:
                self._open = False


@contextmanager
def _replaced(owner: type, name: str, replacement: object) -> Iterator[None]:
    before = getattr(owner, name)
    setattr(owner, name, replacement)
    try:
        yield
    finally:
        setattr(owner, name, before)


def trace(folder: Path) -> tuple[Chain, Chain]:
    """From `bench run` to the agent, and from grading to the test process: of one task of a shipped suite.

    It is for a process of its own: the environment is changed for good.
    """
    chains = CallChains()
    os.environ |= {"PROCTOR_RESULTS": str(folder / "results"), "XDG_CACHE_HOME": str(folder / "cache")}
    arguments = ["bench", "run", "core-mini", "--task", "py_cache_0001", "--agent", "oracle", "--quiet"]
    with chains.recording(), redirect_stdout(sys.stderr):
        code = dispatch(arguments)
    if code:
        raise SystemExit(code)
    command = next(n for n, call in enumerate(chains.agent) if call.endswith("bench/__init__.py: run"))
    return chains.agent[command:], max(chains.processes, key=len, default=[])


def main() -> int:
    """Print both chains; 1 where one is too long."""
    with tempfile.TemporaryDirectory() as folder:
        found = trace(Path(folder))
    for title, chain in zip(("bench run to the agent", "grading to the test process"), found, strict=True):
        print(f"{title}: {len(chain) - 1} calls (at most {MOST_CALLS})")
        for depth, call in enumerate(chain):
            print(f"  {depth}  {call}")
    return int(any(len(chain) - 1 > MOST_CALLS for chain in found))


if __name__ == "__main__":
    sys.exit(main())
