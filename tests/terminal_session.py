"""A program on a terminal, as a person would run it, and the recording of it.

Recordings are asciicasts (version 2): a line for the terminal's size, then a line for each piece of output. Those in
``tests/samples/claude_code_screens`` are of the real Claude Code.
"""

import codecs
import fcntl
import json
import os
import pty
import select
import signal
import struct
import termios
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from proctor.agents.h2.terminal import COLUMNS, ROWS, Terminal
from waiting import PATIENCE

SAMPLES = Path(__file__).parent / "samples" / "claude_code_screens"


class TerminalSession:
    """What a program has written so far, and the screen that this makes."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._started = time.monotonic()
        self._decode = codecs.getincrementaldecoder("utf-8")("replace")
        self._terminal = Terminal()
        self.events: list[tuple[float, str]] = []
        self.ended = False

    @property
    def screen(self) -> str:
        return self._terminal.text

    def until(self, happens: Callable[[str], object], what: str) -> str:
        """Wait for the screen to show something, and for the program to have painted all of it; the screen."""
        deadline = time.monotonic() + 2 * PATIENCE
        while time.monotonic() < deadline and not self.ended:
            came = self._read(0.5)
            # Nothing more comes for a moment; or more and more, as from a spinner.
            if happens(self.screen) and (not came or all(self._read(0.2) for _ in range(20))):
                return self.screen
        raise AssertionError(f"{what} did not appear on the screen:\n{self.screen}")

    def press(self, keys: str) -> None:
        os.write(self._descriptor, keys.encode())

    def save(self, path: Path) -> None:
        head = {"version": 2, "width": COLUMNS, "height": ROWS}
        lines = [head, *([round(at, 3), "o", text] for at, text in self.events)]
        path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")

    def _read(self, seconds: float) -> bool:
        if not select.select([self._descriptor], [], [], seconds)[0]:
            return False
        try:
            written = os.read(self._descriptor, 1 << 16)
        except OSError:
            written = b""
        self.ended = not written
        text = self._decode.decode(written)
        self.events.append((time.monotonic() - self._started, text))
        self._terminal.feed(text.encode())
        return bool(written)


@contextmanager
def on_terminal(
    command: Sequence[str | Path], *, cwd: Path, environ: Mapping[str, str], recording: Path | None = None
) -> Iterator[TerminalSession]:
    """Run a program on a terminal; it is killed at the end of the block, and what it wrote is kept as a recording."""
    pid, descriptor = pty.fork()
    if pid == 0:
        try:
            os.chdir(cwd)
            os.execvpe(command[0], [str(word) for word in command], dict(environ))
        finally:
            os._exit(127)
    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    session = TerminalSession(descriptor)
    try:
        yield session
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(descriptor)
        if recording is not None:
            session.save(recording)


def recorded_output(name: str) -> bytes:
    """All that was written in a recorded session."""
    lines = (SAMPLES / f"{name}.cast").read_text(encoding="utf-8").splitlines()
    return "".join(json.loads(line)[2] for line in lines[1:]).encode()
