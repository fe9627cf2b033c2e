"""Which benchmark a request names, and which of its tasks it selects, by ids, tags and categories."""

from collections.abc import Iterable, Mapping

from proctor.benchmarks import benchmark as find_benchmark
from proctor.benchmarks import suite_benchmark
from proctor.core.benchmark import Benchmark, InvalidTask
from proctor.core.errors import UsageError
from proctor.core.request import TaskRequest
from proctor.core.suggestions import suggest
from proctor.core.task import Task


def open_benchmark(request: TaskRequest) -> Benchmark:
    """The benchmark or suite that a request names.

    Raises:
        UsageError: none, or two at once.
    """
    if (request.benchmark is None) == (request.suite is None):
        raise UsageError("say which benchmark: BENCH or --suite, not both", fix="`proctor bench list` names them")
    if request.suite is None:
        return find_benchmark(str(request.benchmark), request.split).with_verifier(request.verifier)
    if request.split is not None:
        raise UsageError("a suite has no splits", fix="leave --split out")
    return suite_benchmark(request.suite).with_verifier(request.verifier)


def select_tasks(benchmark: Benchmark, request: TaskRequest) -> tuple[tuple[Task, ...], tuple[InvalidTask, ...]]:
    """The tasks that a request selects, in the benchmark's order, and those among them that cannot be used.

    Every option narrows the selection: a part of an id, or with `exact` the whole; tags and categories, all of which a
    task must have, a category as ``name=value`` or by its value alone; and a limit, after everything else.

    Raises:
        UsageError: a task is selected by an id, a tag or a category that does not exist, or the options contradict
            each other.
    """
    if request.exact and request.filter is None:
        raise UsageError("--exact is for --filter", fix="give --filter too, or name the task with --task")
    tasks, invalid = benchmark.tasks(), benchmark.invalid_tasks()
    known = {task.id for task in tasks} | {bad.task_id for bad in invalid}
    unknown = [task_id for task_id in request.tasks if task_id not in known]
    if unknown:
        fix = suggest(unknown[0], known, f"`proctor bench list {request.benchmark or 'BENCH'}` names the tasks")
        raise UsageError(f"there is no task {unknown[0]!r}", fix=fix)
    _check_known(tasks, request)
    selected = [task for task in tasks if _matches(task.id, task.tags, task.categories, request)]
    if request.after is not None:
        undated = [task.id for task in selected if task.created is None]
        if undated:
            raise UsageError(f"--after: the date of the task {undated[0]!r} is not known", fix="leave --after out")
        selected = [task for task in selected if task.created is not None and task.created > request.after]
    return (
        tuple(selected[: request.limit]),
        tuple(bad for bad in invalid if _matches(bad.task_id, (), {}, request)),
    )


def _check_known(tasks: Iterable[Task], request: TaskRequest) -> None:
    """Refuse a tag or a category that no task of the benchmark has: it is mistyped."""
    tags = {tag for task in tasks for tag in task.tags}
    categories = {f"{name}={value}" for task in tasks for name, value in task.categories.items()}
    for what, wanted, known in (
        ("tag", request.tags, tags),
        ("category", request.categories, categories | {one.partition("=")[2] for one in categories}),
    ):
        for word in wanted:
            if word not in known:
                fix = suggest(
                    word, known, f"`proctor bench list {request.benchmark or 'BENCH'}` shows those of each task"
                )
                raise UsageError(f"no task has the {what} {word!r}", fix=fix)


def _matches(task_id: str, tags: Iterable[str], categories: Mapping[str, str], request: TaskRequest) -> bool:
    """Whether a task with this id, these tags and these categories is selected, limits aside."""
    part = request.filter
    known = {word for name, value in categories.items() for word in (value, f"{name}={value}")}
    return (
        (not request.tasks or task_id in request.tasks)
        and (part is None or (task_id == part if request.exact else part in task_id))
        and set(request.tags) <= set(tags)
        and set(request.categories) <= known
        and task_id not in request.exclude
    )
