"""A task of Harbor's format as records, with the defaults of its schema filled in."""

import posixpath
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Literal

from msgspec import field

from proctor.core.record import Record
from proctor.core.task import McpServer

TEST_SCRIPT: Final = "test.sh"
SOLUTION_SCRIPT: Final = "solve.sh"
MAIN_SERVICE: Final = "main"
# Where an agent publishes what a separate verifier is to see, whatever else the task names.
ARTIFACTS_DIR: Final = "/logs/artifacts"
_MAX_TEXT_BYTES: Final = 1_000_000


class NetworkMode(StrEnum):
    """What can be reached, in Harbor's words."""

    PUBLIC = "public"
    NO_NETWORK = "no-network"
    ALLOWLIST = "allowlist"


class NetworkPolicy(Record):
    """What one phase can reach; hosts are names, names with a leading ``*.``, addresses, or ranges of them."""

    mode: NetworkMode = NetworkMode.PUBLIC
    allowed_hosts: tuple[str, ...] = ()


class Healthcheck(Record):
    """How an environment's health is checked; in seconds."""

    command: str
    interval: float = 5.0
    timeout: float = 30.0
    start_period: float = 0.0
    start_interval: float = 5.0
    retries: int = 3


class Artifact(Record):
    """What is copied out of the agent's environment for the verifier, and put at the same path there.

    Attributes:
        source: an absolute path, or one below the working directory.
        exclude: patterns of names that are left out.
        service: the container that it is in.
    """

    source: str
    exclude: tuple[str, ...] = ()
    service: str = MAIN_SERVICE


class CollectCommand(Record):
    """A command that runs after the agent, to write down what is to be copied out; its failure is noted, no more."""

    command: str
    service: str = MAIN_SERVICE
    timeout_sec: float = 60.0
    user: str | None = None


class HarborEnvironment(Record):
    """What an environment is made from.

    Attributes:
        folder: with its Dockerfile and compose file, where there are such.
        image: a ready image; None: the Dockerfile makes it.
        compose: the name of the compose file in the folder; None: one container.
        workdir: where the agent and the verifier start; empty: where the image says.
        entrypoint: what the image runs its command with, which Harbor does not replace.
    """

    folder: str
    image: str | None
    has_dockerfile: bool
    workdir: str
    network: NetworkPolicy = NetworkPolicy()
    compose: str | None = None
    entrypoint: tuple[str, ...] = ()
    cpus: float | None = None
    memory_mb: int | None = None
    storage_mb: int | None = None
    gpus: int = 0
    variables: dict[str, str] = field(default_factory=dict)
    healthcheck: Healthcheck | None = None

    @property
    def path(self) -> Path:
        """The folder."""
        return Path(self.folder)


class StepVerifier(Record):
    """How one step is verified.

    Attributes:
        tests: the folders that are copied to /tests, later ones over earlier ones.
        environment: the verifier's own; None: it runs where the agent worked.
        has_tests: its image has /tests, and none are copied.
        network: None: that of the environment.
        user: None: that of the image.
    """

    tests: tuple[str, ...]
    seconds: float
    variables: dict[str, str] = field(default_factory=dict)
    user: str | None = None
    network: NetworkPolicy | None = None
    environment: HarborEnvironment | None = None
    has_tests: bool = False
    collect: tuple[CollectCommand, ...] = ()


class HarborStep(Record):
    """One instruction and its verifier. A task without steps has one, whose name is empty.

    Attributes:
        folder: with the step's own files; the task's for the step of a task without steps.
        network: of the agent's phase; None: that of the environment.
        min_reward: the rewards below which later steps are not begun, by name.
        solution: the folder with its solution; None: there is none.
    """

    name: str
    folder: str
    instruction: str
    verifier: StepVerifier
    agent_seconds: float | None
    user: str | None = None
    network: NetworkPolicy | None = None
    healthcheck: Healthcheck | None = None
    artifacts: tuple[Artifact, ...] = ()
    min_reward: dict[str, float] = field(default_factory=dict)
    solution: str | None = None

    @property
    def workdir_files(self) -> Path | None:
        """What is copied into the working directory before the step, ``setup.sh`` among it, which is run."""
        folder = Path(self.folder) / "workdir"
        return folder if self.name and folder.is_dir() else None

    def test_files(self) -> dict[str, Path]:
        """The files of its verifier, by their paths below /tests."""
        return {
            file.relative_to(folder).as_posix(): file
            for folder in map(Path, self.verifier.tests)
            for file in sorted(folder.rglob("*"))
            if file.is_file() and not file.is_symlink()
        }

    def test_script(self) -> str:
        """The verifier's program; empty where its image has it."""
        script = self.test_files().get(TEST_SCRIPT)
        return "" if script is None else script.read_text(encoding="utf-8", errors="replace")

    def text(self) -> str:
        """All that the step says of the files that it is about: its instruction and its tests."""
        files = self.test_files().values()
        read = (path.read_bytes()[:_MAX_TEXT_BYTES].decode("utf-8", "replace") for path in files)
        return "\n".join((self.instruction, *read))


class HarborTask(Record):
    """One task.

    Attributes:
        digest: of the task's files, by Harbor's rule.
        steps: at least one.
        strategy: the reward of a task of several steps: the mean of theirs, or that of the last one.
        mcp_servers, skills_dir: for agents that can use them.
        unsupported: what the task asks for and Proctor cannot do; such a task is refused.
    """

    name: str
    folder: str
    schema: str
    digest: str
    environment: HarborEnvironment
    steps: tuple[HarborStep, ...]
    strategy: Literal["mean", "final"] = "mean"
    solution_variables: dict[str, str] = field(default_factory=dict)
    mcp_servers: tuple[McpServer, ...] = ()
    skills_dir: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    unsupported: tuple[str, ...] = ()

    @property
    def path(self) -> Path:
        """The task's folder."""
        return Path(self.folder)

    @property
    def has_steps(self) -> bool:
        """Whether it names steps of its own."""
        return bool(self.steps[0].name)

    @property
    def has_solution(self) -> bool:
        """Whether every step has a solution."""
        return all(step.solution is not None for step in self.steps)

    @property
    def environments(self) -> Iterator[HarborEnvironment]:
        """Every environment that it needs, the agent's first."""
        yield self.environment
        yield from (step.verifier.environment for step in self.steps if step.verifier.environment is not None)

    @property
    def phases(self) -> Iterator[NetworkPolicy]:
        """The networks of all its phases."""
        for environment in self.environments:
            yield environment.network
        for step in self.steps:
            yield from (policy for policy in (step.network, step.verifier.network) if policy is not None)

    def step(self, name: str) -> HarborStep:
        """A step by its name."""
        return next(step for step in self.steps if step.name == name)

    def artifacts_of(self, step: HarborStep) -> tuple[Artifact, ...]:
        """What is copied out after a step, with absolute paths: each of a service once, by the first that names it."""
        own = [
            Artifact(
                source=posixpath.normpath(posixpath.join(self.environment.workdir or "/", one.source)),
                exclude=one.exclude,
                service=one.service,
            )
            for one in step.artifacts
        ]
        if not any(one.source == ARTIFACTS_DIR and one.service == MAIN_SERVICE for one in own):
            own.insert(0, Artifact(source=ARTIFACTS_DIR))
        kept: list[Artifact] = []
        for one in own:
            if not any(one.service == other.service and _overlap(one.source, other.source) for other in kept):
                kept.append(one)
        return tuple(kept)

    def needed_variables(self) -> Iterator[Mapping[str, str]]:
        """Every table of variables whose values may come from this machine."""
        for environment in self.environments:
            yield environment.variables
        for step in self.steps:
            yield step.verifier.variables


def _overlap(one: str, other: str) -> bool:
    first, second = (path.rstrip("/") + "/" for path in (one, other))
    return first.startswith(second) or second.startswith(first)
