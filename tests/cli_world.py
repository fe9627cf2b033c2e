"""A machine of a test's own, as far as Proctor can tell: home, cache, results, temporary files, a toy benchmark."""

import asyncio
import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

from cli_jobs import Done, Job, commands
from paths import PYTHON, REPOSITORY
from proctor.results import RunStore
from proctor.results.store import CONFIG_FILE
from proctor.results.sweeps import SWEEP_FILE
from toy_provider import KEY, MODEL, ToyProvider

STANDINS = REPOSITORY / "tests/standins"
TOY_AGENT = (
    "--agent",
    "command",
    "--agent-command",
    shlex.join([str(PYTHON), "-I", "-S", str(STANDINS / "toy_agent.py")]),
)


class CliWorld:
    """Runs commands there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.results = folder / "results"
        # Short, as on most machines: there is a test of its own for what is too long.
        self.temporary = Path(tempfile.mkdtemp(prefix="cli_world-", dir="/tmp"))
        for name in ("home", "cache", "results", "plugins/toy-1.0.dist-info"):
            (folder / name).mkdir(parents=True)
        metadata = folder / "plugins/toy-1.0.dist-info"
        (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: toy\nVersion: 1.0\n")
        (metadata / "entry_points.txt").write_text("[proctor.benchmarks]\ntoy = toy_benchmark:SOURCE\n")
        self.env = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(folder / "home"),
            "XDG_CACHE_HOME": str(folder / "cache"),
            "PROCTOR_RESULTS": str(self.results),
            "TMPDIR": str(self.temporary),
            "PYTHONPATH": f"{STANDINS}:{folder / 'plugins'}",
            "PROCTOR_TRACEBACK": "1",
        }

    def start(self, *arguments: object, terminal: str | None = None, **env: Any) -> Job:
        more = {name: str(value) for name, value in env.items()}
        return commands().start(*arguments, cwd=self.folder, env={**self.env, **more}, terminal=terminal)

    async def run(self, *arguments: object, **env: Any) -> Done:
        return await self.start(*arguments, **env).wait()

    def store(self, name: str = "toy/run-001") -> RunStore:
        return RunStore(self.results / name)

    def begun(self, kind: str = "run") -> str | None:
        """What the only run or sweep is called, if there is one yet. Kills may have left folders before its own."""
        files = list(self.results.glob(f"*/{kind}-*/{CONFIG_FILE if kind == 'run' else SWEEP_FILE}"))
        assert len(files) <= 1
        return files[0].parent.relative_to(self.results).as_posix() if files else None

    def close(self) -> None:
        shutil.rmtree(self.temporary, ignore_errors=True)

    def leftovers(self) -> list[str]:
        """Whatever of finished or killed commands is still on this machine."""
        # An environment's folder that was killed while it was being removed has lost its lock, and is nobody's to
        # remove.
        environments = [path.parent.name for path in (self.folder / "cache/proctor/environments").glob("*/lock")]
        temporary = [path.name for path in self.temporary.iterdir() if not _probe_of_python(path)]
        return [*environments, *temporary, *(str(process.cmdline()) for process in self.processes())]

    def processes(self) -> Iterator[psutil.Process]:
        """Processes that work for this cli_world: our own commands aside, whatever names its folder."""
        mark = str(self.temporary)
        for process in psutil.process_iter():
            try:
                if process.pid == os.getpid() or process.status() == psutil.STATUS_ZOMBIE:
                    continue
                told = {*process.environ().values(), *process.cmdline()}
                if any(mark in word or str(self.folder) in word for word in told):
                    yield process
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue


def _probe_of_python(path: Path) -> bool:
    """Whether it is the file by which Python itself tries a temporary folder, left by a kill in that very moment."""
    return (
        re.fullmatch(r"[a-z0-9_]{8}", path.name) is not None and path.is_file() and path.stat().st_size <= len("blat")
    )


def access(provider: ToyProvider) -> dict[str, Any]:
    """What lets a run reach the toy provider."""
    return {"ANTHROPIC_BASE_URL": provider.url, "ANTHROPIC_API_KEY": KEY}


async def asked_for_more(provider: ToyProvider, requests: int, job: Job) -> None:
    """Wait until a command has made so many more requests to the provider, or has ended."""
    enough = provider.asked.total() + requests
    while provider.asked.total() < enough and job.poll() is None:
        await asyncio.sleep(0.01)


def toy_run(provider: ToyProvider, *more: object) -> tuple[object, ...]:
    """A run of the toy benchmark in environments without walls, which start soonest."""
    model = ("--model", MODEL, "--max-turns", provider.turns)
    return ("bench", "run", "toy", *TOY_AGENT, *model, "--isolation", "off", *more)
