"""A task's own solution as a script, and the variables of tasks."""

import base64
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from proctor.benchmarks.harbor.task import SOLUTION_SCRIPT, HarborStep, HarborTask
from proctor.core.causes import Cause
from proctor.core.errors import InfrastructureError

_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


def solution_script(task: HarborTask, step: HarborStep, known: Mapping[str, str]) -> str:
    """One script that unpacks a step's solution where Harbor puts it, runs it, and takes it away again."""
    solution = Path(str(step.solution))
    lines = ["trap 'rm -rf /solution' EXIT", "mkdir -p /solution || exit 1"]
    for file in sorted(path for path in solution.rglob("*") if path.is_file()):
        place = shlex.quote(f"/solution/{file.relative_to(solution).as_posix()}")
        content = base64.encodebytes(file.read_bytes()).decode()
        lines += [f"mkdir -p $(dirname {place})", f"base64 -d >{place} <<'END'\n{content}END"]
    values = {
        name: _VARIABLE.sub(lambda match: known.get(match[1], match[2] or ""), text)
        for name, text in task.solution_variables.items()
    }
    lines += [f"export {name}={shlex.quote(value)}" for name, value in values.items()]
    lines += ["export DEBIAN_FRONTEND=noninteractive"]
    lines += [f"chmod +x /solution/{SOLUTION_SCRIPT} && /solution/{SOLUTION_SCRIPT}"]
    return "\n".join(lines) + "\n"


def resolve_variables(task: HarborTask, variables: Mapping[str, str], known: Mapping[str, str]) -> dict[str, str]:
    """The variables of a task, with ``${NAME}`` and ``${NAME:-default}`` filled in from this machine's.

    Raises:
        InfrastructureError: one that has no default is not set here.
    """

    def value(match: re.Match[str]) -> str:
        name = match[1]
        found: str | None = known.get(name, match[2])
        if found is None:
            what = f"{task.name} needs the variable {name}, which is not set"
            raise InfrastructureError(what, cause=Cause.NOT_RUNNABLE_HERE)
        return found

    return {name: _VARIABLE.sub(value, text) for name, text in variables.items()}
