"""The commands on a benchmark of the family, from its data to another harness's report, in containers."""

import json
from pathlib import Path

import pytest

from documents import checked
from suite_world import proctor
from swe_verified_world import VerifiedWorld

CHOSEN = ("gold", "conftest", "empty")


@pytest.mark.slow
def test_from_fetched_rows_to_verdicts_runs_exports_and_parity(verified: VerifiedWorld, tmp_path: Path) -> None:
    rows = [verified.rows[name] for name in CHOSEN]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    fetched = proctor(tmp_path, "bench", "fetch", "swe_bench_verified", "--from", tmp_path / "rows.jsonl")
    assert fetched.code == 0, fetched.stderr
    listed = proctor(tmp_path, "bench", "list", "swe_bench_verified", "--json")
    assert [task["id"] for task in json.loads(listed.stdout)["tasks"]] == [
        "calc__conftest-1",
        "calc__empty-1",
        "calc__gold-1",
    ]
    # One task has no prediction: that counts as unresolved, and does not make the benchmark smaller.
    predictions = [
        {
            "instance_id": verified.rows[name]["instance_id"],
            "model_name_or_path": "m",
            "model_patch": verified.patch(name),
        }
        for name in ("gold", "conftest")
    ]
    (tmp_path / "preds.jsonl").write_text("".join(json.dumps(prediction) + "\n" for prediction in predictions))
    docker = ("--runner", "docker", "--timeout", "60", "--controls", "0")
    graded = proctor(
        tmp_path, "bench", "eval", "swe_bench_verified", "--predictions", "preds.jsonl", *docker, "--json", "--quiet"
    )
    assert graded.code == 0, graded.stderr
    report = json.loads(graded.stdout)
    said = {task["task_id"]: (task["verdict"]["status"], task["verdict"].get("official")) for task in report["tasks"]}
    assert said == {
        "calc__conftest-1": ("unresolved", "resolved"),
        "calc__empty-1": ("unresolved", None),
        "calc__gold-1": ("resolved", None),
    }
    assert (report["summary"]["resolved"], report["summary"]["unresolved"]) == (1, 2)

    # The other harness called the cheat resolved, as the official rule does; and it is wrong about gold.
    (tmp_path / "theirs.json").write_text(json.dumps({"calc__conftest-1": True, "calc__gold-1": False}))
    compared = proctor(
        tmp_path,
        *("bench", "parity", "swe_bench_verified", "theirs.json", "--predictions", "preds.jsonl"),
        *(*docker, "--json", "--quiet"),
    )
    assert compared.code == 20, compared.stderr
    parity = checked(compared.stdout)
    assert (parity["compared"], parity["agreed"]) == (2, 1)
    assert parity["disagreements"][0]["task_id"] == "calc__gold-1"

    ran = proctor(
        tmp_path,
        *("bench", "run", "swe_bench_verified", "--agent", "oracle", "--runner", "docker", "--task", "calc__gold-1"),
        *("--controls", "0", "--json", "--quiet"),
    )
    assert ran.code == 0, ran.stderr
    assert json.loads(ran.stdout)["resolved"] == 1
    nop = proctor(
        tmp_path,
        *("bench", "run", "swe_bench_verified", "--agent", "nop", "--runner", "docker", "--task", "calc__gold-1"),
        *("--json", "--quiet"),
    )
    assert json.loads(nop.stdout)["unresolved"] == 1, nop.stderr
    exported = proctor(tmp_path, "bench", "export", "run-001", "--format", "swebench", "--out", "official")
    assert exported.code == 0, exported.stderr
    prediction = json.loads((tmp_path / "official" / "predictions.jsonl").read_text())
    assert prediction["instance_id"] == "calc__gold-1"
    assert "+    return 3 * number" in prediction["model_patch"]
    strangers = tmp_path / "other.jsonl"
    strangers.write_text('{"instance_id": "elsewhere__x-1", "model_patch": ""}\n')
    refused = proctor(tmp_path, "bench", "eval", "swe_bench_verified", "--predictions", strangers, *docker)
    assert refused.code == 2
    assert "elsewhere__x-1" in refused.stderr
