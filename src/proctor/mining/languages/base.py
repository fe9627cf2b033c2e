"""What mining must know of a language: what its tests need installed, and how they are run."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from msgspec import field

from proctor.benchmarks.suites.format import SuiteEnvironmentFile, TestsEval
from proctor.core.record import Record
from proctor.mining.settings import MineSettings

InstallFolder = Callable[["EnvironmentPlan"], Awaitable[Path]]
"""Installs an environment on this machine, and gives the folder with the result."""


class SetupFailed(Exception):
    """What a change needs cannot be installed, or nobody knows how; says what to put into `proctor-mine.toml`."""

    def __init__(self, reason: str, *, code: str = "install") -> None:
        super().__init__(reason)
        self.code = code


class EnvironmentPlan(Record):
    """An environment of a suite: its `environment.json`, and the other files of its folder."""

    file: SuiteEnvironmentFile
    files: dict[str, bytes] = field(default_factory=dict)


class Project(Record):
    """A repository at one change, as a language sees it.

    Attributes:
        tree: its files after the change.
        paths: the names of all of them.
        tests: the test files that the change adds or changes.
        date: the day of the change.
        version: in the name of the last tag before it.
    """

    tree: Path
    paths: tuple[str, ...]
    tests: tuple[str, ...]
    date: str
    version: str | None = None

    def read(self, path: str) -> bytes | None:
        """One file; None when there is none."""
        file = self.tree / path
        return file.read_bytes() if file.is_file() and not file.is_symlink() else None

    def text(self, path: str) -> str:
        """One file as text; empty when there is none."""
        return (self.read(path) or b"").decode("utf-8", "replace")

    def manifests(self, names: Sequence[str]) -> dict[str, bytes]:
        """Those of the files that are there."""
        return {name: data for name in names if (data := self.read(name)) is not None}


class Language(ABC):
    """One language."""

    name: str

    @abstractmethod
    async def plan_environment(
        self, project: Project, settings: MineSettings, install: InstallFolder
    ) -> EnvironmentPlan:
        """What the tests of a project need installed, with every version fixed.

        Raises:
            SetupFailed: nobody knows how.
            InfrastructureError: versions cannot be resolved.
        """

    @abstractmethod
    def plan_tests(self, project: Project, settings: MineSettings) -> TestsEval:
        """How the changed tests are run, without labels, and without what the settings say of all test programs.

        Raises:
            SetupFailed: no test program is known for this project.
        """


def month_start(day: str) -> str:
    """The first day of a day's month: changes of one month share what was resolved for it."""
    return f"{day[:7]}-01"
