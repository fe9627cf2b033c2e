"""What is read of Harbor's job folders."""

from datetime import datetime
from typing import Any

import msgspec

from proctor.core.record import Record


class HarborModelInfo(Record):
    name: str
    provider: str | None = None


class HarborAgentInfo(Record):
    name: str
    version: str
    model_info: HarborModelInfo | None = None


class HarborAgentResult(Record):
    n_input_tokens: int | None = None
    n_cache_tokens: int | None = None
    n_output_tokens: int | None = None
    cost_usd: float | None = None


class HarborRewards(Record):
    rewards: dict[str, float] | None = None


class HarborException(Record):
    exception_type: str
    exception_message: str


class HarborVersion(Record):
    version: str


class HarborLock(Record):
    """What is read of a job's lock: the Harbor that ran it."""

    harbor: HarborVersion | None = None


class HarborTiming(Record):
    """When a phase began and ended."""

    started_at: str | None = None
    finished_at: str | None = None


class HarborStepResult(Record):
    """One step of a trial that has several; its usage and times are here, and not with the trial."""

    step_name: str
    agent_result: HarborAgentResult | None = None
    verifier_result: HarborRewards | None = None
    exception_info: HarborException | None = None
    agent_execution: HarborTiming | None = None
    verifier: HarborTiming | None = None


class HarborTrial(Record):
    """What is read of a trial's result."""

    task_name: str
    trial_name: str
    agent_info: HarborAgentInfo
    task_checksum: str = ""
    source: str | None = None
    config: dict[str, Any] = msgspec.field(default_factory=dict)
    agent_result: HarborAgentResult | None = None
    verifier_result: HarborRewards | None = None
    exception_info: HarborException | None = None
    started_at: str | None = None
    finished_at: str | None = None
    agent_execution: HarborTiming | None = None
    verifier: HarborTiming | None = None
    step_results: tuple[HarborStepResult, ...] | None = None

    @property
    def steps(self) -> tuple[HarborStepResult, ...]:
        """Those that were begun; empty for a task without steps."""
        return self.step_results or ()

    @property
    def raised(self) -> HarborException | None:
        """What the trial ended with; that of its last step, where it has steps."""
        return self.exception_info or (self.steps[-1].exception_info if self.steps else None)

    @property
    def model(self) -> str | None:
        """The model's name, with its provider where one is given."""
        info = self.agent_info.model_info
        if info is None:
            return None
        return f"{info.provider}/{info.name}" if info.provider else info.name


def seconds_between(timing: HarborTiming | None) -> float:
    """How long a phase took; 0 when that is unknown."""
    if timing is None or timing.started_at is None or timing.finished_at is None:
        return 0.0
    try:
        ended, began = (datetime.fromisoformat(at) for at in (timing.finished_at, timing.started_at))
        return max(0.0, (ended - began).total_seconds())
    except (ValueError, TypeError):  # not a time, or only one of them has a time zone
        return 0.0
