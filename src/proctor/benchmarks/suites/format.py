"""The files of a suite as records: `suite.json` and `instances/<id>/instance.json`.

The test step of these instances is any command with a result format. Other kinds of instances have files of their own
(`suites.kinds`), derived from these. The JSON Schemas that we ship are generated from these types.
"""

from typing import Annotated, Final, Literal

from msgspec import Meta, Struct, field

from proctor.core.predictions import NonEmptyText, RelPath
from proctor.core.request import RepairMode
from proctor.core.submission import PatchKind

SUITE_SCHEMA: Final = "proctor.suite@1"
ENVIRONMENT_FILE: Final = "environment.json"
DEPS_DIR: Final = "/deps"  # where environments show what was installed for the tests

Id = Annotated[str, Meta(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
Tag = Annotated[str, Meta(min_length=1, max_length=64, pattern=r"^[a-z][a-z0-9._-]*$")]
Note = Annotated[str, Meta(max_length=4096)]
TestId = Annotated[str, Meta(min_length=1, max_length=2048)]
Day = Annotated[str, Meta(pattern=r"^\d{4}-\d{2}-\d{2}$", description="a day, as 2026-06-30")]
AtLeastOne = Annotated[int, Meta(ge=1)]
PositiveSeconds = Annotated[float, Meta(gt=0)]
TestFormatName = Literal["unittest", "pytest", "junit", "tap", "go-test-json", "exit-code"]


class StrictStruct(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file's object: a key that we do not know is a mistake, not an extension."""


class InstanceRef(StrictStruct, frozen=True):
    """One line of a suite: which instance, and where it lies."""

    id: Id
    path: RelPath
    enabled: bool = True
    note: Annotated[str, Meta(max_length=1024)] = ""


class SuiteDefaults(StrictStruct, frozen=True):
    """What holds for all instances unless the command line says otherwise."""

    repair_mode: RepairMode | None = None
    jobs: AtLeastOne | None = None
    keep_artifacts: bool | None = None
    artifact_dir: RelPath | None = None
    determinism_runs: AtLeastOne | None = None
    timeout_seconds: PositiveSeconds | None = None


class SuiteFile(StrictStruct, frozen=True):
    """`suite.json`, as far as all kinds of suites have it alike."""

    schema_version: str
    suite_id: Id
    instances: Annotated[tuple[InstanceRef, ...], Meta(min_length=1)]
    description: Note = ""
    defaults: SuiteDefaults = SuiteDefaults()


class ProctorSuiteFile(SuiteFile, frozen=True):
    """`suite.json` of our own suites."""

    schema_version: Literal["proctor.suite@1"]


class EvalLabels(StrictStruct, frozen=True):
    """How an instance is graded, whatever runs its tests: which of them must pass."""

    fail_to_pass: tuple[TestId, ...] = ()
    pass_to_pass: tuple[TestId, ...] = ()


class TestsEval(EvalLabels, frozen=True, kw_only=True, tag_field="kind", tag="tests"):
    """Graded by tests whose results can be read.

    Attributes:
        arguments: for pytest and unittest: what our reporter runs (paths, or a start directory).
        command: for the other formats: the program to run; `{report}` stands for a fresh report path.
        setup: commands that run once in the workspace before the tests, each an argument list. What they leave in
            the workspace is there for the tests; what they leave elsewhere, or running, is not.
        hidden_path: a folder of the instance that is laid over the workspace before the tests run.
        protected: patterns of paths that are restored after the patch; hidden files always are.
        python: for pytest and unittest: the interpreter that runs the tests.
        paths: for pytest and unittest: directories of the workspace to import from.
        config_path: for pytest: the file of the repository that configures it.
        autoload: for pytest: load the plugins that are installed in the environment.
        options: for pytest: more arguments.
        services: shell commands that start what the tests need, before each run of them, and return.
        excluded: tests whose results are never used: they flip, or depend on the clock or the machine. An id that ends
            in ``*`` names all ids that begin so.
    """

    format: TestFormatName
    arguments: tuple[NonEmptyText, ...] = ()
    command: tuple[NonEmptyText, ...] = ()
    setup: tuple[tuple[NonEmptyText, ...], ...] = ()
    hidden_path: RelPath | None = None
    protected: tuple[NonEmptyText, ...] = ()
    variables: dict[str, str] = field(default_factory=dict)
    timeout_seconds: PositiveSeconds | None = None
    python: NonEmptyText | None = None
    paths: tuple[NonEmptyText, ...] = (".",)
    config_path: RelPath | None = None
    autoload: bool = False
    options: tuple[NonEmptyText, ...] = ()
    services: tuple[NonEmptyText, ...] = ()
    excluded: tuple[TestId, ...] = ()


class OracleRef(StrictStruct, frozen=True):
    """The reference solution."""

    patch_kind: PatchKind
    patch_path: RelPath
    note: Annotated[str, Meta(max_length=1024)] = ""


class InstanceFile(StrictStruct, frozen=True):
    """`instance.json`, as far as all kinds of instances have it alike.

    Attributes:
        requires: programs without which the instance cannot run here.
        image: the container image for `--runner docker`, where the suite's default will not do.
    """

    schema_version: str
    instance_id: Id
    problem_statement_path: RelPath
    repo_path: RelPath
    eval: EvalLabels
    oracle: OracleRef | None = None
    tags: tuple[Tag, ...] = ()
    notes: tuple[Note, ...] = ()
    difficulty: Literal["easy", "medium", "hard"] | None = None
    language: NonEmptyText | None = None
    requires: tuple[NonEmptyText, ...] = ()
    image: NonEmptyText | None = None


class ExcludedTest(StrictStruct, frozen=True):
    """A test that decides nothing, and why."""

    id: TestId
    reason: NonEmptyText


class Provenance(StrictStruct, frozen=True):
    """Where an instance that was made from a repository's history comes from.

    Attributes:
        repository: its address without any login, or its folder's name.
        commit: the change that the instance was made from; `parent` is what the agent starts from.
        authored_at, committed_at: of the change, in UTC.
        licence: of the repository at that commit, where it is recognised.
        instruction: where the instruction comes from: an issue, the commit's message, or a model.
        issue: the number of that issue.
        flags: what makes the instance doubtful.
        lines, files: of the oracle, without generated files.
        loaded_only_after: `fail_to_pass` tests that fail before for one reason: their file cannot be loaded.
        excluded: tests that decide nothing.
    """

    repository: str
    commit: NonEmptyText
    parent: NonEmptyText
    authored_at: NonEmptyText
    committed_at: NonEmptyText
    instruction: Literal["issue", "commit-message", "model"]
    subject: str = ""
    licence: str | None = None
    issue: str | None = None
    flags: tuple[Tag, ...] = ()
    lines: int = 0
    files: int = 0
    loaded_only_after: tuple[TestId, ...] = ()
    excluded: tuple[ExcludedTest, ...] = ()


class TestsInstanceFile(InstanceFile, frozen=True):
    """`instance.json` of an instance whose tests are any command with a result format.

    Attributes:
        environment_path: a folder of the suite, with an `environment.json`: what the tests need installed.
        created: the day of the change that the instance was made from, as in 2026-06-30.
    """

    __test__ = False

    schema_version: Literal["proctor.instance@1"]
    eval: TestsEval
    environment_path: RelPath | None = None
    created: Day | None = None
    provenance: Provenance | None = None


class SuiteEnvironmentFile(StrictStruct, frozen=True):
    """`environment.json`: what is installed for the tests of some instances, once, with the network.

    Attributes:
        runtimes: languages and their versions, as in ``{"python": "3.11"}``: python, node, go, rust, java;
            ``*`` is any version.
        install: a bash script that fills ``/deps``; it starts in a copy of an instance's repository, with the folder of
            this file at ``/environment`` and, for Python, the interpreter in ``$PYTHON``. What it leaves in
            ``/deps/tree`` is added to the workspace, where that has no such file.
        variables: for that script, the tests and the agent.
        shown: folders of ``/deps`` that are shown at other places too, by name.
        image: the container image for ``--runner docker``.
        date: nothing that was published after it is installed.
    """

    schema_version: Literal["proctor.suite_environment@1"]
    install: NonEmptyText
    runtimes: dict[str, str] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    shown: dict[str, str] = field(default_factory=dict)
    image: NonEmptyText | None = None
    date: str | None = None
