"""A task: what the agent is shown, and what it never sees."""

from enum import StrEnum
from typing import Any, Literal

from msgspec import field

from proctor.core.environment import Limits, Network
from proctor.core.record import Record
from proctor.core.submission import PatchKind


class SubmissionKind(StrEnum):
    """What the submission of a task is."""

    PATCH = "patch"
    STATE = "state"
    SCORE_LOG = "score_log"


class RepositorySource(Record, tag="repository"):
    """A commit of a git repository; the workspace holds its history and nothing later."""

    url: str
    commit: str


class DirectorySource(Record, tag="directory"):
    """A plain directory on this machine."""

    path: str


class ImageSource(Record, tag="image"):
    """A container image that already holds the code."""

    image: str
    workdir: str


class McpServer(Record):
    """A server of tools that a task brings for its agent, in the environment or reached from it.

    Attributes:
        url: for a server that is reached; `command` and `args`: for one that the agent starts.
    """

    name: str
    transport: Literal["stdio", "sse", "streamable-http", "http"] = "sse"
    url: str | None = None
    command: str | None = None
    args: tuple[str, ...] = ()


class TaskStep(Record):
    """One of several instructions that an agent is given, one after the other, in the same environment."""

    name: str
    instruction: str
    wall_seconds: float | None = None


class PublicPart(Record):
    """All that the agent is given.

    Attributes:
        alias: the task's name for the agent, where its id gives too much away.
        steps: of a task that has several; `instruction` is that of the first.
        mcp_servers, skills_dir: for agents that can use them.
    """

    instruction: str
    source: RepositorySource | DirectorySource | ImageSource
    submission: SubmissionKind = SubmissionKind.PATCH
    network: Network = Network.MODEL
    limits: Limits = Limits()
    alias: str | None = None
    steps: tuple[TaskStep, ...] = ()
    mcp_servers: tuple[McpServer, ...] = ()
    skills_dir: str | None = None


class Oracle(Record):
    """The reference solution: a patch, or (without a patch kind) the script that a state-graded oracle runs.

    Attributes:
        steps: the scripts of the steps of a task that has several, by their names.
    """

    text: str
    patch_kind: PatchKind | None = None
    steps: dict[str, str] = field(default_factory=dict)


class PrivatePart(Record):
    """The oracle, the tests that decide, and what is protected. It never enters the agent's environment."""

    oracle: Oracle | None = None
    fail_to_pass: tuple[str, ...] = ()
    pass_to_pass: tuple[str, ...] = ()
    protected: tuple[str, ...] = ()
    extra: dict[str, Any] = field(default_factory=dict)


class Task(Record):
    """One problem of a benchmark.

    Attributes:
        categories: what reports break results down by: repository, language, difficulty, …
        created: the day of the change that it was made from, as in 2026-06-30, where that is known.
    """

    id: str
    benchmark: str
    public: PublicPart
    private: PrivatePart
    categories: dict[str, str] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    created: str | None = None
    schema_version: Literal["proctor.task@2"] = "proctor.task@2"
