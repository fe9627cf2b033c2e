import pytest

from observations import config, make_observation
from proctor.benchmarks import benchmark
from proctor.core.errors import UsageError
from proctor.core.submission import PatchKind
from proctor.report.breakdown import TASK_FIELDS, categories, field_values, grouping_fields

SUITE = config(benchmark="core-mini", source="core-mini")


def test_categories_come_from_the_results() -> None:
    runs = [
        [make_observation("a", categories={"kind": "x"}), make_observation("b", categories={"kind": "y", "age": "7"})],
        [make_observation("c")],
    ]
    assert categories(runs) == {"kind": {"a": "x", "b": "y"}, "age": {"b": "7"}}


@pytest.mark.parametrize("field", TASK_FIELDS)
def test_every_field_has_values_for_a_real_suite(field: str) -> None:
    tasks = {task.id for task in benchmark("core-mini").tasks()}
    found = field_values(field, SUITE, {})
    assert found
    assert found.keys() <= tasks


def test_oracles_are_counted_as_git_counts_them() -> None:
    files, lines = field_values("oracle files", SUITE, {}), field_values("oracle lines", SUITE, {})
    for task in benchmark("core-mini").tasks():
        oracle = task.private.oracle
        assert oracle is not None
        if oracle.patch_kind is PatchKind.UNIFIED_DIFF:
            body = oracle.text.splitlines()
            assert files[task.id] == str(sum(line.startswith("diff --git") for line in body))
            changed = [line for line in body if line[:1] in "+-" and line[:4] not in {"+++ ", "--- "} and line]
            assert lines[task.id] == str(len(changed))


def test_each_tag_is_a_group_and_not_each_list_of_them() -> None:
    found = field_values("tag", SUITE, {})
    assert found == {task.id: task.tags for task in benchmark("core-mini").tasks()}


def test_an_unknown_field_is_refused_with_a_list_of_fields() -> None:
    with pytest.raises(UsageError, match="have no field 'colour'; choose one of kind, tag, oracle files"):
        field_values("colour", SUITE, {"kind": {"a": "x"}})


def test_fields_of_a_benchmark_without_data_are_refused() -> None:
    gone = config(benchmark="gone", source="/nowhere/suite.json")
    with pytest.raises(UsageError, match="needs the benchmark's data, which is not on this machine"):
        field_values("tag", gone, {})


def test_fields_that_make_no_groups_are_not_listed() -> None:
    many = {f"t{n}": f"name {n}" for n in range(40)}
    same = dict.fromkeys(many, "x")
    groups = {task: "ab"[index % 2] for index, task in enumerate(many)}
    numbers = {task: str(index) for index, task in enumerate(many)}
    assert grouping_fields({"name": many, "same": same, "group": groups, "number": numbers}) == ["group", "number"]
