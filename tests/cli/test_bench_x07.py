"""x07's own suite through `bench`, as it is: without x07, and with a stand-in that follows what is known of it."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from paths import REPOSITORY, shared_data
from suite_world import proctor

STANDIN = str(REPOSITORY / "tests" / "standins" / "x07")
TIMES_AND_PATHS = {
    "duration_ms",
    "started_at_unix_ms",
    "argv",
    "cwd",
    "suite_path",
    "artifact_dir",
    "artifacts_dir",
    "report_path",
    "version",
}


def without_times_and_paths(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_times_and_paths(item) for key, item in value.items() if key not in TIMES_AND_PATHS}
    return [without_times_and_paths(item) for item in value] if isinstance(value, list) else value


def evaluate(folder: Path, *arguments: str | Path, x07: str | None = STANDIN) -> tuple[int, dict[str, Any]]:
    suite = shared_data("x07", "core_v0", "suite.json")
    variables = {"X07_BIN": x07} if x07 else {"PATH": "/usr/bin:/bin"}
    done = proctor(
        folder, "bench", "eval", "--suite", suite, "--quiet", "--format", "x07", *arguments, variables=variables
    )
    assert "Traceback" not in done.stderr
    return done.returncode, json.loads(done.stdout) if done.stdout else {}


def test_without_x07_every_instance_is_an_error_that_says_so(tmp_path: Path) -> None:
    code, report = evaluate(tmp_path, "--oracle", x07=None)
    assert code == 12
    assert [instance["status"] for instance in report["instances"]] == ["error", "error"]
    assert all("x07 was not found" in instance["error"] for instance in report["instances"])


def test_the_oracles_report_is_x07s_own_but_for_paths_and_times(tmp_path: Path) -> None:
    code, report = evaluate(tmp_path, "--oracle")
    assert code == 0
    schema = json.loads(shared_data("x07", "x07-bench.report.schema.json").read_bytes())
    jsonschema.validate(report, schema)
    real = json.loads(shared_data("x07", "report_core_v0_oracle.json").read_bytes())
    assert without_times_and_paths(report) == without_times_and_paths(real)


def patch(*ops: dict[str, Any], path: str = "modules/bench_math_bug.x07.json") -> dict[str, Any]:
    return {"schema_version": "x07.arch.patchset@0.1.0", "patches": [{"path": path, "patch": list(ops)}]}


FIX = {"op": "replace", "path": "/decls/1/body/2/1/2", "value": 4}


@pytest.mark.parametrize(
    ("inline", "code", "status", "said"),
    [
        (patch(FIX), 0, "resolved", ""),
        (patch({**FIX, "value": 5}), 0, "unresolved", "fail_to_pass not satisfied for bench/math_bug"),
        ({"schema_version": "x07.arch.patchset@0.1.0", "patches": []}, 0, "unresolved", ""),
        (patch({**FIX, "path": "/decls/9/body"}), 12, "error", "/decls/9/body"),
        (patch({**FIX, "path": "/decls/01/body"}), 12, "error", ""),
        (patch({"op": "replace", "path": "", "value": {"not": "x07AST"}}), 12, "error", "x07AST"),
        ({"schema_version": "x07.arch.patchset@0.2.0", "patches": []}, 12, "error", ""),
        (patch(FIX, path="../evil.json"), 12, "error", ""),
        (
            patch({"op": "replace", "path": "/tests/0/entry", "value": "nowhere.f"}, path="tests/tests.json"),
            0,
            "unresolved",
            "",
        ),
        (
            patch({"op": "replace", "path": "/tests/0/expect", "value": "fail"}, path="tests/tests.json"),
            0,
            "unresolved",
            "",
        ),
    ],
)
def test_one_instance_case_by_case(tmp_path: Path, inline: Any, code: int, status: str, said: str) -> None:
    line = {
        "instance_id": "std_math_0001",
        "patch_kind": "x07-arch-patchset-json",
        "patch_inline": inline,
        "model": "m1",
    }
    file = tmp_path / "predictions.jsonl"
    file.write_text(json.dumps(line))
    found, report = evaluate(tmp_path, "--predictions", file, "--filter", "std_math_0001")
    instance = report["instances"][0]
    assert (found, instance["status"]) == (code, status), instance
    assert said in json.dumps(instance)
    jsonschema.validate(report, json.loads(shared_data("x07", "x07-bench.report.schema.json").read_bytes()))


def test_a_diff_with_wrong_context_is_not_fuzzed_in(tmp_path: Path) -> None:
    module = shared_data("x07", "core_v0", "instances", "std_math_0001", "repo", "modules", "bench_math_bug.x07.json")
    lines = module.read_text().splitlines()
    diff = ["--- a/modules/bench_math_bug.x07.json", "+++ b/modules/bench_math_bug.x07.json", "@@ -1,2 +1,2 @@"]
    diff += [" something else entirely", f"-{lines[1]}", f"+{lines[1]} "]
    line = {"instance_id": "std_math_0001", "patch_kind": "unified-diff", "patch_inline": "\n".join(diff) + "\n"}
    file = tmp_path / "predictions.jsonl"
    file.write_text(json.dumps(line))
    code, report = evaluate(tmp_path, "--predictions", file, "--filter", "std_math_0001")
    assert (code, report["instances"][0]["status"]) == (12, "error")


def test_validate_and_list_in_x07s_words(tmp_path: Path) -> None:
    suite = shared_data("x07", "core_v0", "suite.json")
    done = proctor(
        tmp_path, "bench", "validate", "--suite", suite, "--format", "x07", "--quiet", variables={"X07_BIN": STANDIN}
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["ok"], document["summary"]["valid"]) == (True, 2)
    listed = proctor(tmp_path, "bench", "list", "--suite", suite, "--format", "x07")
    assert json.loads(listed.stdout)["instances"] == ["std_logic_0002", "std_math_0001"]
