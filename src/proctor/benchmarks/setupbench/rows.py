"""The tasks as they are published: four files of JSON lines, fixtures, and scripts that sabotage a machine first."""

from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from proctor.benchmarks.data import read_rows
from proctor.core.errors import InvalidData
from proctor.core.record import Record

FILES: Final = (
    "background_service_setup.jsonl",
    "database_setup.jsonl",
    "dependency_resolution.jsonl",
    "repo_setup.jsonl",
)
# Nothing lies in /testbed for these two; every other task of a service or a database brings files.
_WITHOUT_FIXTURE: Final = frozenset({"bgsetup-autossh-logging", "bgsetup-autossh-reverse-tunnel"})
# The digit at the end of a database's task is its tier; on the third, a script has been at the machine before.
_SABOTAGED: Final = "-3"


class SetupBenchFamily(StrEnum):
    """The paper's four families, by the names that the data has for them."""

    BACKGROUND = "bgsetup"
    DATABASE = "dbsetup"
    DEPENDENCY = "dependency_resolution"
    REPOSITORY = "reposetup"


FAMILY_NAMES: Final = {
    SetupBenchFamily.BACKGROUND: "background",
    SetupBenchFamily.DATABASE: "database",
    SetupBenchFamily.DEPENDENCY: "dependency",
    SetupBenchFamily.REPOSITORY: "repository",
}


class SetupBenchRow(Record):
    """What a published task has that is used here. All but the statement is kept from the agent."""

    instance_id: str
    task_type: SetupBenchFamily
    problem_statement: str
    success_command: str
    base_image: str
    repo_url: str | None = None
    base_commit: str | None = None
    language: str | None = None
    ecosystem: str | None = None
    build_commands: tuple[str, ...] = ()
    human_actions_lower_bound: dict[str, int] | None = None
    human_actions_upper_bound: dict[str, int] | None = None


class SetupBenchTask(Record):
    """A task with the files that belong to it.

    Attributes:
        fixture: the folder whose contents lie in /testbed; None: there is none, or it was not fetched.
        prerunner: the script that is run before the agent comes; None likewise.
    """

    row: SetupBenchRow
    fixture: str | None
    prerunner: str | None

    @property
    def id(self) -> str:
        """The task's id."""
        return self.row.instance_id

    @property
    def rule(self) -> Literal["exit_code", "marker"]:
        """What the published grader goes by: the paper's text knows one rule, its code two."""
        return "exit_code" if self.row.task_type is SetupBenchFamily.DEPENDENCY else "marker"

    @property
    def tier(self) -> str | None:
        """How hard a database's task is; the others have no tiers."""
        return self.id[-1] if self.row.task_type is SetupBenchFamily.DATABASE else None

    @property
    def missing(self) -> str | None:
        """What belongs to the task and was not fetched."""
        if self.row.repo_url is not None:
            return None
        if self.fixture is None and self.id not in _WITHOUT_FIXTURE:
            return f"its files (fixtures/{self.id})"
        if self.prerunner is None and self.row.task_type is SetupBenchFamily.DATABASE and self.id.endswith(_SABOTAGED):
            return f"the script that is run first (fixtures/prerunner-{self.id})"
        return None


def scenarios_dir(folder: Path) -> Path:
    """The folder with the four files, in a checkout of the benchmark's repository or a copy of its parts.

    Raises:
        InvalidData: they are not there.
    """
    for place in (folder / "setupbench" / "scenarios", folder / "scenarios", folder):
        if (place / FILES[0]).is_file():
            missing = [name for name in FILES if not (place / name).is_file()]
            if missing:
                raise InvalidData(f"{', '.join(missing)} is missing", where=place)
            return place
    raise InvalidData(f"this is not a copy of SetupBench: {FILES[0]} is not in it", where=folder)


def fixtures_dir(folder: Path) -> Path | None:
    """The folder with the fixtures, where it was brought along."""
    return next((place for place in (folder / "setupbench" / "fixtures", folder / "fixtures") if place.is_dir()), None)


def read_tasks(folder: Path) -> tuple[SetupBenchTask, ...]:
    """Every task, in the order of the ids.

    Raises:
        InvalidData: a row is broken, or an id comes twice.
    """
    scenarios, fixtures = scenarios_dir(folder), fixtures_dir(folder)
    tasks: dict[str, SetupBenchTask] = {}
    for name in FILES:
        for number, raw in enumerate(read_rows(scenarios / name), 1):
            row = _row(raw, f"{scenarios / name}:{number}")
            if row.instance_id in tasks:
                raise InvalidData(f"the task {row.instance_id} comes twice", where=f"{scenarios / name}:{number}")
            tasks[row.instance_id] = SetupBenchTask(
                row=row,
                fixture=_existing(fixtures, row.instance_id),
                prerunner=_existing(fixtures, f"prerunner-{row.instance_id}", "prerunner.sh"),
            )
    return tuple(tasks[task_id] for task_id in sorted(tasks))


def _row(raw: dict[str, Any], where: str) -> SetupBenchRow:
    try:
        row = msgspec.convert(raw, SetupBenchRow)
    except msgspec.ValidationError as error:
        raise InvalidData(f"this is not a task of SetupBench: {error}", where=where) from error
    if (row.repo_url is None) != (row.base_commit is None):
        raise InvalidData("a repository needs a commit, and a commit a repository", where=where)
    if not row.success_command.strip() or not row.problem_statement.strip():
        raise InvalidData("the statement or the success command is empty", where=where)
    return row


def _existing(fixtures: Path | None, *parts: str) -> str | None:
    if fixtures is None:
        return None
    path = fixtures.joinpath(*parts)
    return str(path) if path.exists() else None
