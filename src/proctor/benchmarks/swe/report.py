"""One instance's report in SWE-bench's form, which SWE-EVO and others use too."""

from typing import Any

from proctor.benchmarks.swe.rules import Tally
from proctor.benchmarks.swe.steps import Trial


def official_report(instance_id: str, tested: Trial) -> dict[str, Any]:
    """What the official harness writes into ``report.json`` for such a test run."""
    said: dict[str, Any] = {
        "patch_is_None": False,
        "patch_exists": True,
        "patch_successfully_applied": tested.ruling is not None,
        "resolved": tested.resolved,
    }
    if tested.ruling is not None:
        said["tests_status"] = {
            "FAIL_TO_PASS": _lists(tested.ruling.fail_to_pass),
            "PASS_TO_PASS": _lists(tested.ruling.pass_to_pass),
            "FAIL_TO_FAIL": _lists(Tally()),
            "PASS_TO_FAIL": _lists(Tally()),
        }
    return {instance_id: said}


def _lists(tally: Tally) -> dict[str, list[str]]:
    return {"success": list(tally.success), "failure": list(tally.failure)}
