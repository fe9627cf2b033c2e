"""For a library that would crash or wait while this process ends: it is left out of that."""

import atexit
import os
import sys
from contextlib import suppress
from typing import NoReturn

_code: int | None = None


def require_abrupt_exit() -> None:
    """Have this process end without the clean-up of its libraries, with code 1 if `set_exit_code` is not called."""
    atexit.register(_exit)


def set_exit_code(code: int) -> None:
    """What this process exits with, if it ends abruptly."""
    global _code  # noqa: PLW0603 - there is one process
    _code = code


def _exit() -> NoReturn:
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    os._exit(1 if _code is None else _code)
