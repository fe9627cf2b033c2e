"""One instance's report in SWE-bench's form, which SWE-EVO and, with a rate, FeatureBench use too."""

from typing import Any

from proctor.benchmarks.swe.environment_steps import SweTestRun
from proctor.benchmarks.swe.official_rules import LabelResults


def official_report(instance_id: str, run: SweTestRun) -> dict[str, Any]:
    """What the official harness writes into ``report.json`` for such a test run."""
    said: dict[str, Any] = {
        "patch_is_None": False,
        "patch_exists": True,
        "patch_successfully_applied": run.ruling is not None,
        "resolved": run.resolved,
    }
    if "pass_rate" in run.scores:
        said |= {"n_attempt": 1, "pass_rate": run.scores["pass_rate"]}
    if run.ruling is not None:
        said["tests_status"] = {
            "FAIL_TO_PASS": _label_lists(run.ruling.fail_to_pass),
            "PASS_TO_PASS": _label_lists(run.ruling.pass_to_pass),
            "FAIL_TO_FAIL": _label_lists(LabelResults()),
            "PASS_TO_FAIL": _label_lists(LabelResults()),
        }
    return {instance_id: said}


def _label_lists(tally: LabelResults) -> dict[str, list[str]]:
    return {"success": list(tally.success), "failure": list(tally.failure)}
