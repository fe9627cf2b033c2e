"""A program on a terminal of a given width."""

import fcntl
import os
import pty
import struct
import subprocess
import termios
from collections.abc import Mapping, Sequence
from pathlib import Path


def on_terminal(
    command: Sequence[str], *, width: int, env: Mapping[str, str], cwd: Path | None = None
) -> tuple[int, list[str]]:
    """Run a command with its output on a terminal; its exit code, and the lines that it printed there."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    clean = {name: value for name, value in env.items() if name not in {"COLUMNS", "LINES"}}
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=theirs, stderr=subprocess.PIPE, env=clean, cwd=cwd
    ) as job:
        os.close(theirs)
        printed = b""
        try:
            while piece := os.read(ours, 65536):
                printed += piece
        except OSError:  # Linux says that the other side is closed
            pass
        job.communicate()
    os.close(ours)
    return job.returncode, printed.decode().replace("\r\n", "\n").splitlines()
