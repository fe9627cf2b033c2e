"""Runs of the toy benchmark in this process: created, started and resumed as a test wants."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
from toy_benchmark import Toy

from cli_world import STANDINS
from paths import PYTHON
from proctor.agents import agent_class
from proctor.core.benchmark import Benchmark
from proctor.core.causes import Cause
from proctor.core.request import RunRequest
from proctor.core.result import TaskResult
from proctor.core.run import RunConfig, Trial
from proctor.gateway import RetryPolicy, Secret
from proctor.results import RunStore, new_run
from proctor.results.run_results import RunResults
from proctor.runner.models import ModelAccess
from proctor.runner.observer import RunObserver
from proctor.runner.preflight import configure, make_provider
from proctor.runner.request import resolve_request
from proctor.runner.resume import TrialState
from proctor.runner.session import run_session
from proctor.runner.state import Session
from toy_provider import KEY, MODEL, ToyProvider
from waiting import PATIENCE

QUICK = RetryPolicy(tries=3, base_seconds=0.01, max_seconds=0.02, total_seconds=PATIENCE)
TOY_COMMAND = (str(PYTHON), "-I", "-S", str(STANDINS / "toy_agent.py"))


def script(folder: Path, text: str) -> tuple[str, ...]:
    """A command that runs this Python program."""
    file = folder / "agent.py"
    file.write_text(text)
    return (str(PYTHON), "-I", "-S", str(file))


class RecordingObserver(RunObserver):
    """Keeps what a run reports."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.waits: list[float] = []
        self.on_finished: Callable[[Trial, TaskResult | None], None] | None = None
        self.finished: Sequence[TrialState] = ()
        self.cost_usd = 0.0

    def make(self, store: RunStore, config: RunConfig, finished: Sequence[TrialState], cost_usd: float) -> RunObserver:
        self.finished, self.cost_usd = finished, cost_usd
        return self

    def attempt_started(self, trial: Trial) -> None:
        self.lines.append(f"started {trial.task_id}")

    def progress(self, trial: Trial, message: str) -> None:
        self.lines.append(f"{trial.task_id}: {message}")

    def attempt_retrying(self, trial: Trial, cause: Cause, detail: str, seconds: float) -> None:
        self.lines.append(f"retry {trial.task_id} {cause.value}")
        self.waits.append(seconds)

    def trial_finished(self, trial: Trial, result: TaskResult | None) -> None:
        self.lines.append(f"finished {trial.task_id} {result.status.value if result else 'left'}")
        if self.on_finished is not None:
            self.on_finished(trial, result)

    def run_stopping(self, cause: Cause, detail: str) -> None:
        self.lines.append(f"stopping {cause.value}")


class Toys:
    """One run of toy tasks, under `folder`."""

    def __init__(self, folder: Path, benchmark: Benchmark | None = None) -> None:
        self.folder = folder
        self.benchmark: Benchmark = benchmark or Toy(3)
        self.observer = RecordingObserver()
        self.store = RunStore(folder)
        # How long a response may take; a test of silence takes less, so that it ends soon.
        self.idle_seconds = PATIENCE

    async def create(self, provider: ToyProvider | None = None, **options: Any) -> RunStore:
        """Store the run, and work on nothing yet; with the toy agent, unless another is asked for."""
        if provider is not None:
            own = {"agent": "command", "command": TOY_COMMAND, "model": MODEL, "max_turns": provider.turns}
            options = own | options
        request = resolve_request(RunRequest(**{"isolation": False, "concurrency": 2} | options))
        environments, agent = make_provider(request), agent_class(str(request.agent))
        config, _ = await configure(request, self.benchmark, self.benchmark.tasks(), environments, agent)
        await environments.close()
        self.store = new_run(config.benchmark, root=self.folder / "results")
        self.store.write_config(msgspec.structs.replace(config, run_id=self.store.run_id))
        return self.store

    async def resume(
        self,
        provider: ToyProvider | None = None,
        *,
        retry_seconds: float = 0.01,
        grace_seconds: float = 1.0,
        **options: Any,
    ) -> RunResults:
        """One session, with little patience."""
        access = (
            ModelAccess(base_url=provider.url, key=Secret(KEY), retry=QUICK, idle_seconds=self.idle_seconds)
            if provider
            else ModelAccess()
        )
        session = Session(
            benchmark=self.benchmark,
            access=access,
            make_observer=self.observer.make,
            retry_seconds=retry_seconds,
            grace_seconds=grace_seconds,
        )
        (ended,) = await run_session(self.store, session, options)
        return ended

    async def run(self, provider: ToyProvider | None = None, **options: Any) -> RunResults:
        """Create the run, and work on it to the end."""
        await self.create(provider, **options)
        return await self.resume(provider)

    def outcomes(self) -> dict[str, tuple[str, str, int]]:
        """Status, cause and the number of attempts, by task."""
        return {
            result.task_id: (result.status.value, result.cause.value, len(result.attempts))
            for result in self.store.results()
        }
