"""What a row of FeatureBench says about running its tests, and what holds where it says nothing."""

from typing import Any

import pytest

from proctor.benchmarks.swe.benchmark import INSTANCE_SETUPS
from proctor.benchmarks.swe.feature_grader import FeatureBenchGrader
from proctor.benchmarks.swe.feature_settings import pytest_command, run_seconds
from proctor.benchmarks.swe.rows import FeatureBenchRow, feature_row
from proctor.core.errors import InvalidData


def _row(repo: str = "calc/calc", **settings: Any) -> FeatureBenchRow:
    return feature_row(
        {
            "instance_id": "calc__calc.12345678.test_a.12345678.lv1",
            "repo": repo,
            "base_commit": "0" * 40,
            "patch": "mask",
            "test_patch": "tests",
            "problem_statement": "## Task",
            "FAIL_TO_PASS": ["tests/test_a.py"],
            "PASS_TO_PASS": [],
            "image_name": "image",
            "repo_settings": settings,
        }
    )


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (_row(), "pytest -rA -p no:cacheprovider --color=no --timeout=10"),
        (_row(test_cmd="pytest -rA -n 2", timeout_one=7), "pytest -rA -n 2 --timeout=7"),
        (_row(test_cmd="pytest -rA", timeout_one=None), "pytest -rA"),
        (_row(test_cmd="pytest -rA", timeout_one=0), "pytest -rA"),
        (_row(test_cmd="pytest -rA", timeout_one=-1), "pytest -rA"),
        (_row(test_cmd="pytest -rA", use_uv=True), "uv run pytest -rA --timeout=10"),
        (_row(test_cmd="uv run pytest -rA", use_uv=True), "uv run pytest -rA --timeout=10"),
        (_row(test_cmd="pytest -rA", use_uv=False), "pytest -rA --timeout=10"),
        (_row("pydantic/pydantic", test_cmd="pytest -q", timeout_one=5), "pytest -rA -v --color=no --timeout=5"),
        (_row("pydantic/pydantic", use_uv=True), "uv run pytest -rA -v --color=no --timeout=10"),
    ],
)
def test_tests_are_run_with_the_official_command(row: FeatureBenchRow, expected: str) -> None:
    assert pytest_command(row) == expected


def test_each_file_has_the_official_time() -> None:
    assert run_seconds(_row()) == 600
    assert run_seconds(_row(timeout_run=3600)) == 3600
    assert FeatureBenchGrader().timeout_seconds(_row(timeout_run=42)) == 42
    assert run_seconds(_row(timeout_run=None)) == 1800


def test_a_limit_that_is_no_number_makes_the_row_invalid() -> None:
    for broken in ({"timeout_run": "600"}, {"timeout_one": True}):
        with pytest.raises(InvalidData, match="in 'repo_settings' is not a number"):
            _row(**broken)


def test_the_containers_variables_are_the_officials_and_no_proxy_is_taken_over() -> None:
    arguments = ["-e MODE=a=b c", "-e http_proxy=http://x", "-e NOTHING", "-v /a:/b", "-ee SEED=$((1 + 1))", 7]
    start = FeatureBenchGrader().start_state(_row(docker_specs={"custom_docker_args": arguments}))
    assert start.variables == {"MODE": "a=b c"}
    assert "export SEED=$((1 + 1))" in start.script
    setup = INSTANCE_SETUPS["docker"](_row(), start)
    assert setup.grading_spec().variables == {"MODE": "a=b c"}


def test_a_task_that_asks_for_gpus_cannot_be_run_here() -> None:
    def missing(**arguments: Any) -> str | None:
        row = _row(docker_specs={"run_args": arguments})
        return INSTANCE_SETUPS["docker"](row, FeatureBenchGrader().start_state(row)).missing_requirement()

    assert missing(cuda_visible_num=4, number_once=2) == "it needs 2 GPUs, and environments have none"
    assert missing(cuda_visible_devices="0,1") == "it needs a GPU, and environments have none"
    assert missing(cuda_visible_num=None) is None
    assert missing(cuda_visible_num=0, number_once=2) is None
