"""Which tasks a request selects."""

import pytest
from toy_benchmark import Toy

from proctor.core.errors import UsageError
from proctor.core.request import TaskRequest
from proctor.runner.selection import open_benchmark, select_tasks


def selected(**options: object) -> list[str]:
    tasks, _ = select_tasks(Toy(4), TaskRequest(**options))  # type: ignore[arg-type]
    return [task.id for task in tasks]


def test_tasks_are_selected_by_category() -> None:
    assert selected(categories=("odd",)) == selected(categories=("parity=odd",)) == ["toy-0001", "toy-0003"]
    assert selected(categories=("odd", "even")) == []
    assert len(selected()) == 4


def test_every_option_narrows_the_selection() -> None:
    assert selected(filter="000", limit=2, exclude=("toy-0001",)) == ["toy-0002", "toy-0003"]
    assert selected(filter="toy-0002", exact=True) == ["toy-0002"]
    assert selected(tasks=("toy-0004", "toy-0001")) == ["toy-0001", "toy-0004"]


@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        ({"categories": ("colour=odd",)}, "no task has the category 'colour=odd'"),
        ({"categories": ("odds",)}, "no task has the category 'odds'; did you mean 'odd'"),
        ({"tags": ("easy",)}, "no task has the tag 'easy'; `proctor bench list"),
    ],
)
def test_a_category_or_tag_that_no_task_has_is_refused(option: dict[str, tuple[str]], sentence: str) -> None:
    with pytest.raises(UsageError) as refused:
        selected(**option)
    assert refused.value.sentence.startswith(sentence)


def test_an_unknown_task_or_benchmark_is_refused() -> None:
    with pytest.raises(UsageError, match="there is no task 'x'"):
        selected(tasks=("x",))
    with pytest.raises(UsageError, match="--exact is for --filter"):
        selected(exact=True)
    with pytest.raises(UsageError, match="say which benchmark"):
        open_benchmark(TaskRequest())
