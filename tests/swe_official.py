"""The official SWE-bench harness, in a process of its own: it is slow to import, and not ours to have in memory."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

VERSION = "5.0.2"
_PARSE = """\
import json, sys
from swebench.harness.log_parsers import PARSER_REGISTRY
from swebench.types import TestSpec
from swebench.harness.grading import get_eval_tests_report, get_logs_eval, get_resolution_status
from swebench.harness.constants import EvalType

def spec(parser, identity):
    return TestSpec(instance_id=identity, image="", eval_script_list=[], repo="", version="", FAIL_TO_PASS=[],
                    PASS_TO_PASS=[], log_parser=parser, eval_type="pass_and_fail")

asked = json.load(sys.stdin)
said = {"parsed": [], "read": [], "ruled": []}
for parser, identity, log in asked["parse"]:
    said["parsed"].append(PARSER_REGISTRY[parser](log, spec(parser, identity)))
for parser, identity, path in asked["read"]:
    said["read"].append(get_logs_eval(spec(parser, identity), path))
for statuses, first, second, kind in asked["rule"]:
    report = get_eval_tests_report(statuses, {"FAIL_TO_PASS": first, "PASS_TO_PASS": second}, eval_type=EvalType(kind))
    said["ruled"].append([report, get_resolution_status(report)])
sys.stdout.write("\\n@@" + json.dumps(said))
"""
_REPORT = """\
import json
from swebench.harness.reporting import make_run_report
rows, predictions = ([json.loads(line) for line in open(name)] for name in ("rows.jsonl", "predictions.jsonl"))
make_run_report({one["instance_id"]: one for one in predictions}, rows, "proctor")
"""


def need_swebench() -> None:
    """Skip where the official package is not installed."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        found = version("swebench")
    except PackageNotFoundError:
        pytest.skip(f"swebench {VERSION} is not installed: make dev")
    assert found == VERSION


def ask(
    *,
    parse: Sequence[tuple[str, str, str]] = (),
    read: Sequence[tuple[str, str, str]] = (),
    rule: Sequence[tuple[Mapping[str, str], Sequence[str], Sequence[str], str]] = (),
) -> dict[str, Any]:
    """What the official parsers, log reader and rules make of these."""
    need_swebench()
    done = subprocess.run(
        [sys.executable, "-c", _PARSE],
        input=json.dumps({"parse": parse, "read": read, "rule": rule}),
        capture_output=True,
        text=True,
        check=False,
        env=_environment(),
    )
    assert done.returncode == 0, done.stderr[-2000:]
    said: dict[str, Any] = json.loads(done.stdout.rpartition("\n@@")[2])
    return said


def evaluate(
    folder: Path, rows: Sequence[Mapping[str, Any]], patches: Mapping[str, str], *, timeout: int, workers: int = 16
) -> dict[str, Any]:
    """The official run report, with the instances' own reports under `reports`."""
    need_swebench()
    folder.mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "rows.jsonl").write_text(lines)
    predictions = [
        {"instance_id": identity, "model_name_or_path": "tests", "model_patch": patch}
        for identity, patch in patches.items()
    ]
    (folder / "predictions.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in predictions))
    command = ["-d", "rows.jsonl", "-p", "predictions.jsonl", "-id", "proctor", "--max_workers", str(workers)]
    done = subprocess.run(
        [sys.executable, "-m", "swebench.harness.run_evaluation", *command, "-t", str(timeout)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env=_environment(),
    )
    if done.returncode and "ImageNotFound" in done.stderr and "All instances run" in done.stdout:
        # For its report it lists all images of the engine, one by one, and falls when another test removes one.
        done = subprocess.run(
            [sys.executable, "-c", _REPORT], cwd=folder, capture_output=True, text=True, check=False, env=_environment()
        )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    report: dict[str, Any] = json.loads((folder / "tests.proctor.json").read_text())
    report["reports"] = {
        path.parent.name: json.loads(path.read_text())[path.parent.name]
        for path in folder.glob("logs/run_evaluation/proctor/tests/*/report.json")
    }
    return report


def _environment() -> dict[str, str]:
    kept = ("PATH", "HOME", "DOCKER_HOST", "LANG")
    return {name: os.environ[name] for name in kept if name in os.environ} | {"HF_HUB_OFFLINE": "1"}
