"""What a verifier's rewards with altered tests, and its tests with altered data, say."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace

from harbor_world import TASKS, write_task
from proctor.benchmarks.harbor import HarborEvidence
from proctor.benchmarks.harbor.task_format import read_task
from proctor.benchmarks.harbor.test_variants import HarborControls, judged_part, prove_with
from proctor.core.causes import Cause
from proctor.core.verdict import TestStatus
from proctor.grading.state import QuarantinedEnvironment, ShellResult


def evidence(rewards: dict[str, float]) -> HarborEvidence:
    return HarborEvidence(
        task_id="t",
        rewards=rewards,
        problem="",
        tests=None,
        verifier_run=ShellResult(exit_code=0, stdout="", stderr="", seconds=1.0),
        quarantine_result=QuarantinedEnvironment(grader_dir="/g", search_path="/bin"),
        environment="docker:x",
        tests_expected=False,
    )


@pytest.mark.parametrize(
    ("solution", "reward", "altered", "is_trusted"),
    [
        (0.0, 0.5, 0.0, True),
        (0.0, 0.99, 0.99, False),
        # Some of what is rewarded has no altered version: the solution keeps as much.
        (0.5, 0.5, 0.5, True),
        (0.5, 0.75, 0.25, True),
        (0.5, 0.75, 0.75, False),
        # Nothing was proved.
        (1.0, 0.99, 0.99, True),
    ],
)
def test_a_part_of_a_reward_is_lower_with_altered_tests(
    solution: float, reward: float, altered: float, is_trusted: bool
) -> None:
    seen = judged_part(HarborControls(altered_reward=solution), reward, evidence({"reward": altered}))
    assert (seen is None) is is_trusted
    if seen is not None:
        assert (seen.cause, [finding.code for finding in seen.findings]) == (Cause.TAMPERED, ["control-passed"])


async def test_data_that_tests_cannot_run_with_is_left_as_it_is(tmp_path: Path) -> None:
    files = {"tests/plan.json": '{"format": "a"}', "tests/key.txt": "17\n", "tests/unused.txt": "3\n"}
    step = read_task(write_task(tmp_path / "t", TASKS["greet"] | files)).steps[0]

    async def run(given: Mapping[str, bytes]) -> HarborEvidence:
        status = TestStatus.FAILED if "key.txt" in given else TestStatus.PASSED
        made = replace(evidence({"reward": float(status is TestStatus.PASSED)}), tests={"passed": 1})
        return made if "plan.json" in given else replace(made, statuses={"test_outputs.py::test_greeting": status})

    controls = await prove_with(await run({}), step, run, pairs=1)
    assert set(controls.data) == {"key.txt"}
    assert controls.data_tests == ("test_outputs.py::test_greeting",)
