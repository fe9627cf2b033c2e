"""The files of a suite as records: `suite.json` and `instances/<id>/instance.json`.

One format reads both dialects. x07's (`x07.bench.suite@0.1.0`) grades by `x07 test`; ours is a superset in which
the test step is any command with a result format. The JSON Schemas that we ship are generated from these types.
"""

from enum import StrEnum
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from proctor.core.submission import PatchKind

Id = Annotated[str, Meta(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
Tag = Annotated[str, Meta(min_length=1, max_length=64, pattern=r"^[a-z][a-z0-9._-]*$")]
RelPath = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=1024,
        pattern=r"^(?![\\/])(?![A-Za-z]:)(?!.*(?:^|[\\/])\.\.(?:[\\/]|$)).+$",
        description="a relative path that does not leave its folder",
    ),
]
Note = Annotated[str, Meta(max_length=4096)]
TestId = Annotated[str, Meta(min_length=1, max_length=2048)]
AtLeastOne = Annotated[int, Meta(ge=1)]
Seconds = Annotated[float, Meta(gt=0)]
NonEmptyText = Annotated[str, Meta(min_length=1)]
TestFormatName = Literal["unittest", "pytest", "junit", "tap", "go-test-json", "exit-code"]
World = Literal["solve-pure", "solve-fs", "solve-rr", "solve-kv", "solve-full", "run-os", "run-os-sandboxed"]


class RepairMode(StrEnum):
    """Whether x07's linter mends touched files: not at all, without saving, or for good."""

    OFF = "off"
    MEMORY = "memory"
    WRITE = "write"


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

    world: World | None = None
    repair_mode: RepairMode | None = None
    jobs: AtLeastOne | None = None
    keep_artifacts: bool | None = None
    artifact_dir: RelPath | None = None
    determinism_runs: AtLeastOne | None = None
    timeout_seconds: Seconds | None = None


class SuiteFile(StrictStruct, frozen=True):
    """`suite.json`."""

    schema_version: Literal["proctor.suite@1", "x07.bench.suite@0.1.0"]
    suite_id: Id
    instances: Annotated[tuple[InstanceRef, ...], Meta(min_length=1)]
    description: Note = ""
    defaults: SuiteDefaults = SuiteDefaults()


class TestsEval(StrictStruct, frozen=True, tag_field="kind", tag="tests"):
    """Graded by tests whose results can be read.

    Attributes:
        arguments: for pytest and unittest: what our reporter runs (paths, or a start directory).
        command: for the other formats: the program to run; `{report}` stands for a fresh report path.
        setup: commands that run once in the workspace before the tests, each an argument list. What they leave in
            the workspace is there for the tests; what they leave elsewhere, or running, is not.
        hidden_path: a folder of the instance that is laid over the workspace before the tests run.
        protected: patterns of paths that are restored after the patch; hidden files always are.
    """

    format: TestFormatName
    arguments: tuple[NonEmptyText, ...] = ()
    command: tuple[NonEmptyText, ...] = ()
    setup: tuple[tuple[NonEmptyText, ...], ...] = ()
    hidden_path: RelPath | None = None
    protected: tuple[NonEmptyText, ...] = ()
    variables: dict[str, str] = field(default_factory=dict)
    timeout_seconds: Seconds | None = None
    fail_to_pass: tuple[TestId, ...] = ()
    pass_to_pass: tuple[TestId, ...] = ()


class X07Eval(StrictStruct, frozen=True, tag_field="kind", tag="x07test"):
    """Graded by `x07 test`."""

    manifest: RelPath
    module_root: tuple[RelPath, ...] = ()
    stdlib_lock: RelPath = "stdlib.lock"
    filter: Annotated[str, Meta(min_length=1, max_length=2048)] | None = None
    exact: bool = False
    repeat: AtLeastOne = 1
    jobs: AtLeastOne = 1
    keep_artifacts: bool = False
    artifact_dir: RelPath = "target/x07test"
    no_fail_fast: bool = False
    no_run: bool = False
    verbose: bool = False
    fail_to_pass: tuple[TestId, ...] = ()
    pass_to_pass: tuple[TestId, ...] = ()


class OracleRef(StrictStruct, frozen=True):
    """The reference answer."""

    patch_kind: PatchKind
    patch_path: RelPath
    note: Annotated[str, Meta(max_length=1024)] = ""


class PredictionLine(StrictStruct, frozen=True):
    """One line of a predictions file; exactly one of `patch_path` and `patch_inline` is given."""

    instance_id: NonEmptyText
    patch_kind: PatchKind
    schema_version: Literal["x07.bench.prediction@0.1.0"] | None = None
    patch_path: RelPath | None = None
    patch_inline: str | dict[str, Any] | None = None
    model_name_or_path: str | None = None
    model: str | None = None
    note: str | None = None
    meta: Any = None


class InstanceFile(StrictStruct, frozen=True):
    """`instance.json`.

    Attributes:
        requires: programs without which the instance cannot run here.
        image: the container image for `--runner docker`, where the suite's default will not do.
    """

    schema_version: Literal["proctor.instance@1", "x07.bench.instance@0.1.0"]
    instance_id: Id
    problem_statement_path: RelPath
    repo_path: RelPath
    eval: TestsEval | X07Eval
    oracle: OracleRef | None = None
    tags: tuple[Tag, ...] = ()
    notes: tuple[Note, ...] = ()
    world: World = "solve-pure"
    difficulty: Literal["easy", "medium", "hard"] | None = None
    language: NonEmptyText | None = None
    requires: tuple[NonEmptyText, ...] = ()
    image: NonEmptyText | None = None
