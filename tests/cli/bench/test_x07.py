"""x07's own suite through `bench`, as it is: without x07, and with a stand-in that follows what is known of it."""

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from paths import REPOSITORY, sample_data
from suite_world import proctor
from x07_schema import X07_REPORT
from x07_world import SUITES

SUITE = sample_data("x07", "tally_v0", "suite.json")
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


def evaluate(
    folder: Path, *arguments: str | Path, x07: str | None = STANDIN, suite: Path = SUITE
) -> tuple[int, dict[str, Any]]:
    variables = {"X07_BIN": x07} if x07 else {"PATH": "/usr/bin:/bin"}
    done = proctor(
        folder, "bench", "eval", "--suite", suite, "--quiet", "--format", "x07", *arguments, variables=variables
    )
    assert "Traceback" not in done.stderr
    return done.code, json.loads(done.stdout) if done.stdout else {}


def test_without_x07_every_instance_is_an_error_that_says_so(tmp_path: Path) -> None:
    code, report = evaluate(tmp_path, "--oracle", x07=None)
    assert code == 12
    assert [instance["status"] for instance in report["instances"]] == ["error", "error"]
    assert all("x07 was not found" in instance["error"] for instance in report["instances"])


@pytest.mark.parametrize(("data", "name"), SUITES)
def test_the_oracles_report_is_x07s_own_but_for_paths_and_times(
    data: Callable[..., Path], name: str, tmp_path: Path
) -> None:
    code, report = evaluate(tmp_path, "--oracle", suite=data("x07", name, "suite.json"))
    assert code == 0
    jsonschema.validate(report, X07_REPORT)
    real = json.loads(data("x07", f"report_{name}_oracle.json").read_bytes())
    assert without_times_and_paths(report) == without_times_and_paths(real)


def patch(*ops: dict[str, Any], path: str = "modules/tally_sum.x07.json") -> dict[str, Any]:
    return {"schema_version": "x07.arch.patchset@0.1.0", "patches": [{"path": path, "patch": list(ops)}]}


FIX = {"op": "replace", "path": "/decls/1/body/2/1/2", "value": 21}


@pytest.mark.parametrize(
    ("inline", "code", "status", "said"),
    [
        (patch(FIX), 0, "resolved", ""),
        (patch({**FIX, "value": 22}), 0, "unresolved", "fail_to_pass not satisfied for tally/sum"),
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
        "instance_id": "tally_sum_0002",
        "patch_kind": "x07-arch-patchset-json",
        "patch_inline": inline,
        "model": "m1",
    }
    file = tmp_path / "predictions.jsonl"
    file.write_text(json.dumps(line))
    found, report = evaluate(tmp_path, "--predictions", file, "--filter", "tally_sum_0002")
    instance = report["instances"][0]
    assert (found, instance["status"]) == (code, status), instance
    assert said in json.dumps(instance)
    jsonschema.validate(report, X07_REPORT)


def test_a_diff_with_wrong_context_is_not_fuzzed_in(tmp_path: Path) -> None:
    module = SUITE.parent.joinpath("instances", "tally_sum_0002", "repo", "modules", "tally_sum.x07.json")
    lines = module.read_text().splitlines()
    diff = ["--- a/modules/tally_sum.x07.json", "+++ b/modules/tally_sum.x07.json", "@@ -1,2 +1,2 @@"]
    diff += [" something else entirely", f"-{lines[1]}", f"+{lines[1]} "]
    line = {"instance_id": "tally_sum_0002", "patch_kind": "unified-diff", "patch_inline": "\n".join(diff) + "\n"}
    file = tmp_path / "predictions.jsonl"
    file.write_text(json.dumps(line))
    code, report = evaluate(tmp_path, "--predictions", file, "--filter", "tally_sum_0002")
    assert (code, report["instances"][0]["status"]) == (12, "error")


@pytest.mark.parametrize("renamed", [False, True], ids=["deleted", "renamed"])
def test_a_module_may_be_deleted_or_renamed(tmp_path: Path, *, renamed: bool) -> None:
    suite = tmp_path / "suite"
    shutil.copytree(SUITE.parent, suite)
    repo = suite / "instances" / "tally_sum_0002" / "repo"
    old = repo / "modules" / "old.x07.json"
    sum_module = repo / "modules" / "tally_sum.x07.json"
    old.write_text(sum_module.read_text().replace("tally_sum", "old"))
    fixed = tmp_path / "fixed"
    shutil.copytree(repo, fixed)
    git = ["git", "-C", str(fixed), "-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "base"]):
        subprocess.run([*git, *words], check=True)
    moved = fixed / "modules" / "old.x07.json"
    if renamed:
        moved.rename(fixed / "modules" / "new.x07.json")
    else:
        moved.unlink()
    right = json.loads(sum_module.read_text())
    right["decls"][1]["body"][2][1][2] = 21
    (fixed / "modules" / "tally_sum.x07.json").write_text(json.dumps(right, indent=2) + "\n")
    subprocess.run([*git, "add", "-A"], check=True)
    diff = subprocess.run([*git, "diff", "--cached", "-M"], check=True, capture_output=True, text=True).stdout
    assert ("rename to modules/new.x07.json" in diff) is renamed
    line = {"instance_id": "tally_sum_0002", "patch_kind": "unified-diff", "patch_inline": diff}
    file = tmp_path / "predictions.jsonl"
    file.write_text(json.dumps(line))
    code, report = evaluate(tmp_path, "--predictions", file, "--filter", "tally_sum_0002", suite=suite / "suite.json")
    assert (code, report["instances"][0]["status"]) == (0, "resolved"), report["instances"][0]


def test_validate_and_list_print_what_x07_prints(tmp_path: Path) -> None:
    done = proctor(
        tmp_path, "bench", "validate", "--suite", SUITE, "--format", "x07", "--quiet", variables={"X07_BIN": STANDIN}
    )
    assert done.code == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["ok"], document["summary"]["valid"]) == (True, 2)
    real = json.loads(sample_data("x07", "report_tally_v0_oracle.json").read_bytes())["instances"]
    keys = ("instance_id", "status", "notes")
    assert [[one[key] for key in keys] for one in document["instances"]] == [[one[key] for key in keys] for one in real]
    listed = proctor(tmp_path, "bench", "list", "--suite", SUITE, "--format", "x07")
    assert json.loads(listed.stdout)["instances"] == ["tally_empty_0001", "tally_sum_0002"]
