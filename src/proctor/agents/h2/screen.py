"""The text on an agent's terminal, which may show why it does not start."""

import json
import re
import socket
import struct
import time
from pathlib import Path
from typing import Final

from proctor.sandboxes.agent_sockets import connectable_path, list_endpoints

_ROWS: Final = 22
_COLUMNS: Final = 80
_LARGEST: Final = 1 << 20
_LINES: Final = 12
# A cursor that is moved elsewhere begins another line; all other sequences only colour what stands there.
_MOVES: Final = re.compile(r"\x1b\[[0-9;]*[Hf]|\r\n|\x1b\[[0-9;]*[ABEF]")
_RIGHT: Final = re.compile(r"\x1b\[[0-9]*[CG]")
_SEQUENCES: Final = re.compile(
    r"\x1b(?:\[[0-9;?<>=]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-~])|[\x00-\x09\x0b-\x1f]"
)


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
            connection.sendall(json.dumps({"type": "attach", "cols": _COLUMNS, "rows": _ROWS}).encode() + b"\n")
            return plain_screen(_receive_frames(connection, deadline))
    except OSError:
        return ""


def _receive_frames(connection: socket.socket, deadline: float) -> bytes:
    """The data frames that come until nothing comes any more."""
    received = bytearray()
    while len(received) < _LARGEST and (left := deadline - time.monotonic()) > 0:
        connection.settimeout(min(left, 1.0))
        try:
            chunk = connection.recv(1 << 16)
        except TimeoutError:
            break
        if not chunk:
            break
        received += chunk
    _, _, frames = bytes(received).partition(b"\n")
    painted = b""
    while len(frames) >= 5:  # noqa: PLR2004 - a frame's head: one byte for its kind, four for its length
        kind, length = struct.unpack(">BI", frames[:5])
        if kind == 0:
            painted += frames[5 : 5 + length]
        frames = frames[5 + length :]
    return painted


def plain_screen(painted: bytes) -> str:
    """The text of a painted screen, without what only a terminal understands; each line once."""
    text = _RIGHT.sub(" ", _MOVES.sub("\n", painted.decode("utf-8", "replace")))
    lines = [" ".join(_SEQUENCES.sub("", line).split()) for line in text.splitlines()]
    return "\n".join(list(dict.fromkeys(line for line in lines if line))[-_LINES:])
