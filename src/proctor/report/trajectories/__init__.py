"""Trajectories from what an attempt has left, in whatever form that is.

The gateway's recording comes first: it is there for every agent that talks to a model, knows what each answer cost,
and keeps the agents of a pod apart. An imported run has somebody else's trajectory, in ATIF.
"""

from pathlib import Path
from typing import Final

from proctor.core.errors import InvalidData
from proctor.core.trajectory import Trajectory
from proctor.report.trajectories.atif import from_atif, to_atif
from proctor.report.trajectories.claude_stream import read_stream
from proctor.report.trajectories.recording import read_recording
from proctor.results.attempt_record import RECORDING_FILE

__all__ = ["ATIF_FILE", "STREAM_FILE", "from_atif", "read_trajectory", "to_atif"]

ATIF_FILE: Final = "trajectory.json"
STREAM_FILE: Final = "stream.jsonl"


def read_trajectory(logs: Path, *, task_id: str, agent: str, version: str = "") -> Trajectory | None:
    """What was done at the attempt that has its logs here; None when nothing of it was kept.

    An attempt that is under way can be read too: what is there so far is what there is.

    Raises:
        InvalidData: something is there, and cannot be read.
    """
    if (logs / ATIF_FILE).is_file():
        return from_atif(_bytes(logs / ATIF_FILE), task_id=task_id, where=logs / ATIF_FILE)
    stream = logs / STREAM_FILE
    if (logs / RECORDING_FILE).is_file() and (logs / RECORDING_FILE).stat().st_size:
        outputs = read_stream(stream).outputs if stream.is_file() else {}
        return read_recording(logs / RECORDING_FILE, agent=agent, version=version, outputs=outputs)
    if stream.is_file() and stream.stat().st_size:
        return read_stream(stream).trajectory(task_id=task_id, agent=agent, version=version)
    return None


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidData(f"cannot read the trajectory: {error.strerror}", where=path) from error
