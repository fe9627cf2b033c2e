"""Runs of the toy benchmark in this process: begun, and gone on with, as a test wants."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from toy_benchmark import Toy

from hall import STANDINS
from paths import PYTHON
from proctor.core.benchmark import Benchmark
from proctor.core.causes import Cause
from proctor.core.result import TaskResult
from proctor.core.run import RunConfig
from proctor.gateway import ExchangeFinished, RetryPolicy, Secret
from proctor.results import RunStore
from proctor.runner.models import ModelAccess
from proctor.runner.records import Trial
from proctor.runner.request import RunRequest
from proctor.runner.resume import TrialState
from proctor.runner.run_cost import RunCost
from proctor.runner.session import SessionOptions, SessionResult, run_session
from proctor.runner.start import configure, create_run
from proctor.runner.trial import TrialRetry
from toy_provider import KEY, MODEL, ToyProvider
from waiting import PATIENCE

QUICK = RetryPolicy(tries=3, base_seconds=0.01, max_seconds=0.02, total_seconds=PATIENCE)
TOY_COMMAND = (str(PYTHON), "-I", "-S", str(STANDINS / "toy_agent.py"))


def script(folder: Path, text: str) -> tuple[str, ...]:
    """A command that runs this Python program."""
    file = folder / "agent.py"
    file.write_text(text)
    return (str(PYTHON), "-I", "-S", str(file))


class Diary:
    """Writes down what a run tells. Implements `Watcher`."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.waits: list[float] = []
        self.on_ended: Callable[[Trial, TaskResult | None], None] | None = None
        self.settled: Sequence[TrialState] = ()
        self.paid = RunCost()

    def __call__(self, store: RunStore, config: RunConfig, settled: Sequence[TrialState], paid: RunCost) -> "Diary":
        self.settled, self.paid = settled, paid
        return self

    def attempt_started(self, trial: Trial) -> None:
        self.lines.append(f"began {trial.task_id}")

    def progress(self, trial: Trial, message: str) -> None:
        self.lines.append(f"{trial.task_id}: {message}")

    def model_responded(self, trial: Trial, event: ExchangeFinished) -> None:
        pass

    def attempt_retrying(self, trial: Trial, cause: Cause, detail: str, seconds: float) -> None:
        self.lines.append(f"retry {trial.task_id} {cause.value}")
        self.waits.append(seconds)

    def trial_finished(self, trial: Trial, result: TaskResult | None) -> None:
        self.lines.append(f"ended {trial.task_id} {result.status.value if result else 'left'}")
        if self.on_ended is not None:
            self.on_ended(trial, result)

    def run_stopping(self, cause: Cause, detail: str) -> None:
        self.lines.append(f"stopping {cause.value}")


class Toys:
    """One run of toy tasks, under `folder`."""

    def __init__(self, folder: Path, benchmark: Benchmark | None = None) -> None:
        self.folder = folder
        self.benchmark: Benchmark = benchmark or Toy(3)
        self.diary = Diary()
        self.store = RunStore(folder)
        # How long an answer may stay away; a test of silence takes less, so that it ends soon.
        self.idle_seconds = PATIENCE

    async def begin(self, provider: ToyProvider | None = None, **asked: Any) -> RunStore:
        """Begin the run; of the toy agent, unless another is asked for."""
        if provider is not None:
            asked = {"agent": "command", "command": TOY_COMMAND, "model": MODEL, "max_turns": provider.turns} | asked
        asked = {"isolation": False, "concurrency": 2} | asked
        config = await configure(RunRequest(**asked), self.benchmark, self.benchmark.tasks())
        self.store = create_run(config, root=self.folder / "results")
        return self.store

    async def sit(self, provider: ToyProvider | None = None, **sitting: Any) -> SessionResult:
        """One sitting, with little patience."""
        access = (
            ModelAccess(base_url=provider.url, key=Secret(KEY), retry=QUICK, idle_seconds=self.idle_seconds)
            if provider
            else ModelAccess()
        )
        options: dict[str, Any] = {
            "access": access,
            "retry": TrialRetry(max_attempts=3, base_seconds=0.01),
            "notice_seconds": 1.0,
        } | sitting
        return await run_session(
            self.store, self.benchmark, make_observer=self.diary, options=SessionOptions(**options)
        )

    async def run(self, provider: ToyProvider | None = None, **asked: Any) -> SessionResult:
        """Begin, and go on to the end."""
        await self.begin(provider, **asked)
        return await self.sit(provider)

    def outcomes(self) -> dict[str, tuple[str, str, int]]:
        """Status, cause and the number of attempts, by task."""
        return {
            result.task_id: (result.status.value, result.cause.value, len(result.attempts))
            for result in self.store.results()
        }
