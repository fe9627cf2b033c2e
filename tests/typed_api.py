"""What a type checker sees of `import proctor`: `make lint` checks this module, and nothing runs it."""

from typing import assert_type

import proctor
from proctor.core.result import ModelUsage


def resolved_tasks(name: str) -> list[str]:
    run = proctor.load_results(name)
    assert_type(run.task("a").usage, tuple[ModelUsage, ...])
    return [result.task_id for result in run if result.status is proctor.Status.RESOLVED]


def misspelt_option() -> None:
    # mypy is strict here: it fails as well where this is not the error that is ignored, or no error at all.
    proctor.run("core", agent="oracle", attemps=2)  # type: ignore[call-arg]
