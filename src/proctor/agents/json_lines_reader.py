"""The base of readers of programs that print one JSON object on each line."""

from abc import abstractmethod
from typing import Any, ClassVar, Generic, TypeVar

import msgspec

from proctor.agents.program_agent import ProgramReader, ProgramReport
from proctor.core.agent import ProgressCallback
from proctor.core.formatting import truncate_line
from proctor.core.result import ModelUsage, Tokens

E = TypeVar("E")


class JsonLinesReader(ProgramReader, Generic[E]):
    """Collects what a program's events say into its report.

    Attributes:
        decoder: of the program's events; a line that it cannot decode is not the program's.
    """

    decoder: ClassVar["msgspec.json.Decoder[Any]"]

    def __init__(self, on_progress: ProgressCallback, model: str) -> None:
        super().__init__(on_progress, model)
        self._finished = False
        self._finished_in_time: bool | None = None
        self._error = ""
        self._text = ""
        self._steps = 0
        self._requests = 0
        self._tokens: Tokens | None = None

    @abstractmethod
    def handle_event(self, event: E) -> None:
        """Take one event."""

    def handle_line(self, line: bytes) -> None:
        """Read one event."""
        try:
            event = self.decoder.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return
        self.handle_event(event)

    def on_interrupt(self) -> None:
        """Some programs say that they have finished when they are interrupted: that is not heard."""
        self._finished_in_time = self._finished

    def report(self) -> ProgramReport:
        """What the program has reported; without counts of tokens, where it has none."""
        usage: tuple[ModelUsage, ...] = ()
        if self._tokens is not None:
            usage = (ModelUsage(model=self._model, requests=self._requests, tokens=self._tokens, cost_usd=None),)
        finished = self._finished if self._finished_in_time is None else self._finished_in_time
        return ProgramReport(
            finished=finished, error=self._error, final_text=self._text, steps=self._steps, usage=usage
        )

    def _add_tokens(self, tokens: Tokens) -> None:
        self._tokens = tokens if self._tokens is None else self._tokens + tokens

    def _show_text(self, text: str) -> None:
        """Keep what the model has said last, and report it as progress."""
        self._text = text
        self._on_progress(truncate_line(text))

    def _show_tool(self, name: str, given: Any) -> None:
        """Count the use of a tool as a step, and report it as progress, with its command where it has one."""
        self._steps += 1
        arguments = given if isinstance(given, dict) else {}
        self._on_progress(truncate_line(f"{name} {arguments.get('command', '')}".strip()))
