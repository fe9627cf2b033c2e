"""Several files in the output of one command: each begins with a line that holds a mark, a kind and a name."""

import secrets
from collections.abc import Callable

FrameHandler = Callable[[str, str, bytes], None]


def new_mark() -> str:
    """A mark that no file holds."""
    return f"=={secrets.token_hex(16)}=="


class FrameReader:
    """Splits output into frames as it arrives.

    Args:
        mark: what the first line of each frame begins with.
        on_content: is given a frame's kind and name, and some of its content; at least once for each frame. The line
            end before a mark is not part of the content.
    """

    def __init__(self, mark: str, on_content: FrameHandler) -> None:
        self._mark = f"{mark} ".encode()
        self._on_content = on_content
        self._rest = b""
        self._frame: tuple[str, str] | None = None
        self._pending = b""
        self.complete = False

    def feed(self, data: bytes) -> None:
        """Take some output."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            if line.startswith(self._mark):
                self._begin(line)
            elif self._frame is not None:
                # The last line end of a frame is ours: each is held back until the next line shows that it was not.
                if self._pending:
                    self._on_content(*self._frame, self._pending)
                self._pending = line + b"\n"

    def _begin(self, line: bytes) -> None:
        if self._frame is not None:
            self._on_content(*self._frame, self._pending.removesuffix(b"\n"))
        kind, _, name = line.removeprefix(self._mark).decode("utf-8", "replace").partition(" ")
        self._pending = b""
        self._frame = (kind, name)
        self.complete = kind == "end"
