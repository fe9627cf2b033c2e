"""`proctor-mine.toml`: what a repository's owner says where our rules do not fit; and the options of mining."""

from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec

from proctor.benchmarks.suites.format import TestFormatName
from proctor.core.errors import UsageError
from proctor.core.record import Record
from proctor.core.user_files import parse_toml, read_user_file

SETTINGS_FILE: Final = "proctor-mine.toml"


class _Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A table of the file: a key that we do not know is a mistake."""


class PathSettings(_Table, frozen=True):
    """Patterns of paths, as in `.gitignore`: which are tests, which are source, which are generated."""

    tests: tuple[str, ...] = ()
    source: tuple[str, ...] = ()
    generated: tuple[str, ...] = ()


class SetupSettings(_Table, frozen=True):
    """How what the tests need is installed.

    Attributes:
        language: python, javascript, go, rust, java or other; by default that of the change.
        python: the version of Python, as in 3.11; by default the newest that the project and the time allow.
        packages: Python packages to install besides.
        requirements: requirement files and extras (``.[test]``), instead of those that are found.
        commands: shell commands that install all of it below ``/deps``, instead of our own.
        files: paths of the repository that those commands depend on: a change of one of them makes another environment.
        runtimes: languages and their versions, as in ``{node = "20"}``.
        variables: environment variables for set-up, tests and agents.
        image: the container image for ``--runner docker``.
        dockerfile: a Dockerfile of the repository that makes that image.
    """

    language: Literal["python", "javascript", "go", "rust", "java", "other"] | None = None
    python: Annotated[str, msgspec.Meta(pattern=r"^3\.\d+$")] | None = None
    packages: tuple[str, ...] = ()
    requirements: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    runtimes: dict[Annotated[str, msgspec.Meta(pattern=r"^(python|node|go|rust|java)$")], str] = msgspec.field(
        default_factory=dict
    )
    variables: dict[str, str] = msgspec.field(default_factory=dict)
    image: str | None = None
    dockerfile: str | None = None


class TestSettings(_Table, frozen=True):
    """How the tests are run.

    Attributes:
        command: instead of ours; ``{tests}`` stands for the changed test files, ``{report}`` for the report's path.
        format: of the results of that command.
        build: commands that run in the workspace before the tests, each time.
        scope: ``touched`` runs the test files of the change, ``all`` every test.
        timeout_seconds: for one run.
        services: programs that the tests expect to run, started before them by these shell commands.
    """

    __test__ = False

    command: tuple[str, ...] = ()
    format: TestFormatName | None = None
    build: tuple[tuple[str, ...], ...] = ()
    scope: Literal["touched", "all"] = "touched"
    timeout_seconds: float = 300.0
    options: tuple[str, ...] = ()
    services: tuple[str, ...] = ()


class MineSettings(_Table, frozen=True):
    """The whole file."""

    paths: PathSettings = PathSettings()
    setup: SetupSettings = SetupSettings()
    test: TestSettings = TestSettings()


class MineOptions(Record):
    """The options of `proctor suite mine` that decide what is made: the same ones on the same history give the same
    bytes.

    Attributes:
        only, without: patterns of paths; a change must touch one of `only`, and none of `without`.
        exclude_authors: parts of names or addresses; bots are excluded always.
        runs: how often the tests run before and after the change.
        fair: keep only tasks without flags.
        write_issues: the model that writes instructions.
    """

    since: str | None = None
    until: str | None = None
    branch: str | None = None
    only: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    exclude_authors: tuple[str, ...] = ()
    commits: tuple[str, ...] = ()
    max_files: int = 15
    max_lines: int = 500
    min_lines: int = 1
    limit: int | None = None
    runs: int = 2
    fair: bool = False
    controls: int = 1
    write_issues: str | None = None


def read_settings(file: Path) -> MineSettings:
    """A `proctor-mine.toml`.

    Raises:
        UsageError: it cannot be read, or has something that it should not.
    """
    text = read_user_file(file, "the settings")
    return parse_settings(text, where=file)


def parse_settings(text: str, *, where: object) -> MineSettings:
    """The content of a `proctor-mine.toml`.

    Raises:
        UsageError: it is not TOML, or has something that it should not.
    """
    try:
        return msgspec.convert(parse_toml(text), MineSettings)
    except (ValueError, msgspec.ValidationError) as error:
        raise UsageError(
            f"not a valid {SETTINGS_FILE}: {error}", where=where, fix="docs/mining.md lists its keys"
        ) from error
