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


class PublicPart(Record):
    """All that the agent is given.

    Attributes:
        alias: the task's name for the agent, where its id gives too much away.
    """

    instruction: str
    source: RepositorySource | DirectorySource | ImageSource
    submission: SubmissionKind = SubmissionKind.PATCH
    network: Network = Network.MODEL
    limits: Limits = Limits()
    alias: str | None = None


class Oracle(Record):
    """The reference solution: a patch, or (without a patch kind) the script that a state-graded oracle runs."""

    text: str
    patch_kind: PatchKind | None = None


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
