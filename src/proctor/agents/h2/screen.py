"""The text on an agent's terminal, which may show why it does not go on: a dialog that waits for a person."""

import json
import re
import socket
import struct
import time
from pathlib import Path
from typing import Final

from proctor.agents.h2.terminal import COLUMNS, ROWS, Terminal
from proctor.sandboxes.agent_sockets import connectable_path, list_endpoints

_LARGEST: Final = 1 << 20
# How long nothing has to come for the screen to be painted.
_QUIET_SECONDS: Final = 0.3
_POINTER: Final = "\N{HEAVY RIGHT-POINTING ANGLE QUOTATION MARK ORNAMENT}"
_RULE: Final = re.compile(r"[╭╰├ ]*[─━]{10,}")
# The option that Enter would choose.
_CHOSEN: Final = re.compile(rf"[ │]*{_POINTER} *\S")
_KEYS: Final = re.compile(r"\b(?:Enter|Esc) to (?:confirm|select|submit|continue|cancel|exit)\b", re.IGNORECASE)
# What stands below the prompt: the permission mode, or a hint.
_FOOTER: Final = re.compile(r" *(?:[⏵⏸]|\? for shortcuts)")
# What h2 itself adds to a screen: a bar with the agent's state, and a prompt.
_H2_BAR: Final = re.compile(r" ?\S+ \| .* \| |\S+ >$")
# A dialog that does not fit on the screen shows its text, and not its options.
_LEAST_LINES: Final = 3


def screen_of(home: Path, agent: str, *, seconds: float = 3.0) -> str:
    """The lines on an agent's terminal; empty when it cannot be reached from here.

    Args:
        home: the sandbox on the host.
        agent: whose.
        seconds: how long to wait for the screen to be painted.
    """
    found = [endpoint for endpoint in list_endpoints(home) if endpoint.file == f"agent.{agent}.sock"]
    if not found:
        return ""
    deadline = time.monotonic() + seconds
    try:
        with socket.socket(socket.AF_UNIX) as connection, connectable_path(found[0]) as path:
            connection.settimeout(seconds)
            connection.connect(path)
            connection.sendall(json.dumps({"type": "attach", "cols": COLUMNS, "rows": ROWS}).encode() + b"\n")
            return read_screen(_receive_frames(connection, deadline))
    except OSError:
        return ""


def _receive_frames(connection: socket.socket, deadline: float) -> bytes:
    """The data frames that come until nothing comes for a moment."""
    received = bytearray()
    painted = b""
    while len(received) < _LARGEST and (left := deadline - time.monotonic()) > 0:
        connection.settimeout(min(left, _QUIET_SECONDS) if painted else left)
        try:
            chunk = connection.recv(1 << 16)
        except TimeoutError:
            break
        if not chunk:
            break
        received += chunk
        painted = _painted(bytes(received))
    return painted


def _painted(received: bytes) -> bytes:
    _, _, frames = received.partition(b"\n")
    painted = b""
    while len(frames) >= 5:  # noqa: PLR2004 - a frame's head: one byte for its kind, four for its length
        kind, length = struct.unpack(">BI", frames[:5])
        if kind == 0:
            painted += frames[5 : 5 + length]
        frames = frames[5 + length :]
    return painted


def read_screen(painted: bytes) -> str:
    """The lines of a screen on which this was painted."""
    terminal = Terminal()
    terminal.feed(painted)
    return terminal.text


def lines_of(screen: str) -> list[str]:
    """The lines of a screen that say something."""
    return [" ".join(line.split()) for line in screen.splitlines() if line.strip()]


def find_dialog(screen: str) -> str | None:
    """The dialog that waits on a screen for a person, in one line; None when there is none.

    A dialog of Claude Code stands in the place of the prompt, below a line: a text, a list of options, the keys to
    press. What an agent has written, be it a list that looks like one, stands above the prompt.
    """
    rows = [row for row in screen.splitlines() if not _H2_BAR.match(row)]
    rules = [number for number, row in enumerate(rows) if _RULE.match(row)]
    if any(rows[above + 1].startswith(_POINTER) for above in rules[:-1]):
        return None
    chosen = max((number for number, row in enumerate(rows) if _CHOSEN.match(row)), default=None)
    if chosen is not None and any(_KEYS.search(row) for row in rows[chosen:]):
        # A list of options may have lines of its own below it.
        rules = [number for number in rules if number < chosen]
        least = 1
    elif rules:
        least = _LEAST_LINES
    else:
        return None
    text = lines_of("\n".join(rows[rules[-1] + 1 :] if rules else rows))
    return " / ".join(text) if len(text) >= least and not _FOOTER.match(text[0]) else None
