"""How a run is shown while it goes on: a live table on a terminal, plain lines elsewhere."""

import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from proctor.cli.output import note
from proctor.core.causes import Cause, Status
from proctor.core.result import TaskResult
from proctor.core.run import RunConfig
from proctor.gateway import Answered
from proctor.results import RunStore
from proctor.runner.records import Slot

if TYPE_CHECKING:
    from rich.console import RenderableType

_MINUTE = 60.0


class Board:
    """What is known of a run in progress. Implements `runner.run.Watcher`."""

    def __init__(self, config: RunConfig) -> None:
        self.config = config
        self.total = len(config.tasks) * config.samples
        self.ended_slots = 0
        self.statuses: Counter[Status] = Counter()
        self.cost = 0.0
        self.unpriced = False
        self.tokens = 0
        self.running: dict[Slot, str] = {}
        self.started = time.monotonic()

    def began(self, slot: Slot) -> None:
        """A slot's attempt has begun."""
        self.running[slot] = "starting"

    def doing(self, slot: Slot, what: str) -> None:
        """What is being done for a slot now."""
        self.running[slot] = what

    def heard(self, slot: Slot, event: Answered) -> None:  # noqa: ARG002 - as the runner tells it
        """The model has answered."""
        self.tokens += event.tokens.total
        self.unpriced = self.unpriced or event.cost_usd is None
        self.cost += event.cost_usd or 0.0

    def retrying(self, slot: Slot, cause: Cause, detail: str, seconds: float) -> None:  # noqa: ARG002 - likewise
        """An attempt will be made again."""
        self.running[slot] = f"waiting {seconds:.0f} s to try again after {cause.value}"

    def ended(self, slot: Slot, result: TaskResult | None) -> None:
        """A slot is done with."""
        self.running.pop(slot, None)
        self.ended_slots += 1
        if result is not None:
            self.statuses[result.status] += 1

    def headline(self) -> str:
        """One line on how far the run is."""
        seconds = max(time.monotonic() - self.started, 0.001)
        limit = self.config.budget.run_usd
        cost = f"${self.cost:.4f}{'+?' if self.unpriced else ''}{f' of ${limit:.2f}' if limit is not None else ''}"
        left = self.total - self.ended_slots
        eta = f"{seconds / self.ended_slots * left / _MINUTE:.1f} min left" if self.ended_slots else "no estimate yet"
        return (
            f"{self.ended_slots}/{self.total} done, {len(self.running)} running, "
            f"{self.statuses[Status.RESOLVED]} resolved, {self.statuses[Status.ERROR]} errors, "
            f"{cost}, {self.tokens / seconds * _MINUTE:,.0f} tokens/min, {eta}"
        )


class _Lines(Board):
    """Plain lines: one for every slot that ends or is tried again."""

    def retrying(self, slot: Slot, cause: Cause, detail: str, seconds: float) -> None:
        super().retrying(slot, cause, detail, seconds)
        note(f"retry in {seconds:.0f} s: {slot.task_id}: {cause.value}: {detail}")

    def ended(self, slot: Slot, result: TaskResult | None) -> None:
        super().ended(slot, result)
        said = f"{result.status.value} ({result.cause.value})" if result else "left for later"
        note(f"[{self.ended_slots}/{self.total}] {slot.task_id} {said}")


@contextmanager
def watching(store: RunStore, config: RunConfig, *, quiet: bool) -> Iterator[Board]:
    """A watcher that fits where stderr goes."""
    if quiet:
        yield Board(config)
    elif sys.stderr.isatty():
        yield from _live(store, config)
    else:
        yield _Lines(config)


def _live(store: RunStore, config: RunConfig) -> Iterator[Board]:
    from rich.console import Console, Group  # noqa: PLC0415 - only a terminal needs it
    from rich.live import Live  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    board = Board(config)

    class _View:
        def __rich_console__(self, console: Console, options: Any) -> "Iterator[RenderableType]":
            rows = [Text(f"{store.folder.parent.name}/{store.run_id}  {board.headline()}", overflow="ellipsis")]
            rows += [
                Text(f"  {slot.task_id}  {what}", no_wrap=True, overflow="ellipsis")
                for slot, what in list(board.running.items())
            ]
            yield Group(*rows)

    with Live(_View(), console=Console(stderr=True), refresh_per_second=4, transient=True):
        yield board
