"""The most frequent error of runs, and what to do about it."""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from proctor.core.causes import Cause, Status
from proctor.core.formatting import truncate_line, unnamed_reason
from proctor.core.result import TaskResult

_REASON_CHARS: Final = 300
ADVICE: Final[dict[Cause, str]] = {
    Cause.PROVIDER_ERROR: "see whether the model's provider has a failure, and retry later",
    Cause.RATE_LIMITED: "retry with a lower --concurrency, or ask the provider for a higher limit",
    Cause.BAD_LOGIN: "check the key or the login; `proctor doctor` says which one is used",
    Cause.ENVIRONMENT_FAILED: "see what this machine can do with `proctor doctor`",
    Cause.ENGINE_GONE: "see that the Docker engine runs, with `proctor doctor`",
    Cause.NODE_LOST: "see the nodes with `proctor cluster doctor`, and resume the run",
    Cause.NO_NODE: "start a node with `ray start`, and resume the run",
    Cause.DISK_FULL: "free some space",
    Cause.GRADER_FAILED: "try the task by itself with `proctor bench validate`",
    Cause.MISSING_PROGRAM: "install what is missing; `proctor doctor` lists what Proctor uses",
    Cause.INTERNAL_ERROR: "see the traceback in the attempt's logs; `proctor bench show` says where they are",
    Cause.REPLAY_DIVERGED: "replay with the agent, the options and the data of the recording",
    Cause.RUN_BUDGET: "resume with a higher --max-cost",
    Cause.INTERRUPTED: "resume the run",
    Cause.INVALID_TASK: "correct the task's data; `proctor bench validate` names what is wrong",
    Cause.FLAKY: "leave the task out: `proctor bench validate --write-exclusions FILE` writes the list",
}


def most_frequent_error(results: Iterable[TaskResult]) -> str | None:
    """The error that most of these results have, how many have it, and what to do; None where none has one."""
    counts: Counter[tuple[Cause, str]] = Counter()
    first: dict[tuple[Cause, str], TaskResult] = {}
    for result in results:
        if result.status is Status.ERROR:
            kind = (result.cause, unnamed_reason(result.task_id, result.reason))
            counts[kind] += 1
            first.setdefault(kind, result)
    if not counts:
        return None
    ((kind, count),) = counts.most_common(1)
    example = first[kind]
    reason = truncate_line(example.reason.removeprefix(f"{example.task_id}: "), _REASON_CHARS)
    which = f"{example.task_id}{', …' if count > 1 else ''}"
    said = f": {reason}" if reason else ""
    advice = ADVICE[example.cause]
    return f"most frequent error, {count:,} of {counts.total():,} ({which}): {example.cause.value}{said}; {advice}"
