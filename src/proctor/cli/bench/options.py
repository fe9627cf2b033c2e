"""Options that several `bench` commands share, and what they stand for."""

import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar, get_args

import click

from proctor.core.benchmark import Benchmark, GradeOptions, RepairMode
from proctor.core.environment import EnvironmentProvider
from proctor.core.errors import UsageError
from proctor.runner.selection import Selection, read_exclusions

F = TypeVar("F", bound=Callable[..., Any])
AT_LEAST_ONE = click.IntRange(min=1)


class PositiveNumber(click.FloatRange):
    """Dollars or seconds: above nothing, and not for ever."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number."""
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a number above 0", param, ctx)
        return number


POSITIVE_NUMBER = PositiveNumber(min=0, min_open=True)


class ByteSize(click.ParamType[int]):
    """An amount of bytes, as people write it: 500MB, 40GB, 1.5TiB."""

    name = "size"
    _units: Final = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12} | {
        f"{letter}I": 1 << (10 * power) for power, letter in enumerate("KMGT", start=1)
    }

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number of bytes."""
        if isinstance(value, int):
            return value
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?I?)B?\s*", str(value).upper())
        unit = self._units.get(match[2]) if match else None
        if match is None or unit is None or not float(match[1]):
            self.fail(f"{value!r} is not a size; write 500MB, 40GB or 1.5TiB", param, ctx)
        return int(float(match[1]) * unit)


class PrintedForm(click.ParamType[str]):
    """`text`, `json`, or a registered format that has a document of its own for this."""

    name = "form"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The same word, once it is known."""
        from proctor.results.formats import find_format  # noqa: PLC0415 - help pages need none of it

        if value not in {"text", "json"}:
            try:
                printable = find_format(value).prints_documents
            except UsageError:
                printable = False
            if not printable:
                self.fail(f"{value!r} is neither text nor json, nor a format that can be printed", param, ctx)
        return str(value)


format_option = click.option(
    "--format",
    "form",
    type=PrintedForm(),
    metavar="[text|json|FORMAT]",
    default="text",
    show_default=True,
    help="json is the same as --json; the name of a format: as its own tool prints it.",
)
runner_option = click.option(
    "--runner",
    metavar="NAME",
    default="local",
    show_default=True,
    help="The provider of environments: local (bubblewrap), docker (containers), or a plugin's.",
)
isolation_option = click.option(
    "--isolation",
    type=click.Choice(["on", "off"]),
    default="on",
    show_default=True,
    help="off: no walls around local rooms. Unsafe.",
)
docker_image_option = click.option(
    "--docker-image", metavar="IMAGE", help="With --runner docker: the image, instead of the benchmark's own."
)
image_disk_option = click.option(
    "--image-disk", type=ByteSize(), metavar="SIZE", help="With --runner docker: what pulled images may take, as 40GB."
)
image_map_option = click.option(
    "--image-map",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="With --runner docker: a JSON or YAML file of images to use in the place of others: {name: name}.",
)


def source_options(function: F) -> F:
    """Which benchmark: by name, or a suite by path or name."""
    for option in (
        click.argument("bench", required=False),
        click.option("--split", metavar="NAME", help="A part of the benchmark, where it has several."),
        click.option("--suite", metavar="PATH|NAME", help="A suite: its file, its folder, or a shipped suite's name."),
    ):
        function = option(function)
    return function


def selection_options(function: F) -> F:
    """Which of its tasks."""
    for option in (
        click.option(
            "--limit", metavar="N", type=click.IntRange(min=0), help="At most N tasks, after all other choices."
        ),
        click.option(
            "--exclude",
            type=click.Path(path_type=Path),
            metavar="FILE",
            help="A file of task ids to leave out, one a line.",
        ),
        click.option(
            "--tag", "tags", multiple=True, metavar="TAG", help="Only tasks with this tag; several: with all of them."
        ),
        click.option(
            "--category",
            "categories",
            multiple=True,
            metavar="[NAME=]VALUE",
            help="Only tasks of this category; several: of all of them.",
        ),
        click.option("--all", "everything", is_flag=True, help="Every task: what is meant when no choice is made."),
        click.option("--exact", is_flag=True, help="With --filter: TEXT is the whole id."),
        click.option("--filter", "part", metavar="TEXT", help="Only tasks whose id contains TEXT."),
        click.option("--task", "ids", multiple=True, metavar="ID", help="Only this task; may be repeated."),
    ):
        function = option(function)
    return function


def environment_options(function: F) -> F:
    """In which rooms, and how many at once."""
    for option in (
        isolation_option,
        image_disk_option,
        image_map_option,
        docker_image_option,
        runner_option,
        click.option(
            "--timeout",
            type=POSITIVE_NUMBER,
            metavar="SECONDS",
            help="For each test run, instead of the benchmark's own.",
        ),
        click.option(
            "--artifact-dir",
            type=click.Path(path_type=Path),
            metavar="DIR",
            default=Path("target/proctor"),
            show_default=True,
            help="Where results of tests and logs go.",
        ),
        click.option("--keep-artifacts", is_flag=True, help="Keep the graded trees there too."),
        click.option(
            "--jobs",
            "--parallel",
            "jobs",
            type=AT_LEAST_ONE,
            metavar="N",
            default=1,
            show_default=True,
            help="Tasks graded at the same time.",
        ),
    ):
        function = option(function)
    return function


def repair_options(function: F) -> F:
    """What a benchmark's linter may repair."""
    for option in (
        click.option(
            "--repair-max-iters",
            type=AT_LEAST_ONE,
            metavar="N",
            default=3,
            show_default=True,
            help="Rounds of that repair.",
        ),
        click.option(
            "--repair",
            type=click.Choice(get_args(RepairMode)),
            default="write",
            show_default=True,
            help="Where a suite's test program has a linter: let it repair what the patch touched; "
            "memory: only count what it would do.",
        ),
    ):
        function = option(function)
    return function


def load_benchmark(bench: str | None, suite: str | None, split: str | None) -> Benchmark:
    """The benchmark that is meant.

    Raises:
        UsageError: none, or two at once.
    """
    from proctor.benchmarks import benchmark, suite_benchmark  # noqa: PLC0415 - help pages need none of it

    if (bench is None) == (suite is None):
        raise UsageError("say which benchmark: BENCH or --suite, not both", fix="`proctor bench list` names them")
    if suite is None:
        return benchmark(str(bench), split)
    if split is not None:
        raise UsageError("a suite has no splits", fix="leave --split out")
    return suite_benchmark(suite)


def read_image_map(file: Path | None) -> dict[str, str]:
    """Which images to use in the place of others.

    Raises:
        UsageError: the file is not a map from names to names.
    """
    if file is None:
        return {}
    import yaml  # noqa: PLC0415 - for those who give such a file

    from proctor.core.files import read_user_file  # noqa: PLC0415 - as above

    text = read_user_file(file, "the image map")
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise UsageError(f"this is neither JSON nor YAML: {' '.join(str(error).split())}", where=file) from error
    if not isinstance(value, dict) or not all(isinstance(word, str) for pair in value.items() for word in pair):
        raise UsageError("an image map is one object: image name to image name", where=file)
    return value


def make_grade_options(given: Mapping[str, Any]) -> GradeOptions:
    """How submissions are graded, as the options say."""
    return GradeOptions(
        image=given["docker_image"],
        determinism_runs=given["determinism_runs"],
        timeout_seconds=given["timeout"],
        repair=given["repair"],
        repair_max_iters=given["repair_max_iters"],
        keep_artifacts=given["keep_artifacts"],
    )


def check_environment_options(given: Mapping[str, Any]) -> None:
    """See that what is said of the rooms fits to what they are made of.

    Raises:
        UsageError: it does not.
    """
    from proctor.runner.request import check_environment_options as check  # noqa: PLC0415 - help pages need none of it

    containers = {f"--{name.replace('_', '-')}": given[name] for name in ("docker_image", "image_map", "image_disk")}
    check(given["runner"], isolation=given["isolation"] == "on", container_options=containers)


def make_provider(given: Mapping[str, Any]) -> EnvironmentProvider:
    """Who makes the rooms."""
    from proctor.environments import provider as find  # noqa: PLC0415 - help pages need none of it

    check_environment_options(given)
    images = read_image_map(given["image_map"])
    options: dict[str, Any] = {}
    if given["runner"] == "docker":
        from proctor.cli.bench.pull_progress import PullReporter  # noqa: PLC0415 - likewise

        on_pull = None if given.get("quiet") else PullReporter()
        options = {"image_map": images, "image_disk": given["image_disk"], "on_pull": on_pull}
    return find(given["runner"], isolation=given["isolation"] == "on", **options)


def make_selection(given: Mapping[str, Any]) -> Selection:
    """The choice of tasks that the options of `selection_options` make."""
    exclude = given.get("exclude")
    narrowed = [name for name in ("ids", "part", "tags", "categories", "limit") if given.get(name)]
    if given.get("everything") and narrowed:
        raise UsageError("--all and a choice of tasks are both given", fix="give one of them")
    if given.get("exact") and given.get("part") is None:
        raise UsageError("--exact is for --filter", fix="give --filter too, or name the task with --task")
    return Selection(
        ids=tuple(given.get("ids") or ()),
        filter=given.get("part"),
        exact=bool(given.get("exact")),
        tags=tuple(given.get("tags") or ()),
        categories=tuple(given.get("categories") or ()),
        excluded=read_exclusions(exclude) if exclude else (),
        limit=given.get("limit"),
    )
