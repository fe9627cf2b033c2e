"""How one instance is set up in environments of one provider. Testing and judging are the same for all providers.

`docker` takes the instance's official image; `local` a checkout of its repository beside a virtual environment.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from msgspec import field

from proctor.benchmarks.swe.rows import SweRow
from proctor.core.environment import EnvironmentSpec
from proctor.core.record import Record
from proctor.workspaces import BaseTree


class StartState(Record):
    """What an agent starts from, as changes to the official image.

    Attributes:
        workdir: where the repository is.
        script: shell lines that bring it into the state that agents are given; files are in $FILES.
        keeps_history: whether its git history is the agent's to read, up to the base commit.
        variables: that every command gets in environments of the image.
        gpus: how many the instance needs.
    """

    workdir: str
    script: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    keeps_history: bool = True
    variables: dict[str, str] = field(default_factory=dict)
    gpus: int = 0


class InstanceSetup(Protocol):
    """One instance in one kind of environment.

    Attributes:
        provider_name: the provider of these environments.
        workdir: where the repository is inside.
    """

    provider_name: str
    workdir: str

    def missing_requirement(self, gpus: int = 0) -> str | None:
        """Why this machine cannot set the instance up; None when no reason is known without trying."""
        ...

    def deviations(self) -> tuple[str, ...]:
        """How these environments differ from the official image, where that may change a verdict."""
        ...

    async def agent_spec(self, folder: Path) -> EnvironmentSpec:
        """The environment that an agent works in, laid out below `folder`: nothing of the repository's future, no
        tests.

        Raises:
            InfrastructureError: this machine cannot set the instance up; says why, with cause NOT_RUNNABLE_HERE.
        """
        ...

    async def base(self, environment_digest: str) -> BaseTree:
        """Our own copy of what the agent found in the workdir; `environment_digest` identifies its environment."""
        ...

    async def ignored_directories(self, environment_digest: str) -> tuple[str, ...]:
        """Directories that were there too and are no part of the repository, and need not be read."""
        ...

    def grading_spec(self) -> EnvironmentSpec:
        """The environment in which submissions are tested, without its tree."""
        ...

    async def prepare_spec(self, spec: EnvironmentSpec, folder: Path) -> EnvironmentSpec:
        """The grading environment with its tree and mounts, laid out below `folder`.

        Raises:
            InfrastructureError: as for `agent_spec`.
        """
        ...

    def adapt_script(self, official_script: str) -> str:
        """An official eval script, written for these environments."""
        ...


InstanceSetupFactory = Callable[[SweRow, StartState], InstanceSetup]
