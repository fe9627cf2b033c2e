"""The rows of the four data sets, each as its publisher writes it.

Every row keeps what its official grader needs and what reports break results down by. What the agent may see of it
is decided in `tasks`, nowhere else.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec

from proctor.benchmarks.swe.fields import decode_json_string, list_field, object_field, raw_field, text_field
from proctor.core.benchmark import InvalidTask
from proctor.core.errors import InvalidData
from proctor.core.record import Record

PRO_IMAGES: Final = "jefzda/sweap-images"
R = TypeVar("R", bound="SweRow")


class SweRow(Record):
    """What all four have in common.

    Attributes:
        patch: the oracle as published. FeatureBench publishes the diff that *masks* the feature instead.
        test_patch: what brings the hidden tests in.
        image: the official container image.
        environment_yml: the conda environment of that image, where the data came with it.
        dockerfile: how that image is made, likewise.
    """

    instance_id: str
    repo: str
    base_commit: str
    patch: str
    test_patch: str
    problem_statement: str
    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...]
    image: str
    environment_yml: str = ""
    dockerfile: str = ""


class SweBenchRow(SweRow):
    """A row of SWE-bench: Verified, Lite, the full set or Multilingual.

    Attributes:
        eval_script: the whole bash script that tests a submission; rows from before version 5 have none.
        log_parser: the name of the parser that reads its output.
        eval_type: `pass_and_fail`, or `fail_only` for test programs that print failures alone.
    """

    version: str = ""
    created_at: str = ""
    difficulty: str = ""
    eval_script: str = ""
    log_parser: str = ""
    eval_type: str = "pass_and_fail"


class SweBenchProRow(SweRow):
    """A row of SWE-bench Pro.

    Attributes:
        before_repo_set_cmd: four shell lines; the official grader runs the last one only.
        selected_test_files_to_run: what the run script is given, joined by commas.
        run_script: shipped with the instance, like its parser.
        dockerfiles: the two files whose ENV lines hold for the tests.
    """

    requirements: str = ""
    interface: str = ""
    repo_language: str = ""
    before_repo_set_cmd: str = ""
    selected_test_files_to_run: tuple[str, ...] = ()
    run_script: str = ""
    parser: str = ""
    dockerfiles: tuple[str, ...] = ()


class SweEvoRow(SweRow):
    """A row of SWE-EVO: from one release to the next.

    Attributes:
        image: a donor's, from SWE-Gym or SWE-bench, which is reset to `base_commit`.
        test_cmds: the official test command, without its files.
    """

    start_version: str = ""
    end_version: str = ""
    bench: str = ""
    version: str = ""
    test_cmds: str = ""
    log_parser: str = "parse_log_pytest"


class FeatureBenchRow(SweRow):
    """A row of FeatureBench, which ACE-Bench has become.

    Attributes:
        patch: the diff that masks the feature (level 1); the oracle is its reverse.
        fail_to_pass: test *files*.
        settings: how the tests are run.
    """

    settings: dict[str, Any] = msgspec.field(default_factory=dict)

    @property
    def level(self) -> int:
        """1: into an existing repository; 2: a package of its own."""
        return 2 if self.instance_id.rpartition(".")[2] == "lv2" else 1


def swe_bench_row(row: Mapping[str, Any]) -> SweBenchRow:
    """Read a row of SWE-bench, of any version."""
    identity = text_field(row, "instance_id")
    return SweBenchRow(
        **_common(row, identity),
        image=text_field(row, "image", default="") or swe_bench_image(identity),
        version=text_field(row, "version", default=""),
        created_at=str(raw_field(row, "created_at") or ""),
        difficulty=text_field(row, "difficulty", default=""),
        eval_script=text_field(row, "eval_script", default=""),
        log_parser=text_field(row, "log_parser", default=""),
        eval_type=text_field(row, "eval_type", default="pass_and_fail"),
    )


def swe_bench_image(identity: str) -> str:
    """The official image of an instance, which rows from before version 5 do not name."""
    return f"swebench/sweb.eval.x86_64.{identity.lower().replace('__', '_1776_')}:latest"


def pro_row(row: Mapping[str, Any]) -> SweBenchProRow:
    """Read a row of SWE-bench Pro. Some of its texts are JSON strings inside strings."""
    identity = text_field(row, "instance_id")
    common = _common(row, identity)
    return SweBenchProRow(
        **common | {"problem_statement": decode_json_string(common["problem_statement"])},
        image=f"{PRO_IMAGES}:{text_field(row, 'dockerhub_tag', default='') or pro_tag(identity, common['repo'])}",
        requirements=decode_json_string(text_field(row, "requirements", default="")),
        interface=decode_json_string(text_field(row, "interface", default="")),
        repo_language=text_field(row, "repo_language", default="").lower(),
        before_repo_set_cmd=text_field(row, "before_repo_set_cmd"),
        selected_test_files_to_run=list_field(row, "selected_test_files_to_run"),
        run_script=text_field(row, "run_script", default=""),
        parser=text_field(row, "parser", default=""),
        dockerfiles=list_field(row, "dockerfiles", optional=True),
    )


def pro_tag(identity: str, repo: str) -> str:
    """The tag of Pro's image, for copies of the data without that column."""
    owner, _, name = repo.lower().partition("/")
    rest = identity.removeprefix("instance_").removesuffix("-vnan")
    return f"{owner}.{'element' if name == 'element-web' else name}-{rest}"[:128]


def evo_row(row: Mapping[str, Any]) -> SweEvoRow:
    """Read a task file of SWE-EVO."""
    identity = text_field(row, "instance_id")
    return SweEvoRow(
        **_common(row, identity),
        image=text_field(row, "image"),
        start_version=text_field(row, "start_version"),
        end_version=text_field(row, "end_version"),
        bench=text_field(row, "bench", default=""),
        version=text_field(row, "version", default=""),
        test_cmds=text_field(row, "test_cmds"),
        log_parser=text_field(row, "log_parser", default="parse_log_pytest"),
    )


def feature_row(row: Mapping[str, Any]) -> FeatureBenchRow:
    """Read a row of FeatureBench."""
    identity = text_field(row, "instance_id")
    settings = object_field(row, "repo_settings")
    for name in ("timeout_run", "timeout_one"):
        seconds = settings.get(name)
        if isinstance(seconds, bool) or not isinstance(seconds, int | float | None):
            raise InvalidData(f"{name!r} in 'repo_settings' is not a number", where=identity)
    return FeatureBenchRow(
        **_common(row, identity, patch_required=False),
        image=text_field(row, "image_name"),
        settings=settings,
    )


def _common(row: Mapping[str, Any], identity: str, *, patch_required: bool = True) -> dict[str, Any]:
    return {
        "instance_id": identity,
        "repo": text_field(row, "repo"),
        "base_commit": text_field(row, "base_commit"),
        "patch": text_field(row, "patch", default=None if patch_required else ""),
        "test_patch": text_field(row, "test_patch", default=""),
        "problem_statement": text_field(row, "problem_statement"),
        "fail_to_pass": list_field(row, "FAIL_TO_PASS"),
        "pass_to_pass": list_field(row, "PASS_TO_PASS", optional=True),
        "environment_yml": text_field(row, "environment_yml", default=""),
        "dockerfile": text_field(row, "dockerfile", default=""),
    }


def read_swe_rows(
    rows: Sequence[Mapping[str, Any]], read_row: Callable[[Mapping[str, Any]], R]
) -> tuple[list[R], list[InvalidTask]]:
    """Every row that can be used, in the order of their ids, and why the others cannot.

    Raises:
        InvalidData: two rows have one id.
    """
    good: dict[str, R] = {}
    bad: list[InvalidTask] = []
    for number, row in enumerate(rows, start=1):
        try:
            made = read_row(row)
        except InvalidData as problem:
            bad.append(InvalidTask(task_id=str(row.get("instance_id") or f"row {number}"), problems=(problem.what,)))
            continue
        if made.instance_id in good:
            raise InvalidData(f"{made.instance_id} is there twice", where=f"row {number}")
        good[made.instance_id] = made
    return [good[identity] for identity in sorted(good)], bad
