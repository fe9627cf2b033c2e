"""What static analysis says of the library that was written: a number of findings from each tool that is there."""

import json
import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from proctor.core.environment import Environment, Mount

_RUFF: Final = "/proctor/ruff"
_SECONDS: Final = 300.0


def tool_mounts() -> tuple[Mount, ...]:
    """Our own ruff, where we have one: it is one file, and runs anywhere."""
    beside = Path(sys.executable).with_name("ruff")
    found = str(beside) if beside.is_file() else shutil.which("ruff")
    return (Mount(source=str(Path(found).resolve()), target=_RUFF),) if found else ()


async def count_findings(environment: Environment, source: str) -> dict[str, float]:
    """How much each tool finds in `source`, whatever configuration lies in the workspace. Nothing is changed."""
    quoted = shlex.quote(source)
    commands: dict[str, tuple[str, Callable[[Any], int]]] = {
        "ruff": (f"{_RUFF} check --isolated --no-cache --quiet --output-format json {quoted}", len),
        "pyright": (f"pyright --outputjson {quoted}", lambda said: int(said["summary"]["errorCount"])),
    }
    found = {}
    for name, (command, count) in commands.items():
        done = await environment.exec(["sh", "-c", command], timeout=_SECONDS)
        try:
            found[name] = float(count(json.loads(done.stdout)))
        except (ValueError, KeyError, TypeError):
            continue  # the tool is not there, or has nothing to say
    return found
