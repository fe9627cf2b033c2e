"""What the driver and the nodes send each other."""

from collections.abc import Mapping
from dataclasses import dataclass

from proctor.core import VERSION
from proctor.core.benchmark import TaskHealth
from proctor.core.causes import Cause
from proctor.core.evaluation import Prediction, TaskEvaluation
from proctor.core.machine import Machine
from proctor.core.record import Record
from proctor.core.request import EvaluateRequest
from proctor.core.run import RunConfig, Trial
from proctor.gateway import ExchangeFinished
from proctor.results.attempt_record import AttemptRecord
from proctor.runner.models import ModelChoice

# The most that one message carries of a file.
MAX_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class NodeRun:
    """A run that a node is to work on.

    Attributes:
        versions: of the programs on the driver's machine, now.
        script: the script that responds as the model, and the name of its file.
        prices: the user's table of prices, and the name of its file.
    """

    config: RunConfig
    model: ModelChoice | None
    versions: Mapping[str, str]
    script: tuple[str, bytes] | None = None
    prices: tuple[str, bytes] | None = None


@dataclass(frozen=True, slots=True)
class NodeSetup:
    """What a node opens for a session; the key of the model's provider is sent by itself."""

    runs: tuple[NodeRun, ...]
    grace_seconds: float
    limit_usd: float | None
    spent_usd: float


class NodeInfo(Record):
    """What a node says of itself; `problems`: why it cannot be used. `machine`: None where it could not say it."""

    name: str
    machine: Machine | None
    proctor: str
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeAttemptJob:
    """An attempt that a node is to make.

    Attributes:
        earlier_recordings: the contents of the recordings of earlier attempts at the trial.
        replayed: the recording that responds as the model, where one does.
    """

    run: str
    trial: Trial
    number: int
    spent_usd: float
    earlier_recordings: tuple[bytes, ...] = ()
    replayed: bytes | None = None

    @property
    def key(self) -> str:
        """Names the attempt among all that the node makes."""
        return attempt_key(self.run, self.trial, self.number)


@dataclass(frozen=True, slots=True)
class NodeGradingJob:
    """A submission that a node is to grade."""

    run: str
    key: str
    prediction: Prediction


@dataclass(frozen=True, slots=True)
class EvaluationSetup:
    """What a node opens to grade without an agent; `proctor`: the driver's version."""

    request: EvaluateRequest
    benchmark: str
    source: str
    split: str | None
    data_digest: str
    proctor: str = VERSION


@dataclass(frozen=True, slots=True)
class NodeEvaluationJob:
    """A prediction that a node is to grade; without one, the task is validated."""

    key: str
    task_id: str
    prediction: Prediction | None


@dataclass(frozen=True, slots=True)
class Progress:
    """What is being done now."""

    message: str


@dataclass(frozen=True, slots=True)
class ModelResponded:
    """The model has responded to the agent."""

    event: ExchangeFinished


@dataclass(frozen=True, slots=True)
class StopRun:
    """No later trial can fare better."""

    cause: Cause
    detail: str


@dataclass(frozen=True, slots=True)
class ImageUsed:
    """The image that a task's environment is made from, empty for the default one, and what it is on this node."""

    image: str
    digest: str


@dataclass(frozen=True, slots=True)
class RecordingBytes:
    """A part of the attempt's recording, of whole lines or a piece of a long one; what has been spent by then."""

    offset: int
    data: bytes
    spent_usd: float


@dataclass(frozen=True, slots=True)
class FileBytes:
    """A part of a file of the logs or of the grader's evidence, by its relative path."""

    name: str
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class AttemptEnded:
    """The attempt is over; all of its files have been sent."""

    record: AttemptRecord
    files: dict[str, bytes]
    recording_size: int
    recording_digest: str


@dataclass(frozen=True, slots=True)
class GradingEnded:
    """The submission is graded; all evidence has been sent. `folder` is where it was on the node."""

    evaluation: TaskEvaluation
    folder: str


@dataclass(frozen=True, slots=True)
class HealthFound:
    """The task is validated; `folder` is where its evidence was on the node."""

    health: TaskHealth
    folder: str


@dataclass(frozen=True, slots=True)
class DigestFound:
    """The digest of a task's environment on this node."""

    digest: str


@dataclass(frozen=True, slots=True)
class StageFailed:
    """It could not be done. `usage`: nothing like it can be done at all."""

    cause: Cause
    detail: str
    usage: bool = False


@dataclass(frozen=True, slots=True)
class SpoolEntry:
    """A recording that a node still has of an attempt whose end the driver has not acknowledged."""

    key: str
    run: str
    trial: Trial
    number: int
    size: int


NodeMessage = (
    Progress
    | ModelResponded
    | StopRun
    | ImageUsed
    | RecordingBytes
    | FileBytes
    | AttemptEnded
    | GradingEnded
    | HealthFound
    | DigestFound
    | StageFailed
)
NodeMessages = list[NodeMessage]


def run_key(config: RunConfig) -> str:
    """Names a run among all that a node has ever worked for: other results folders have a run-001, too."""
    return f"{config.benchmark}/{config.run_id}/{config.created_at}"


def attempt_key(run: str, trial: Trial, number: int) -> str:
    """Names an attempt of any run; `run` is its key."""
    return f"{run}/{trial.number}/{number}/{trial.task_id}"
