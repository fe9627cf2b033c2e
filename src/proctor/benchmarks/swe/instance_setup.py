"""How one instance is set up in one kind of room. What is tested, and how that is judged, is the same in all of them.

`docker` takes the instance's official image; `local` a checkout of its repository beside a virtual environment.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from msgspec import field

from proctor.benchmarks.swe.rows import SweRow
from proctor.core.environment import EnvironmentSpec
from proctor.core.record import Record
from proctor.workspaces import Base


class StartState(Record):
    """What an agent starts from, told as changes to the official image.

    Attributes:
        workdir: where the repository is.
        script: shell lines that bring it into the state that agents are given; files are in $FILES.
        keeps_history: whether its git history is the agent's to read, up to the base commit.
    """

    workdir: str
    script: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    keeps_history: bool = True


class InstanceSetup(Protocol):
    """One instance in one kind of room.

    Attributes:
        kind: the name of the provider whose rooms these are.
        workdir: where the repository is inside.
    """

    provider_name: str
    workdir: str

    def missing_requirement(self) -> str | None:
        """Why this machine cannot set the instance up; None when it can, as far as can be told without trying."""
        ...

    def deviations(self) -> tuple[str, ...]:
        """In what these rooms differ from the official image, where that may change a verdict."""
        ...

    async def agent_spec(self, folder: Path) -> EnvironmentSpec:
        """The room that an agent works in, laid out below `folder`: nothing of the repository's future, no tests.

        Raises:
            InfrastructureError: this machine cannot set the instance up; says why, with cause NOT_RUNNABLE_HERE.
        """
        ...

    async def base(self, environment_digest: str) -> Base:
        """Our own copy of what the agent found in the workdir; `started_from` is the digest of its room."""
        ...

    async def ignored_directories(self, environment_digest: str) -> tuple[str, ...]:
        """Directories that were there too and are no part of the repository, so that nobody need look at them."""
        ...

    def grading_spec(self) -> EnvironmentSpec:
        """The room in which answers are tested, but for its tree."""
        ...

    async def prepare_spec(self, spec: EnvironmentSpec, folder: Path) -> EnvironmentSpec:
        """The grading room with all that it needs besides its image, laid out below `folder`.

        Raises:
            InfrastructureError: as for `agent_room`.
        """
        ...

    def adapt_script(self, official_script: str) -> str:
        """An official eval script, written for these rooms."""
        ...


InstanceSetupFactory = Callable[[SweRow, StartState], InstanceSetup]
