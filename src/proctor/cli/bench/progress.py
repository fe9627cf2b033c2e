"""How a run is shown while it goes on: a live table on a terminal, plain lines elsewhere."""

import sys
import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from proctor.cli.output import note
from proctor.core.causes import CONSEQUENCES, Cause, Status
from proctor.core.result import TaskResult
from proctor.core.run import RunConfig
from proctor.gateway import Answered
from proctor.results import RunStore
from proctor.runner.records import Slot
from proctor.runner.resume import Standing
from proctor.runner.spent import Spending

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console, ConsoleOptions, RenderableType

_MINUTE: Final = 60.0
_HOUR: Final = 3600.0


class Board:
    """What is known of a run in progress. Implements `runner.run.Watcher`."""

    def __init__(self, store: RunStore, config: RunConfig, settled: Sequence[Standing], paid: Spending) -> None:
        self.name = f"{store.folder.parent.name}/{store.run_id}"
        self.label = ""
        self.config = config
        self.total = len(config.tasks) * config.samples
        self.statuses: Counter[Status] = Counter()
        for standing in settled:
            if standing.result is not None:
                self.statuses[CONSEQUENCES[standing.result].status or Status.UNRESOLVED] += 1
        self.cost = paid.known_usd
        self.unpriced = False
        self.running: dict[Slot, str] = {}
        self.left = 0
        self.stop = ""
        self._began = time.monotonic()
        self._ended = 0
        self._heard: deque[tuple[float, int]] = deque()

    def began(self, slot: Slot) -> None:
        """A slot's attempt has begun."""
        self.running[slot] = "starting"

    def doing(self, slot: Slot, what: str) -> None:
        """What is being done for a slot now."""
        self.running[slot] = what

    def heard(self, slot: Slot, event: Answered) -> None:  # noqa: ARG002 - as the runner tells it
        """The model has answered."""
        self._heard.append((time.monotonic(), event.tokens.total))
        self.unpriced = self.unpriced or event.cost_usd is None
        self.cost += event.cost_usd or 0.0

    def retrying(self, slot: Slot, cause: Cause, detail: str, seconds: float) -> None:  # noqa: ARG002 - likewise
        """An attempt will be made again."""
        self.running[slot] = f"waits {seconds:.0f} s to try again after {cause.value}"

    def ended(self, slot: Slot, result: TaskResult | None) -> None:
        """A slot is done with."""
        self.running.pop(slot, None)
        if result is None:
            self.left += 1
        else:
            self._ended += 1
            self.statuses[result.status] += 1

    def stopping(self, cause: Cause, detail: str) -> None:
        """No further slot is begun."""
        self.stop = f"stopping ({cause.value}): {detail}"

    @property
    def done(self) -> int:
        """How many results are recorded, those of earlier sittings included."""
        return self.statuses.total()

    def headline(self) -> str:
        """One line on how far the run is."""
        limit = self.config.budget.run_usd
        cost = f"${self.cost:.4f}{'+?' if self.unpriced else ''}{f' of ${limit:.2f}' if limit is not None else ''}"
        return (
            f"{self.done}/{self.total} done, {len(self.running)} running, "
            f"{self.statuses[Status.RESOLVED]} resolved, {self.statuses[Status.ERROR]} errors, "
            f"{cost}, {self._tokens_per_minute():,.0f} tokens/min, {self._estimate()}"
        )

    def _tokens_per_minute(self) -> float:
        now = time.monotonic()
        while self._heard and now - self._heard[0][0] > _MINUTE:
            self._heard.popleft()
        minutes = min(max(now - self._began, 1.0), _MINUTE) / _MINUTE
        return sum(tokens for _, tokens in self._heard) / minutes

    def _estimate(self) -> str:
        """How long what is left will take at the pace of this sitting."""
        if not self._ended:
            return "no estimate yet"
        seconds = (time.monotonic() - self._began) / self._ended * (self.total - self.done - self.left)
        if seconds >= _HOUR:
            return f"{seconds / _HOUR:.1f} h left"
        return f"{seconds / _MINUTE:.0f} min left" if seconds >= _MINUTE else f"{seconds:.0f} s left"


class _Lines(Board):
    """Plain lines: one for every slot that ends or is tried again."""

    def retrying(self, slot: Slot, cause: Cause, detail: str, seconds: float) -> None:
        super().retrying(slot, cause, detail, seconds)
        note(f"retry in {seconds:.0f} s: {self._prefix}{slot.task_id}: {cause.value}: {detail}")

    def ended(self, slot: Slot, result: TaskResult | None) -> None:
        super().ended(slot, result)
        if result is not None:
            which = slot.task_id if self.config.samples == 1 else f"{slot.task_id} #{slot.sample}"
            why = f": {_trouble(result)}" if result.status is Status.ERROR else ""
            note(f"{self._prefix}[{self.done}/{self.total}] {which} {result.status.value} ({result.cause.value}){why}")

    def stopping(self, cause: Cause, detail: str) -> None:
        super().stopping(cause, detail)
        note(self.stop)

    @property
    def _prefix(self) -> str:
        return f"{self.label}: " if self.label else ""


def _trouble(result: TaskResult) -> str:
    """What went wrong, in one line."""
    last = result.attempts[-1].detail if result.attempts else ""
    return " ".join((result.verdict.reason if result.verdict is not None else last).split())


class Progress:
    """Shows runs where stderr goes, for the length of a `with` block; a `board` is what a run tells.

    Args:
        quiet: show nothing.
        labels: what runs that are made together are called, by their ids.
    """

    def __init__(self, *, quiet: bool, labels: Mapping[str, str] | None = None) -> None:
        self._quiet = quiet
        self._labels = labels or {}
        self._boards: list[Board] = []
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def board(self, store: RunStore, config: RunConfig, settled: Sequence[Standing], paid: Spending) -> Board:
        """A watcher of this run, shown from now on."""
        terminal = not self._quiet and sys.stderr.isatty()
        kind = Board if self._quiet or terminal else _Lines
        board = kind(store, config, settled, paid)
        board.label = self._labels.get(store.run_id, "")
        self._boards.append(board)
        if terminal and len(self._boards) == 1:
            self._show()
        return board

    def _show(self) -> None:
        from rich.console import Console  # noqa: PLC0415 - only a terminal needs it
        from rich.live import Live  # noqa: PLC0415

        console = Console(stderr=True)
        self._stack.enter_context(Live(_View(self._boards), console=console, refresh_per_second=4, transient=True))


class _View:
    """The boards on a terminal: a headline each, then a line for each slot that is running, as many as fit.

    The headline of a single board takes as many lines as it needs: cost and estimate stand at its end.
    """

    def __init__(self, boards: Sequence[Board]) -> None:
        self._boards = boards

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "Iterator[RenderableType]":
        from rich.text import Text  # noqa: PLC0415 - loaded already

        def line(text: str, style: str = "") -> Text:
            clean = "".join(letter if letter.isprintable() else " " for letter in text)
            return Text(clean, style=style, no_wrap=True, overflow="ellipsis")

        heads = [f"{board.label or board.name}  {board.headline()}" for board in self._boards]
        if len(heads) == 1:
            heads = [part.plain for part in Text(heads[0]).wrap(console, options.max_width)]
        for head in heads:
            yield line(head, "bold")
        stop = next((board.stop for board in self._boards if board.stop), "")
        if stop:
            yield line(stop, "red")
        room = max(1, (options.max_height or console.height) - 2 - len(heads))
        # Another thread draws: what it goes through must not change under it.
        running = [(board, slot, what) for board in self._boards for slot, what in list(board.running.items())]
        for board, slot, what in running[:room]:
            which = slot.task_id if slot.sample == 1 else f"{slot.task_id} #{slot.sample}"
            yield line(f"  {board.label}{': ' if board.label else ''}{which}  {what}")
        if len(running) > room:
            yield line(f"  and {len(running) - room} more")
