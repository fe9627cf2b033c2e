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
from proctor.gateway import Answered, RetryPolicy, Secret
from proctor.results import RunStore
from proctor.runner.drive import Ending, Sitting, drive
from proctor.runner.models import Access
from proctor.runner.plan import Asked
from proctor.runner.records import Slot
from proctor.runner.resume import Standing
from proctor.runner.run import Retry
from proctor.runner.spent import Spending
from proctor.runner.start import begin, configure
from toy_provider import KEY, MODEL, ToyProvider

QUICK = RetryPolicy(tries=3, base_seconds=0.01, most_seconds=0.02, total_seconds=5)
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
        self.on_ended: Callable[[Slot, TaskResult | None], None] | None = None
        self.settled: Sequence[Standing] = ()
        self.paid = Spending()

    def __call__(self, store: RunStore, config: RunConfig, settled: Sequence[Standing], paid: Spending) -> "Diary":
        self.settled, self.paid = settled, paid
        return self

    def began(self, slot: Slot) -> None:
        self.lines.append(f"began {slot.task_id}")

    def doing(self, slot: Slot, what: str) -> None:
        self.lines.append(f"{slot.task_id}: {what}")

    def heard(self, slot: Slot, event: Answered) -> None:
        pass

    def retrying(self, slot: Slot, cause: Cause, detail: str, seconds: float) -> None:
        self.lines.append(f"retry {slot.task_id} {cause.value}")
        self.waits.append(seconds)

    def ended(self, slot: Slot, result: TaskResult | None) -> None:
        self.lines.append(f"ended {slot.task_id} {result.status.value if result else 'left'}")
        if self.on_ended is not None:
            self.on_ended(slot, result)

    def stopping(self, cause: Cause, detail: str) -> None:
        self.lines.append(f"stopping {cause.value}")


class Toys:
    """One run of toy tasks, under `folder`."""

    def __init__(self, folder: Path, benchmark: Benchmark | None = None) -> None:
        self.folder = folder
        self.benchmark: Benchmark = benchmark or Toy(3)
        self.diary = Diary()
        self.store = RunStore(folder)

    async def begin(self, provider: ToyProvider | None = None, **asked: Any) -> RunStore:
        """Begin the run; of the toy agent, unless another is asked for."""
        if provider is not None:
            asked = {"agent": "command", "command": TOY_COMMAND, "model": MODEL, "max_turns": provider.turns} | asked
        asked = {"isolation": False, "concurrency": 2} | asked
        config = await configure(Asked(**asked), self.benchmark, self.benchmark.tasks())
        self.store = begin(config, root=self.folder / "results")
        return self.store

    async def sit(self, provider: ToyProvider | None = None, **sitting: Any) -> Ending:
        """One sitting, with little patience."""
        access = (
            Access(base_url=provider.url, key=Secret(KEY), retry=QUICK, idle_seconds=0.25) if provider else Access()
        )
        options: dict[str, Any] = {
            "access": access,
            "retry": Retry(tries=3, base_seconds=0.01),
            "notice_seconds": 1.0,
        } | sitting
        return await drive(self.store, self.benchmark, watch=self.diary, sitting=Sitting(**options))

    async def run(self, provider: ToyProvider | None = None, **asked: Any) -> Ending:
        """Begin, and go on to the end."""
        await self.begin(provider, **asked)
        return await self.sit(provider)

    def outcomes(self) -> dict[str, tuple[str, str, int]]:
        """Status, cause and the number of attempts, by task."""
        return {
            result.task_id: (result.status.value, result.cause.value, len(result.attempts))
            for result in self.store.results()
        }
