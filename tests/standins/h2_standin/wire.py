"""The socket protocol: one JSON line to an agent, one back."""

import json
import socket
from pathlib import Path
from typing import Any

from h2_standin.directory import H2Error


def request(path: Path, message: dict[str, Any], *, timeout: float | None = None) -> dict[str, Any]:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(timeout)
        connection.connect(str(path))
        connection.sendall(json.dumps(message).encode() + b"\n")
        line = connection.makefile("rb").readline()
    reply: dict[str, Any] = json.loads(line)
    if not reply.get("ok"):
        raise H2Error(reply.get("error", "failed"))
    return reply


def listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(str(path))
        except OSError:
            return False
    return True
