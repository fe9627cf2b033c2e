"""Trajectories, read from what an attempt has stored.

The gateway's recording comes first: every agent that calls a model has one, it has the cost of each response, and it
separates the agents of a pod. An imported run has a trajectory of another tool, in ATIF.
"""

from pathlib import Path
from typing import Final

from proctor.core.errors import InvalidData
from proctor.core.record import read_bytes
from proctor.core.result import AgentMetrics, ModelUsage, TaskResult
from proctor.core.run import RunConfig
from proctor.core.trajectory import Step, Trajectory, sum_steps
from proctor.report.trajectories.atif_codec import from_atif, to_atif
from proctor.report.trajectories.claude_stream import read_stream
from proctor.report.trajectories.recording import read_recording
from proctor.results import RunStore
from proctor.results.attempt_record import RECORDING_FILE

__all__ = [
    "ATIF_FILE",
    "STREAM_FILE",
    "agent_version",
    "from_atif",
    "read_trajectory",
    "readable_trajectory",
    "to_atif",
    "trajectory_metrics",
    "trajectory_usage",
]

ATIF_FILE: Final = "trajectory.json"
STREAM_FILE: Final = "stream.jsonl"


def read_trajectory(logs: Path, *, task_id: str, agent: str, version: str = "") -> Trajectory | None:
    """The trajectory of the attempt with these logs; None when none was stored.

    An attempt that is still running can be read too, as far as it has come.

    Raises:
        InvalidData: there is one, and it cannot be read.
    """
    if (logs / ATIF_FILE).is_file():
        return from_atif(read_bytes(logs / ATIF_FILE), task_id=task_id, where=logs / ATIF_FILE)
    stream = logs / STREAM_FILE
    if (logs / RECORDING_FILE).is_file() and (logs / RECORDING_FILE).stat().st_size:
        outputs = read_stream(stream).outputs if stream.is_file() else {}
        return read_recording(logs / RECORDING_FILE, agent=agent, version=version, outputs=outputs)
    if stream.is_file() and stream.stat().st_size:
        return read_stream(stream).trajectory(task_id=task_id, agent=agent, version=version)
    return None


def readable_trajectory(run: RunStore, config: RunConfig, result: TaskResult, problems: list[str]) -> Trajectory | None:
    """The trajectory of a trial's last attempt; None when it has no steps, or cannot be read.

    One that cannot be read is added to `problems`, so that it does not stop an export.
    """
    if not result.attempts:
        return None
    logs = run.folder / result.attempts[-1].logs
    try:
        trajectory = read_trajectory(logs, task_id=result.task_id, agent=config.agent, version=agent_version(config))
    except InvalidData as error:
        problems.append(f"{result.task_id}: its trajectory cannot be read: {error.sentence}")
        return None
    return trajectory if trajectory is not None and trajectory.steps else None


def agent_version(config: RunConfig) -> str:
    """The version of the agent's program; empty when the run does not have it."""
    ours = {"proctor", "environment", "harbor"}
    own = {name: version for name, version in config.versions.items() if name not in ours}
    return own.get(config.agent) or next(iter(own.values()), "")


def trajectory_usage(trajectory: Trajectory) -> tuple[ModelUsage, ...]:
    """The usage of each model, summed over the steps."""
    by_model: dict[str, list[Step]] = {}
    for step in trajectory.steps:
        if step.source == "agent":
            by_model.setdefault(step.model or "unknown", []).append(step)
    return tuple(
        ModelUsage(model=model, requests=len(steps), tokens=totals.tokens, cost_usd=totals.cost_usd)
        for model, steps in sorted(by_model.items())
        for totals in [sum_steps(steps)]
    )


def trajectory_metrics(trajectory: Trajectory) -> AgentMetrics:
    """The numbers of agents, turns, tool calls and compactions."""
    return AgentMetrics(
        agents=max(1, len({lane.agent for lane in trajectory.lanes})),
        turns=sum(step.source == "agent" for step in trajectory.steps),
        steps=sum(len(step.calls) for step in trajectory.steps),
        compactions=sum(step.kind == "compaction" for step in trajectory.steps),
    )
