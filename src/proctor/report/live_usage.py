"""What a trial without a result has used so far, from the recordings of its attempts, which grow while it is read."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from proctor.core.result import Tokens, sum_costs


class _RecordedUsage(msgspec.Struct):
    model: str = ""
    tokens: Tokens = Tokens()
    estimated: bool = False


class _Line(msgspec.Struct):
    """As much of a line of a recording as says what was used; the rest is not decoded."""

    kind: str = ""
    number: int = 0
    usage: tuple[_RecordedUsage, ...] = ()
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True)
class LiveUsage:
    """Tokens and cost; the cost is None where a price is unknown, and `estimated_usd` of it is an upper estimate."""

    tokens: int = 0
    cost_usd: float | None = 0.0
    estimated_usd: float = 0.0


_DECODE = msgspec.json.Decoder(_Line).decode


@dataclass(slots=True)
class RecordingUsage:
    """The usage in one recording. Only what has been added since is read again."""

    file: Path
    _position: int = 0
    _exchanges: dict[int, _Line] = field(default_factory=dict)
    _marks: dict[int, _Line] = field(default_factory=dict)

    def read(self, *, ended: bool) -> LiveUsage:
        """What was used. Of an attempt that has `ended`, requests without a response were under way: an estimate."""
        self._read_new_lines()
        lines = list(self._exchanges.values())
        unanswered = [mark for number, mark in self._marks.items() if ended and number not in self._exchanges]
        cut = [line for line in lines if any(usage.estimated for usage in line.usage)]
        counted = [line for line in (*lines, *unanswered) if line.usage]
        return LiveUsage(
            tokens=sum(usage.tokens.total for line in counted for usage in line.usage),
            cost_usd=sum_costs(line.cost_usd for line in counted),
            estimated_usd=sum(line.cost_usd or 0.0 for line in (*cut, *unanswered)),
        )

    def _read_new_lines(self) -> None:
        try:
            with self.file.open("rb") as opened:
                opened.seek(self._position)
                data = opened.read()
        except FileNotFoundError:
            return
        end = data.rfind(b"\n") + 1
        self._position += end
        for text in data[:end].splitlines():
            try:
                line = _DECODE(text)
            except (msgspec.DecodeError, RecursionError):
                continue  # the page of the trial says what is wrong with it
            if line.kind == "cassette":
                self._exchanges, self._marks = {}, {}
            elif line.kind == "exchange":
                self._exchanges[line.number] = line
            elif line.kind == "mark":
                self._marks[line.number] = line


def sum_live_usage(usages: Iterable[LiveUsage]) -> LiveUsage:
    """The usage of several attempts."""
    every = list(usages)
    return LiveUsage(
        tokens=sum(one.tokens for one in every),
        cost_usd=sum_costs(one.cost_usd for one in every),
        estimated_usd=sum(one.estimated_usd for one in every),
    )
