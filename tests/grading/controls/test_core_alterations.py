from pathlib import Path

import pytest

from controls_coverage import INSTANCES, trial


@pytest.mark.parametrize("task", ["py_duration_0002", "py_resolver_0016"])
def test_each_test_of_a_task_has_an_altered_version_that_the_oracle_fails_at_the_altered_lines(
    task: str, tmp_path: Path
) -> None:
    found = trial(INSTANCES / task, tmp_path, rounds=2)
    assert [test for tests in found.values() for test, proof in tests.items() if proof is None] == []
    assert {proof[1].kind for tests in found.values() for proof in tests.values() if proof is not None} <= {
        "literal",
        "exception",
        "boolean",
        "comparison",
    }
